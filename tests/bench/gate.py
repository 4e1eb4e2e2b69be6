"""A real sweep over the bench's backends, and what the gate said of each: a table's rows.

python -m tests.bench.gate FOLDER [NAME ...]
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from autotune.decisions.schema import Verdict
from autotune.probe.agreement import rate_of
from autotune.probe.answers import Walk, given, read_trusted, walks
from autotune.probe.schema import CandidateVerdict
from autotune.probe.verdict import judge_probes
from autotune.records.folder import LoadedRun, load_records
from autotune.records.schema import ProbeRecord
from tests.bench.cases import CASES, REFERENCE, SHIPPED, case

WRAPPER = Path(__file__).with_name("backends.py")
EVERYBODY = tuple(one.name for one in CASES)
# A launch takes about a quarter of a minute on two cores.
_LONGEST_LAUNCH_S = 120.0
_CONFIG = """
name = "bench"
candidates = {candidates}
reference = "{reference}"
[model]
{model}
[engine]
name = "transformers"
device = "cpu"
dtype = "float32"
launch_prefix = {prefix}
extra_backends = {extra}
ready_timeout_s = 180
[load]
concurrency = [1, 64]
input_tokens = 16
output_tokens = {tokens}
requests_per_slot = 2
min_requests = 8
request_timeout_s = 60
[probe]
max_tokens = {tokens}
[decision]
min_rounds = 1
max_rounds = 1
"""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured of one backend.

    ``evidence`` names the findings that decided, ``after`` the number of probe requests from
    which on the verdict stood. Rates are per token, over the answers alone and among 64.
    """

    name: str
    verdict: Verdict
    evidence: str
    after: int
    asked: int
    rate_alone: float
    rate_crowd: float
    strays: int
    changed: int
    reason: str


def sweep(
    folder: Path, names: Sequence[str], *, tokens: int = 16, model: Path | None = None
) -> Path:
    """Sweep the named cases, the reference among them, and return the run's folder.

    Args:
        folder: where to work; a run that lies there is resumed.
        names: of `cases`.
        tokens: of each answer.
        model: a checkpoint in place of the witness.
    """
    listed = [case(name) for name in dict.fromkeys([REFERENCE, *names])]
    candidates = ", ".join(
        f"{{ name = {json.dumps(one.name)}, backend = {json.dumps(one.implementation)}, "
        f"arguments = {json.dumps(one.arguments)} }}"
        for one in listed
    )
    text = _CONFIG.format(
        candidates=f"[{candidates}]",
        reference=REFERENCE,
        model=f"path = {json.dumps(str(model))}" if model else 'witness = "minimax-m2"',
        prefix=json.dumps([sys.executable, str(WRAPPER)]),
        extra=json.dumps(sorted({one.implementation for one in listed} - SHIPPED)),
        tokens=tokens,
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sweep.toml").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "autotune", "sweep", "sweep.toml", "--run", "run"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=_LONGEST_LAUNCH_S * (len(listed) + 1),
    )
    # One round gives no interval, so that the decision stays open: exit code 3.
    if done.returncode not in (0, 3):
        raise RuntimeError(f"the sweep ended with {done.returncode}: {done.stderr[-4000:]}")
    return folder / "run"


def read_rows(run: Path) -> list[Row]:
    """One row for each candidate that was launched, in the bench's order.

    Raises:
        RuntimeError: a server didn't start.
    """
    loaded = load_records(run)
    for launch in loaded.launches:
        if launch.status != "ok":
            raise RuntimeError(f"{launch.candidate}: {launch.status}: {launch.reason}")
    names = {launch.candidate for launch in loaded.launches if launch.round > 0}
    verdicts = _judge(loaded, loaded.probes, sorted(names))
    return [_row(loaded, verdicts[name]) for name in EVERYBODY if name in names]


def _judge(
    loaded: LoadedRun, probes: Sequence[ProbeRecord], names: Sequence[str]
) -> dict[str, CandidateVerdict]:
    run = loaded.run
    return judge_probes(
        probes,
        candidates=names,
        reference=run.reference,
        rule=run.rule,
        vocabulary_size=run.vocabulary_size,
    )


def _row(loaded: LoadedRun, verdict: CandidateVerdict) -> Row:
    deciding = [one.kind for one in verdict.findings if one.verdict == verdict.verdict]
    name = verdict.candidate
    found = _walks(loaded, name)
    return Row(
        name=name,
        verdict=verdict.verdict,
        evidence=", ".join(deciding) if verdict.verdict != "pass" else "",
        after=_settled_after(loaded, verdict),
        asked=sum(len(probe.answers) for probe in _own(loaded, name)),
        rate_alone=rate_of(walk for walk in found if walk.mode == "single").value,
        rate_crowd=rate_of(walk for walk in found if walk.concurrency == 64).value,
        strays=sum(walk.stray for walk in found),
        changed=sum(walk.changed or walk.stray for walk in found),
        reason=verdict.reason,
    )


def _walks(loaded: LoadedRun, name: str) -> list[Walk]:
    trusted = read_trusted(loaded.probes, reference=loaded.run.reference)
    if trusted is None:
        raise RuntimeError("the reference answered nothing")
    return walks(given(_own(loaded, name), candidate=name), trusted)


def _own(loaded: LoadedRun, name: str) -> list[ProbeRecord]:
    """A candidate's probes in the order in which they were asked: a launch's own come first."""
    began = {
        point.concurrency: point.started_at or ""
        for point in loaded.points
        if point.candidate == name
    }
    mine = [probe for probe in loaded.probes if probe.candidate == name and probe.round > 0]
    return sorted(mine, key=lambda probe: began.get(probe.concurrency or 0, ""))


def _settled_after(loaded: LoadedRun, verdict: CandidateVerdict) -> int:
    """The fewest answers that give the verdict, and so does every larger number of them.

    A failure is final, so it only takes the first time.
    """
    name = verdict.candidate
    mine = _own(loaded, name)
    others = [p for p in loaded.probes if p.candidate == REFERENCE and p not in mine]
    asked = sum(len(probe.answers) for probe in mine)

    def says_so(count: int) -> bool:
        some = [*others, *_first(mine, count)]
        return _judge(loaded, some, [name])[name].verdict == verdict.verdict

    if verdict.verdict == "fail":
        return next((count for count in range(1, asked) if says_so(count)), asked)
    return next((count + 1 for count in range(asked - 1, 0, -1) if not says_so(count)), 1)


def _first(probes: Sequence[ProbeRecord], count: int) -> list[ProbeRecord]:
    """The records as they would be if only ``count`` answers had been asked for."""
    kept = []
    for probe in probes:
        kept.append(msgspec.structs.replace(probe, answers=probe.answers[:count]))
        count -= len(probe.answers)
        if count <= 0:
            break
    return kept


def main(arguments: Sequence[str]) -> int:
    """Sweep, and print the rows."""
    run = sweep(Path(arguments[0]), arguments[1:] or EVERYBODY)
    for row in read_rows(run):
        print(
            f"{row.name:18} {row.verdict:12} {row.evidence:20} {row.after:4}/{row.asked} "
            f"alone {row.rate_alone:.3f} crowd {row.rate_crowd:.3f} changed {row.changed:3} "
            f"{row.reason}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
