from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from evenkeel.api.fields import Quantity, quantity_bytes
from evenkeel.errors import InputError

UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15} | {
    f"{letter}i": 2 ** (10 * power) for power, letter in enumerate("KMGTP", 1)
}


@given(st.integers(0, 10**12), st.sampled_from(sorted(UNITS)))
def test_quantity_is_number_times_unit(number: int, unit: str) -> None:
    text = TypeAdapter(Quantity).validate_python(f"{number}{unit}")
    assert quantity_bytes(text) == number * UNITS[unit]


@pytest.mark.parametrize("text", ["", "-1", "1.5Gi", "10GiB", "1 Gi", "Gi", "٣", "1e3", "0x10"])
def test_other_quantities_are_refused_by_pattern_and_parser(text: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Quantity).validate_python(text)
    with pytest.raises(InputError, match=re.escape(repr(text))):
        quantity_bytes(text)
