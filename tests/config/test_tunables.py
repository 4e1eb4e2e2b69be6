"""What a config may say of tunables and their search, and how each mistake is told."""

from pathlib import Path

import msgspec
import pytest

from autotune.config import changed_keys, config_digest, dump_config, parse_config
from autotune.config.check_tunables import check_storage
from autotune.errors import ConfigError
from tests.search.builders import CONFIG, make_config

SIZE = 'argument = "--size"\nlow = 1\nhigh = 4'
FUSE = "choices = [true, false]"
DEPTH = 'variable = "DEPTH"\nchoices = ["2", "4"]\nwhen = { fuse = [true] }'


def refuse(old: str, new: str) -> str:
    """The message for the valid config with one piece replaced."""
    with pytest.raises(ConfigError) as caught:
        make_config((old, new))
    message = str(caught.value)
    assert message.startswith("demo.toml") and "\n" not in message
    return message


def test_tunables_are_read_and_written_back() -> None:
    config = make_config()
    assert list(config.tunables()) == ["tuned"]
    assert config.search_rounds == 2
    assert parse_config(dump_config(config), where="again") == config
    untuned = msgspec.structs.replace(config, candidates=("plain",))
    assert (untuned.tunables(), untuned.search_rounds) == ({}, 0)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (SIZE, "low = 1\nhigh = 4", "size: give exactly one of argument and variable"),
        (SIZE, SIZE + '\nvariable = "X"', "size: give exactly one of argument and variable"),
        ('"--size"', '"size"', "size.argument: 'size' is no argument"),
        ('"--size"', '"--size=1"', "size.argument: '--size=1' is no argument"),
        ('"--size"', '"--keep"', "size: --keep is set by the arguments already"),
        ('"--size"', '"--fuse"', "fuse: --fuse is steered by 'size' already"),
        ('"--size"', '"--api-key"', "size: '--api-key' looks like a secret"),
        ('"DEPTH"', '"HF_TOKEN"', "depth: 'HF_TOKEN' looks like a secret"),
        ('"DEPTH"', '"1X"', "depth.variable: '1X' can't be a variable"),
        ('"1"]', '"1"]\nenvironment = { DEPTH = "1" }', "DEPTH is set by the environment"),
        (
            'name = "transformers"',
            'name = "transformers"\narguments = ["--size=3"]',
            "size: --size is set by the arguments already",
        ),
        (SIZE, 'argument = "--size"', "size: give either choices, or low and high"),
        (SIZE, SIZE + "\nchoices = [1]", "size: give either choices, or low and high"),
        (SIZE, 'argument = "--size"\nlow = 1', "size: give both low and high"),
        ("high = 4", "high = 1", "size: low (1) must be less than high (1)"),
        ("high = 4", "high = 0", "size: low (1) must be less than high (0)"),
        ("high = 4", "high = 4\nstep = 0", "size: step must be more than 0, not 0"),
        ("high = 4", "high = 4\nstep = -1", "size: step must be more than 0, not -1"),
        ("high = 4", "high = 4\nstep = 2", "the last one is 3: change high or step"),
        ("high = 4", "high = 4\nstep = 9", "the last one is 1: change high or step"),
        ("high = 4", "high = 4\nstep = 0.5", "a step of 0.5 between whole numbers"),
        ("high = 4", "high = 4\nlog = true\nstep = 1", "size: log goes without step"),
        ("low = 1", "low = 0\nlog = true", "size: log needs a low above 0, not 0"),
        ("low = 1", "low = -inf", "size.low: -inf isn't a number that can be searched"),
        ("high = 4", "high = nan", "size.high: nan isn't a number that can be searched"),
        ("high = 4", "high = 9007199254740993", "isn't a number that can be searched"),
        ("high = 4", f"high = 1{'0' * 400}", "isn't a number that can be searched"),
        ("low = 1\nhigh = 4", "low = 0.0\nhigh = 1.0\nstep = 5e-324", "too small to tell apart"),
        ("low = 1\nhigh = 4", "low = 1.0\nhigh = 1.0000000001", "there is nothing to tell apart"),
        (FUSE, "choices = [true, 1]", "fuse.choices: true and 1 can't be told apart"),
        (FUSE, "choices = [1, 1.0]", "fuse.choices: 1 and 1.0 can't be told apart"),
        (FUSE, 'choices = [1, "1"]', "fuse.choices: 1 and '1' can't be told apart"),
        (FUSE, "choices = [true, true]", "fuse.choices: true and true can't be told apart"),
        (FUSE, "choices = [nan]", "fuse.choices: nan isn't a number"),
        (FUSE, "choices = [true, false]\nlog = true", "step and log go with low and high"),
        ('["2", "4"]', '[true, "4"]', "depth.choices: true is no variable's value"),
        ('["2", "4"]', r'["a\u0000b"]', "depth.choices: a NUL character"),
        ("{ fuse = [true] }", "{ fuze = [true] }", "'fuze' is no tunable of this candidate (did"),
        ("{ fuse = [true] }", "{ depth = ['2'] }", "depth.when: 'depth' can't depend on itself"),
        ("{ fuse = [true] }", "{ fuse = [] }", "depth.when.fuse: the list is empty"),
        ("{ fuse = [true] }", "{ fuse = [1] }", "fuse: it is never 1, but true, false"),
        ("{ fuse = [true] }", "{ size = [5] }", "size: it is never 5, but from 1 to 4"),
        ("{ fuse = [true] }", "{ size = [true] }", "size: it is never true, but from 1 to 4"),
        ("{ fuse = [true] }", "{ size = [1.5] }", "size: it is never 1.5, but from 1 to 4"),
        (FUSE, FUSE + "\nwhen = { depth = ['2'] }", "tunables: 'when' goes in a circle: "),
        ("[candidates.tunables.size]", '[candidates.tunables."a b"]', "'a b' can't be used as a"),
        ("low = 1", "lwo = 1", "'candidates.tunables.lwo' (did you mean 'low'?)"),
        ("rounds = 2", "round = 2", "'search.round' (did you mean 'rounds'?)"),
        ("rounds = 2", 'rounds = 2\nsampler = "grid"', "search.sampler: Invalid enum value"),
        ("rounds = 2", "rounds = 0", "search.rounds: Expected `int` >= 1"),
        (
            "[model]",
            '[[candidates]]\nbackend = "x"\nname = "tuned-t0001"\n\n[model]',
            "'tuned-t0001' is how a trial of 'tuned' would be called",
        ),
    ],
)
def test_a_mistake_is_told_with_its_key(old: str, new: str, words: str) -> None:
    assert words in refuse(old, new)


