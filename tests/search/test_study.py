"""The study follows the records, whatever happened to it or to us in between."""

import os
import sqlite3
from pathlib import Path

import msgspec
import optuna
import pytest

from autotune.errors import RunFolderError
from autotune.records.folder import RunFolder, load_records
from autotune.records.rule import Limit
from autotune.search.quiet import quiet_optuna
from autotune.search.storage import STUDY_FILE
from autotune.search.study import open_study, study_name
from tests.search.builders import (
    SETTINGS,
    begin,
    catch_up,
    make_config,
    measure,
    named,
    search_round,
    trials_of,
    verdicts_of,
)

pytestmark = pytest.mark.usefixtures("no_storage_variable")


def nothing(line: str) -> None:
    raise AssertionError(f"nothing was to be said: {line}")


def test_a_whole_search_and_race_is_in_the_study(tmp_path: Path) -> None:
    config = make_config()
    folder = begin(tmp_path / "run", config)
    with open_study(folder, config, say=nothing) as study:
        first = search_round(study, folder, 1)
        catch_up(study, folder)
        second = search_round(study, folder, 2)
        catch_up(study, folder)
        loaded = load_records(folder.path)
        best = max([*first, *second], key=lambda t: _ratio(folder, t.candidate.name, t.round))
        for number in (3, 4):
            measure(folder, "plain", number, 100.0)
            measure(folder, "tuned", number, 90.0)
            measure(folder, best.candidate.name, number, 110.0 if number == 3 else 121.0)
        catch_up(study, folder)
        assert named(trials_of(folder), "race")["tuned"].state.name == "RUNNING"
        catch_up(study, folder, final=True)
    assert [t.number for t in loaded.trials] == [0, 1, 2, 3]
    trials = trials_of(folder)
    searched, race = named(trials, "search"), named(trials, "race")
    assert set(searched) == {t.candidate.name for t in loaded.trials}
    for record in loaded.trials:
        trial = searched[record.candidate.name]
        own = {f"tuned.{name}": value for name, value in record.values.items()}
        assert trial.params == {"candidate": "tuned", **own}
        assert trial.value == pytest.approx(_ratio(folder, record.candidate.name, record.round))
        assert set(trial.constraints.values()) == {0.0}
    assert set(race) == {"plain", "tuned", best.candidate.name}
    assert race["plain"].value == 1.0
    assert race["tuned"].intermediate_values == pytest.approx({3: 0.9, 4: 0.9})
    assert race[best.candidate.name].value == pytest.approx((1.1 * 1.21) ** 0.5)
    assert race[best.candidate.name].params == searched[best.candidate.name].params


def _ratio(folder: RunFolder, name: str, number: int) -> float:
    found = load_records(folder.path)
    own = [p for p in found.points if (p.candidate, p.round) == (name, number)]
    assert own[0].figures is not None and own[0].figures.output_tokens_per_s is not None
    return own[0].figures.output_tokens_per_s / own[0].concurrency / 100.0


def test_candidates_without_tunables_are_recorded_too(tmp_path: Path) -> None:
    config = make_config()
    plain = msgspec.structs.replace(
        config,
        candidates=tuple(
            msgspec.structs.replace(one, tunables={}) for one in config.candidate_configs()
        ),
    )
    folder = begin(tmp_path / "run", plain)
    assert folder.read_run().search_rounds == 0
    with open_study(folder, plain, say=nothing) as study:
        for number in (1, 2):
            measure(folder, "plain", number, 100.0)
            measure(folder, "tuned", number, None if number == 2 else 120.0)
            catch_up(study, folder)
        catch_up(study, folder, final=True)
        before = trials_of(folder)
        catch_up(study, folder, final=True)
    assert trials_of(folder) == before
    race = named(before, "race")
    assert len(before) == 2
    assert race["plain"].intermediate_values == {1: 1.0, 2: 1.0}
    assert race["tuned"].intermediate_values == pytest.approx({1: 1.2})
    assert race["tuned"].constraints == {"failed": 1.0, "wrong answers": 0.0}


def test_catching_up_again_changes_nothing(tmp_path: Path) -> None:
    config = make_config()
    folder = begin(tmp_path / "run", config)
    with open_study(folder, config, say=nothing) as study:
        search_round(study, folder, 1)
        catch_up(study, folder)
        before = trials_of(folder)
        catch_up(study, folder)
    with open_study(folder, config, say=nothing) as study:
        catch_up(study, folder)
    assert trials_of(folder) == before


