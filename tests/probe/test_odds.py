import pytest

from autotune.probe.agreement import settings_of
from autotune.probe.answers import Walk
from autotune.probe.odds import odds_of_answers, odds_of_prompts, smallest_seen
from autotune.records.schema import ProbeMode
from tests.probe.builders import KINDS, sweep, walks_of


def walk(mode: ProbeMode = "single", concurrency: int = 1) -> Walk:
    return Walk(
        prompt="long_code",
        mode=mode,
        concurrency=concurrency,
        round=1,
        agreed_tokens=32,
        parted=False,
        share=1.0,
        stray=False,
        changed=False,
        text="",
    )


def test_odds_count_all_answers_and_those_at_the_highest_concurrency() -> None:
    walks = [walk()] * 8 + [walk("crowd", 4)] * 8 + [walk("crowd", 16), walk("load", 16)] * 4
    everywhere, crowded = odds_of_answers(walks)
    assert (everywhere.answers, crowded.answers) == (24, 8)
    assert everywhere.size == crowded.size == 1 / 8
    assert everywhere.probability == pytest.approx((7 / 8) ** 24)
    assert crowded.probability == pytest.approx((7 / 8) ** 8)
    assert crowded.defect == "garbles one answer in eight at concurrency 16 only"


def test_without_answers_there_are_no_odds() -> None:
    assert odds_of_answers([]) == []
    assert [one.answers for one in odds_of_answers([walk()] * 3)] == [3]
    assert smallest_seen([]) == 1.0


def test_the_smallest_share_is_what_is_missed_at_5_percent() -> None:
    share = smallest_seen([walk()] * 59)
    assert (1 - share) ** 59 == pytest.approx(0.05)


def test_odds_of_long_prompts_count_the_prompts() -> None:
    walks = walks_of(sweep(rounds=(1,)), "x")
    (odds,) = odds_of_prompts(settings_of(walks, walks, KINDS))
    assert (odds.answers, odds.size) == (8, 1 / 8)
    assert odds.probability == pytest.approx((7 / 8) ** 8)
    short = [one for one in walks if KINDS[one.prompt] != "long"]
    assert odds_of_prompts(settings_of(short, short, KINDS)) == []
