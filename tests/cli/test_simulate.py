"""``autotune simulate``: what it prints, and what it refuses."""

import json
from pathlib import Path

import pytest

from autotune.records.rule import Rule
from autotune.simulate import Noise, Scenario
from autotune.simulate import simulate as simulate_all
from tests.cli.command import autotune, check_refused

FEW = ("--runs", "5")


def test_it_answers_in_a_few_plain_lines(tmp_path: Path) -> None:
    result = autotune("simulate", "--gap", "0.05", "--sd", "0.01", *FEW, folder=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == "5 simulated sweeps of 4 candidates, gap 5.0%, sd 1.00%, seed 1:"
    assert "of the 33 that a sweep makes at most" in lines[1]
    assert lines[2].startswith("  right: 100.0% (56.6% to 100.0%): ")
    assert len(lines) < 12
    assert list(tmp_path.iterdir()) == []


def test_it_says_what_was_simulated(tmp_path: Path) -> None:
    result = autotune(
        "simulate", "--candidates", "3", "--equals", "2", "--failing", "1", "--drift", "-0.05",
        "--autocorrelation", "0.5", "--tails", "5", "--wild", "-0.3", *FEW, folder=tmp_path,
    )  # fmt: skip
    assert result.stdout.splitlines()[0] == (
        "5 simulated sweeps of 3 candidates, gap 5.0%, sd 2.00%, 2 equally good, 1 failing, drift "
        "-5.0%, autocorrelation 0.5, tails 5.0, one launch off by -30%, seed 1:"
    )


def test_json_holds_the_figures_and_all_settings(tmp_path: Path) -> None:
    result = autotune(
        "simulate", "--gap", "0.1", "--sd", "0.03", "--candidates", "3", "--tails", "heavy",
        "--incumbent", "best", "--wild", "0.3", "--wild-hits", "best", "--delta", "0.03",
        "--alpha", "0.1", "--min-rounds", "4", "--max-rounds", "5", "--drop-behind", "0.2",
        "--drop-after", "3", "--seed", "7", "--json", *FEW, folder=tmp_path,
    )  # fmt: skip
    assert (result.returncode, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert (found["runs"], found["seed"], found["exhaustive_launches"]) == (5, 7, 16)
    rule = Rule(
        delta=0.03, alpha=0.1, min_rounds=4, max_rounds=5, drop_behind=0.2, drop_after=3
    )  # fmt: skip
    noise = Noise(sd=0.03, tails="heavy", wild=0.3, wild_hits="best")
    scenario = Scenario(candidates=3, gap=0.1, incumbent="best", noise=noise, rule=rule)
    same = simulate_all(scenario, runs=5, seed=7)
    assert found["scenario"]["noise"]["tails"] == "heavy"
    assert found["scenario"]["rule"]["drop_after"] == 3
    for name in ("correct_rate", "leads_rate", "wrong_rate", "open_rate", "false_decisive_rate"):
        assert found[name] == getattr(same, name)
        assert found["intervals"][name] == list(same.intervals[name])
    assert (found["mean_launches"], found["outcomes"]) == (same.mean_launches, same.outcomes)


def test_its_defaults_are_the_rules_own(tmp_path: Path) -> None:
    result = autotune("simulate", "--json", *FEW, folder=tmp_path)
    rule = json.loads(result.stdout)["scenario"]["rule"]
    default = Rule()
    assert {name: rule[name] for name in ("delta", "alpha", "min_rounds", "max_rounds")} == {
        "delta": default.delta,
        "alpha": default.alpha,
        "min_rounds": default.min_rounds,
        "max_rounds": default.max_rounds,
    }


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--gap", "nan", "--gap nan: give"),
        ("--gap", "-0.1", "--gap -0.1: give"),
        ("--sd", "inf", "--sd inf: give a share"),
        ("--sd", "2.1", "--sd 2.1: give a share from 0 to 1, such as 0.021 for 2.1%"),
        ("--candidates", "1", "--candidates 1: give 2"),
        ("--equals", "5", "--equals 5: give"),
        ("--failing", "4", "--failing 4: give fewer"),
        ("--drift", "nan", "--drift nan: give"),
        ("--autocorrelation", "1", "--autocorrelation 1.0: give"),
        ("--tails", "1.5", "--tails 1.5: give normal, heavy"),
        ("--tails", "fat", "--tails 'fat': give normal, heavy"),
        ("--wild", "-1", "--wild -1.0: give"),
        ("--delta", "0", "--delta: 0.0 must lie between"),
        ("--alpha", "nan", "--alpha: nan must lie between"),
        ("--min-rounds", "0", "--min-rounds 0: give"),
        ("--max-rounds", "2", "--max-rounds 2: give at least min_rounds, which is 3"),
        ("--drop-behind", "1", "--drop-behind: 1.0 must lie between"),
        ("--drop-after", "0", "--drop-after 0: give"),
        ("--runs", "0", "--runs 0: give 1"),
    ],
)
def test_a_bad_value_is_refused(option: str, value: str, words: str, tmp_path: Path) -> None:
    check_refused(autotune("simulate", option, value, folder=tmp_path), words)


@pytest.mark.parametrize(
    ("option", "value"), [("--seed", "x"), ("--incumbent", "foo"), ("--runs", "1e3"), ("--sd", "")]
)
def test_what_is_no_value_at_all_is_bad_usage(option: str, value: str, tmp_path: Path) -> None:
    result = autotune("simulate", option, value, folder=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert option in result.stderr and "Traceback" not in result.stderr
