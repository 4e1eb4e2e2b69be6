"""A decision that somebody accepted by hand says so, in a list and by itself."""

import datetime
import shutil
from pathlib import Path

import pytest

from autotune.decisions import encode
from autotune.judged import Judged, read_judged
from autotune.review.listing import Filters, Item, list_items
from autotune.review.show import ShownDecision, read_shown
from autotune.review.show_decision import decision_report
from autotune.review.show_listing import listing_text
from autotune.review.show_run import run_data, run_report
from autotune.review.show_text import render_text
from autotune.review.show_words import accepted_words
from tests.decisions.builders import decision, origin_entry
from tests.records.builders import make_run
from tests.review.check_folder import ROOT
from tests.review.run_folders import contents, decide, put_run

EXAMPLE = "example-cpu-minimax-m2"
TODAY = datetime.date(2026, 12, 24)


def item(path: Path) -> Item:
    (found,) = list_items((path,), filters=Filters(), today=TODAY)
    return found


def state(path: Path) -> str:
    return listing_text((item(path),), width=None).splitlines()[1]


def shown(judged: Judged) -> str:
    return render_text(run_report(judged), width=None)


@pytest.fixture(scope="module")
def undecided(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real run in which nothing says whether the fastest candidate is right."""
    run = tmp_path_factory.mktemp("accepted") / EXAMPLE
    ignored = shutil.ignore_patterns("*.svg", "*.png", "*.html", "decision.json")
    shutil.copytree(ROOT / "results" / EXAMPLE, run, ignore=ignored)
    for probe in (run / "launches" / "grouped_mm").rglob("probe.json"):
        probe.unlink()
    return run


def test_a_decision_with_inconclusive_candidates_let_in(undecided: Path, tmp_path: Path) -> None:
    run = tmp_path / EXAMPLE
    shutil.copytree(undecided, run)
    plain = read_judged(run)
    assert plain.derived.judgement.choice == "eager" and not plain.inconclusive_let_in
    assert "accepted" not in state(run) and "Accepted" not in shown(plain)
    decide(run, accept_inconclusive=True)
    before = contents(run)
    judged = read_judged(run)
    judgement = judged.derived.judgement
    assert judged.inconclusive_let_in and judgement.choice == "grouped_mm"
    assert judged.accepted == judgement.blockers != ()
    told = item(run)
    assert (told.choice, told.outcome) == ("grouped_mm", judgement.outcome)
    assert told.accepted == judged.accepted and told.inconclusive_let_in
    line = state(run)
    assert f"{judgement.outcome}, accepted by hand" in line
    assert "decision written, accepted by hand, in spite of: no correctness evidence" in line
    text = shown(judged)
    assert "accepted by hand (--accept) in spite of:" in text and f"- {judged.accepted[0]}" in text
    assert "Accepted by hand (--accept-inconclusive): candidates compete whose" in text
    data = run_data(judged)
    assert (data.accepted, data.inconclusive_let_in) == (judged.accepted, True)
    assert contents(run) == before


def test_a_decision_that_was_accepted_as_it_is(tmp_path: Path) -> None:
    run = put_run(tmp_path / "run", make_run(rounds=2))
    assert "accepted" not in state(run)
    decide(run)
    judged = read_judged(run)
    assert judged.accepted and not judged.inconclusive_let_in
    line = state(run)
    assert "open, accepted by hand" in line
    assert "in spite of: the outcome is open, no correctness evidence" in line
    text = shown(judged)
    assert all(f"- {sentence}" in text for sentence in judged.accepted)
    assert "--accept-inconclusive" not in text


def test_a_decision_that_nobody_had_to_accept(tmp_path: Path) -> None:
    run = tmp_path / EXAMPLE
    shutil.copytree(ROOT / "results" / EXAMPLE, run)
    judged = read_judged(run)
    assert judged.decision is not None and not judged.accepted
    assert "accepted" not in state(run) and "Accepted" not in shown(judged)


def test_a_decision_file_says_it_too(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    reasons = ("the outcome is open: one round", "correctness is inconclusive: few answers")
    path.write_bytes(encode(decision(origin_entry(evidence={"accepted": reasons}))))
    line = state(path)
    assert "decisive, accepted by hand" in line
    assert "in spite of: the outcome is open, correctness is inconclusive" in line
    file = read_shown(path)
    assert isinstance(file, ShownDecision)
    text = render_text(decision_report(file.decision), width=None)
    assert "answers pass; accepted by hand, see the evidence" in text
    assert "Accepted by hand, in spite of:\n- the outcome is open: one round\n" in text
    path.write_bytes(encode(decision()))
    assert "accepted" not in state(path)


def test_words() -> None:
    assert accepted_words(()) == ""
    assert accepted_words(("a: b", "a: c", "d")) == "accepted by hand, in spite of: a, d"
    assert accepted_words((), inconclusive_let_in=True).startswith("accepted by hand: candidates")
