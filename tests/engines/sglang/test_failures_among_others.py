"""Which of several deaths counts, and what else a log may hold."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from autotune.engines.base import Failure
from autotune.engines.sglang.failure_rows import ROWS
from autotune.engines.sglang.failures import read_failure
from tests.engines.sglang.logs import (
    DURING,
    HARMLESS,
    LOADING,
    MAIN,
    NCCL,
    OOM,
    POSSIBLE,
    SERVING,
    SIGQUIT,
    UNSUPPORTED,
    failure,
    main_program,
    scheduler,
)

DIED = "RuntimeError: Rank 0 scheduler died during initialization (exit code: {})."
DIED += " If exit code is -9 (SIGKILL), a common cause is the OS OOM killer."


@pytest.mark.parametrize(
    ("log", "status"),
    [
        (main_program(DIED.format(-9)), "oom"),
        (main_program(DIED.format(-11)), "crashed"),
        (main_program(DIED.format(1)), "launch_failed"),
        (
            "[2026-12-02 10:00:00] Subprocess scheduler_0 (pid=7) crashed with exit code -9. "
            "Triggering SIGQUIT for cleanup...\n",
            "oom",
        ),
        (
            "[2026-12-02 10:00:00 DP0] Scheduler or DataParallelController 7 terminated with -6\n",
            "crashed",
        ),
        (SIGQUIT, "launch_failed"),
        (
            "[2026-12-02 10:00:05] SIGQUIT received. signum=<Signals.SIGQUIT: 3>, frame=<f>. It "
            "usually means one child failed.\n",
            "crashed",
        ),
    ],
)
def test_a_death_without_a_cause_counts_only_alone(log: str, status: str) -> None:
    assert failure(HARMLESS + log).status == status
    cause = scheduler("ModuleNotFoundError: No module named 'deep_ep'")
    for both in (cause + log, log + cause):
        assert failure(both).status == "unsupported"


def test_the_first_cause_wins_over_later_ones_and_over_other_ranks() -> None:
    nccl = scheduler(f"{NCCL}Cuda failure 999 'unknown error'", rank=" TP1")
    oom = scheduler(f"torch.OutOfMemoryError: {OOM}", frames=LOADING, rank=" DP1 TP3 EP3")
    illegal = scheduler("RuntimeError: CUDA error: an illegal memory access was encountered")
    assert failure(oom + illegal + nccl).status == "oom"
    assert failure(illegal + SIGQUIT + oom).status == "crashed"
    assert failure(nccl + nccl + oom + SIGQUIT).status == "oom"


def test_an_exception_that_no_row_knows_is_told_as_it_is() -> None:
    nccl = scheduler(f"{NCCL}Cuda failure 999 'unknown error'", rank=" TP1")
    unknown = "KeyError: 'model.layers.0.mlp.experts.w13_weight'"
    found = failure(HARMLESS + scheduler(unknown, frames=LOADING) + nccl + SIGQUIT)
    assert found == Failure(
        status="launch_failed", reason=f"the server stopped on an exception: {unknown}"
    )
    assert failure(scheduler(unknown, frames=SERVING)).status == "crashed"
    assert read_failure(main_program("KeyboardInterrupt")) is None


def test_a_log_that_begins_inside_a_traceback() -> None:
    rest = f'duler.py", line 6362, in run\n{LOADING}torch.OutOfMemoryError: {OOM}\n\n'
    assert failure(rest + SIGQUIT).reason.startswith("out of memory while loading the weights: ")


def test_what_other_processes_print_is_no_part_of_a_message() -> None:
    unknown = f"Traceback (most recent call last):\n{MAIN}KeyError: 'w13'\n"
    watchdog = "[rank1]:[E1202 10:00:00.000000000 ProcessGroupNCCL.cpp:685] NCCL error\n"
    assert failure(unknown + watchdog).reason.endswith("on an exception: KeyError: 'w13'")
    assert failure(watchdog + unknown).reason.startswith("communication")
    thrown = "  what():  CUDA error: an illegal memory access was encountered\n"
    assert failure(thrown).status == "crashed"
    assert failure(f"Traceback (most recent call last):\n{MAIN}{thrown}").status == "crashed"


def test_torch_prefixes_and_lines_of_other_processes_between() -> None:
    log = (
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "<string>", line 1, in <module>\n'
        "[2026-12-02 10:00:00 TP2] Load weight begin. avail mem=100.00 GB\n"
        "Loading safetensors checkpoint shards:   0% Completed | 0/8 [00:00<?, ?it/s]\n"
        f"[rank1]: torch.OutOfMemoryError: {OOM}\n"
    )
    assert failure(log).status == "oom"


@pytest.mark.parametrize(
    "text",
    [
        "\n" * 20_000_000,
        "[2026-12-02 10:00:00] server_args=" + "requires SM a." * 400_000,
        "a." * 2_500_000,
        "A" * 5_000_000,
        "x: error" * 600_000,
        scheduler("ImportError: " + "flashinfe requires SM " * 100) * 10_000,
        scheduler("ValueError: " + "Invalid quantization '' requires \n" * 300) * 1_000,
        scheduler("\n".join(["RuntimeError: Capture Pre-permute function for requires"] * 12))
        * 9_000,
        "Traceback (most recent call last):\n" * 500_000,
        HARMLESS * 3_000,
    ],
    ids=range(10),
)
def test_a_huge_log_is_read_to_its_end(text: str) -> None:
    """Hostile ones too: no pattern may go back and forth over them, or this never ends."""
    found = read_failure(text)
    assert found is None or len(found.reason) <= 300


def test_the_first_cause_counts_however_much_the_ranks_say_afterwards() -> None:
    cause = scheduler(f"torch.OutOfMemoryError: {OOM}")
    later = scheduler("RuntimeError: NCCL error: unhandled system error") * 8_000
    assert 2**20 < len(later) < 2**22 - len(cause)
    assert failure(cause + later).status == "oom"


FRAGMENTS = [
    *UNSUPPORTED,
    "Traceback (most recent call last):",
    "[2026-12-02 10:00:00 TP0] ",
    "Scheduler hit an exception: ",
    '  File "x.py", line 1, in <module>',
    DURING,
    NCCL,
    POSSIBLE,
    "\x1b[31m\u202e\ud800",
    "\r",
]


@given(st.text() | st.lists(st.sampled_from(FRAGMENTS) | st.text()).map("\n".join))
@example(scheduler("ValueError: \x1b[31m\u202e\ud800" + "x" * 2000))
def test_any_text_is_read_without_an_error(log: str) -> None:
    found = read_failure(log)
    if found is not None:
        assert found.reason.isprintable() and 0 < len(found.reason) <= 300


def test_every_kind_is_told_once() -> None:
    assert len({row.kind for row in ROWS}) == len(ROWS)
