from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.config import (
    SweepConfig,
    changed_keys,
    config_digest,
    dump_config,
    parse_config,
    read_config,
)
from autotune.config.schema import CandidateConfig, DecisionConfig, LoadConfig
from autotune.errors import ConfigError

SWEEPS = Path(__file__).parents[2] / "configs" / "sweeps"
VALID = """\
name = "demo"
candidates = ["eager", "grouped_mm"]
reference = "eager"

[model]
witness = "minimax-m2"

[engine]
name = "transformers"

[load]
concurrency = [1, 16]

[decision]
min_rounds = 3
"""
CONFIG = parse_config(VALID, where="valid.toml")


def refuse(old: str, new: str) -> str:
    """The message for the valid config with one piece replaced."""
    assert old in VALID
    with pytest.raises(ConfigError) as caught:
        parse_config(VALID.replace(old, new), where="x.toml")
    message = str(caught.value)
    assert message.startswith("x.toml")
    assert "\n" not in message
    return message


@pytest.mark.parametrize("path", sorted(SWEEPS.glob("*.toml")), ids=lambda path: path.name)
def test_every_checked_in_config_is_valid(path: Path) -> None:
    config = read_config(path)
    assert config.name == path.stem
    assert parse_config(dump_config(config), where="again") == config


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.toml: no such file: name a sweep config"):
        read_config(tmp_path / "gone.toml")


def test_a_folder_is_not_a_config(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read"):
        read_config(tmp_path)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_bytes(b"name = \xff\xfe")
    with pytest.raises(ConfigError, match=r"x\.toml: not a text file in UTF-8 \(byte 7\)"):
        read_config(tmp_path / "x.toml")


def test_bad_toml_is_told_with_its_line() -> None:
    message = refuse('reference = "eager"', "reference = eager")
    assert "not valid TOML" in message and "line 3" in message


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("reference =", "refrence =", 3, ("'refrence'", "did you mean 'reference'?")),
        ("[load]", "[laod]", 11, ("'laod'", "did you mean 'load'?")),
        ("min_rounds = 3", "min_round = 3", 15, ("'decision.min_round'", "'min_rounds'?", "alpha")),
        ("min_rounds = 3", "zzz = 3", 15, ("'decision.zzz'", "Known here: min_rounds")),
    ],
)
def test_an_unknown_key_is_told_with_line_and_nearest(
    old: str, new: str, line: int, words: tuple[str, ...]
) -> None:
    message = refuse(old, new)
    assert message.startswith(f"x.toml:{line}: unknown key")
    assert all(word in message for word in words)


