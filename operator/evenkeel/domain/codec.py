"""Frozen dataclasses <-> JSON, strict in both directions.

JSON keys are the camelCase of the field names. Supported field types: `str`, `int`, `float`, `bool`,
`StrEnum`, other dataclasses, `tuple[T, ...]`, `frozendict`-like `Mapping[str, T]` and `Mapping[int, T]`,
and `T | None`. An unknown key is ignored when reading, so that an older reader understands a newer
writer; a missing key takes the field's default, is None where the type allows it, or is an error.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from evenkeel.errors import InputError
from evenkeel.reasons import Reason

T = TypeVar("T")
PLAIN = frozenset({str, int, float, bool, types.NoneType})
"""Types that JSON knows as they are; subclasses such as enumerations are not among them."""


def camel(name: str) -> str:
    """`log_dirs` -> `logDirs`."""
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)


def to_json(value: Any) -> Any:
    """A frozen value as what `json.dumps` takes. Fields that are None are left out."""
    if type(value) in PLAIN:  # most values are: a snapshot has a million
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = ((key, getattr(value, name)) for name, key in _keys(type(value)))
        return {key: to_json(item) for key, item in pairs if item is not None}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    return value


def dumps(value: Any) -> str:
    """Canonical JSON: sorted keys, no spaces. Equal values give equal text."""
    return json.dumps(to_json(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def loads(kind: type[T], text: str | bytes) -> T:
    """Parse JSON text into a dataclass.

    Raises:
        InputError: not JSON, or a field is missing or of the wrong type; names the path of the field.
    """
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{kind.__name__}: not valid JSON: {error}", reason=Reason.INVALID_SPEC) from error
    return from_json(kind, raw)


def from_json(kind: type[T], raw: Any) -> T:
    """A parsed JSON object as the dataclass `kind`; errors as `loads`."""
    return typing.cast("T", _read(kind, raw, kind.__name__))


def _read(kind: Any, raw: Any, path: str) -> Any:
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        return _read_optional(kind, raw, path)
    if origin is tuple:
        _expect(isinstance(raw, list), "a list", raw, path)
        inner = typing.get_args(kind)[0]
        return tuple(_read(inner, item, f"{path}[{i}]") for i, item in enumerate(raw))
    if origin is not None and issubclass(origin, Mapping):
        return _read_mapping(kind, raw, path)
    if dataclasses.is_dataclass(kind):
        return _read_dataclass(kind, raw, path)
    return _read_scalar(kind, raw, path)


def _read_optional(kind: Any, raw: Any, path: str) -> Any:
    if raw is None:
        return None
    (inner,) = (arm for arm in typing.get_args(kind) if arm is not type(None))
    return _read(inner, raw, path)


def _read_mapping(kind: Any, raw: Any, path: str) -> Any:
    _expect(isinstance(raw, dict), "an object", raw, path)
    key, inner = typing.get_args(kind)
    try:
        return {key(name): _read(inner, item, f"{path}.{name}") for name, item in raw.items()}
    except ValueError as error:
        raise InputError(f"{path}: {error}", reason=Reason.INVALID_SPEC) from error


def _read_dataclass(kind: Any, raw: Any, path: str) -> Any:
    _expect(isinstance(raw, dict), "an object", raw, path)
    values = {}
    for name, inner, required in _fields(kind):
        key = camel(name)
        if key in raw:
            values[name] = _read(inner, raw[key], f"{path}.{key}")
        elif required and type(None) in typing.get_args(inner):
            values[name] = None  # to_json leaves None out
        elif required:
            raise InputError(f"{path}.{key}: required", reason=Reason.INVALID_SPEC)
    return kind(**values)


def _read_scalar(kind: Any, raw: Any, path: str) -> Any:
    if issubclass(kind, enum.Enum):
        try:
            return kind(raw)
        except ValueError as error:
            allowed = ", ".join(str(member.value) for member in kind)
            message = f"{path}: must be one of {allowed}, not {raw!r}"
            raise InputError(message, reason=Reason.INVALID_SPEC) from error
    if kind is float and isinstance(raw, int) and not isinstance(raw, bool):
        try:
            return float(raw)
        except OverflowError as error:
            raise InputError(f"{path}: too large a number", reason=Reason.INVALID_SPEC) from error
    _expect(isinstance(raw, kind) and (kind is bool or not isinstance(raw, bool)), kind.__name__, raw, path)
    return raw


def _expect(good: bool, wanted: str, raw: Any, path: str) -> None:  # noqa: FBT001 - private
    if not good:
        raise InputError(f"{path}: must be {wanted}, not {raw!r:.80}", reason=Reason.INVALID_SPEC)


@functools.cache
def _keys(kind: Any) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, camel(field.name)) for field in dataclasses.fields(kind))


@functools.cache
def _fields(kind: Any) -> tuple[tuple[str, Any, bool], ...]:
    hints = typing.get_type_hints(kind)
    return tuple(
        (
            field.name,
            hints[field.name],
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
        )
        for field in dataclasses.fields(kind)
    )
