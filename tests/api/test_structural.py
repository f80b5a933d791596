from __future__ import annotations

import inspect
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from evenkeel.api.fields import listing
from evenkeel.api.meta import Base
from evenkeel.api.structural import SchemaError, build_schema, without_absent

Text = Annotated[str, Field(max_length=9)]


class Color(StrEnum):
    RED = "Red"


class Inner(Base):
    """An inner part."""

    some_text: Text = "a"
    """Some
    text."""


class Outer(Base):
    inner: Inner = Inner()
    other: Inner | None = None
    """Described here."""
    color: Color = Color.RED
    texts: Annotated[tuple[Text, ...], listing("atomic", most=3)] = ()
    labels: Annotated[dict[str, Text], Field(max_length=4)] | None = None
    node_uid: Text


def properties() -> dict[str, Any]:
    found: dict[str, Any] = build_schema(Outer)["properties"]
    return found


def test_names_are_camel_case_with_uid_in_capitals() -> None:
    assert list(properties()) == ["inner", "other", "color", "texts", "labels", "nodeUID"]
    assert build_schema(Outer)["required"] == ["nodeUID"]


def test_references_are_inlined_and_the_field_describes_itself() -> None:
    text = {"description": "Some text.", "type": "string", "default": "a", "maxLength": 9}
    assert properties()["inner"]["properties"] == {"someText": text}
    assert properties()["inner"]["description"] == "An inner part."
    assert properties()["other"]["description"] == "Described here."


def test_optional_fields_have_neither_null_nor_default() -> None:
    assert properties()["other"].keys() == {"description", "type", "properties"}


def test_default_objects_are_written_out() -> None:
    assert properties()["inner"]["default"] == {"someText": "a"}


def test_defaults_that_say_nothing_are_left_out() -> None:
    assert "default" not in properties()["texts"]
    assert without_absent({"a": None, "b": {"c": None}, "d": [], "e": 0}) == {"e": 0}


def test_enums_keep_their_values_and_default() -> None:
    assert properties()["color"]["enum"] == ["Red"]
    assert properties()["color"]["default"] == "Red"


def test_words_stand_in_one_order_whatever_pydantic_does() -> None:
    assert list(properties()["texts"]) == ["type", "maxItems", "x-kubernetes-list-type", "items"]


class Unbounded(BaseModel):
    text: str


class Fraction(BaseModel):
    ratio: float


class Switch(BaseModel):
    enabled: bool


class Loose(BaseModel):
    value: Any


class Either(BaseModel):
    value: int | Text


class Endless(BaseModel):
    items: Annotated[tuple[int, ...], Field(json_schema_extra={"x-kubernetes-list-type": "atomic"})]


class Unmerged(BaseModel):
    items: Annotated[tuple[int, ...], Field(max_length=3)]


class Pair(BaseModel):
    pair: tuple[int, int]


class OneWord(BaseModel):
    word: Literal["a"]


class AnyMap(BaseModel):
    values: dict[str, int]


class UntypedMap(BaseModel):
    values: Annotated[dict[str, Any], Field(max_length=3)]


class KeyedMap(BaseModel):
    values: Annotated[dict[Text, int], Field(max_length=3)]


class Above(BaseModel):
    value: Annotated[int, Field(gt=1)]


class Empty(BaseModel):
    nothing: Inside


class Inside(BaseModel):
    pass


class Recursive(BaseModel):
    child: Recursive | None = None


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Unbounded, "Unbounded.text: is a string without max_length"),
        (Fraction, "Fraction.ratio: is a number: use an integer with its unit in the name, or an enum"),
        (Switch, "Switch.enabled: is a boolean: use an integer with its unit in the name, or an enum"),
        (Loose, "Loose.value: has no type"),
        (Either, "Either.value: is a union of types"),
        (Endless, "Endless.items: is a list without maxItems"),
        (Unmerged, "Unmerged.items: is a list without x-kubernetes-list-type"),
        (Pair, "Pair.pair: uses prefixItems"),
        (OneWord, "OneWord.word: uses const"),
        (AnyMap, "AnyMap.values: is a map without max_length"),
        (UntypedMap, "UntypedMap.values: is a map of untyped values"),
        (KeyedMap, "KeyedMap.values: uses propertyNames"),
        (Above, "Above.value: uses exclusiveMinimum"),
        (Empty, "Empty.nothing: is an object without fields"),
        (Recursive, "Recursive.child: contains itself by Recursive"),
    ],
    ids=lambda value: value.__name__ if inspect.isclass(value) else "",
)
def test_what_a_structural_schema_cannot_say_is_refused_by_path(model: type[BaseModel], message: str) -> None:
    model.model_rebuild()
    with pytest.raises(SchemaError) as refusal:
        build_schema(model)
    assert refusal.value.message == message