def test_an_unknown_key_of_a_candidate_is_told() -> None:
    message = refuse('["eager", "grouped_mm"]', '["eager", { backend = "x", enviroment = {} }]')
    assert "'candidates.enviroment' (did you mean 'environment'?)" in message


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("[1, 16]", '["1", 16]', "x.toml:12: load.concurrency[0]: Expected `int`, got `str`"),
        ("[1, 16]", "16", "x.toml:12: load.concurrency: Expected `array`"),
        ("[1, 16]", "[1, 0]", "x.toml:12: load.concurrency[1]: Expected `int` >= 1"),
        ("[1, 16]", "[1, -4]", "x.toml:12: load.concurrency[1]: Expected `int` >= 1"),
        ("[1, 16]", "[1, 1.5]", "x.toml:12: load.concurrency[1]: Expected `int`"),
        ('name = "demo"', "name = 1", "x.toml:1: name: Expected `str`"),
        ("min_rounds = 3", "min_rounds = true", "x.toml:15: decision.min_rounds: Expected `int`"),
        ("min_rounds = 3", "min_rounds = 0", "x.toml:15: decision.min_rounds: Expected `int` >= 1"),
        ('"transformers"', '"t"\ndevice = "tpu"', "x.toml:10: engine.device: Invalid enum value"),
        ('"transformers"', '"t"\nready_timeout_s = 0', "x.toml:10: engine.ready_timeout_s: "),
        ('"transformers"', '"t"\nready_timeout_s = nan', "x.toml:10: engine.ready_timeout_s: "),
        ("concurrency =", "input_tokens =", "x.toml:12: load.input_tokens: Expected `int`"),
    ],
)
def test_a_value_of_the_wrong_kind_is_told_with_key_and_line(
    old: str, new: str, place: str
) -> None:
    assert refuse(old, new).startswith(place)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('reference = "eager"\n', "", ("reference",)),
        ("concurrency = [1, 16]", "", ("load", "concurrency")),
        ('[model]\nwitness = "minimax-m2"', "", ("model",)),
        ("[1, 16]", "[]", ("load.concurrency: the list is empty", "[1, 16]")),
        ("[1, 16]", "[4, 4]", ("load.concurrency: 4 is listed twice",)),
        ('["eager", "grouped_mm"]', "[]", ("candidates: the list is empty",)),
        ('"grouped_mm"]', '"eager"]', ("candidates: 'eager' is listed twice", "eager-b")),
        ('"grouped_mm"]', '"a/b"]', ("candidates: backend 'a/b'",)),
        ('"grouped_mm"]', '{ backend = "b", name = "../b" }]', ("candidates: name '../b'",)),
        (
            'reference = "eager"',
            'reference = "eagre"',
            ("reference: 'eagre'", "(eager, grouped_mm)", "did you mean 'eager'?"),
        ),
        (
            'reference = "eager"',
            'reference = "eager"\nincumbent = "auto"',
            ("incumbent: 'auto' is not among the candidates",),
        ),
        ('name = "demo"', 'name = "../demo"', ("name '../demo' can't be used as a name",)),
        ('"minimax-m2"', '"minimax-m2"\npath = "m"', ("exactly one of path, repository",)),
        ('witness = "minimax-m2"', 'quantization = "none"', ("exactly one of path, repository",)),
        ('"minimax-m2"', '"minimax-m2"\ngeometry = "1,2,3"', ("geometry '1,2,3'", "four")),
        ("min_rounds = 3", "weights = [1.0]", ("decision.weights: 1 weights for 2",)),
        ("min_rounds = 3", "weights = [0.5, 0.6]", ("decision.weights: they sum to 1.1",)),
        ("min_rounds = 3", "weights = [1.5, -0.5]", ("decision.weights",)),
        ("min_rounds = 3", "delta = 0.5", ("decision.delta: 0.5 must lie between",)),
        ("min_rounds = 3", "delta = nan", ("decision.delta",)),
        ("min_rounds = 3", "alpha = 0", ("decision.alpha",)),
        ("min_rounds = 3", "alpha = 1e-17", ("decision.alpha", "between 1e-06 and 0.5")),
        ("min_rounds = 3", "delta = 1e-200", ("decision.delta", "between 1e-06 and 0.5")),
        ("min_rounds = 3", "min_rounds = 4\nmax_rounds = 3", ("decision.max_rounds",)),
        ("min_rounds = 3", "floor = 1.1", ("decision.floor",)),
        ("min_rounds = 3", "[probe]\nmin_agreement = 0.05", ("min_agreement",)),
        ("[1, 16]", "[500]\nrequests_per_slot = 1", ("load.requests_per_slot", "500")),
    ],
)
def test_what_cannot_be_swept_is_told(old: str, new: str, words: tuple[str, ...]) -> None:
    message = refuse(old, new)
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("new", "name"),
    [
        ('environment = { HF_TOKEN = "hf_xyzzy" }', "HF_TOKEN"),
        ('environment = { AWS_SECRET_ACCESS_KEY = "hf_xyzzy" }', "AWS_SECRET_ACCESS_KEY"),
        ('environment = { WANDB_API_KEY = "hf_xyzzy" }', "WANDB_API_KEY"),
        ('arguments = ["--api-key", "hf_xyzzy"]', "--api-key"),
        ('arguments = ["--hf-token=hf_xyzzy"]', "--hf-token"),
        pytest.param('launch_prefix = ["env", "HF_TOKEN=hf_xyzzy"]', "HF_TOKEN"),
    ],
)
def test_a_secret_is_refused_without_repeating_it(new: str, name: str) -> None:
    message = refuse('"transformers"', f'"transformers"\n{new}')
    assert name in message and "secret" in message
    assert "hf_xyzzy" not in message


