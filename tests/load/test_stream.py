import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.load.stream import RawRequest, events, excerpt, read_answer

DONE = b"data: [DONE]\n\n"


def chunk(**fields):
    return b"data: " + msgspec.json.encode(fields) + b"\n\n"


def token(text):
    return chunk(choices=[{"index": 0, "text": text}])


def delta(**fields):
    return chunk(choices=[{"index": 0, "delta": fields}])


def usage(prompt=7, completion=2, cached=None):
    details = {"cached_tokens": cached} if cached is not None else None
    return chunk(
        choices=[],
        usage={
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "prompt_tokens_details": details,
        },
    )


def raw(*chunks, status=200, error=None, error_text=None):
    return RawRequest(
        index=3,
        sent_at_s=100.0,
        ended_at_s=109.0,
        status=status,
        stamps=[101.0 + i for i in range(len(chunks))],
        chunks=list(chunks),
        error=error,
        error_text=error_text,
    )


def read(*chunks, **fields):
    return read_answer(raw(*chunks, **fields), zero_s=100.0)


def test_tokens_usage_and_stamps():
    answer = read(token("a"), token("b") + token("c"), usage(cached=4), DONE)
    record = answer.record
    assert answer.text == "abc"
    assert (record.index, record.outcome, record.error) == (3, "ok", None)
    assert record.chunk_at_s == (1.0, 2.0, 2.0)
    assert (record.sent_at_s, record.ended_at_s) == (0.0, 9.0)
    assert (record.input_tokens, record.output_tokens, record.cached_tokens) == (7, 2, 4)


def test_a_token_is_stamped_with_the_chunk_that_completes_its_event():
    whole = token("é")
    answer = read(whole[:30], whole[30:-1], whole[-1:] + usage(), DONE)
    assert answer.text == "é"
    assert answer.record.chunk_at_s == (3.0,)


def test_role_only_first_chunk_and_empty_text_are_no_tokens():
    answer = read(delta(role="assistant", content=""), delta(content="x"), usage(), DONE)
    assert answer.record.chunk_at_s == (2.0,)


@pytest.mark.parametrize(
    ("fields", "text", "reasoning"),
    [
        ({"content": "x"}, "x", ""),
        ({"reasoning_content": "x"}, "", "x"),
        ({"reasoning": "x"}, "", "x"),
        ({"reasoning": "x", "reasoning_content": "x"}, "", "x"),
        ({"reasoning_content": "x", "content": "y"}, "y", "x"),
        ({"tool_calls": [{"index": 0, "function": {"name": "x"}}]}, "x", ""),
        ({"tool_calls": [{"index": 0, "function": {"arguments": "x"}}]}, "x", ""),
    ],
)
def test_every_channel_counts_as_a_token_and_reasoning_is_kept_apart(fields, text, reasoning):
    answer = read(delta(role="assistant"), delta(**fields), usage(), DONE)
    assert (answer.text, answer.reasoning) == (text, reasoning)
    assert (answer.record.chunk_at_s, answer.record.outcome) == ((2.0,), "ok")


def test_channels_are_kept_in_order_of_arrival():
    parts = [delta(reasoning_content="a"), delta(content="1"), delta(reasoning="b")]
    answer = read(*parts, delta(content="2"), usage(), DONE)
    assert (answer.text, answer.reasoning) == ("12", "ab")
    assert answer.record.chunk_at_s == (1.0, 2.0, 3.0, 4.0)


@pytest.mark.parametrize(
    ("last", "marked"),
    [
        ({"text": "x", "finish_reason": "stop", "matched_stop": "NaN happened"}, True),
        ({"delta": {}, "finish_reason": "stop", "matched_stop": "NaN happened"}, True),
        ({"text": "x", "finish_reason": "stop", "matched_stop": 151645}, False),
        ({"text": "NaN happened", "finish_reason": "stop", "matched_stop": None}, False),
        ({"text": "x", "finish_reason": "stop", "matched_stop": {"a": ["NaN happened"]}}, False),
    ],
)
def test_a_nan_that_the_engine_tells_of_is_kept(last, marked):
    answer = read(token("a"), chunk(choices=[last]), usage(), DONE)
    assert answer.nan_marked is marked
    assert (answer.record.outcome, answer.record.finish_reason) == ("ok", "stop")


def test_a_nan_at_the_first_token_is_kept_though_the_answer_is_empty():
    last = {"text": "", "finish_reason": "stop", "matched_stop": "NaN happened"}
    answer = read(chunk(choices=[last]), usage(completion=1), DONE)
    assert (answer.nan_marked, answer.record.outcome) == (True, "empty")


def test_finish_reason_is_kept():
    last = chunk(choices=[{"text": "x", "finish_reason": "length"}])
    assert read(last, usage(), DONE).record.finish_reason == "length"


def test_a_finish_reason_ends_an_answer_without_done():
    last = chunk(choices=[{"text": "x", "finish_reason": "length"}])
    assert read(token("a"), last, usage()).record.outcome == "ok"
    cut = read(token("a"), last, error="connection", error_text="reset")
    assert cut.record.outcome == "bad_stream"


