"""The rules that hold for every kind (docs/design, resources), checked on the generated schemas."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from evenkeel import names
from evenkeel.api.export import build_crd
from evenkeel.api.kinds import KINDS
from evenkeel.api.meta import Resource
from evenkeel.reasons import ConditionType

UNITS_OF_OTHERS = re.compile(
    r"(Ms|Millis|Minutes|Hours|Days|Mb|MiB|Kb|KiB|Gb|GiB|Size|Ratio|Fraction|Interval|Timeout|Period|Pct|Rate|Age)$"
)
CAMEL_CASE = re.compile(r"^[A-Z][A-Za-z0-9]*$")
FIELD_NAME = re.compile(r"^[a-z][A-Za-z0-9]*$")
WRITTEN_BY_PROGRAMS = {"NodeCache", "RebalancePlan"}
"""Kinds whose spec programs write, or people by copying it; sizes in it are integers as in every status."""
FOLLOWED = {"RebalancePlan"}
"""Kinds that people decide about and follow in a table: more columns."""
SIZES = ("Bytes", "ytesPerSecond")


@dataclass(frozen=True)
class Field:
    kind: str
    path: str
    name: str
    schema: dict[str, Any]

    @property
    def in_status(self) -> bool:
        return self.path.startswith("status")

    def __str__(self) -> str:
        return f"{self.kind}.{self.path}"


def root(model: type[Resource]) -> dict[str, Any]:
    schema: dict[str, Any] = build_crd(model)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def walk(kind: str, path: str, name: str, schema: dict[str, Any]) -> Iterator[Field]:
    yield Field(kind, path, name, schema)
    for child, inner in schema.get("properties", {}).items():
        yield from walk(kind, f"{path}.{child}", child, inner)
    if "items" in schema:
        yield from walk(kind, f"{path}[]", name, schema["items"])
    if "additionalProperties" in schema:
        yield from walk(kind, f"{path}.*", name, schema["additionalProperties"])


FIELDS = [
    field
    for model in KINDS
    for part in ("spec", "status")
    for field in walk(model.__name__, part, part, root(model)["properties"][part])
]
NAMED = [field for field in FIELDS if not field.path.endswith(("[]", ".*"))]


def refused(fields: list[Field]) -> list[str]:
    return [str(field) for field in fields]


def of_type(kind: str) -> list[Field]:
    return [field for field in FIELDS if field.schema["type"] == kind]


def rules(model: type[Resource]) -> list[tuple[str, dict[str, str]]]:
    own = [(model.__name__, rule) for rule in root(model).get("x-kubernetes-validations", [])]
    inner = [
        (str(field), rule)
        for field in FIELDS
        if field.kind == model.__name__
        for rule in field.schema.get("x-kubernetes-validations", [])
    ]
    return own + inner


def test_every_field_is_documented_by_a_sentence() -> None:
    assert not refused([field for field in NAMED if not field.schema.get("description", "").endswith(".")])


def test_there_are_no_floats_booleans_or_mixed_types() -> None:
    kinds = {"object", "array", "string", "integer"}
    mixed = {"x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields", "nullable"}
    assert not refused([f for f in FIELDS if f.schema["type"] not in kinds or mixed & f.schema.keys()])


def test_every_string_is_bounded() -> None:
    assert not refused([f for f in of_type("string") if not {"maxLength", "enum"} & f.schema.keys()])


def test_every_list_is_bounded_and_says_how_it_merges() -> None:
    for field in of_type("array"):
        assert field.schema["maxItems"] <= 512, field
        assert field.schema["x-kubernetes-list-type"] in {"atomic", "set", "map"}, field


def test_keys_of_list_maps_are_required() -> None:
    for field in of_type("array"):
        keys = set(field.schema.get("x-kubernetes-list-map-keys", ()))
        assert bool(keys) == (field.schema["x-kubernetes-list-type"] == "map"), field
        assert keys <= set(field.schema["items"].get("required", ())), field


def test_every_map_is_bounded() -> None:
    maps = [f for f in FIELDS if "additionalProperties" in f.schema]
    assert not refused([f for f in maps if "maxProperties" not in f.schema])


def test_enums_are_camel_case() -> None:
    for field in FIELDS:
        for value in field.schema.get("enum", ()):
            assert CAMEL_CASE.match(value), field


def test_field_names_are_lower_camel_case_and_never_phase() -> None:
    assert not refused([f for f in NAMED if not FIELD_NAME.match(f.name) or "phase" in f.name.lower()])


def test_names_of_quantities_end_in_our_units() -> None:
    # A forecast is good for whole days; in seconds it would look exact.
    found = [f for f in NAMED if UNITS_OF_OTHERS.search(f.name) and f.name != "fullInDays"]
    assert not refused(found)


def test_sizes_are_quantity_strings_in_spec_and_integers_in_status() -> None:
    for field in NAMED:
        if field.name.endswith(SIZES):
            number = field.in_status or field.kind in WRITTEN_BY_PROGRAMS
            assert field.schema["type"] == ("integer" if number else "string"), field


def test_every_other_quantity_is_an_integer_with_a_lower_bound() -> None:
    for field in of_type("integer"):
        assert "minimum" in field.schema, field
        assert field.schema["format"] == "int64", field
    for field in NAMED:
        if field.name.endswith(SIZES):
            continue
        if field.name.endswith(("Seconds", "Percent", "Permille", "percent")):
            assert field.schema["type"] == "integer", field


def test_a_name_has_one_type_everywhere() -> None:
    types: dict[str, set[str]] = {}
    for field in NAMED:
        if field.schema["type"] in {"string", "integer"} and not field.name.endswith(SIZES):
            types.setdefault(field.name, set()).add(field.schema["type"])
    assert not {name for name, found in types.items() if len(found) > 1}


def test_references_are_objects_with_a_name() -> None:
    for field in NAMED:
        if field.name.endswith("Ref"):
            assert set(field.schema["required"]) & {"name", "secretName"}, field


def test_the_only_times_are_transitions_and_the_end_of_a_plan() -> None:
    times = {field.name for field in FIELDS if field.schema.get("format") == "date-time"}
    assert times == {"lastTransitionTime", "expirationTime"}
    assert not refused([f for f in NAMED if f.name.endswith(("Time", "At")) and f.name not in times])


@pytest.mark.parametrize("model", KINDS, ids=lambda model: model.__name__)
def test_status_waits_until_it_was_seen(model: type[Resource]) -> None:
    status = root(model)["properties"]["status"]
    assert status["default"] == {"observedGeneration": -1}
    assert list(status["properties"])[:2] == ["observedGeneration", "conditions"]
    assert "required" not in status


@pytest.mark.parametrize("model", KINDS, ids=lambda model: model.__name__)
def test_nothing_in_status_looks_measured_before_it_was(model: type[Resource]) -> None:
    parts = [f for f in FIELDS if f.kind == model.__name__ and f.in_status and f.path != "status"]
    assert not refused([field for field in parts if "default" in field.schema])


@pytest.mark.parametrize("model", KINDS, ids=lambda model: model.__name__)
def test_conditions_have_the_shape_of_metav1(model: type[Resource]) -> None:
    conditions = root(model)["properties"]["status"]["properties"]["conditions"]
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    assert set(conditions["items"]["required"]) == {
        "type",
        "status",
        "observedGeneration",
        "lastTransitionTime",
        "reason",
        "message",
    }


@pytest.mark.parametrize("model", KINDS, ids=lambda model: model.__name__)
def test_people_can_pause_what_they_declare(model: type[Resource]) -> None:
    state = root(model)["properties"]["spec"]["properties"].get("state")
    if model.__name__ in WRITTEN_BY_PROGRAMS:
        assert state is None
    else:
        assert state is not None
        assert (state["enum"], state["default"]) == (["Active", "Paused"], "Active")


@pytest.mark.parametrize("model", KINDS, ids=lambda model: model.__name__)
def test_names_have_at_most_50_characters_where_people_choose_them(model: type[Resource]) -> None:
    limited = any("metadata.name.size() <= 50" in rule["rule"] for _, rule in rules(model))
    assert limited == (model.__name__ not in WRITTEN_BY_PROGRAMS)


@pytest.mark.parametrize("model", KINDS, ids=lambda model: model.__name__)
def test_messages_of_rules_name_a_field_and_what_must_be(model: type[Resource]) -> None:
    for where, rule in rules(model):
        assert " must " in rule["message"], where
        assert "\n" not in rule["message"] + rule["rule"], where


@pytest.mark.parametrize("model", KINDS, ids=lambda model: model.__name__)
def test_rules_on_objects_say_which_field_they_mean(model: type[Resource]) -> None:
    for where, rule in rules(model):
        schema = next((f.schema for f in FIELDS if str(f) == where), {"type": "object"})
        whole_field = "self == oldSelf" in rule["rule"] or "additionalProperties" in schema
        assert schema["type"] != "object" or whole_field or "fieldPath" in rule, where


@pytest.mark.parametrize("model", KINDS, ids=lambda model: model.__name__)
def test_columns_are_ready_reason_at_most_one_word_more_two_numbers_and_age(model: type[Resource]) -> None:
    columns = build_crd(model)["spec"]["versions"][0]["additionalPrinterColumns"]
    shown = [column for column in columns if "priority" not in column]
    assert [column["name"] for column in shown[:2]] == ["Ready", "Reason"]
    types = [column["type"] for column in shown[2:]]
    if model.__name__ in FOLLOWED:
        assert types == [*["string"] * 3, *["integer"] * 3, "date"]
        return
    assert types[-3:] == ["integer", "integer", "date"]
    assert types[:-3] in ([], ["string"])


@pytest.mark.parametrize("model", KINDS, ids=lambda model: model.__name__)
def test_columns_lead_to_fields_that_exist(model: type[Resource]) -> None:
    known = {f".{field.path}" for field in FIELDS if field.kind == model.__name__}
    known |= {f".status.conditions[?(@.type=='{type_}')].reason" for type_ in ConditionType}
    for column in model.definition.columns:
        assert column.path in known, column


def test_kinds_have_distinct_short_names_in_our_group_and_category() -> None:
    found = [build_crd(model)["spec"] for model in KINDS]
    assert [item["names"]["shortNames"] for item in found] == [["bcl"], ["btp"], ["rbp"], ["tds"], ["ncache"]]
    assert all(item["names"]["categories"] == ["evenkeel"] for item in found)
    assert {item["group"] for item in found} == {names.API_GROUP}
    assert [item["scope"] for item in found] == ["Namespaced"] * 4 + ["Cluster"]
