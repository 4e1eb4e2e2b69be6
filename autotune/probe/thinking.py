"""Thinking blocks in answers: what a reasoning model writes for itself before it answers. Pure."""

# Opening and closing marks, as the field's models write them, and whether a closing mark without
# an opening one ends a block that the prompt began. <|end|> doesn't: some models end every
# message with it.
_MARKS = (
    ("<think>", "</think>", True),
    ("<thinking>", "</thinking>", True),
    ("<seed:think>", "</seed:think>", True),
    ("[THINK]", "[/THINK]", True),
    ("◁think▷", "◁/think▷", True),
    ("<|channel>thought", "<channel|>", True),
    ("<|channel|>analysis<|message|>", "<|end|>", False),
)
# What gpt-oss writes before its answer, whatever came before, and after it.
_FINAL = "<|channel|>final<|message|>"
_FINAL_END = "<|return|>"


def strip_thinking(text: str) -> str | None:
    """Return an answer without its thinking blocks, ``None`` if one of them never ended.

    A closing mark without an opening one ends a block that the prompt began. Where a block was
    removed, so is the white space after it; any other text is returned as it is.
    """
    _, final, answer = text.partition(_FINAL)
    if final:
        return answer.removesuffix(_FINAL_END).lstrip()
    for opening, closing, may_close_alone in _MARKS:
        stripped = _without(text, opening, closing, may_close_alone)
        if stripped is None:
            return None
        text = stripped
    return text


def _without(text: str, opening: str, closing: str, may_close_alone: bool) -> str | None:
    first_close = text.find(closing)
    first_open = text.find(opening)
    if may_close_alone and first_close >= 0 and (first_open < 0 or first_close < first_open):
        text = text[first_close + len(closing) :].lstrip()
    kept: list[str] = []
    position = 0
    while True:
        start = text.find(opening, position)
        if start < 0:
            break
        end = text.find(closing, start + len(opening))
        if end < 0:
            return None
        kept.append(text[position:start])
        position = end + len(closing)
        while position < len(text) and text[position].isspace():
            position += 1
    return "".join(kept) + text[position:] if position else text
