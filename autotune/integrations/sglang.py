"""The SGLang plugin: where ``--moe-runner-backend`` was left on auto, start from the decision.

SGLang finds it by the entry point in the group ``sglang.srt.plugins`` and calls `register` in each
of its processes. Arguments are resolved in the first of them alone, where our provider is asked
at the stage at which SGLang's own rules per model declare their values. It comes after them, so
that what was measured beats what was hard-coded; whatever the user named is kept.

Each line is logged as a warning: at that stage SGLang hasn't set up its logging yet, and anything
milder would be lost.
"""

import logging
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

from autotune.decisions import Entry, Store, one_line
from autotune.decisions.request import AUTO
from autotune.engines.sglang.catalog import refusal
from autotune.engines.sglang.settings import settings_in
from autotune.engines.sglang.table import read_catalog
from autotune.environment import kernel_variables
from autotune.errors import AutotuneError
from autotune.integrations.sglang_launch import FIELD, Declarations, Launch, read_launch
from autotune.integrations.sglang_trial import objection_of_sglang, quiet
from autotune.integrations.startup import (
    STRICT_VARIABLE,
    StartUp,
    left_alone,
    start_up,
    switched_on,
)

_LOGGER = logging.getLogger(__name__)


def register() -> None:
    """Add our provider to SGLang's rules: the entry point, called in each of its processes."""
    plugin = AutotunePlugin(os.environ)
    try:
        from sglang.srt.arg_groups.overrides import (
            model_config_of,  # noqa: F401
            register_model_override_predicate,
            resolving_view,  # noqa: F401
        )
        from sglang.srt.arg_groups.resolution_hooks import register_resolution_hook

        # First, since a release may lack it: nothing is applied that can't be checked afterwards.
        register_resolution_hook("handle_a2a_moe")(plugin.check_outcome)
    except (ImportError, ValueError) as error:
        _LOGGER.warning(
            "autotune: disabled: this release of SGLang lacks what decisions are applied through "
            "(%s); install sglang 0.5.20 or newer",
            one_line(str(error)),
        )
        return
    register_model_override_predicate(lambda architecture: True)(plugin.measured_moe_backend)


class AutotunePlugin:
    """The plugin in one process: what it answered, kept until SGLang has resolved."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Note which variables steer kernels now: SGLang sets some of its own later.

        Our own variables are read when SGLang asks.
        """
        self._environ = environ
        self._kernel_environment = kernel_variables(environ)
        self._asked: _Asked | None = None
        self._asking_others = False

    @property
    def _strict(self) -> bool:
        return switched_on(self._environ, STRICT_VARIABLE)

    def measured_moe_backend(self, server_args: Any, hf_config: Any) -> dict[str, str]:
        """Declare the measured backend, if there is one (SGLang's protocol of a provider).

        Raises:
            AutotuneError: with ``AUTOTUNE_STRICT=1`` only, where a decision can't be trusted.
        """
        if self._asking_others:
            return {}
        if self._asked is not None and self._asked.server_args is server_args:
            return self._asked.declared  # Another plugin asks the rules as well.
        # The raw field: SGLang turns one explicit name into `auto` before its rules are asked.
        named = getattr(server_args, FIELD, None) or AUTO
        untouched = left_alone(named, self._environ, model=hf_config.architectures[0])
        if untouched is not None:
            self._tell(untouched)
            return {}
        try:
            launch, answer = self._answer(server_args, hf_config)
        except Exception as error:
            # Whatever is wrong with us must not keep a server from starting.
            problem = one_line(f"{type(error).__name__}: {error}")
            self._tell(f"autotune: invalid: {problem}; the engine's own default is kept")
            if self._strict:
                self._refuse(problem)
            return {}
        declared = {} if answer.backend is None else {FIELD: answer.backend}
        self._asked = _Asked(server_args, launch, answer, declared)
        self._tell(_line(launch, answer))
        if answer.refusal is not None:
            self._refuse(answer.refusal)
        return declared

    def check_outcome(self, server_args: Any, previous: Callable[[Any], None]) -> None:
        """Tell where SGLang's later steps left what was decided, or chose what can't run.

        Wraps the step that resolves the all-to-all backend, after which the MoE layers' backend
        stands.

        Raises:
            AutotuneError: with ``AUTOTUNE_STRICT=1`` only, where the applied backend was changed
                or runs under other circumstances than it was chosen for.
        """
        previous(server_args)
        asked, self._asked = self._asked, None
        if asked is None or asked.server_args is not server_args:
            return
        launch, answer = asked.launch, asked.answer
        try:
            problem = _problem_of_outcome(server_args, launch, answer)
        except Exception as error:
            problem = f"what SGLang resolved can't be checked: {type(error).__name__}: {error}"
        if problem is None:
            return
        self._tell(one_line(f"autotune: warning: {problem}"))
        if self._strict and answer.backend is not None:
            self._refuse(problem)

    def _answer(self, server_args: Any, hf_config: Any) -> tuple[Launch, StartUp]:
        def rules() -> Declarations:
            return self._declared_by_others(server_args, hf_config)

        declared = rules()
        launch = read_launch(
            server_args,
            hf_config,
            declared=declared,
            kernel_environment=self._kernel_environment,
        )

        def objection(backend: str, entry: Entry) -> str | None:
            return _objection(backend, entry, launch) or objection_of_sglang(
                server_args, backend, unnamed=declared, rules=rules
            )

        store = Store.from_environment(self._environ)
        return launch, start_up(launch.request, store, strict=self._strict, objection=objection)

    def _declared_by_others(self, server_args: Any, hf_config: Any) -> Declarations:
        """Ask SGLang's rules for the model what they declare; they are pure by its contract.

        They may set the all-to-all backend or the quantization, which decide whether an entry is
        in scope, and are collected beside ours, to be applied later.
        """
        from sglang.srt.arg_groups.overrides import collect_model_override_declarations

        self._asking_others = True
        try:
            with quiet():
                declared: Declarations = collect_model_override_declarations(
                    hf_config.architectures[0], server_args, hf_config
                )
            return declared
        finally:
            self._asking_others = False

    def _tell(self, line: str) -> None:
        _LOGGER.warning("%s", line)

    def _refuse(self, reason: str) -> NoReturn:
        raise AutotuneError(
            f"refusing to start, because {STRICT_VARIABLE} is set: {reason}. Name a backend with "
            "--moe-runner-backend, mend the decision, or unset the variable"
        )


