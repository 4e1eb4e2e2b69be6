"""What there is, a line each, and what can't be read among it."""

import datetime
from pathlib import Path

import msgspec
import pytest

from autotune.config import dump_config, parse_config
from autotune.decisions import Interval, Store, encode
from autotune.errors import UsageError
from autotune.records.schema import RunRecord
from autotune.review.listing import Filters, Item, list_items
from autotune.review.show_listing import listing_text
from tests.cli.command import GOOD_CONFIG
from tests.decisions.builders import CUTLASS, ROUTED, decision, origin_entry, put
from tests.records.builders import launch, make_run
from tests.review.run_folders import contents, decide, put_run

TODAY = datetime.date(2026, 3, 3)


def listed(*places: Path, searched: Store | None = None, **filters: str) -> tuple[Item, ...]:
    return list_items(places, filters=Filters(**filters), today=TODAY, searched=searched)  # type: ignore[arg-type]


def with_run(run: object, **fields: object) -> RunRecord:
    return msgspec.structs.replace(run, **fields)  # type: ignore[type-var,return-value]


def test_decisions_have_a_line_an_entry(tmp_path: Path) -> None:
    interval = Interval(1.2, 1.4, 0.95)
    put(
        tmp_path / "d",
        decision(origin_entry(choice={"interval": interval}), origin_entry(scope={"tp": 8})),
        decision(arch="sm103"),
    )
    items = listed(tmp_path / "d")
    assert [item.key.arch for item in items if item.key] == ["sm100", "sm100", "sm103"]
    one = items[0]
    assert (one.kind, one.choice, one.outcome, one.age_days) == ("decision", ROUTED, "decisive", 2)
    text = listing_text(items, width=None)
    first = text.splitlines()[1]
    assert "MiniMaxM2ForCausalLM, modelopt_fp4, sm100" in first and "tp 4" in first
    assert f"1.310 [1.200, 1.400] x {CUTLASS}" in first
    assert "2026-03-01T12:00:00Z (2 days ago)" in first
    assert first.count("\n") == 0 and len(text.splitlines()) == 4
    assert str(tmp_path / "d/sm100/MiniMaxM2ForCausalLM/modelopt_fp4.json") in first


def test_runs_say_how_far_they_are(tmp_path: Path) -> None:
    whole = make_run(rounds=4, noise=0.002)
    put_run(tmp_path / "decided", whole)
    decide(tmp_path / "decided")
    begun = msgspec.structs.replace(whole, points=(), launches=())
    put_run(tmp_path / "begun", begun)
    (tmp_path / "begun/launches/eager/0/launch.json").unlink()
    one = make_run(rounds=1)
    under_way = tuple(record for record in one.launches if record.candidate != "eager")
    put_run(tmp_path / "under-way", msgspec.structs.replace(one, launches=under_way))
    put_run(tmp_path / "next", one)
    table = msgspec.structs.replace(one, launches=(), run=with_run(one.run, kind="import"))
    put_run(tmp_path / "table", table)
    (tmp_path / "table/launches/eager/0/launch.json").unlink()
    before = contents(tmp_path)
    items = {Path(item.path).name: item for item in listed(tmp_path)}
    assert contents(tmp_path) == before
    told = {name: item.progress for name, item in items.items()}
    assert all(progress is not None for progress in told.values()), items
    state = {
        name: (progress.finished, progress.launches, progress.sentence)
        for name, progress in told.items()
        if progress is not None
    }
    assert state["begun"] == (False, 0, "the reference's launch before round 1 is next")
    assert state["under-way"] == (False, 3, "round 1 is under way, eager left")
    assert state["next"][:2] == (False, 4)
    assert state["next"][2].startswith("round 2 is next, with ")
    assert state["table"] == (True, 0, "imported")
    assert state["decided"][0] and "after 4 rounds" in state["decided"][2]
    assert items["decided"].decided and not items["next"].decided
    assert items["decided"].measured_at == "2026-01-02" and items["decided"].age_days == 60
    text = listing_text(tuple(items.values()), width=None)
    assert "imported, no decision" in text and "unfinished: round 1 is under way" in text


def test_a_spent_budget_ends_a_sweep(tmp_path: Path) -> None:
    run = put_run(tmp_path / "run", make_run(rounds=1))
    config = parse_config(f"{GOOD_CONFIG}[budget]\nmax_launches = 4\n", where="")
    (run / "run.toml").write_text(dump_config(config))
    (item,) = listed(run)
    assert item.progress is not None and item.progress.finished
    assert "budget.max_launches" in item.progress.sentence


