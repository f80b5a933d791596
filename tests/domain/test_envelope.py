from __future__ import annotations

import base64
import random
import string

import pytest

from evenkeel.domain import envelope
from evenkeel.errors import InputError


def merged(parts: dict[str, dict[str, str | None]]) -> dict[str, dict[str, str]]:
    return {
        kind: {name: value for name, value in values.items() if value is not None}
        for kind, values in parts.items()
    }


def noise(length: int) -> str:
    return "".join(random.Random(1).choices(string.ascii_letters + string.digits, k=length))


@pytest.mark.parametrize(("length", "kind"), [(10, "data"), (300_000, "binaryData")])
def test_text_comes_back(length: int, kind: str) -> None:
    text = noise(length)
    found = merged(envelope.pack("report", text))
    assert [name for name, values in found.items() if values] == [kind]
    assert envelope.unpack("report", found) == text
    assert envelope.pack("report", text) == envelope.pack("report", text)


def test_too_much_is_refused_with_the_limit() -> None:
    with pytest.raises(InputError, match="700000"):
        envelope.pack("report", noise(2_000_000))


@pytest.mark.parametrize("config_map", [{}, {"data": None}, {"data": {"other": "x"}}])
def test_nothing_yet_is_none(config_map: dict[str, dict[str, str]]) -> None:
    assert envelope.unpack("report", config_map) is None


@pytest.mark.parametrize("packed", ["%%%", base64.b64encode(b"no gzip").decode()])
def test_a_broken_form_is_an_input_error(packed: str) -> None:
    with pytest.raises(InputError, match=r"report\.gz"):
        envelope.unpack("report", {"binaryData": {"report.gz": packed}})
