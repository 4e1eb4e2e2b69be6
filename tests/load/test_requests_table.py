import hashlib
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import InputError
from autotune.load.requests_table import read_requests, write_requests
from autotune.records.schema import RequestRecord

seconds = st.floats(allow_nan=False, allow_infinity=False)
texts = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
counts = st.none() | st.integers(0, 2**53)
records = st.builds(
    RequestRecord,
    index=st.integers(0, 2**31),
    role=st.sampled_from(["measured", "filler", "probe"]),
    outcome=st.sampled_from(["ok", "http_error", "timeout", "connection", "bad_stream", "empty"]),
    sent_at_s=seconds,
    ended_at_s=seconds,
    chunk_at_s=st.lists(seconds, max_size=5).map(tuple),
    input_tokens=counts,
    output_tokens=counts,
    cached_tokens=counts,
    finish_reason=texts,
    error=texts,
)


@settings(max_examples=25, deadline=None)
@given(st.lists(records, max_size=4))
def test_round_trip_is_exact(requests):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "point" / "requests.parquet"
        digest = write_requests(path, requests)
        assert read_requests(path) == requests
        assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
        assert write_requests(path, requests) == digest
        assert [p.name for p in path.parent.iterdir()] == ["requests.parquet"]


def test_unreadable_tables_are_named(tmp_path):
    path = tmp_path / "requests.parquet"
    with pytest.raises(InputError, match=r"requests\.parquet"):
        read_requests(path)
    path.write_bytes(b"PAR1 not really")
    with pytest.raises(InputError, match=r"requests\.parquet"):
        read_requests(path)


def test_a_role_that_is_none_is_refused(tmp_path):
    path = tmp_path / "requests.parquet"
    one = RequestRecord(index=0, outcome="ok", sent_at_s=0.0, ended_at_s=1.0)
    write_requests(path, [msgspec.structs.replace(one, role="warmup")])
    with pytest.raises(InputError, match="role"):
        read_requests(path)
