"""``autotune decide``: judge a run folder again, and write its decision."""

from autotune.cli.options import Accept, AcceptInconclusive, Into, Json, RunFolderArgument


def decide(
    run: RunFolderArgument,
    accept: Accept = False,
    accept_inconclusive: AcceptInconclusive = False,
    into: Into = None,
    json: Json = False,
) -> None:
    """Judge a run from its records alone: verdicts, tables, report and decision.

    The same records give the same answer as the sweep gave. Exits with 0 if a decision was
    written, with 3 if it stays open.
    """
    from autotune.cli.conclusion import finish
    from autotune.conclude import conclude

    conclusion = conclude(run, accept=accept, accept_inconclusive=accept_inconclusive, into=into)
    finish(conclusion, json=json)
