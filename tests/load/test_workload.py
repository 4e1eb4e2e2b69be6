import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from autotune.errors import InputError, UsageError
from autotune.load.workload import (
    Prompt,
    random_text_prompts,
    random_token_prompts,
    read_prompts,
    workload_digest,
)

CORPUS = [
    "the quick brown fox jumps over the lazy dog while many other animals watch it from afar",
    "measure the server, then measure the server again and compare what it says about tokens",
    "a benchmark that can not be repeated is an anecdote with a table around it",
] * 20


@pytest.fixture(scope="module", params=["byte_level", "byte_level_bos", "word_piece"])
def tokenizer_file(request, tmp_path_factory):
    if request.param == "word_piece":
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece()
        trainer = trainers.WordPieceTrainer(
            vocab_size=300, special_tokens=["[UNK]", "[CLS]", "[SEP]"], show_progress=False
        )
    else:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=["<s>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
    tokenizer.train_from_iterator(CORPUS, trainer)
    if request.param == "byte_level_bos":
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
        )
    tokenizer.enable_truncation(8)
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    tokenizer.save(str(path))
    return path


def encode(path, text):
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    return tokenizer.encode(text).ids


@pytest.mark.parametrize("length", [2, 3, 38, 257])
def test_texts_have_exactly_the_asked_length(tokenizer_file, length):
    prompts = random_text_prompts(
        count=20, input_tokens=length, tokenizer_file=tokenizer_file, seed=1
    )
    assert len(prompts) == 20
    for prompt in prompts:
        assert prompt.input_tokens == length
        assert len(encode(tokenizer_file, prompt.text)) == length
        assert prompt.text == prompt.text.strip()


def test_texts_depend_on_the_seed_alone(tokenizer_file):
    def draw(seed):
        return random_text_prompts(
            count=8, input_tokens=16, tokenizer_file=tokenizer_file, seed=seed
        )

    assert draw(5) == draw(5)
    assert not {p.text for p in draw(5)} & {p.text for p in draw(6)}
    assert len({p.text.split()[0] for p in draw(5)}) == 8


def test_special_tokens_alone_fill_the_length(tokenizer_file):
    special = len(encode(tokenizer_file, ""))
    if special:
        with pytest.raises(InputError, match="ask for more input tokens"):
            random_text_prompts(
                count=1, input_tokens=special, tokenizer_file=tokenizer_file, seed=0
            )


def test_a_tokenizer_without_words_is_refused(tmp_path):
    path = tmp_path / "tokenizer.json"
    Tokenizer(models.BPE()).save(str(path))
    with pytest.raises(InputError, match="JSONL"):
        random_text_prompts(count=1, input_tokens=4, tokenizer_file=path, seed=0)
    path.write_text("{}")
    with pytest.raises(InputError, match="not a tokenizer"):
        random_text_prompts(count=1, input_tokens=4, tokenizer_file=path, seed=0)


@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(1, 20), st.integers(1, 60), st.integers())
def test_token_prompts(count, length, vocabulary, seed):
    prompts = random_token_prompts(
        count=count, input_tokens=length, vocabulary_size=vocabulary, seed=seed
    )
    again = random_token_prompts(
        count=count, input_tokens=length, vocabulary_size=vocabulary, seed=seed
    )
    assert prompts == again and len(prompts) == count
    assert all(len(p.token_ids) == length == p.input_tokens for p in prompts)
    assert all(0 <= i < vocabulary for p in prompts for i in p.token_ids)
    firsts = {p.token_ids[0] for p in prompts}
    assert len(firsts) == min(count, vocabulary)


def test_token_prompts_leave_out_what_is_excluded():
    prompts = random_token_prompts(
        count=5, input_tokens=50, vocabulary_size=4, seed=0, excluded={0, 3}
    )
    assert {i for p in prompts for i in p.token_ids} == {1, 2}
    with pytest.raises(UsageError, match="no token to draw"):
        random_token_prompts(count=1, input_tokens=1, vocabulary_size=1, seed=0, excluded=[0])
    with pytest.raises(UsageError, match="at least 1"):
        random_token_prompts(count=1, input_tokens=0, vocabulary_size=1, seed=0)


def test_reading_prompts(tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "a", "id": 1}\n\n{"text": "b"}\r\n{"token_ids": [1, 2]}')
    assert read_prompts(path) == [
        Prompt(text="a"),
        Prompt(text="b"),
        Prompt(token_ids=(1, 2), input_tokens=2),
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no prompts"),
        (b"\n \n", "no prompts"),
        (b'{"prompt": "a"}\n{"prompt": 1}', "line 2"),
        (b'{"prompt": "a", "text": "b"}', "line 1.*one of"),
        (b'{"prompt": ""}', "not empty"),
        (b'{"token_ids": []}', "not empty"),
        (b'{"token_ids": [-1]}', "below zero"),
        (b"{", "line 1"),
        (b'{"prompt": "\xff"}', "line 1"),
        (b"[]", "line 1"),
    ],
)
def test_bad_prompt_files_name_file_and_line(tmp_path, content, said):
    path = tmp_path / "prompts.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=said) as caught:
        read_prompts(path)
    assert str(path) in str(caught.value)


def test_missing_prompt_file(tmp_path):
    with pytest.raises(InputError, match="can't be read"):
        read_prompts(tmp_path / "none.jsonl")


def test_a_prompt_is_text_or_ids():
    for fields in ({}, {"text": "a", "token_ids": (1,)}):
        with pytest.raises(ValueError, match="either"):
            Prompt(**fields)


def test_digest_differs_exactly_when_the_workload_does():
    base = {
        "kind": "chat",
        "output_tokens": 32,
        "input_tokens": 64,
        "sampling": {"a": 1, "b": 2},
    }
    changes = [
        {"kind": "completions"},
        {"output_tokens": 33},
        {"input_tokens": 65},
        {"input_tokens": None, "prompts_sha256": "00"},
        {"sampling": {"a": 1}},
        {"sampling": None},
    ]
    digests = [workload_digest(**base)] + [workload_digest(**(base | c)) for c in changes]
    assert len(set(digests)) == len(digests)
    assert workload_digest(**(base | {"sampling": {"b": 2, "a": 1}})) == digests[0]
