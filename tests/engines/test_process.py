import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.engines.base import Command
from autotune.engines.process import free_ports, tail
from autotune.errors import EngineError

from .scripts import (
    MODEL,
    alive,
    python,
    start,
    wait_for,
    wait_for_exit,
    wait_for_pid,
)

REPOSITORY = Path(__file__).parents[2]

# Each writes its process id to the file named by its argument, then stays.
STAYS = """
import os, pathlib, sys, time
def tell(path):
    pathlib.Path(path).write_text(f"{os.getpid()}\\n")
tell(sys.argv[1])
time.sleep(600)
"""
DEAF = f"""
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
{STAYS}
"""
WITH_CHILD = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-I", "-c", sys.argv[2], sys.argv[1]])
time.sleep(600)
"""
# Forks twice with a session of its own, as a daemon does: no tree walk finds it afterwards.
DAEMONISES = f"""
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() != 0:
        os._exit(0)
    {STAYS.strip().replace(chr(10), chr(10) + "    ")}
os.wait()
while not os.path.exists(sys.argv[1]):  # Whoever ends too early leaves no daemon to be found.
    time.sleep(0.01)
time.sleep(float(sys.argv[2]))
"""
OWNER = """
import sys, time
from pathlib import Path
from autotune.engines.base import Command
from autotune.engines.process import ServerProcess
command = Command(argv=tuple(sys.argv[2:]), environment={}, model="tiny")
ServerProcess(command, log_file=Path(sys.argv[1]), stop_timeout_s=0.3)
time.sleep(600)
"""


def test_keeps_both_streams_in_the_log(tmp_path: Path) -> None:
    code = "import sys; print('to out'); print('to err', file=sys.stderr); sys.exit(3)"
    with start(python(code), tmp_path / "not" / "there" / "yet") as server:
        assert wait_for_exit(server) == 3
        assert "to out" in server.log() and "to err" in server.log()


def test_starts_each_log_afresh(tmp_path: Path) -> None:
    for word in ("first", "second"):
        with start(python(f"print({word!r})"), tmp_path) as server:
            wait_for_exit(server)
            assert server.log().strip() == word


def test_reads_only_the_end_of_a_long_log(tmp_path: Path) -> None:
    code = "import sys; sys.stdout.write('x' * 5_000_000 + '\\u00fc\\nlast line\\n')"
    with start(python(code, PYTHONIOENCODING="utf-8"), tmp_path) as server:
        wait_for_exit(server)
        assert len(server.log()) <= 4 * 2**20
        assert tail(server.log())[-1] == "last line"


def test_reads_a_log_that_is_not_text(tmp_path: Path) -> None:
    code = "import os; os.write(1, bytes(range(256)) + b'\\nthe end\\n')"
    with start(python(code), tmp_path) as server:
        wait_for_exit(server)
        assert tail(server.log())[-1] == "the end"


def test_adds_the_commands_environment_to_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INHERITED", "ours")
    monkeypatch.setenv("OVERRIDDEN", "ours")
    code = "import os; print(os.environ['INHERITED'], os.environ['OVERRIDDEN'])"
    with start(python(code, OVERRIDDEN="theirs"), tmp_path) as server:
        wait_for_exit(server)
        assert server.log().strip() == "ours theirs"


def test_gives_the_server_no_standard_input(tmp_path: Path) -> None:
    with start(python("import sys; print(repr(sys.stdin.read()))"), tmp_path) as server:
        wait_for_exit(server)
        assert server.log().strip() == "''"


@pytest.mark.parametrize("code", [0, 1, 77, 255])
def test_exit_code_is_the_servers_own(code: int, tmp_path: Path) -> None:
    with start(python(f"import sys; sys.exit({code})"), tmp_path) as server:
        assert wait_for_exit(server) == code


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_exit_code_of_a_signal_is_128_more(number: signal.Signals, tmp_path: Path) -> None:
    code = f"import os, resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n\
os.kill(os.getpid(), {number.value})"
    with start(python(code), tmp_path) as server:
        assert wait_for_exit(server) == 128 + number


def test_exit_code_is_none_while_it_runs(tmp_path: Path) -> None:
    with start(python(STAYS, str(tmp_path / "pid")), tmp_path) as server:
        wait_for_pid(tmp_path / "pid")
        assert server.exit_code is None


@pytest.mark.parametrize("program", ["no-such-program-anywhere", "/no/such/program", "/etc/passwd"])
def test_names_a_command_that_cannot_be_started(program: str, tmp_path: Path) -> None:
    with start(Command(argv=(program, "serve"), environment={}, model=MODEL), tmp_path) as server:
        assert wait_for_exit(server) == 127
        assert program in server.log()
        assert "Traceback" not in server.log()


def test_refuses_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(EngineError, match=r"server\.log"):
        start(python("pass"), tmp_path / "file")


def test_stop_ends_a_server_and_may_be_called_again(tmp_path: Path) -> None:
    server = start(python(STAYS, str(tmp_path / "pid")), tmp_path)
    pid = wait_for_pid(tmp_path / "pid")
    server.stop()
    assert not alive(pid)
    assert server.exit_code == 128 + signal.SIGTERM
    server.stop()


def test_stop_lets_a_server_clean_up(tmp_path: Path) -> None:
    code = f"import signal, sys\n\
signal.signal(signal.SIGTERM, lambda *_: (print('cleaned up'), sys.exit(0)))\n{STAYS}"
    with start(python(code, str(tmp_path / "pid")), tmp_path) as server:
        wait_for_pid(tmp_path / "pid")
    assert server.exit_code == 0
    assert "cleaned up" in server.log()


def test_stop_ends_a_server_that_ignores_sigterm(tmp_path: Path) -> None:
    with start(python(DEAF, str(tmp_path / "pid")), tmp_path, stop_timeout_s=0.2) as server:
        pid = wait_for_pid(tmp_path / "pid")
    assert not alive(pid)
    assert server.exit_code == 128 + signal.SIGKILL


@pytest.mark.parametrize("child", [STAYS, DEAF], ids=["polite", "deaf"])
def test_stop_ends_the_servers_children(child: str, tmp_path: Path) -> None:
    command = python(WITH_CHILD, str(tmp_path / "pid"), child)
    with start(command, tmp_path, stop_timeout_s=0.3):
        pid = wait_for_pid(tmp_path / "pid")
        assert alive(pid)
    assert not alive(pid)


def test_children_do_not_outlive_a_server_that_died(tmp_path: Path) -> None:
    code = WITH_CHILD.replace("time.sleep(600)", "sys.exit(9)")
    with start(python(code, str(tmp_path / "pid"), DEAF), tmp_path, stop_timeout_s=0.3) as server:
        assert wait_for_exit(server) == 9
    if (tmp_path / "pid").is_file():  # else it was ended before it could write
        assert not alive(wait_for_pid(tmp_path / "pid"))


@pytest.mark.skipif(sys.platform != "linux", reason="adopting orphans needs Linux")
@pytest.mark.parametrize("parent_stays_s", ["600", "0"])
def test_stop_ends_a_daemon_that_left_the_group(parent_stays_s: str, tmp_path: Path) -> None:
    command = python(DAEMONISES, str(tmp_path / "pid"), parent_stays_s)
    with start(command, tmp_path, stop_timeout_s=1.0):
        if parent_stays_s == "600":
            assert os.getsid(wait_for_pid(tmp_path / "pid")) != os.getsid(0)
        else:
            wait_for(lambda: (tmp_path / "pid").is_file(), "the daemon is there")
        pid = wait_for_pid(tmp_path / "pid")
    assert not alive(pid)


def test_does_not_touch_a_process_that_is_not_ours(tmp_path: Path) -> None:
    argv = [sys.executable, "-I", "-c", STAYS, str(tmp_path / "bystander")]
    with subprocess.Popen(argv) as bystander:
        try:
            # The same program with the same arguments: a kill by name would hit it.
            with start(python(STAYS, str(tmp_path / "pid")), tmp_path):
                wait_for_pid(tmp_path / "pid")
            assert bystander.poll() is None
        finally:
            bystander.kill()


@pytest.mark.parametrize("server", [STAYS, DEAF], ids=["polite", "deaf"])
def test_the_server_dies_with_an_owner_that_is_killed(server: str, tmp_path: Path) -> None:
    argv = [sys.executable, "-c", OWNER, str(tmp_path / "server.log")]
    argv += python(server, str(tmp_path / "pid")).argv
    with subprocess.Popen(argv, cwd=REPOSITORY) as owner:
        try:
            pid = wait_for_pid(tmp_path / "pid")
            assert alive(pid)
        finally:
            owner.kill()
    try:
        wait_for(lambda: not alive(pid), "the server is gone")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_a_free_port_can_be_listened_on() -> None:
    ports = set(free_ports(3))
    assert all(1024 <= port <= 65535 for port in ports)


def test_tail_keeps_the_last_lines_only() -> None:
    log = "".join(f"line {number}\n\n" for number in range(100))
    assert tail(log, 2) == ("line 98", "line 99")
    assert tail("") == ()


def test_tail_drops_what_a_progress_bar_overwrote() -> None:
    log = "start\r\nLoading:   0%\rLoading:  50%\rLoading: 100%\r\ndone\n"
    assert tail(log) == ("start", "Loading: 100%", "done")


def test_tail_keeps_a_progress_bars_state_at_the_end() -> None:
    assert tail("start\nLoading:  50%\rLoading:  60%\r") == ("start", "Loading:  60%")


def test_tail_leaves_no_control_characters() -> None:
    (line,) = tail("\x1b[31mred\x1b[0m \x00 \u202egnp.exe \x9b2J end")
    assert line.isprintable()
    assert "red" in line and line.endswith("end")


@given(st.text(), st.integers(1, 5))
def test_tail_is_safe_to_print_whatever_a_server_writes(log: str, lines: int) -> None:
    shown = tail(log, lines)
    assert len(shown) <= lines
    assert all(line.isprintable() and 0 < len(line) <= 300 for line in shown)
