"""The documentation's example of tunables, read by SGLang's own parser."""

from itertools import islice
from pathlib import Path

import pytest

from autotune.config import parse_config
from autotune.tunables import Setting, apply, every_setting

from .test_commands import ENGINE, parse, site_of

DOCUMENT = Path(__file__).parents[2] / "docs" / "tuning.md"
CONFIG = parse_config(
    DOCUMENT.read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0], where="tuning.md"
)
((PARENT, SPACE),) = CONFIG.tunables().items()
SETTINGS = list(islice(every_setting(SPACE) or (), 0, None, 7))


@pytest.mark.parametrize("values", SETTINGS, ids=str)
def test_what_was_drawn_arrives(values: Setting) -> None:
    listed = {one.name: one for one in CONFIG.candidate_list()}
    candidate = apply(listed[PARENT], SPACE, values=values, name="trial")
    command = ENGINE.command(candidate, config=CONFIG, site=site_of(CONFIG))
    given = parse(command.argv)
    assert given.chunked_prefill_size == values["chunked_prefill"]
    assert given.cuda_graph_max_bs_decode == values["graphs"]
    assert given.enforce_disable_flashinfer_allreduce_fusion is values["separate_all_reduce"]
    assert given.flashinfer_allreduce_fusion_backend == values.get("all_reduce")
