"""A study in a database: reached or refused before a launch, and never with its password shown."""

import sqlite3
import sys
from pathlib import Path
from urllib.parse import quote

import msgspec
import optuna
import pytest

from autotune.errors import ConfigError, UsageError
from autotune.records.folder import load_records
from autotune.search.quiet import quiet_optuna
from autotune.search.storage import StudyPlace, check_reachable, set_aside, study_place
from autotune.search.study import open_study, study_name
from tests.search.builders import begin, catch_up, make_config, search_round
from tests.search.conftest import PASSWORD


def nothing(line: str) -> None:
    raise AssertionError(f"nothing was to be said: {line}")


def studies_in(url: str) -> dict[str, list[optuna.trial.FrozenTrial]]:
    with quiet_optuna():
        storage = optuna.storages.RDBStorage(url)
        found = {
            name: optuna.load_study(study_name=name, storage=storage).get_trials()
            for name in optuna.get_all_study_names(storage)
        }
        storage.remove_session()
        storage.engine.dispose()
    return found


def test_the_variable_counts_more_than_the_config(tmp_path: Path) -> None:
    other = "postgresql+psycopg://u:secret@host/x"
    place = study_place(tmp_path, storage="sqlite:///a.db", environ={"AUTOTUNE_STORAGE": other})
    assert (place.url, place.key) == (other, "AUTOTUNE_STORAGE")
    assert str(place) == "postgresql+psycopg://host/x"
    place = study_place(tmp_path, storage="sqlite:///a.db", environ={})
    assert (place.url, place.key) == ("sqlite:///a.db", "search.storage")
    place = study_place(tmp_path, storage=None, environ={"AUTOTUNE_STORAGE": ""})
    assert place.url is None and str(place) == str(tmp_path / "study.db")


def test_a_variable_that_is_no_url_is_told() -> None:
    with pytest.raises(ConfigError, match="AUTOTUNE_STORAGE: not the URL of a database"):
        study_place(Path("run"), storage=None, environ={"AUTOTUNE_STORAGE": "redis://h"})


