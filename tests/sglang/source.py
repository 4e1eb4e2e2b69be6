"""What an unpacked SGLang says of its MoE runners, read from its sources without importing it.

Only names are read: choices of the command line, registrations, lists in assertions. A release
that lacks one of them, or builds it in a way that no reader of plain text can follow, yields
``None`` or nothing for it. The catalog (`autotune.engines.sglang.catalog`) is held against this.
"""

import ast
import importlib.util
import re
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from autotune.errors import EngineError
from tests.sglang import syntax

Pairs = frozenset[tuple[str, str]]
Lists = dict[str, frozenset[str]]

_REGISTRATIONS = ("register_fused_func", "register_pre_permute", "register_post_permute")
_RUNNERS = "MOE_RUNNER_BACKEND_CHOICES"
_SPANNING = "_A2A_EP_SPANNING_BACKENDS"
_FUSION = "_moe_runner_fusion_disable"
_A2A_FUSION = "_a2a_fusion_adjustments"
# The functions were methods of the server's arguments up to 0.5.17.
_KERNEL_CHECKS = ("handle_moe_kernel_config", "_handle_moe_kernel_config")
_A2A_CHECKS = ("handle_a2a_moe", "_handle_a2a_moe")
_A2A_NAMES = ("moe_a2a_backend", "a2a_backend", "a2a_now")
_MODE_FIELDS = ("deepep_mode", "deepep_v2_mode", "flashinfer_a2a_dispatch_type")
_DISPATCHERS = ("create_moe_dispatcher", "MaybeTboDeepEPDispatcher")
# Files without any of these hold nothing to read: parsing all would take a minute.
_NEEDLES = re.compile(
    "|".join((*_REGISTRATIONS, *_DISPATCHERS, *_A2A_CHECKS, *_KERNEL_CHECKS, _FUSION))
    + rf"|{_RUNNERS} = |{_SPANNING} = |moe_a2a_backend: |deepep_mode: "
    + r"|DispatchOutput\(|DispatchOutput = "
)


class SourceFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One release. ``None`` stands for what it doesn't have, or not in a form that can be read.

    ``fused`` holds (all-to-all, runner), ``pre_permutes`` (dispatch format, runner), and
    ``post_permutes`` (runner, combine format). ``quantizations`` and ``runner_a2a`` are the
    lists asserted per runner, ``a2a_runners`` those asserted per all-to-all backend; the word
    "none" stands for an unquantised model. ``modes`` are the choices of the command-line flags
    that all-to-all backends are tuned with. ``formats`` are what each all-to-all backend's
    dispatcher puts out.
    """

    version: str | None
    runners: tuple[str, ...] | None
    a2a: tuple[str, ...] | None
    modes: Lists
    fused: Pairs
    pre_permutes: Pairs
    post_permutes: Pairs
    formats: Lists
    spanning: frozenset[str] | None
    quantizations: Lists
    runner_a2a: Lists
    a2a_runners: Lists
    without_shared_fusion: frozenset[str] | None
    a2a_without_shared_fusion: frozenset[str] | None


def find_source() -> Path | None:
    """The folder of the installed ``sglang`` package, ``None`` if there is none."""
    spec = importlib.util.find_spec("sglang")
    places = spec.submodule_search_locations if spec else None
    return Path(next(iter(places))) if places else None


def read_source(package: Path) -> SourceFacts:
    """Read the release unpacked in ``package``, the folder that holds ``srt``.

    Raises:
        EngineError: the folder isn't SGLang, or one of its files can't be read or parsed.
    """
    root = package / "srt"
    if not root.is_dir():
        raise EngineError(f"{package}: not the folder of an sglang package (it has no srt folder)")
    trees = [_parse(path, text) for path, text in _texts(root) if _NEEDLES.search(text)]
    kernel = list(syntax.functions(trees, _KERNEL_CHECKS))
    return SourceFacts(
        version=_version(package),
        runners=_named_list(trees, _RUNNERS),
        a2a=_field_choices(trees, "moe_a2a_backend"),
        modes=_modes(trees),
        fused=_registered(trees, "register_fused_func"),
        pre_permutes=_registered(trees, "register_pre_permute"),
        post_permutes=_registered(trees, "register_post_permute"),
        formats=_formats(trees),
        spanning=_set(_named_list(trees, _SPANNING)),
        quantizations=_asserted(kernel, ("moe_runner_backend",), "quantization"),
        runner_a2a=_asserted(kernel, ("moe_runner_backend",), "moe_a2a_backend"),
        a2a_runners=_asserted(
            syntax.functions(trees, _A2A_CHECKS), _A2A_NAMES, "moe_runner_backend"
        ),
        without_shared_fusion=_without_shared_fusion(trees, _FUSION, ("runner",)),
        a2a_without_shared_fusion=_without_shared_fusion(trees, _A2A_FUSION, _A2A_NAMES),
    )


def _texts(root: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(root.rglob("*.py")):
        try:
            yield path, path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise EngineError(f"{path}: can't be read: {error}") from error


def _parse(path: Path, text: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            # Another project's stray backslashes are no concern of ours.
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError) as error:
        raise EngineError(
            f"{path}: can't be parsed: {error}; read it with a Python that the release supports"
        ) from error


def _version(package: Path) -> str | None:
    """``_version.py`` is written when a wheel is built; a checkout has none."""
    path = package / "_version.py"
    if not path.is_file():
        return None
    found = re.search(r"^(?:__version__ = )?version = ['\"](.+)['\"]", path.read_text(), re.M)
    return found[1] if found else None


def _set(values: tuple[str, ...] | None) -> frozenset[str] | None:
    return None if values is None else frozenset(values)


def _named_list(trees: Iterable[ast.Module], name: str) -> tuple[str, ...] | None:
    """The list that some module assigns to ``name``, with what the module adds to it later."""
    for tree in trees:
        constants = syntax.constants(tree)
        if name in constants:
            return constants[name]
    return None


def _registered(trees: Iterable[ast.Module], function: str) -> Pairs:
    """Every ``function("a", "b")``, be it a decorator or a call of its own."""
    found = set()
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and syntax.name(node.func) == function:
                names = syntax.strings(ast.Tuple([*node.args, *(k.value for k in node.keywords)]))
                # The registry's own definition passes variables on.
                if names and len(names) == 2:
                    found.add((names[0], names[1]))
    return frozenset(found)


def _field_choices(trees: Iterable[ast.Module], field: str) -> tuple[str, ...] | None:
    """What a server argument's annotation lets through: its ``choices``, else its literals."""
    for tree in trees:
        constants = syntax.constants(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.AnnAssign) and syntax.name(node.target) == field:
                for value in _given_choices(node.annotation):
                    names = syntax.strings(value, constants)
                    if names is not None:
                        return names
    return None


