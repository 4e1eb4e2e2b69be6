"""The screen that is in force: which file it is read from, and whether it is of the sweep's layer.

A sweep that is begun copies its screen into the run folder (``screen.json``), and goes on with
that copy: a layer sweep that was repeated in between must not change the order of a race that is
on. Writes nothing but that copy.
"""

import math
import os
import shlex
from pathlib import Path

import msgspec

from autotune.config.file import read_config
from autotune.config.schema import SweepConfig
from autotune.decisions.schema import DecisionKey, Scope
from autotune.errors import ConfigError, InputError, RunFolderError, UsageError
from autotune.kernels.checkpoint import checkpoint_scheme
from autotune.kernels.folder import encoded, read_record
from autotune.kernels.schema import Screen
from autotune.kernels.scheme_names import SCHEME_NAMES, scheme_name
from autotune.model import language_sizes
from autotune.model import read_config as read_model_config
from autotune.records.folder import CONFIG_FILE, SCREEN_FILE, RunFolder, write_atomically
from autotune.report.text import one_line

_LEAVE_OUT = "leave the screen out (--screen, screen.file)"
# As `read_record` ends its messages: true of a layer sweep's own folder, not of any file.
_RECORDS_REMEDY = ": delete the file and measure again"
_LONGEST_REASON = 500


class InForce(msgspec.Struct, frozen=True, kw_only=True):
    """A sweep's config with the screen that it goes by, ``None`` where it has none.

    ``kept`` says that it is the run folder's own copy.
    """

    config: SweepConfig
    screen: Screen | None
    kept: bool = False
    notes: tuple[str, ...] = ()


def screen_in_force(config: SweepConfig, folder: RunFolder) -> InForce:
    """Return the screen that a sweep in this folder goes by. Nothing is written.

    Raises:
        InputError: the named file isn't a layer sweep's kernels.json.
        RunFolderError: the folder's copy can't be read, or the named file says something else.
    """
    named, copy = config.screen_file, folder.path / SCREEN_FILE
    if not folder.exists() or not copy.is_file():
        screen = None if named is None else _read_named(named)
        return InForce(config=config, screen=screen)
    kept = _read_copy(copy)
    if named is None:
        return InForce(config=config.screened_by(str(copy)), screen=kept, kept=True)
    if not os.path.exists(named):
        note = f"{one_line(named)}: no such file any more; the run's own copy, {copy}, is used"
        return InForce(config=config, screen=kept, kept=True, notes=(note,))
    if _read_named(named) != kept:
        raise _another(folder, named)
    return InForce(config=config, screen=kept, kept=True)


def check_copy(screen: Screen, folder: RunFolder, *, named: str) -> None:
    """Check that a screen is the one that the folder's sweep was begun with.

    Raises:
        RunFolderError: it isn't, or the folder's copy can't be read.
    """
    if _read_copy(folder.path / SCREEN_FILE) != screen:
        raise _another(folder, named)


def _another(folder: RunFolder, named: str) -> RunFolderError:
    return RunFolderError(
        f"{folder.path}: the sweep was begun with another screen than {named}: {_LEAVE_OUT} to go "
        f"on with its own ({SCREEN_FILE}), or name a new folder with --run"
    )


def write_copy(screen: Screen, folder: RunFolder) -> None:
    """Keep the screen in the run folder.

    Raises:
        RunFolderError: it can't be written.
    """
    write_atomically(folder.path / SCREEN_FILE, encoded(screen))


def check_begun(config: SweepConfig, folder: RunFolder) -> None:
    """Check that a sweep that was begun has a screen if and only if it was begun with one.

    Raises:
        RunFolderError: it is the other way round.
        ConfigError: the folder's config can't be read.
    """
    began_with_one = read_config(folder.path / CONFIG_FILE).screen_file is not None
    if began_with_one and not (folder.path / SCREEN_FILE).is_file():
        raise RunFolderError(
            f"{folder.path / SCREEN_FILE}: it is missing, and the sweep was begun with it: restore "
            "it, or name a new folder with --run"
        )
    if config.screen_file is not None and not began_with_one:
        raise RunFolderError(
            f"{folder.path}: the sweep was begun without a screen, and {config.screen_file} might "
            "change the order of its launches: leave it out, or name a new folder with --run"
        )


