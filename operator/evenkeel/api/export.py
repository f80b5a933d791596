"""Our kinds as CustomResourceDefinitions and as the files in `crds/`. Pure; knows no API server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import yaml
from pydantic import BaseModel

from evenkeel import names
from evenkeel.api.fields import rule
from evenkeel.api.kinds import KINDS
from evenkeel.api.meta import Column, Definition, Resource
from evenkeel.api.structural import Schema, SchemaError, arrange, build_schema, flatten

HEADER = "# Made from operator/evenkeel/api by `evenkeel crds`; changes belong there.\n"

COMMON_COLUMNS = (
    Column("Ready", "string", ".status.conditions[?(@.type=='Ready')].status"),
    Column("Reason", "string", ".status.conditions[?(@.type=='Ready')].reason"),
)
CLOSING_COLUMNS = (
    Column("Age", "date", ".metadata.creationTimestamp"),
    Column("Message", "string", ".status.conditions[?(@.type=='Ready')].message", wide=True),
)


def build_crds() -> dict[str, dict[str, Any]]:
    """File name in `crds/` -> CustomResourceDefinition, for every kind."""
    return {f"{model.definition.plural}.yaml": build_crd(model) for model in KINDS}


def build_crd(model: type[Resource]) -> dict[str, Any]:
    """The CustomResourceDefinition of one kind.

    Raises:
        SchemaError: the model cannot be said as a structural schema; names the field.
    """
    definition, kind = model.definition, model.__name__
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{definition.plural}.{names.API_GROUP}"},
        "spec": {
            "group": names.API_GROUP,
            "scope": "Namespaced" if definition.namespaced else "Cluster",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": definition.plural,
                "singular": kind.lower(),
                "shortNames": [definition.short_name],
                "categories": ["evenkeel"],
            },
            "versions": [_build_version(model)],
        },
    }


def render_crd(crd: Mapping[str, Any]) -> str:
    """YAML text of a definition. Equal definitions give equal text."""
    return HEADER + yaml.safe_dump(crd, sort_keys=False, width=110, allow_unicode=True)


def _build_version(model: type[Resource]) -> dict[str, Any]:
    columns = (*COMMON_COLUMNS, *model.definition.columns, *CLOSING_COLUMNS)
    return {
        "name": names.API_VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [_build_column(column) for column in columns],
        "schema": {"openAPIV3Schema": _build_root(model)},
    }


def _build_column(column: Column) -> dict[str, Any]:
    shown = {"name": column.name, "type": column.type, "jsonPath": column.path}
    return {**shown, "priority": 1} if column.wide else shown


def _build_root(model: type[Resource]) -> Schema:
    """The schema of spec and status beside the three fields that the API server itself checks."""
    status = _build_part(model, "status")
    _drop_defaults(status)
    root: Schema = {
        "type": "object",
        "description": flatten(model.__doc__),
        "properties": {
            "apiVersion": {"type": "string", "description": "Version of the API that this object speaks."},
            "kind": {"type": "string", "description": "Kind of the object."},
            # Says nothing of its own, but a rule's fieldPath must lead to something that is declared.
            "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
            "spec": _build_part(model, "spec"),
            "status": arrange({**status, "default": {"observedGeneration": -1}}),
        },
        "required": ["spec"],
    }
    checks = [*_name_rules(model.definition), *_own_rules(model)]
    return {**root, "x-kubernetes-validations": checks} if checks else root


def _build_part(model: type[Resource], name: str) -> Schema:
    field = model.model_fields[name]
    if not (isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)):
        raise SchemaError(f"{model.__name__}.{name}", "is not a model")
    return arrange({**build_schema(field.annotation), "description": flatten(field.description)})


def _drop_defaults(node: Schema) -> None:
    """Status is written by programs: a value that nobody wrote must not look measured."""
    node.pop("default", None)
    for child in node.get("properties", {}).values():
        _drop_defaults(child)
    if "items" in node:
        _drop_defaults(node["items"])


def _name_rules(definition: Definition) -> list[dict[str, str]]:
    if definition.name_pattern is None:
        return []
    return [
        rule(
            f"self.metadata.name.size() <= {definition.name_limit}",
            f"metadata.name must be at most {definition.name_limit} characters",
            fieldPath=".metadata.name",
        ),
        rule(
            f"self.metadata.name.matches('{definition.name_pattern}')",
            "metadata.name must be lower-case letters, digits and - without dots",
            fieldPath=".metadata.name",
        ),
    ]


def _own_rules(model: type[Resource]) -> list[dict[str, str]]:
    extra = cast("dict[str, Any]", model.model_config.get("json_schema_extra", {}))
    return list(extra.get("x-kubernetes-validations", ()))
