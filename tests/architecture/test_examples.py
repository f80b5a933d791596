from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from evenkeel import names
from evenkeel.api.kinds import KINDS

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FILES = sorted(EXAMPLES.glob("*.yaml"))
ALL = [*FILES, *sorted(EXAMPLES.glob("routing/*.yaml"))]
BY_KIND = {model.__name__: model for model in KINDS}


def documents(path: Path) -> list[dict[str, Any]]:
    return [item for item in yaml.safe_load_all(path.read_text()) if item]


def one(name: str, kind: str) -> dict[str, Any]:
    return next(item for item in documents(EXAMPLES / name) if item["kind"] == kind)


def test_names_of_the_files_give_their_order() -> None:
    numbers = [path.name.split("-")[0] for path in FILES]
    assert numbers == sorted(set(numbers))
    assert all(number.isdecimal() for number in numbers)


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.name)
def test_models_know_every_field(path: Path) -> None:
    for item in documents(path):
        if item["apiVersion"] == names.GROUP_VERSION:
            model = BY_KIND[item["kind"]].model_validate(item)
            said = model.model_dump(mode="json", by_alias=True, exclude_unset=True, include={"spec"})
            assert said == {"spec": item["spec"]}


def test_routing_can_change_something() -> None:
    brokers = len(one("10-cluster.yaml", "BalancedCluster")["spec"]["bootstrapServers"])
    topic = one("20-topic.yaml", "BalancedTopic")["spec"]
    dataset = one("30-clipart.yaml", "TrainingDataset")["spec"]["storage"]
    assert topic["replicationFactor"] < brokers
    assert dataset["replicationFactor"] < brokers


def test_training_waits_for_the_preloaded_dataset_and_mounts_it() -> None:
    dataset = one("31-digits.yaml", "TrainingDataset")
    job = one("40-training.yaml", "Job")
    template = job["spec"]["template"]
    name = dataset["metadata"]["name"]
    assert dataset["spec"]["preload"]["mode"] != "Disabled"
    assert job["metadata"]["namespace"] == dataset["metadata"]["namespace"]
    assert template["metadata"]["labels"] == {names.LABEL_DATASET: name}
    assert template["spec"]["schedulingGates"] == [{"name": names.GATE_WARM}]
    (csi,) = [volume["csi"] for volume in template["spec"]["volumes"] if "csi" in volume]
    assert csi == {
        "driver": names.CSI_DRIVER,
        "readOnly": True,
        "volumeAttributes": {names.CSI_ATTRIBUTE_DATASET: name},
    }


def test_training_has_as_many_ranks_as_it_is_told() -> None:
    spec = one("40-training.yaml", "Job")["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    world = next(item["value"] for item in container["env"] if item["name"] == "WORLD_SIZE")
    assert spec["completionMode"] == "Indexed"
    assert int(world) == spec["completions"] == spec["parallelism"]
    assert container["resources"]["limits"][names.GPU_RESOURCE] == "1"


def test_image_of_the_training_is_the_one_placeholder() -> None:
    texts = {path.name: path.read_text() for path in FILES}
    (container,) = one("40-training.yaml", "Job")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "IMAGE_TRAINING"
    assert [name for name, text in texts.items() if "IMAGE_" in text] == ["40-training.yaml"]
