"""Where a worker process begins. Of its own, so that naming it imports no torch."""

from multiprocessing.connection import Connection


def serve(connection: Connection, log: str) -> None:
    """Run a worker until the other end of ``connection`` is closed."""
    from autotune.kernels.worker import serve as serve_requests

    serve_requests(connection, log)
