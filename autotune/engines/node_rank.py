"""Start one node's share of a server: pass the node's number on as ``--node-rank``.

A launcher such as ``srun`` starts the same command on every node and tells each its number in an
environment variable, which an argument can't name without a shell::

    srun --nodes=2 python -m autotune.engines.node_rank SLURM_NODEID python -m sglang... --nnodes 2

The command replaces this process, so that signals reach it. Standard library only.
"""

import os
import sys


def main() -> None:
    """Replace this process by the command, with the node's number as its last arguments.

    Raises:
        SystemExit: no command is given or it can't be started, or the variable holds no number.
    """
    if len(sys.argv) < 3:
        raise SystemExit("usage: python -m autotune.engines.node_rank VARIABLE COMMAND ...")
    variable, *command = sys.argv[1:]
    number = os.environ.get(variable, "")
    if not number.isdecimal():
        raise SystemExit(
            f"{variable} holds {number!r}, not this node's number: name the variable that the "
            "launcher sets (engine.node_rank_variable)"
        )
    try:
        os.execvp(command[0], [*command, "--node-rank", number])
    except OSError as error:
        raise SystemExit(f"{command[0]}: can't be started: {error.strerror}") from None


if __name__ == "__main__":
    main()