def test_the_key_names_candidate_and_tunable() -> None:
    message = refuse("high = 4", "high = 0")
    assert message.startswith("demo.toml: candidates.tuned.tunables.size: ")


@pytest.mark.parametrize(
    ("new", "words"),
    [
        ("low = 1.0\nhigh = 4.0", "brute_force tries every value, and here is no end of them"),
        ("low = 1\nhigh = 1000000", "brute_force would try 1,000,000 values"),
    ],
)
def test_brute_force_needs_an_end(new: str, words: str) -> None:
    text = CONFIG.replace("low = 1\nhigh = 4", new)
    assert parse_config(text, where="x").search_rounds == 2
    with pytest.raises(ConfigError, match=words):
        parse_config(f'{text}sampler = "brute_force"\n', where="x")


@pytest.mark.parametrize(
    "lines",
    [
        "low = 0.1\nhigh = 0.9\nstep = 0.1",
        "low = 1e-5\nhigh = 1.0\nlog = true",
        "low = 2048\nhigh = 16384\nstep = 2048",
        "low = 1\nhigh = 1024\nlog = true",
        "low = -4\nhigh = 4",
        'choices = [1024, 2048.5, "auto", false]',
    ],
)
def test_what_can_be_searched_is_taken(lines: str) -> None:
    config = make_config(("low = 1\nhigh = 4", lines))
    assert parse_config(dump_config(config), where="again") == config


def test_a_name_too_long_for_its_trials_is_refused() -> None:
    with pytest.raises(ConfigError, match="the name of a trial"):
        make_config(('backend = "tuned"', f'backend = "tuned"\nname = "{"x" * 125}"'))


def test_names_that_a_study_would_mix_up_are_refused() -> None:
    other = '[[candidates]]\nbackend = "x"\nname = "tuned.a"\n[candidates.tunables."b"]\n'
    mixed = other + 'argument = "--b"\nchoices = [1, 2]\n'
    named = '[candidates.tunables."a.b"]\nargument = "--ab"\nchoices = [1, 2]\n\n[model]'
    with pytest.raises(ConfigError, match="a study would mix it up with"):
        make_config(("[model]", f"{named}"), ("\n[model]", f"\n{mixed}\n[model]"))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://user@host/database",
        "postgresql://host:5432/database?sslmode=require",
        "mysql+pymysql://user@host/database",
        "sqlite:///study.db",
        "sqlite:////var/lib/study.db",
    ],
)
def test_a_databases_url_is_taken(url: str) -> None:
    config = make_config(("rounds = 2", f'rounds = 2\nstorage = "{url}"'))
    assert config.search.storage == url


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis://host", "not the URL of a database that Optuna knows (sqlite, postgresql, mysql)"),
        ("study.db", "not the URL of a database"),
        ("postgresql:host", "not the URL of a database"),
        ("", "not the URL of a database"),
        ("postgresql://[::1/x", "not an URL"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("postgresql://u:hunter2@host/x", "holds a password"),
        ("postgresql://u:@host/x", "holds a password"),
        ("postgresql://host/x?password=hunter2", "holds a password"),
    ],
)
def test_a_storage_that_cannot_be_is_told_without_repeating_it(url: str, words: str) -> None:
    message = refuse("rounds = 2", f'rounds = 2\nstorage = "{url}"')
    assert message.startswith("demo.toml: search.storage: ") and words in message
    assert "hunter2" not in message
    if words == "holds a password":
        assert "set the environment variable AUTOTUNE_STORAGE" in message
        check_storage(url, key="AUTOTUNE_STORAGE", published=False)


def test_where_the_study_is_kept_is_no_part_of_what_is_measured() -> None:
    config = make_config()
    elsewhere = make_config(("rounds = 2", 'rounds = 2\nstorage = "sqlite:///other.db"'))
    longer = make_config(("rounds = 2", "rounds = 3"))
    assert config_digest(config) == config_digest(elsewhere) != config_digest(longer)
    assert changed_keys(config, elsewhere) == ()
    assert changed_keys(config, longer) == ("search.rounds",)


def test_the_example_in_the_documentation_is_valid() -> None:
    text = (Path(__file__).parents[2] / "docs" / "tuning.md").read_text(encoding="utf-8")
    example = text.split("```toml\n")[1].split("```")[0]
    config = parse_config(example, where="docs/tuning.md")
    assert config.tunables()
