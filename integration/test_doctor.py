from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evenkeel.cli import doctor
from integration.kafka import rights
from integration.kafka.clients import create_topic, produce, unique
from integration.kafka.cluster import KafkaCluster

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *words: str) -> tuple[int, dict[str, Any]]:
    code = doctor.main([*words, "--seconds", "0", "-o", "json"])
    return code, json.loads(capsys.readouterr().out)


def finding(found: dict[str, Any], subject: str) -> dict[str, Any]:
    (one,) = (one for one in found["findings"] if one["subject"] == subject)
    return dict(one)


def properties(cluster: KafkaCluster, folder: Path, user: str) -> str:
    config = cluster.client_config(user)
    keys = ("security.protocol", "sasl.mechanism", "sasl.username", "sasl.password")
    path = folder / f"{user}.properties"
    path.write_text("".join(f"{key}={config[key]}\n" for key in keys))
    return str(path)


def test_an_open_cluster_allows_everything(kafka: KafkaCluster, capsys: Capture) -> None:
    keyless = create_topic(kafka.client_config(), unique("keyless"), [[1, 2], [2, 3], [3, 1]])
    keyed = create_topic(kafka.client_config(), unique("keyed"), [[1], [2], [3]])
    for partition in range(3):
        produce(kafka.client_config(), keyless, [b"x" * 100] * 20, partition=partition)
        produce(kafka.client_config(), keyed, [b"x" * 100] * 20, partition=partition, key=b"k")
    code, found = run(capsys, "--bootstrap", kafka.bootstrap)
    assert code == 0
    for subject in ("Kafka version", "log directories", "rights to observe", "rights to move"):
        assert finding(found, subject)["grade"] == "Ok", subject
    topics = {one["topic"]: one for one in found["topics"]}
    assert topics[keyless]["steerablePercent"] == 100
    assert topics[keyed]["steerablePercent"] == 0
    assert not topics[keyed]["routable"]


def test_rights_that_suffice_to_observe_and_none_at_all(
    sasl_kafka: KafkaCluster, tmp_path: Path, capsys: Capture
) -> None:
    create_topic(sasl_kafka.client_config(), unique("seen"), [[1, 2]])
    for user, code, grades in (
        (rights.OBSERVE, 0, ("Ok", "Hint")),
        ("nobody", 3, ("Blocked", "Hint")),
    ):
        config = properties(sasl_kafka, tmp_path, user)
        ended, found = run(capsys, "--bootstrap", sasl_kafka.bootstrap, "--config", config)
        assert ended == code
        assert finding(found, "rights to observe")["grade"] == grades[0]
        assert finding(found, "rights to move")["grade"] == grades[1]
        assert "-secret" not in json.dumps(found)
