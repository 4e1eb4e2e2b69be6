"""Limits in a config: told before anything is measured where they can't be kept or checked."""

import pytest

from autotune.config import dump_config, parse_config
from autotune.errors import ConfigError
from autotune.records.rule import Limit

HEAD = """\
name = "demo"
candidates = ["eager", "grouped_mm"]
reference = "eager"
[model]
witness = "minimax-m2"
[engine]
name = "transformers"
[load]
concurrency = [1, 64]
min_requests = 64
requests_per_slot = 10
"""


def limited(*limits: str, head: str = HEAD) -> str:
    return head + "".join(f"[[decision.limits]]\n{limit}\n" for limit in limits)


def test_limits_are_read_and_written() -> None:
    text = limited(
        'figure = "latency_p99_s"\nat_most = 2\nconcurrency = [64]',
        'figure = "error_rate"\nat_most = 0',
    )
    config = parse_config(text, where="x.toml")
    assert config.rule().limits == (
        Limit(figure="latency_p99_s", at_most=2.0, concurrency=(64,)),
        Limit(figure="error_rate", at_most=0.0),
    )
    assert parse_config(dump_config(config), where="again") == config


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ('figure = "latency_p98_s"\nat_most = 2', (":13: decision.limits[0].figure", "p98")),
        ('figure = "ttft_mean_s"', ("decision.limits", "at_most")),
        ('figure = "ttft_mean_s"\nat_most = 1\nabove = 2', ("'decision.limits.above'", "at_most")),
        ('figure = "ttft_mean_s"\nat_most = nan', ("decision.limits: ttft_mean_s", "nan")),
        ('figure = "ttft_mean_s"\nat_most = -1', ("decision.limits: ttft_mean_s", "-1")),
        ('figure = "ttft_mean_s"\nat_most = 0', ("at_most is 0: give a time above 0",)),
        ('figure = "ttft_mean_s"\nat_most = inf', ("at_most is inf: give a time above 0",)),
        ('figure = "error_rate"\nat_most = 1', ("give a share of the requests from 0",)),
        (
            'figure = "ttft_mean_s"\nat_most = 1\nconcurrency = [2]',
            ("decision.limits: concurrency 2 isn't measured",),
        ),
        (
            'figure = "ttft_mean_s"\nat_most = 1\nconcurrency = [64, 64]',
            ("ttft_mean_s at concurrency 64: limited twice",),
        ),
        (
            'figure = "latency_p99_s"\nat_most = 1',
            (
                "latency_p99_s at concurrency 1: a p99 needs 299 requests",
                "sends 64",
                "load.min_requests to 299",
            ),
        ),
    ],
)
def test_a_limit_that_cannot_hold_is_told(limit: str, words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(limited(limit), where="x.toml")
    message = str(caught.value)
    assert message.startswith("x.toml") and "\n" not in message
    assert all(word in message for word in words), message


def test_two_limits_of_one_figure_at_one_concurrency_are_told() -> None:
    everywhere = 'figure = "ttft_p95_s"\nat_most = 1'
    there = 'figure = "ttft_p95_s"\nat_most = 2\nconcurrency = [64]'
    with pytest.raises(ConfigError, match="ttft_p95_s at concurrency 64: limited twice"):
        parse_config(limited(everywhere, there), where="x.toml")


def test_what_the_load_can_carry_is_accepted() -> None:
    # 640 requests at concurrency 64, 64 at concurrency 1.
    parse_config(limited('figure = "tpot_p99_s"\nat_most = 1\nconcurrency = [64]'), where="x")
    parse_config(limited('figure = "tpot_p95_s"\nat_most = 1'), where="x")
    with pytest.raises(ConfigError, match=r"a p95 needs 59 requests, and a point there sends 58"):
        head = HEAD.replace("min_requests = 64", "min_requests = 58")
        parse_config(limited('figure = "tpot_p95_s"\nat_most = 1', head=head), where="x")


def test_one_output_token_has_no_time_per_token() -> None:
    head = f"{HEAD}output_tokens = 1\n"
    with pytest.raises(ConfigError, match="one output token has no tpot"):
        parse_config(limited('figure = "tpot_mean_s"\nat_most = 1', head=head), where="x")
