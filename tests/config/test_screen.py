"""The screen in a config: what may be asked, and that it is no part of a sweep without one."""

import hashlib

import msgspec
import pytest

from autotune.config import changed_keys, config_digest, dump_config, parse_config
from autotune.config.check import check_screen
from autotune.config.schema import ScreenConfig
from autotune.errors import ConfigError

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
"""
CONFIG = parse_config(HEAD, where="x.toml")
SCREENED = parse_config(f'{HEAD}[screen]\nfile = "kernels.json"\n', where="x.toml")


def test_a_screen_is_read_and_written() -> None:
    text = f'{HEAD}[screen]\nfile = "k/kernels.json"\nwrong = "drop"\nslower_than = 3\n'
    config = parse_config(text, where="x.toml")
    assert config.screen == ScreenConfig(file="k/kernels.json", wrong="drop", slower_than=3.0)
    assert config.screen_file == "k/kernels.json"
    assert parse_config(dump_config(config), where="again") == config


def test_by_default_nobody_is_left_out() -> None:
    assert SCREENED.screen == ScreenConfig(file="kernels.json", wrong="flag", slower_than=None)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ('fiel = "k.json"', (":11: unknown key 'screen.fiel'", "did you mean 'file'?")),
        ("file = 1", (":11: screen.file: Expected `str | null`, got `int`",)),
        ('file = ""', ("screen.file: ''", "name a layer sweep's kernels.json")),
        ('file = "a\\u0000b"', ("screen.file: 'a\\x00b'",)),
        ('file = "a\\u001b[31m"', ("screen.file: 'a\\x1b[31m'",)),
        ('wrong = "ignore"', (":11: screen.wrong: ", "ignore")),
        ("slower_than = 1", (":11: screen.slower_than: Expected `float` > 1.0",)),
        ("slower_than = -2.0", ("screen.slower_than: ",)),
        ("slower_than = nan", ("screen.slower_than: ",)),
        ("slower_than = inf", ("screen.slower_than: ",)),
        ('slower_than = "2"', ("screen.slower_than: ",)),
    ],
)
def test_what_cannot_be_asked_is_told(table: str, words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(f"{HEAD}[screen]\n{table}\n", where="x.toml")
    message = str(caught.value)
    assert message.startswith("x.toml") and message.isprintable()
    assert all(word in message for word in words), message


def test_what_an_option_names_is_checked_alike() -> None:
    with pytest.raises(ConfigError, match=r"screen\.file: "):
        check_screen(CONFIG.screened_by("no text: \udcff"))
    check_screen(CONFIG.screened_by("results/k 1/kernels.json"))


def test_without_a_screen_digest_and_file_are_what_they_were_before_there_were_any() -> None:
    # Runs that are checked in hold older releases' digests (tests/records/test_checked_in.py).
    fields = msgspec.to_builtins(CONFIG)
    del fields["screen"]
    encoded = msgspec.json.encode(fields, order="sorted")
    assert config_digest(CONFIG) == hashlib.sha256(encoded).hexdigest()
    assert "screen" not in dump_config(CONFIG)
    policy = parse_config(f'{HEAD}[screen]\nwrong = "drop"\n', where="x.toml")
    assert policy.screen_file is None and config_digest(policy) == config_digest(CONFIG)


def test_an_option_adds_to_what_the_config_asks() -> None:
    policy = parse_config(f'{HEAD}[screen]\nwrong = "drop"\nslower_than = 2.5\n', where="x.toml")
    screened = policy.screened_by("k.json")
    assert screened.screen == ScreenConfig(file="k.json", wrong="drop", slower_than=2.5)
    assert CONFIG.screened_by("k.json").screen == ScreenConfig(file="k.json")


def test_a_screen_is_part_of_the_sweep_and_its_place_is_not() -> None:
    elsewhere = SCREENED.screened_by("another/kernels.json")
    assert config_digest(elsewhere) == config_digest(SCREENED) != config_digest(CONFIG)
    assert changed_keys(elsewhere, SCREENED) == ()
    assert changed_keys(CONFIG, SCREENED) == ("screen.wrong",)
    assert SCREENED.screen is not None
    for key, value in (("wrong", "drop"), ("slower_than", 2.0)):
        screen = msgspec.structs.replace(SCREENED.screen, **{key: value})
        other = msgspec.structs.replace(SCREENED, screen=screen)
        assert config_digest(other) != config_digest(SCREENED)
        assert changed_keys(other, SCREENED) == (f"screen.{key}",)