def test_what_is_broken_is_a_line_that_says_so(tmp_path: Path) -> None:
    put(tmp_path, decision())
    model = tmp_path / "sm100/MiniMaxM2ForCausalLM"
    (model / "none.json").write_text("{")
    (model / "old.json").write_text('{"schema_version": 99}')
    (model / "moved.json").write_bytes(encode(decision()))
    (model / "bad name.json").write_text("{}")
    run = put_run(tmp_path / "runs-run")
    (run / "run.json").write_text('{"kind": "sweep"}')
    lost = put_run(tmp_path / "lost-run")
    (lost / "run.json").unlink()
    (lost / "run.toml").write_text("")
    items = listed(tmp_path)
    problems = {Path(item.path).stem: item.problem for item in items}
    assert problems["modelopt_fp4"] is None
    assert "not a decision file" in (problems["none"] or "")
    assert "schema_version is 99" in (problems["old"] or "")
    assert "lies where" in (problems["moved"] or "")
    assert "can't be used as a name" in (problems["bad name"] or "")
    assert "not a readable record" in (problems["runs-run"] or "")
    assert "not a run folder" in (problems["lost-run"] or "")
    text = listing_text(items, width=None)
    assert text.count("BROKEN: ") == 6 and len(text.splitlines()) == 8


def test_a_hostile_file_steers_nothing(tmp_path: Path) -> None:
    evil = "x\n\x1b]0;t\x07\x1b[31m‮ [red]y[/red]"
    put(tmp_path, decision(origin_entry(evidence={"measured_at": evil}, choice={"baseline": evil})))
    for width in (None, 80, 200):
        text = listing_text(listed(tmp_path), width=width)
        assert "\x1b" not in text and "‮" not in text and "[red]y[/red]" in " ".join(text.split())
    assert len(listing_text(listed(tmp_path), width=None).splitlines()) == 2


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"model": "MiniMax*"}, ["modelopt_fp4", "broken", "run"]),
        ({"model": "minimax*"}, []),
        ({"model": "MiniMax"}, []),
        ({"quantization": "modelopt_*", "kind": "decision"}, ["modelopt_fp4"]),
        ({"quantization": "bro?en"}, ["broken"]),
        ({"arch": "sm9[0-9]"}, ["run"]),
        ({"engine": "sglang", "arch": "sm100"}, ["modelopt_fp4", "broken"]),
        ({"outcome": "decisive", "kind": "decision"}, ["modelopt_fp4", "broken"]),
        ({"outcome": "o*", "arch": "sm90"}, ["run"]),
        ({"kind": "run"}, ["run"]),
    ],
)
def test_filters(tmp_path: Path, filters: dict[str, str], names: list[str]) -> None:
    put(tmp_path, decision())
    (tmp_path / "sm100/MiniMaxM2ForCausalLM/broken.json").write_text("{")
    put_run(tmp_path / "run", make_run(rounds=1))
    found = [Path(item.path).stem for item in listed(tmp_path, **filters)]
    assert sorted(found) == sorted(names)


def test_places_of_every_kind(tmp_path: Path) -> None:
    put(tmp_path / "d", decision())
    run = put_run(tmp_path / "r/run", make_run(rounds=1))
    file = tmp_path / "elsewhere.json"
    file.write_bytes(encode(decision()))
    deep = put_run(tmp_path / "r/group/run", make_run(rounds=1))
    items = listed(tmp_path / "d", tmp_path / "r", run, file)
    assert [item.path for item in items if item.kind == "run"] == [str(deep), str(run)]
    decisions = [Path(item.path).name for item in items if item.kind == "decision"]
    assert sorted(decisions) == ["elsewhere.json", "modelopt_fp4.json"]
    (tmp_path / "empty").mkdir()
    assert listed(tmp_path / "empty") == ()
    with pytest.raises(UsageError, match="no such file or folder"):
        listed(tmp_path / "gone")


def test_what_a_server_finds_first(tmp_path: Path) -> None:
    put(tmp_path / "first", decision())
    put(tmp_path / "second", decision(), decision(arch="sm103"))
    store = Store([tmp_path / "first", tmp_path / "gone", tmp_path / "second"])
    items = listed(searched=store)
    inner = "MiniMaxM2ForCausalLM/modelopt_fp4.json"
    assert {item.path: item.shadowed_by for item in items} == {
        f"{tmp_path}/first/sm100/{inner}": None,
        f"{tmp_path}/second/sm100/{inner}": f"{tmp_path}/first/sm100/{inner}",
        f"{tmp_path}/second/sm103/{inner}": None,
    }
    assert f"not used: {tmp_path}/first" in listing_text(items, width=None)


@pytest.mark.parametrize("width", [40, 80, 140, 300])
def test_a_terminal_is_never_overrun(tmp_path: Path, width: int) -> None:
    put(tmp_path, decision())
    failed = launch("eager", 2, 0, status="oom", reason="out of memory " * 30)
    run = make_run(rounds=1)
    put_run(tmp_path / "run", msgspec.structs.replace(run, launches=(*run.launches, failed)))
    text = listing_text(listed(tmp_path), width=width)
    # A path has no spaces to be broken at: where a terminal is narrower, it alone may be longer.
    longest = max(len(word) for word in text.split())
    assert max(len(line) for line in text.splitlines()) <= max(width, longest + 2)
    assert "flashinfer_trtllm_routed" in text and "sm100" in text
