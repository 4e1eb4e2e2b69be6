"""The table of a point's requests: ``requests.parquet``, one row a request."""

import hashlib
import io
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from autotune.errors import InputError
from autotune.records.folder import write_atomically
from autotune.records.schema import RequestRecord

_SCHEMA = pa.schema(
    [
        pa.field("index", pa.int64(), nullable=False),
        pa.field("role", pa.string(), nullable=False),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("sent_at_s", pa.float64(), nullable=False),
        pa.field("ended_at_s", pa.float64(), nullable=False),
        pa.field("chunk_at_s", pa.list_(pa.float64()), nullable=False),
        pa.field("input_tokens", pa.int64()),
        pa.field("output_tokens", pa.int64()),
        pa.field("cached_tokens", pa.int64()),
        pa.field("finish_reason", pa.string()),
        pa.field("error", pa.string()),
    ]
)


def write_requests(path: Path, requests: Sequence[RequestRecord]) -> str:
    """Write the table whole and return the SHA-256 of the file, in hex.

    Raises:
        RunFolderError: the file can't be written.
    """
    columns = [[getattr(request, name) for request in requests] for name in _SCHEMA.names]
    arrays = [
        pa.array(column, type=field.type) for column, field in zip(columns, _SCHEMA, strict=True)
    ]
    table = pa.Table.from_arrays(arrays, schema=_SCHEMA)
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    data = buffer.getvalue()
    write_atomically(path, data)
    return hashlib.sha256(data).hexdigest()


def read_requests(path: Path) -> list[RequestRecord]:
    """Read a table that `write_requests` wrote.

    Raises:
        InputError: there is none, or it isn't such a table.
    """
    try:
        rows = pq.read_table(io.BytesIO(path.read_bytes())).to_pylist()
        return msgspec.convert(rows, list[RequestRecord])
    except (OSError, pa.ArrowException, msgspec.ValidationError) as error:
        raise InputError(
            f"{path}: not a table of requests that can be read: {error}. Delete the point's folder "
            "and run the sweep again to measure it anew"
        ) from None
