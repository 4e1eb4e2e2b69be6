"""Secrets are found wherever a tool may write them, and prose isn't taken for one."""

from pathlib import Path
from typing import Any

import pytest

from autotune.errors import InputError
from autotune.importers.secrets_in_files import secret_in
from tests.importers.tool_files import VLLM, import_tool


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ({"api_key": "hunter2"}, "api_key"),
        ({"api_key": ["hunter2"]}, "api_key"),
        ({"headers": {"Authorization": "hunter2"}}, "headers.Authorization"),
        ({"headers": [["Authorization", "hunter2"]]}, "headers[0] Authorization"),
        ({"cli": "tool --api-key hunter2 --x 1"}, "cli --api-key"),
        ({"cli": ["tool", "--api-key=hunter2"]}, "cli --api-key"),
        ({"cli": "tool -H 'X-Api-Key: hunter2'"}, "cli X-Api-Key"),
        ({"cli": "tool -H 'Foo: Bearer hunter2hunter2'"}, "cli"),
        ({"backend": '{"inner": {"password": "hunter2"}}'}, "backend.inner.password"),
    ],
)
def test_a_secret_is_found_and_not_told(content: dict[str, Any], place: str) -> None:
    found = secret_in(content)
    assert found == place
    assert "hunter2" not in found


@pytest.mark.parametrize(
    "content",
    [
        {"api_key": "***"},
        {"api_key": None, "token": ""},
        {"cli": "tool --api-key *** --x"},
        {"cli": "tool --api-key <redacted>"},
        {"text": "The Token is short, the Secret: a long story; basic: yes"},
        {"time_per_output_token": 5.0, "input_token": {"mean": 3}},
        {"pairs": [["Frankfurt", "hunter2"], [1, 2]]},
        {"text": "[not JSON", "other": "{}"},
    ],
)
def test_what_is_blanked_or_prose_is_none(content: dict[str, Any]) -> None:
    assert secret_in(content) is None


def test_a_secret_in_vllms_metadata_is_refused(tmp_path: Path) -> None:
    text = (VLLM / "plain.json").read_text(encoding="utf-8")
    file = tmp_path / "v.json"
    file.write_text(text.replace("{", '{"api_key": "hunter2", ', 1), encoding="utf-8")
    with pytest.raises(InputError, match="'api_key': holds a secret") as caught:
        import_tool(file)
    assert "hunter2" not in str(caught.value)
