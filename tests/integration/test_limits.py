"""A sweep that nobody's latencies pass: no decision, and who is over which limit."""

from pathlib import Path

from tests.integration.workbench import Workbench


def test_nobody_keeps_to_a_limit(bench: Workbench) -> None:
    config, run = bench.config(["good", "good_b"], concurrency=[1]), bench.folder / "run"
    limit = '[[decision.limits]]\nfigure = "latency_mean_s"\nat_most = 0.000001\n'
    config.write_text(config.read_text() + limit)
    result = bench.autotune("sweep", config, "--run", run)
    assert result.returncode == 3, result.stderr
    assert "Traceback" not in result.stderr
    # Over in both of the first rounds: a third one would be wasted.
    assert "the race is over: no candidate is left" in result.stderr
    assert len(list(Path(run).rglob("point.json"))) == 4
    again = bench.autotune("decide", run)
    assert again.returncode == 3 and again.stdout == result.stdout
    for name in ("good", "good_b"):
        (told,) = [
            line for line in again.stdout.splitlines() if line.startswith(f"  rejected: {name}: ")
        ]
        assert "latency_mean_s at concurrency 1 is" in told
        assert told.endswith("above the limit of 1e-06 s (mean of 2 rounds)")
    assert "no candidate that is right keeps to the limits" in again.stdout
    assert "| latency_mean_s at concurrency 1 | 1e-06 s |" in (run / "report.md").read_text()