@pytest.mark.parametrize("sampler", ["tpe", "random", "brute_force"])
def test_an_interrupted_round_is_drawn_as_it_would_have_been(tmp_path: Path, sampler: str) -> None:
    config = make_config(("trials_per_round = 2", f'trials_per_round = 3\nsampler = "{sampler}"'))
    whole, cut = begin(tmp_path / "whole", config), begin(tmp_path / "cut", config)
    for folder in (whole, cut):
        with open_study(folder, config, say=lambda line: None) as study:
            search_round(study, folder, 1)
            search_round(study, folder, 2)
    cut.trial_file(4).unlink()
    cut.trial_file(5).unlink()
    with open_study(cut, config, say=nothing) as study:
        loaded = load_records(cut.path)
        again = study.ask_round(2, loaded, verdicts_of(loaded))
    assert again == load_records(whole.path).trials[3:]
    assert load_records(cut.path).trials == load_records(whole.path).trials


@pytest.mark.parametrize("sampler", ["tpe", "random", "brute_force"])
def test_no_setting_is_drawn_twice_and_an_exhausted_space_gives_fewer(
    tmp_path: Path, sampler: str
) -> None:
    config = make_config(
        ("rounds = 2", f'rounds = 4\nsampler = "{sampler}"'),
        ("trials_per_round = 2", "trials_per_round = 5"),
    )
    folder = begin(tmp_path / "run", config)
    said: list[str] = []
    with open_study(folder, config, say=said.append) as study:
        counts = [len(search_round(study, folder, number)) for number in (1, 2, 3, 4)]
        catch_up(study, folder)
    settings = [trial.values for trial in load_records(folder.path).trials]
    assert counts == [5, 5, 2, 0]
    assert len(settings) == SETTINGS
    assert all(settings.count(one) == 1 for one in settings)
    assert all(("depth" in one) == (one["fuse"] is True) for one in settings)
    assert said == [
        "tuned: there are 12 settings of its tunables, fewer than the 20 trials of its search: "
        "each is tried once"
    ]


def test_failed_and_forbidden_trials_are_told_with_constraints(tmp_path: Path) -> None:
    config = make_config(("trials_per_round = 2", "trials_per_round = 3"))
    config = msgspec.structs.replace(
        config,
        decision=msgspec.structs.replace(
            config.decision, limits=(Limit(figure="ttft_mean_s", at_most=0.04),)
        ),
    )
    folder = begin(tmp_path / "run", config)
    with open_study(folder, config, say=nothing) as study:
        loaded = load_records(folder.path)
        broken, garbled, slow = study.ask_round(1, loaded, verdicts_of(loaded))
        measure(folder, "plain", 1, 100.0)
        measure(folder, broken.candidate.name, 1, None)
        for trial in (garbled, slow):
            measure(folder, trial.candidate.name, 1, 120.0)
        loaded = load_records(folder.path)
        told = verdicts_of(loaded, tuned_t0001="fail")
        study.catch_up(loaded, told)
    searched = named(trials_of(folder), "search")
    assert searched[broken.candidate.name].state.name == "PRUNED"
    assert searched[broken.candidate.name].constraints["failed"] == 1.0
    assert searched[garbled.candidate.name].constraints["wrong answers"] == 1.0
    over = searched[slow.candidate.name].constraints
    assert over["ttft_mean_s at concurrency 1"] == pytest.approx(0.06)
    assert searched[slow.candidate.name].state.name == "COMPLETE"


def test_a_file_that_is_no_database_is_set_aside(tmp_path: Path) -> None:
    config = make_config()
    folder = begin(tmp_path / "run", config)
    with open_study(folder, config, say=nothing) as study:
        search_round(study, folder, 1)
        catch_up(study, folder)
    before = trials_of(folder)
    rubbish = b"not a database" * 500
    for number in (1, 2):
        (folder.path / STUDY_FILE).write_bytes(rubbish)
        said: list[str] = []
        with open_study(folder, config, say=said.append) as study:
            catch_up(study, folder)
        assert (folder.path / f"study.set-aside-{number}.db").read_bytes() == rubbish
        assert len(said) == 1 and f"study.set-aside-{number}.db" in said[0]
        assert [t.params for t in trials_of(folder)] == [t.params for t in before]
        assert [t.values for t in trials_of(folder)] == [t.values for t in before]