def test_without_usage_token_counts_stay_unknown():
    record = read(token("a"), DONE).record
    assert (record.outcome, record.output_tokens, record.input_tokens) == ("ok", None, None)


@pytest.mark.parametrize(
    ("chunks", "outcome", "said"),
    [
        ([token("a"), usage()], "bad_stream", "neither [DONE]"),
        ([token("a"), chunk(error={"message": "CUDA"}), DONE], "bad_stream", "CUDA"),
        ([chunk(object="error", message="CUDA"), DONE], "bad_stream", "CUDA"),
        ([token("a"), b"data: {broken\n\n", DONE], "bad_stream", "{broken"),
        ([b'data: {"choices": [{"text": "\xff"}]}\n\n', DONE], "bad_stream", "invalid UTF-8"),
        ([b"data: \xc3\n\n", DONE], "bad_stream", "invalid UTF-8"),
        ([b'{"choices": []}'], "bad_stream", "server-sent events"),
        ([], "bad_stream", "server-sent events"),
        ([usage(completion=0), DONE], "empty", "0 output tokens"),
        ([usage(completion=5), DONE], "empty", "counts 5"),
        ([token("a"), usage(completion=0), DONE], "empty", "no output tokens"),
    ],
)
def test_streams_that_are_no_answers(chunks, outcome, said):
    record = read(*chunks).record
    assert record.outcome == outcome
    assert said in record.error


def test_http_errors_are_quoted_safely_and_shortly():
    record = read(b"\x1b[31mout of memory\r\n\x00" + b"x" * 999, status=500).record
    assert record.outcome == "http_error"
    assert record.error.startswith("HTTP 500: [31mout of memory")
    assert record.error.isprintable() and len(record.error) < 220


def test_client_side_errors():
    assert read(error="timeout", status=None).record.outcome == "timeout"
    assert read(token("a"), error="timeout").record.outcome == "timeout"
    assert read(error="connection", status=None, error_text="no").record.error == "no"
    cut = read(token("a"), error="connection", error_text="reset").record
    assert (cut.outcome, cut.chunk_at_s) == ("bad_stream", (1.0,))


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_line_ends_comments_fields_and_missing_spaces(end):
    lines = [
        b": ping",
        b"",
        b"event: x",
        b"id: 1",
        b"data:one",
        b"data: two",
        b"",
        b"data:  3",
        b"",
    ]
    found = events([1.0], [end.join(lines) + end])
    assert [event.data for event in found] == [b"one\ntwo", b" 3"]


def test_last_event_without_a_blank_line_counts():
    assert [event.data for event in events([1.0, 2.0], [b"data: a\n\n", b"data: b"])] == [
        b"a",
        b"b",
    ]


STREAM = (
    b": hi\r\n\r\n"
    + delta(role="assistant")
    + delta(content="né")
    + delta(reasoning="日本")
    + token("x").replace(b"\n", b"\r\n")
    + usage()
    + DONE
)


@given(st.lists(st.integers(0, len(STREAM)), max_size=40))
def test_any_cutting_gives_the_same_answer(cuts):
    edges = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[a:b] for a, b in itertools.pairwise(edges)]
    answer, whole = read(*pieces), read(STREAM)
    assert answer.text == whole.text == "néx"
    assert answer.reasoning == whole.reasoning == "日本"
    assert answer.record.outcome == "ok"
    assert answer.record.output_tokens == 2
    stamps = answer.record.chunk_at_s
    assert len(stamps) == 3 and list(stamps) == sorted(stamps)


@given(st.lists(st.binary(max_size=60), max_size=8), st.sampled_from([200, 500, None]))
def test_arbitrary_bytes_never_raise(chunks, status):
    record = read(*chunks, status=status).record
    assert record.error is None or record.error.isprintable()


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "delta",
                    "text",
                    "content",
                    "usage",
                    "error",
                    "reasoning",
                    "matched_stop",
                    "tool_calls",
                    "function",
                    "prompt_tokens",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(json_values, max_size=4))
def test_arbitrary_json_never_raises_and_can_be_written(values):
    body = b"".join(b"data: " + msgspec.json.encode(value) + b"\n\n" for value in values)
    answer = read(body, DONE)
    assert msgspec.json.encode(answer.record)
    assert answer.text.encode() is not None
    assert answer.reasoning.encode() is not None


def test_lone_surrogates_and_deep_nesting_are_bad_streams():
    surrogate = b'data: {"choices": [{"text": "\\ud800"}]}\n\n'
    deep = b"data: " + b'{"error":' * 5000 + b"\n\n"
    for body in (surrogate, deep):
        answer = read(body, DONE)
        assert answer.record.outcome == "bad_stream"
        answer.text.encode()


def test_excerpt_keeps_other_scripts_and_drops_what_steers_a_terminal():
    assert excerpt("nö\u202e 日本\x1b[2J".encode()) == "nö  日本 [2J"