class _Asked(NamedTuple):
    """What was answered for these arguments; kept until SGLang has resolved them."""

    server_args: Any
    launch: Launch
    answer: StartUp
    declared: dict[str, str]


def _line(launch: Launch, answer: StartUp) -> str:
    if answer.backend is None or launch.own_choice is None:
        return answer.line
    if launch.own_choice == answer.backend:
        return f"{answer.line}; the rule {launch.own_rule} says the same"
    return f"{answer.line}; in place of {launch.own_choice} (the rule {launch.own_rule})"


def _objection(backend: str, entry: Entry, launch: Launch) -> str | None:
    from sglang.srt.server_args import MOE_RUNNER_BACKEND_CHOICES

    asked = launch.request
    if asked.geometry is None:
        return "the model's configuration doesn't tell the sizes of its MoE layers"
    if backend not in MOE_RUNNER_BACKEND_CHOICES:
        return f"SGLang {asked.engine_version} knows no such backend"
    row = read_catalog().runners.get(backend)
    if row is not None and row.alias_of_a2a is not None:
        return (
            "it is an all-to-all backend by another name: start with --moe-a2a-backend "
            f"{row.alias_of_a2a}"
        )
    given = asked.engine_settings or {}
    for name, value in settings_in(entry.choice.arguments).items():
        if given.get(name) != value:
            return f"it was measured with {name}={value}, which this launch doesn't have"
    return _cannot_run(backend, launch)


def _cannot_run(backend: str, launch: Launch) -> str | None:
    asked = launch.request
    return refusal(
        read_catalog(),
        backend=backend,
        quantization=asked.quantization,
        arch=asked.arch,
        a2a_backend=asked.a2a_backend or "none",
        a2a_mode=asked.a2a_mode,
        tp=asked.tp or 1,
        ep=asked.ep or 1,
        engine_version=asked.engine_version,
        settings=asked.engine_settings,
    )


def _problem_of_outcome(server_args: Any, launch: Launch, answer: StartUp) -> str | None:
    from sglang.srt.arg_groups.overrides import resolved_view

    outcome = resolved_view(server_args)
    runs, asked = str(outcome.moe_runner_backend), launch.request
    if answer.backend is None:
        reason = _cannot_run(runs, launch)
        rule = f" ({launch.own_rule})" if launch.own_choice == runs else ""
        return reason and (
            f"SGLang's own choice {runs}{rule} can't run here: {reason}; start with other "
            "arguments, e.g. another --moe-runner-backend"
        )
    if runs != answer.backend:
        return f"{answer.backend} was applied, and a later step of SGLang made it {runs}"
    changed = [
        f"{name} became {now}, was {before}"
        for name, now, before in (
            ("a2a_backend", str(outcome.moe_a2a_backend or "none"), asked.a2a_backend),
            ("ep", int(outcome.ep_size), asked.ep),
            ("quantization", outcome.quantization or asked.quantization, asked.quantization),
        )
        if now != before
    ]
    return f"{answer.backend} was applied, and {'; '.join(changed)}" if changed else None