@pytest.mark.parametrize("damage", ["page", "half", "empty_table"])
def test_a_damaged_file_is_made_anew(tmp_path: Path, damage: str) -> None:
    config = make_config()
    folder = begin(tmp_path / "run", config)
    with open_study(folder, config, say=nothing) as study:
        search_round(study, folder, 1)
        catch_up(study, folder)
    before = trials_of(folder)
    file = folder.path / STUDY_FILE
    content = file.read_bytes()
    if damage == "page":
        file.write_bytes(content[:4096] + os.urandom(len(content) - 8192) + content[-4096:])
    elif damage == "half":
        file.write_bytes(content[: len(content) // 2])
    else:
        with sqlite3.connect(file) as connection:
            connection.execute("DROP TABLE trial_params")
            connection.commit()
        connection.close()
    said: list[str] = []
    with open_study(folder, config, say=said.append) as study:
        catch_up(study, folder)
    assert len(said) == 1
    assert [(t.params, t.values) for t in trials_of(folder)] == [
        (t.params, t.values) for t in before
    ]


def test_a_study_with_what_the_records_do_not_hold_is_set_aside(tmp_path: Path) -> None:
    config = make_config()
    folder = begin(tmp_path / "run", config)
    with open_study(folder, config, say=nothing) as study:
        search_round(study, folder, 1)
        catch_up(study, folder)
    folder.trial_file(1).unlink()
    said: list[str] = []
    with open_study(folder, config, say=said.append) as study:
        catch_up(study, folder)
    assert said == [
        "study.db is set aside as study.set-aside-1.db (it holds what the records don't), and "
        "made anew"
    ]
    assert set(named(trials_of(folder), "search")) == {"tuned-t0000"}


def test_a_study_that_was_told_otherwise_is_told_anew(tmp_path: Path) -> None:
    """A verdict may change with later answers, and a final study may go on with a new budget."""
    config = make_config()
    folder = begin(tmp_path / "run", config)
    with open_study(folder, config, say=nothing) as study:
        search_round(study, folder, 1)
        catch_up(study, folder, final=True)
        loaded = load_records(folder.path)
        study.catch_up(loaded, verdicts_of(loaded, tuned_t0000="fail"))
    searched = named(trials_of(folder), "search")
    assert searched["tuned-t0000"].constraints["wrong answers"] == 1.0
    assert named(trials_of(folder), "race")["tuned"].state.name == "RUNNING"


def test_trials_of_others_that_carry_nothing_do_no_harm(tmp_path: Path) -> None:
    config = make_config()
    folder = begin(tmp_path / "run", config)
    with open_study(folder, config, say=nothing) as study:
        catch_up(study, folder)
        with quiet_optuna():
            storage = optuna.storages.RDBStorage(f"sqlite:///{folder.path / STUDY_FILE}")
            other = optuna.load_study(study_name=study_name(folder.read_run()), storage=storage)
            other.ask()
            other.enqueue_trial({"candidate": "tuned"})
            storage.remove_session()
            storage.engine.dispose()
        search_round(study, folder, 1)
        catch_up(study, folder)
        catch_up(study, folder)
    trials = trials_of(folder)
    assert [t.state.name for t in trials if not t.user_attrs] == ["FAIL", "WAITING"]
    assert len(named(trials, "search")) == 2


def test_a_folder_that_cannot_be_written_does_not_end_the_sweep(tmp_path: Path) -> None:
    config = make_config()
    folder = begin(tmp_path / "run", config)
    (folder.path / STUDY_FILE).mkdir()
    said: list[str] = []
    with open_study(folder, config, say=said.append) as study:
        search_round(study, folder, 1)
        catch_up(study, folder)
        catch_up(study, folder)
    assert len(said) == 1 and "can't be written" in said[0] and "goes on without it" in said[0]


@pytest.mark.parametrize(
    "values",
    [{"size": 9, "fuse": False}, {"size": 1}, {"size": 1, "fuse": False, "x": 1}, {"size": "big"}],
)
def test_a_record_that_does_not_fit_is_named(tmp_path: Path, values: dict[str, object]) -> None:
    config = make_config()
    folder = begin(tmp_path / "run", config)
    with open_study(folder, config, say=nothing) as study:
        (trial, _) = search_round(study, folder, 1)
        folder.write_trial(msgspec.structs.replace(trial, values=values))
        if values == {"size": 1}:
            return  # A tunable that wasn't drawn can't be told from one that wasn't in force.
        with pytest.raises(RunFolderError, match=r"trials/0000\.json: doesn't fit"):
            catch_up(study, folder)
        loaded = load_records(folder.path)
        with pytest.raises(RunFolderError, match=r"trials/0000\.json: doesn't fit"):
            study.ask_round(2, loaded, verdicts_of(loaded))


def test_nothing_of_optunas_is_left_changed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    verbosity = optuna.logging.get_verbosity()
    config = make_config()
    folder = begin(tmp_path / "run", config)
    with open_study(folder, config, say=nothing) as study:
        search_round(study, folder, 1)
        catch_up(study, folder, final=True)
    assert optuna.logging.get_verbosity() == verbosity
    assert capfd.readouterr() == ("", "")