def _given_choices(annotation: ast.AST) -> list[ast.AST]:
    inside = list(ast.walk(annotation))
    choices = [k.value for k in inside if isinstance(k, ast.keyword) and k.arg == "choices"]
    subscripts = [i for i in inside if isinstance(i, ast.Subscript)]
    return [*choices, *(i.slice for i in subscripts if syntax.name(i.value) == "Literal")]


def _modes(trees: list[ast.Module]) -> Lists:
    found = {field: _field_choices(trees, field) for field in _MODE_FIELDS}
    return {
        f"--{field.replace('_', '-')}": frozenset(names)
        for field, names in found.items()
        if names is not None
    }


def _asserted(functions: Iterable[ast.FunctionDef], subjects: tuple[str, ...], about: str) -> Lists:
    """``if <subject> == "x": assert <about> in [...]`` as ``{"x": [...]}``.

    An assertion with an alternative (``or ...``) counts with its list: what the alternative
    looks at isn't in a launch's arguments.
    """
    found: dict[str, frozenset[str]] = {}
    for function in functions:
        for node in ast.walk(function):
            if not isinstance(node, ast.If):
                continue
            owners = syntax.compared(node.test, subjects)
            for inner in (one for statement in node.body for one in ast.walk(statement)):
                if isinstance(inner, ast.Assert):
                    values = syntax.compared(inner.test, (about,))
                    if values:
                        found.update(dict.fromkeys(owners, frozenset(values)))
    return found


def _without_shared_fusion(
    trees: Iterable[ast.Module], step: str, subjects: tuple[str, ...]
) -> frozenset[str] | None:
    """The names for which a resolution step turns shared-expert fusion off.

    Tests of a second condition beside the name (``and``) are left out: they turn it on.
    """
    steps = list(syntax.functions(trees, (step,)))
    if not steps:
        return None
    found: set[str] = set()
    for node in (n for function in steps for n in ast.walk(function)):
        if isinstance(node, ast.If) and not syntax.is_and(node.test):
            names = syntax.compared(node.test, subjects)
            found.update(names if "disable_shared_experts_fusion" in ast.dump(node) else ())
    return frozenset(found)


def _formats(trees: list[ast.Module]) -> Lists:
    """What the dispatcher of each all-to-all backend puts out."""
    by_class = _format_of_output(trees)
    of_dispatcher: dict[str, frozenset[str]] = {}
    for tree in trees:
        calls = {syntax.name(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
        out = frozenset(by_class[name] for name in calls if name in by_class)
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name.endswith("Dispatcher"):
                of_dispatcher[node.name] = out
    found: dict[str, frozenset[str]] = {}
    for a2a, dispatcher in _dispatchers(trees):
        if of_dispatcher.get(dispatcher):
            found[a2a] = of_dispatcher[dispatcher]
    return found


def _format_of_output(trees: Iterable[ast.Module]) -> dict[str, str]:
    """``{"DeepEPLLDispatchOutput": "deepep_ll", ...}``, aliases included."""
    found: dict[str, str] = {}
    aliases: dict[str, str] = {}
    for tree in trees:
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                for inner in ast.walk(node):
                    if (
                        isinstance(inner, ast.Return)
                        and isinstance(inner.value, ast.Attribute)
                        and syntax.name(inner.value.value) == "DispatchOutputFormat"
                    ):
                        found[node.name] = inner.value.attr.lower()
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
                aliases.update({syntax.name(t): node.value.id for t in node.targets})
    return found | {new: found[old] for new, old in aliases.items() if old in found}


def _dispatchers(trees: Iterable[ast.Module]) -> Iterator[tuple[str, str]]:
    """(all-to-all, dispatcher class), from the chains of ``if backend.is_<name>():``."""
    for tree in trees:
        for owner in tree.body:
            if not (
                isinstance(owner, ast.FunctionDef | ast.ClassDef) and owner.name in _DISPATCHERS
            ):
                continue
            for node in ast.walk(owner):
                # ``backend.is_none() and is_npu()`` is another device's path.
                if not isinstance(node, ast.If) or syntax.is_and(node.test):
                    continue
                backends = re.findall(r"attr='is_(\w+)'", ast.dump(node.test))
                for call in (c for s in node.body for c in ast.walk(s) if isinstance(c, ast.Call)):
                    yield from ((name, syntax.name(call.func)) for name in backends)
