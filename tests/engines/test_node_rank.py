"""The wrapper that starts one node's share of a server, as a process of its own."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence

import pytest

WRAPPER = (sys.executable, "-m", "autotune.engines.node_rank")
SHOW = "import sys; print(sys.argv[1:])"
DEADLINE_S = 60.0


def run(
    arguments: Sequence[str], *, variables: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {name: v for name, v in os.environ.items() if not name.startswith("SLURM_")}
    return subprocess.run(
        [*WRAPPER, *arguments],
        capture_output=True,
        text=True,
        env={**environment, **(variables or {})},
        timeout=DEADLINE_S,
    )


@pytest.mark.parametrize(("variable", "number"), [("SLURM_NODEID", "0"), ("OMPI_RANK", "17")])
def test_passes_the_number_on_as_the_last_argument(variable: str, number: str) -> None:
    command = (sys.executable, "-c", SHOW, "--nnodes", "2", "a b", "")
    result = run([variable, *command], variables={variable: number})
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"{['--nnodes', '2', 'a b', '', '--node-rank', number]}\n"


@pytest.mark.parametrize("value", [None, "", " ", "-1", "1.0", "one", "1 2", "0x1", "²"])
def test_refuses_a_variable_that_holds_no_number(value: str | None) -> None:
    variables = {} if value is None else {"SLURM_NODEID": value}
    result = run(["SLURM_NODEID", sys.executable, "-c", SHOW], variables=variables)
    assert result.returncode == 1 and result.stdout == ""
    assert "SLURM_NODEID" in result.stderr and "engine.node_rank_variable" in result.stderr
    assert "Traceback" not in result.stderr and result.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["SLURM_NODEID"]])
def test_says_how_it_is_used(arguments: list[str]) -> None:
    result = run(arguments, variables={"SLURM_NODEID": "0"})
    assert result.returncode == 1 and "VARIABLE COMMAND" in result.stderr


@pytest.mark.parametrize("code", [0, 3, 255])
def test_the_exit_code_is_the_commands(code: int) -> None:
    command = (sys.executable, "-c", f"raise SystemExit({code})")
    assert run(["RANK", *command], variables={"RANK": "0"}).returncode == code


def test_the_commands_death_by_a_signal_is_ours() -> None:
    dies = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    result = run(["RANK", sys.executable, "-c", dies], variables={"RANK": "0"})
    assert result.returncode == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_reach_the_command(number: signal.Signals) -> None:
    """It has taken our place: what is sent to our process is sent to it."""
    waits = (
        "import os, signal, sys\n"
        f"signal.signal({int(number)}, lambda *_: sys.exit(42))\n"
        "print(os.getpid(), flush=True)\n"
        "while True: signal.pause()\n"
    )
    with subprocess.Popen(
        [*WRAPPER, "RANK", sys.executable, "-c", waits],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "RANK": "1"},
    ) as process:
        try:
            assert process.stdout is not None
            assert int(process.stdout.readline()) == process.pid
            process.send_signal(number)
            assert process.wait(DEADLINE_S) == 42
        finally:
            process.kill()


def test_a_command_that_is_not_there_is_told_in_a_line() -> None:
    result = run(["RANK", "/no/such/program"], variables={"RANK": "0"})
    assert result.returncode != 0
    assert "/no/such/program" in result.stderr and "Traceback" not in result.stderr
