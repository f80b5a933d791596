from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from evenkeel import names
from evenkeel.api.export import build_crd, build_crds, render_crd
from evenkeel.api.kinds import KINDS
from evenkeel.api.meta import Resource

CRDS = Path(__file__).resolve().parents[2] / "crds"


def test_generated_files_are_fresh() -> None:
    wanted = {name: render_crd(crd) for name, crd in build_crds().items()}
    assert {path.name: path.read_text() for path in CRDS.glob("*.yaml")} == wanted, "run `evenkeel crds`"


@pytest.mark.parametrize("model", KINDS, ids=lambda model: model.__name__)
def test_rendering_loses_nothing_and_uses_no_aliases(model: type[Resource]) -> None:
    text = render_crd(build_crd(model))
    assert yaml.safe_load(text) == build_crd(model)
    assert "&id" not in text
    assert "*id" not in text


@pytest.mark.parametrize("model", KINDS, ids=lambda model: model.__name__)
def test_definition_carries_name_version_and_status_subresource(model: type[Resource]) -> None:
    crd = build_crd(model)
    (version,) = crd["spec"]["versions"]
    assert crd["metadata"]["name"] == f"{model.definition.plural}.{names.API_GROUP}"
    assert (version["name"], version["served"], version["storage"]) == (names.API_VERSION, True, True)
    assert version["subresources"] == {"status": {}}


@pytest.mark.parametrize("model", KINDS, ids=lambda model: model.__name__)
def test_spec_is_the_only_required_part(model: type[Resource]) -> None:
    root: dict[str, Any] = build_crd(model)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert root["required"] == ["spec"]
    assert list(root["properties"]) == ["apiVersion", "kind", "metadata", "spec", "status"]
