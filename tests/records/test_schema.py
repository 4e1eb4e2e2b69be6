import msgspec
import pytest

from autotune.records.rule import CorrectnessRule, Rule
from autotune.records.schema import LaunchRecord, PointRecord, ProbeRecord, RequestRecord


def test_the_default_rule_is_one() -> None:
    Rule().check((1, 16))
    assert msgspec.json.decode(msgspec.json.encode(Rule()), type=Rule) == Rule()


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"tolerated_rate": 0.0}, "tolerated_rate"),
        ({"tolerated_rate": 0.25}, "tolerated_rate"),
        ({"rejected_rate": 1.5}, "rejected_rate"),
        ({"tolerated_drop": -0.1}, "tolerated_drop"),
        ({"tolerated_drop": 0.3}, "tolerated_drop"),
        ({"rejected_drop": float("nan")}, "tolerated_drop"),
        ({"false_alarm": 0.0}, "false_alarm"),
        ({"false_alarm": 0.5}, "false_alarm"),
        ({"task_margin": 0.0}, "task_margin"),
        ({"task_margin": 1.0}, "task_margin"),
    ],
)
def test_a_correctness_rule_out_of_its_range_is_named(fields: dict[str, float], named: str) -> None:
    rule = Rule(correctness=CorrectnessRule(**fields))
    with pytest.raises(ValueError, match=named):
        rule.check((1,))


def test_a_request_is_measured_unless_it_says_otherwise() -> None:
    """Tables that were written before there were roles hold measured requests alone."""
    old = b'{"index": 0, "outcome": "ok", "sent_at_s": 0.0, "ended_at_s": 1.0}'
    assert msgspec.json.decode(old, type=RequestRecord).role == "measured"


@pytest.mark.parametrize("round_number", [-1, 0, 1])
def test_launches_and_probes_know_a_round_0_and_points_do_not(round_number: int) -> None:
    launch = {"candidate": "a", "round": round_number, "position": 1, "status": "ok"}
    point = {"candidate": "a", "round": round_number, "concurrency": 1, "status": "ok"}
    probe = {
        "candidate": "a",
        "round": round_number,
        "prompts_digest": "d",
        "max_tokens": 8,
        "answers": [],
    }
    kinds = ((launch, LaunchRecord, 0), (point, PointRecord, 1), (probe, ProbeRecord, 0))
    for record, kind, first in kinds:
        if round_number >= first:
            msgspec.convert(record, kind)
        else:
            with pytest.raises(msgspec.ValidationError, match="round"):
                msgspec.convert(record, kind)
