from __future__ import annotations

import io
import json
from collections.abc import Iterable
from dataclasses import replace

import pytest
from rich.console import Console

from evenkeel.cli import doctor
from evenkeel.domain import codec
from evenkeel.domain.connection import Connection
from evenkeel.kafka.clients.sample import KeySample
from evenkeel.planning.diagnosis import Facts, diagnose
from tests.support.snapshots import broker, cluster, demo_snapshot, partitions_of


def test_findings_and_topics_are_tables() -> None:
    text = io.StringIO()
    doctor.print_diagnosis(
        diagnose(Facts(demo_snapshot(), metadata_version=30, steerable={"clipart": 90})),
        Console(file=text, width=200),
    )
    assert "Kafka version" in text.getvalue()
    assert "clipart" in text.getvalue()
    assert "90 %" in text.getvalue()


def test_a_diagnosis_has_a_json_form() -> None:
    found = json.loads(json.dumps(codec.to_json(diagnose(Facts(demo_snapshot())))))
    assert {"findings", "topics", "routedMaxFill"} <= found.keys()


@pytest.mark.parametrize("words", [[], ["--bootstrap", "a:1", "--sample", "-1"]])
def test_bad_arguments_are_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        doctor.main(words)
    assert ended.value.code == 2


def sample(monkeypatch: pytest.MonkeyPatch, **changes: object) -> dict[str, list[int]]:
    """Which partitions are looked at, of 25 topics alike: `changes` by field, a value for each partition."""
    looked: dict[str, list[int]] = {}

    def look(_: Connection, topic: str, partitions: Iterable[int], __: int) -> KeySample:
        looked[topic] = list(partitions)
        return KeySample(1, 1)

    monkeypatch.setattr(doctor, "sample_keys", look)
    rows = []
    for number in range(25):
        for one in partitions_of(f"t{number:02}", [(1,)] * 6, [100 - number] * 6):
            values = {name: given[one.partition] for name, given in changes.items()}  # type: ignore[index]
            rows.append(replace(one, **values))
    found = cluster([broker(1, 10_000, 5_000)], rows)
    assert len(dict(doctor._sample_topics(Connection(("k:1",)), found, 100))) == 25
    return looked


def test_the_fullest_partitions_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = sample(monkeypatch, log_start=(0, 50, 0, 0, 0, 0), end=(0, 60, 70, 0, 90, 80))
    assert looked["t00"] == looked["t19"] == [4, 5, 2, 1]
    assert looked["t20"] == looked["t24"] == [4]


def test_partitions_that_cannot_be_read_are_not_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    leaders = (1, 1, None, 1, None, 1)
    looked = sample(monkeypatch, log_start=(0,) * 6, end=(1, 2, 3, 4, 5, 6), leader=leaders)
    assert looked["t00"] == [5, 3, 1, 0]
    assert looked["t24"] == [5]


def test_partitions_whose_records_are_not_told_are_sampled_where_no_other_has_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[dict[int, int]] = [{1: 0}, {1: 10}, {1: 1}, {1: 0}, {}, {1: 0}]
    looked = sample(monkeypatch, log_start=(0,) * 6, end=(0, None, 1, 0, None, 0), replica_bytes=sizes)
    assert looked["t00"] == [2]
    looked = sample(monkeypatch, log_start=(0,) * 6, end=(0, None, 0, 0, None, 0), replica_bytes=sizes)
    assert looked["t00"] == [1, 2, 0, 3]
    assert looked["t24"] == [1]
