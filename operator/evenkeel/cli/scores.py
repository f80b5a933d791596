"""Scores in a policy file: the same objects as in spec.routing.scores of a BalancedTopic."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from evenkeel.api.balanced_topic import ScoreWeight
from evenkeel.domain.exchange import Score
from evenkeel.errors import InputError
from evenkeel.reasons import Reason


def read_scores(raw: Any, path: str) -> tuple[Score, ...]:
    """Scores from parsed JSON: `[{"name": ..., "weightPercent": ..., "parameters": [{"name", "value"}]}]`.

    Args:
        raw: what the file holds.
        path: of it, for messages.

    Raises:
        InputError: not a list, or a field is wrong; names the field.
    """
    if not isinstance(raw, list):
        raise InputError(f"{path}: must be a list, not {raw!r:.80}", reason=Reason.INVALID_SPEC)
    return tuple(_read_score(item, f"{path}[{number}]") for number, item in enumerate(raw))


def _read_score(raw: Any, path: str) -> Score:
    known = [field.alias or name for name, field in ScoreWeight.model_fields.items()]
    for key in raw if isinstance(raw, dict) else ():
        if key not in known:
            what = f"{path}.{key}: unknown; known are {', '.join(known)}"
            raise InputError(what, reason=Reason.INVALID_SPEC)
    try:
        return ScoreWeight.model_validate(raw).domain()
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        raise InputError(f"{path}{where}: {first['msg']}", reason=Reason.INVALID_SPEC) from error