def check_layer(found: InForce, *, key: DecisionKey, scope: Scope, checkpoint: Path | None) -> None:
    """Check that the screen is of the layer that the sweep serves.

    Args:
        found: a screen in force.
        key: what the sweep is about.
        scope: under which circumstances.
        checkpoint: the folder of what is served, ``None`` where it isn't here.

    Raises:
        ConfigError: it is another layer's; what differs is said with both values.
    """
    screen = found.screen
    if screen is None or found.kept:
        # The copy was checked when the sweep was begun, with this very config.
        return
    schemes = _schemes(key.quantization, checkpoint)
    pairs = [
        ("geometry", str(screen.geometry), (str(scope.geometry),)),
        ("quantization", screen.scheme, schemes),
        ("arch", screen.arch, (key.arch,)),
    ]
    if screen.architecture is not None:
        pairs.append(("architecture", screen.architecture, (key.model,)))
    differ = [
        f"its {what} is {one_line(its, longest=80)}, the sweep's is {' or '.join(own)}"
        for what, its, own in pairs
        if its not in own
    ]
    if differ:
        again = ["autotune", "kernels", "--geometry", str(scope.geometry)]
        again += ["--quantization", schemes[0]]
        raise ConfigError(
            f"{found.config.screen_file}: a screen of another layer: {'; '.join(differ)}: measure "
            f"the sweep's own on {key.arch}, e.g. {shlex.join(again)}, or {_LEAVE_OUT}"
        )


def other_dtype(screen: Screen, scope: Scope) -> tuple[str, ...]:
    """Say where servers compute an unquantized layer in another type than the screen's kernels."""
    if screen.scheme != "bf16" or scope.dtype in (None, "bfloat16"):
        return ()
    return (f"its kernels computed in bfloat16, and the sweep's servers compute in {scope.dtype}",)


def _schemes(quantization: str, checkpoint: Path | None) -> tuple[str, ...]:
    """What the layer's scheme is, by the config's quantization; several where that can't be told.

    Raises:
        ConfigError: a layer sweep knows no such scheme.
    """
    try:
        scheme = scheme_name(quantization)
    except UsageError:
        raise ConfigError(
            f"model.quantization: {quantization!r} is no scheme that a layer sweep knows "
            f"({', '.join(SCHEME_NAMES)}), so that none can screen this one: {_LEAVE_OUT}"
        ) from None
    if scheme != "fp8":
        return (scheme,)
    # Engines call both fp8, with a scale an expert and with one a block: the checkpoint tells.
    told = None
    if checkpoint is not None:
        try:
            told = checkpoint_scheme(language_sizes(read_model_config(checkpoint)), checkpoint)
        except UsageError:
            told = None
    if told is None:
        return ("fp8", "fp8_block")
    return ("fp8_block",) if told == "fp8_block" else ("fp8",)


def _read_named(file: str) -> Screen:
    """Read the file that the user named."""
    remedy = f"name the kernels.json of a layer sweep (autotune kernels), or {_LEAVE_OUT}"
    if not os.path.exists(file):
        raise InputError(f"{one_line(file)}: no such file: {remedy}")
    if not os.path.isfile(file):
        raise InputError(f"{one_line(file)}: not a file: {remedy}")
    try:
        return _read(Path(file))
    except RunFolderError as error:
        raise InputError(f"{error}: {remedy}") from None


def _read_copy(path: Path) -> Screen:
    """Read the run folder's own copy."""
    try:
        return _read(path)
    except RunFolderError as error:
        raise RunFolderError(f"{error}: restore it, or name a new folder with --run") from None


def _read(path: Path) -> Screen:
    """Read a screen; the error says what is wrong with it, and not yet what to do."""
    try:
        screen = read_record(path, Screen)
    except RunFolderError as error:
        # Messages quote the file's content, which is anybody's.
        told = str(error).removesuffix(_RECORDS_REMEDY)
        raise RunFolderError(one_line(told, longest=_LONGEST_REASON)) from None
    for one in screen.backends:
        if one.ratio is not None and not 0 < one.ratio < math.inf:
            raise RunFolderError(
                f"{one_line(str(path))}: not a readable Screen: a ratio of {one.ratio:g} can't be "
                "measured"
            )
    return screen
