"""Reads the parameters of a score: text by name, as the resource has them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from evenkeel.errors import InputError
from evenkeel.reasons import Reason


def check_names(score: str, parameters: Mapping[str, str], known: Collection[str]) -> None:
    """Refuse parameters that the score does not have.

    Raises:
        InputError: names the parameter and those that there are.
    """
    for name in parameters:
        if name not in known:
            there = ", ".join(sorted(known)) or "none"
            raise InputError(
                f"score {score}: parameter {name} is unknown; known are {there}", reason=Reason.SCORE_INVALID
            )


def read_number(
    score: str, parameters: Mapping[str, str], name: str, default: float, *, least: float, most: float
) -> float:
    """A parameter as a number within its bounds, or the default where it is absent.

    Raises:
        InputError: not a number, or out of bounds; names parameter, value and limits.
    """
    text = parameters.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not least <= value <= most:
        what = f"score {score}: parameter {name} must be a number from {least:g} to {most:g}, not {text!r}"
        raise InputError(what, reason=Reason.SCORE_INVALID)
    return value


def read_words(score: str, parameters: Mapping[str, str], name: str) -> tuple[str, ...]:
    """A parameter that must be there as a list of words, separated by commas.

    Raises:
        InputError: absent or empty.
    """
    words = tuple(word.strip() for word in parameters.get(name, "").split(",") if word.strip())
    if not words:
        raise InputError(f"score {score}: parameter {name} is required", reason=Reason.SCORE_INVALID)
    return words