def test_a_candidates_secret_is_refused() -> None:
    candidate = '{ backend = "x", environment = { DB_PASSWORD = "hf_xyzzy" } }'
    message = refuse('"grouped_mm"]', f"{candidate}]")
    assert "DB_PASSWORD" in message and "hf_xyzzy" not in message


@pytest.mark.parametrize("flag", ["--max-tokens", "--tokenizer-mode", "--key-value-cache"])
def test_a_harmless_flag_is_no_secret(flag: str) -> None:
    parse_config(VALID.replace('"transformers"', f'"t"\narguments = ["{flag}", "1"]'), where="x")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("min_rounds = 3", "weights = [nan, 0.5]"),
        pytest.param("min_rounds = 3", "min_rounds = " + "[" * 5000 + "]" * 5000),
        pytest.param("min_rounds = 3", "min_rounds = " + "9" * 5000),
    ],
    ids=["nan weight", "deep nesting", "huge number"],
)
def test_hostile_values_are_refused(old: str, new: str) -> None:
    refuse(old, new)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_any_text_is_a_config_or_a_config_error(text: str) -> None:
    for attempt in (text, VALID + text, VALID.replace('"eager"', text)):
        try:
            parse_config(attempt, where="x")
        except ConfigError as error:
            assert str(error).startswith("x")


words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,20}", fullmatch=True)
plain = st.from_regex(r"[A-Z]{1,8}", fullmatch=True)


@st.composite
def configs(draw: st.DrawFn) -> SweepConfig:
    backends = draw(st.lists(names, min_size=1, max_size=3, unique=True))
    candidates = tuple(
        draw(
            st.one_of(
                st.just(backend),
                st.builds(
                    CandidateConfig,
                    backend=st.just(backend),
                    environment=st.dictionaries(plain.map("CUDA_{}".format), words, max_size=2),
                ),
            )
        )
        for backend in backends
    )
    concurrency = draw(st.lists(st.integers(1, 512), min_size=1, max_size=3, unique=True))
    weights = draw(st.sampled_from([(), tuple(1 / len(concurrency) for _ in concurrency)]))
    return msgspec.structs.replace(
        CONFIG,
        candidates=candidates,
        reference=backends[0],
        incumbent=draw(st.sampled_from([None, *backends])),
        load=LoadConfig(
            concurrency=tuple(concurrency),
            prompts=draw(st.none() | words),
            seed=draw(st.integers(0, 2**63 - 1)),
        ),
        decision=DecisionConfig(weights=weights, delta=draw(st.floats(0.001, 0.49))),
    )


@given(configs())
def test_a_config_survives_being_written(config: SweepConfig) -> None:
    again = parse_config(dump_config(config), where="again")
    assert again == config
    assert config_digest(again) == config_digest(config)
    assert changed_keys(config, again) == ()


@given(configs(), configs())
def test_digests_are_equal_only_for_equal_configs(one: SweepConfig, other: SweepConfig) -> None:
    assert (config_digest(one) == config_digest(other)) == (one == other)
    assert (changed_keys(one, other) == ()) == (one == other)


def test_the_digest_does_not_depend_on_order_or_on_defaults_written_out() -> None:
    head, _, tables = VALID.partition("\n[model]")
    turned = "\n".join(reversed(head.strip().splitlines())) + "\n[model]" + tables
    spelled = turned.replace("min_rounds = 3", "alpha = 0.05\nmin_rounds = 3")
    assert config_digest(parse_config(spelled, where="x")) == config_digest(CONFIG)


def test_changed_keys_are_named() -> None:
    text = VALID.replace("[1, 16]", "[1, 32]").replace("min_rounds = 3", "min_rounds = 4")
    text = text.replace('"transformers"', '"transformers"\nenvironment = { OMP_X = "1" }')
    changed = changed_keys(CONFIG, parse_config(text, where="x"))
    assert [key for key in changed if not key.startswith("engine.environment")] == [
        "decision.min_rounds",
        "load.concurrency",
    ]
    assert "engine.environment.OMP_X" in changed
