"""JSON schema of a pydantic model -> structural schema of a CRD. Pure.

Kubernetes takes a part of JSON schema only. What it has another word for is rewritten; what it cannot say, or
what would be unbounded, is refused here, since the API server answers some of it with a crash or an HTTP 500.
"""

from __future__ import annotations

import copy
from typing import Any

from pydantic import BaseModel

from evenkeel.errors import InputError
from evenkeel.reasons import Reason

Schema = dict[str, Any]

ORDER = (
    "description",
    "type",
    "format",
    "enum",
    "default",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "properties",
    "items",
    "additionalProperties",
    "required",
    "x-kubernetes-validations",
)
"""Every word that our schemas use, in the order in which a reader wants them; others are refused."""


class SchemaError(InputError):
    """A model uses something that a structural schema cannot say, or leaves something unbounded."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}", reason=Reason.INVALID_SPEC)


def build_schema(model: type[BaseModel]) -> Schema:
    """The structural schema of a model.

    Raises:
        SchemaError: names the path of the field and what is wrong with it.
    """
    raw = model.model_json_schema(mode="validation", by_alias=True)
    definitions = raw.pop("$defs", {})
    return _rewrite(raw, definitions, model.__name__, ())


def arrange(node: Schema) -> Schema:
    """The same schema with its words in `ORDER`."""
    return {word: node[word] for word in ORDER if word in node}


def flatten(text: str | None) -> str:
    """A docstring on one line: `kubectl explain` wraps by itself."""
    return " ".join((text or "").split())


def without_absent(value: Any) -> Any:
    """A default without its None members and those that say nothing: empty lists, objects and texts."""
    if isinstance(value, dict):
        members = {name: without_absent(item) for name, item in value.items()}
        return {name: item for name, item in members.items() if item not in (None, "", [], {})}
    if isinstance(value, list | tuple):
        return [without_absent(item) for item in value]
    return value


def _rewrite(node: Any, definitions: Schema, path: str, seen: tuple[str, ...]) -> Schema:
    if not isinstance(node, dict) or not node:
        raise SchemaError(path, "has no type")
    node = dict(node)
    if "$ref" in node:
        name = node.pop("$ref").rsplit("/", 1)[1]
        if name in seen:
            raise SchemaError(path, f"contains itself by {name}")
        return _rewrite({**copy.deepcopy(definitions[name]), **node}, definitions, path, (*seen, name))
    if "anyOf" in node:
        return _rewrite(_optional(node, path), definitions, path, seen)
    node.pop("title", None)
    if "description" in node:
        node["description"] = flatten(node["description"])
    _drop_empty_default(node)
    _refuse(node, path)
    return arrange(_rewrite_children(node, definitions, path, seen))


def _optional(node: Schema, path: str) -> Schema:
    """`T | None` is an optional T: the API server prunes nulls, and a null default is none."""
    arms = [arm for arm in node.pop("anyOf") if arm.get("type") != "null"]
    if len(arms) != 1:
        raise SchemaError(path, "is a union of types")
    if node.get("default", "") is None:
        del node["default"]
    return {**arms[0], **node}


def _drop_empty_default(node: Schema) -> None:
    if "default" not in node:
        return
    node["default"] = without_absent(node["default"])
    if node["default"] in (None, "", [], {}):
        del node["default"]


def _refuse(node: Schema, path: str) -> None:
    refused = node.keys() - set(ORDER)
    if refused:
        raise SchemaError(path, f"uses {', '.join(sorted(refused))}")
    kind = node.get("type")
    if kind is None:
        raise SchemaError(path, "has no type")
    if kind in ("number", "boolean"):
        raise SchemaError(path, f"is a {kind}: use an integer with its unit in the name, or an enum")
    if kind == "string" and not node.keys() & {"maxLength", "enum", "format"}:
        raise SchemaError(path, "is a string without max_length")
    if kind == "array":
        for key in ("maxItems", "x-kubernetes-list-type"):
            if key not in node:
                raise SchemaError(path, f"is a list without {key}")


def _rewrite_children(node: Schema, definitions: Schema, path: str, seen: tuple[str, ...]) -> Schema:
    if node["type"] == "integer":
        node.setdefault("format", "int64")
    if node["type"] == "string" and node.get("format") == "date-time":
        node.setdefault("maxLength", 64)  # without it CEL takes the largest object for its cost
    if node["type"] == "array":
        node["items"] = _rewrite(node["items"], definitions, f"{path}[]", seen)
    if node["type"] == "object":
        _rewrite_object(node, definitions, path, seen)
    return node


def _rewrite_object(node: Schema, definitions: Schema, path: str, seen: tuple[str, ...]) -> None:
    values = node.pop("additionalProperties", False)
    if isinstance(values, dict):
        if "maxProperties" not in node:
            raise SchemaError(path, "is a map without max_length")
        node["additionalProperties"] = _rewrite(values, definitions, f"{path}.*", seen)
    elif values:
        raise SchemaError(path, "is a map of untyped values")
    if node.get("properties"):
        node["properties"] = {
            name: _rewrite(child, definitions, f"{path}.{name}", seen)
            for name, child in node["properties"].items()
        }
    elif not isinstance(values, dict):
        raise SchemaError(path, "is an object without fields")
    if not node.get("required"):
        node.pop("required", None)