def test_two_runs_share_a_database(
    tmp_path: Path, postgresql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOTUNE_STORAGE", postgresql)
    config = make_config()
    names = []
    for name in ("one", "two"):
        folder = begin(tmp_path / name, config)
        folder.write_run(msgspec.structs.replace(folder.read_run(), created_at=f"2026-{name}"))
        with open_study(folder, config, say=nothing) as study:
            for number in (1, 2):
                search_round(study, folder, number)
                catch_up(study, folder)
            catch_up(study, folder, final=True)
        names.append(study_name(folder.read_run()))
        assert not (folder.path / "study.db").exists()
    found = studies_in(postgresql)
    for name, folder_name in zip(names, ("one", "two"), strict=True):
        records = load_records(tmp_path / folder_name).trials
        trials = [t for t in found[name] if t.user_attrs["part"] == "search"]
        assert [t.user_attrs["name"] for t in trials] == [r.candidate.name for r in records]
        assert all(t.state.name == "COMPLETE" for t in trials)


def test_a_study_in_a_database_that_holds_more_is_kept_under_another_name(
    tmp_path: Path, postgresql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOTUNE_STORAGE", postgresql)
    config = make_config()
    folder = begin(tmp_path / "more", config)
    folder.write_run(msgspec.structs.replace(folder.read_run(), created_at="2026-more"))
    said: list[str] = []
    with open_study(folder, config, say=said.append) as study:
        search_round(study, folder, 1)
        catch_up(study, folder)
        folder.trial_file(1).unlink()
        catch_up(study, folder)
        catch_up(study, folder)
    name = study_name(folder.read_run())
    assert said == [f"the study held what the records don't: it is kept as {name}-set-aside-1"]
    found = studies_in(postgresql)
    assert len(found[f"{name}-set-aside-1"]) == 4
    assert len(found[name]) == 3


@pytest.mark.parametrize("problem", ["password", "port", "database", "driver", "sqlite"])
def test_a_database_that_cannot_be_used_is_told_before_anything_is_launched(
    tmp_path: Path,
    postgresql: str,
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wrong = "wrong p@ss"
    port = postgresql.partition("127.0.0.1:")[2].partition("/")[0]
    url = {
        "password": postgresql.replace(PASSWORD, quote(wrong)),
        "port": postgresql.replace(f":{port}/", ":1/"),
        "database": postgresql.replace("/postgres", "/nowhere"),
        "driver": postgresql.replace("+psycopg", "+psycopg2"),
        "sqlite": f"sqlite:///{tmp_path}/no/such/folder.db",
    }[problem]
    monkeypatch.setenv("AUTOTUNE_STORAGE", url)
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    config = make_config()
    folder = begin(tmp_path / "run", config)
    with pytest.raises(UsageError) as caught, open_study(folder, config, say=nothing):
        raise AssertionError("it was opened")
    message = str(caught.value)
    assert message.startswith("AUTOTUNE_STORAGE: ") and "\n" not in message
    for secret in (PASSWORD, wrong, quote(wrong)):
        assert secret not in message
    remedy = "pip install 'psycopg[binary]'" if problem == "driver" else "start the database"
    assert remedy in message


def test_a_database_that_goes_away_does_not_end_the_sweep(tmp_path: Path) -> None:
    """It is caught up when it is back."""
    database = tmp_path / "there" / "shared.db"
    database.parent.mkdir()
    config = make_config(("rounds = 2", f'rounds = 2\nstorage = "sqlite:///{database}"'))
    folder = begin(tmp_path / "run", config)
    said: list[str] = []
    with open_study(folder, config, say=said.append) as study:
        search_round(study, folder, 1)
        catch_up(study, folder)
        database.parent.rename(tmp_path / "gone")
        search_round(study, folder, 2)
        catch_up(study, folder)
        catch_up(study, folder)
        assert len(said) == 1 and "can't be written" in said[0]
        (tmp_path / "gone").rename(database.parent)
        catch_up(study, folder)
    assert len(said) == 1
    (trials,) = studies_in(f"sqlite:///{database}").values()
    assert sum(t.user_attrs["part"] == "search" for t in trials) == 4


@pytest.mark.parametrize("name", ["with space", "per%cent", "que?stion", "{braces}", "ha#sh", "ü"])
def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    config = make_config()
    folder = begin(tmp_path / name, config)
    with open_study(folder, config, say=nothing) as study:
        catch_up(study, folder)
    assert (folder.path / "study.db").is_file()
    assert list(tmp_path.iterdir()) == [folder.path]


def test_a_locked_file_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autotune.search.storage._WAIT_S", 0.1)
    config = make_config()
    folder = begin(tmp_path / "run", config)
    said: list[str] = []
    with open_study(folder, config, say=said.append) as study:
        catch_up(study, folder)
        other = sqlite3.connect(folder.path / "study.db")
        other.execute("BEGIN EXCLUSIVE")
        search_round(study, folder, 1)
        catch_up(study, folder)
        other.rollback()
        other.close()
        assert len(said) == 1 and "database is locked" in said[0]
        catch_up(study, folder)
    assert not list(folder.path.glob("study.set-aside-*"))
    assert len(said) == 1


def test_what_belongs_to_a_file_is_set_aside_with_it(tmp_path: Path) -> None:
    for name in ("study.db", "study.db-journal", "study.set-aside-1.db"):
        (tmp_path / name).write_text(name)
    assert set_aside(tmp_path / "study.db") == tmp_path / "study.set-aside-2.db"
    assert (tmp_path / "study.set-aside-2.db").read_text() == "study.db"
    assert (tmp_path / "study.set-aside-2.db-journal").read_text() == "study.db-journal"
    assert (tmp_path / "study.set-aside-1.db").read_text() == "study.set-aside-1.db"


def test_a_file_needs_no_check(tmp_path: Path) -> None:
    check_reachable(StudyPlace(file=tmp_path / "nowhere" / "study.db"))
    assert not (tmp_path / "nowhere").exists()
