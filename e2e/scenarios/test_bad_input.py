"""Mistakes: each is told by a reason and a sentence within seconds, and heals when it is mended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from e2e.cluster.lifecycle import Cluster
from e2e.demo import data, sources
from e2e.scenarios import kafka, nodes
from e2e.scenarios.conftest import Demo
from e2e.scenarios.user import (
    CLUSTER,
    DATASET,
    DEMO_CLUSTER,
    TOPIC,
    Object,
    Said,
    User,
    build_cluster,
    build_dataset,
    build_topic,
)
from scripts.provision.steps import StepFailed

SAY_SECONDS = 30
POD_SECONDS = 120
"""Where a pod has to start first: those of all mistakes do at once."""
HEAL_SECONDS = 240
"""An ingest that failed is tried again after up to a minute."""
# Of this run: a volume that another one left keeps its claim.
CLAIM = f"mistakes-{uuid4().hex[:8]}"
LATE_CLAIM = f"{CLAIM}-late"


@dataclass(frozen=True)
class Mistake:
    """Something wrong, and what makes it right."""

    item: Object
    reason: str
    words: tuple[str, ...]
    """What the sentence has to name."""
    mend: Callable[[User, Cluster], None]
    healed: str = "Ready"
    """The reason afterwards."""
    seconds: float = POD_SECONDS
    """Until it is said."""

    @property
    def place(self) -> tuple[str, str]:
        plural = {"BalancedCluster": CLUSTER, "BalancedTopic": TOPIC, "TrainingDataset": DATASET}
        return plural[self.item["kind"]], self.item["metadata"]["name"]


@cache
def good() -> Path:
    """A picture without fault."""
    return min((data.ensure_digits() / "0").iterdir())


def edit(kind: str, name: str, spec: Object) -> Callable[[User, Cluster], None]:
    return lambda user, cluster: user.edit(kind, name, spec)


def put(name: str, *paths: str) -> Callable[[User, Cluster], None]:
    """Good pictures at these places of the volume."""

    def write(user: User, cluster: Cluster) -> None:
        for path in paths:
            nodes.write(cluster.workers[0], f"{sources.FOLDER}/{name}/{path}", good().read_bytes())

    return write


def offer_late(user: User, cluster: Cluster) -> None:
    sources.offer(cluster, cluster.workers[0], user.namespace, {LATE_CLAIM: good().parent.parent})


def build_mistakes(demo: Demo) -> dict[str, Mistake]:
    quarantine = {"ingest": {"parallelism": 1, "onBadRecord": "Quarantine"}}
    many = {"storage": {"partitions": 6, "replicationFactor": 9}}
    few = {"storage": {"replicationFactor": 2}}
    address = "nowhere.kafka.svc.cluster.local:9092"
    return {
        "unknown address": Mistake(
            build_cluster("nowhere", [address]), "BrokersUnreachable", (address,),
            edit(CLUSTER, "nowhere", {"bootstrapServers": list(demo.bootstrap)}),
            "ClusterOwnedElsewhere",  # the demo's own has it
        ),
        "partitions lowered": Mistake(
            build_topic("wide", partitions=6), "PartitionsLowered", ("12", "6"),
            edit(TOPIC, "wide", {"partitions": 12}), seconds=SAY_SECONDS,
        ),
        "copies above brokers, topic": Mistake(
            build_topic("copies", partitions=6, replicationFactor=9), "ReplicationAboveBrokers", ("9", "4"),
            edit(TOPIC, "copies", {"replicationFactor": 2}), seconds=SAY_SECONDS,
        ),
        "copies above brokers, dataset": Mistake(
            build_dataset("copies", CLAIM, path="good", **many), "ReplicationAboveBrokers", ("9", "4"),
            edit(DATASET, "copies", few), "Sealed", SAY_SECONDS,
        ),
        "no such path": Mistake(
            build_dataset("lost", CLAIM, path="absent"), "SourceMissing", ("absent",),
            put(CLAIM, "absent/class/1.png"), "Sealed",
        ),
        "zero bytes, file mended": Mistake(
            build_dataset("zero", CLAIM, path="zero"), "BadRecord", ("1.png", "zero bytes"),
            put(CLAIM, "zero/class/1.png"), "Sealed",
        ),
        "zero bytes, quarantined": Mistake(
            build_dataset("zero-too", CLAIM, path="zero-too"), "BadRecord", ("1.png", "zero bytes"),
            edit(DATASET, "zero-too", quarantine), "Sealed",
        ),
        "empty source": Mistake(
            build_dataset("empty", CLAIM, path="empty"), "SourceEmpty", ("holds no images",),
            put(CLAIM, "empty/class/1.png"), "Sealed",
        ),
        "no such claim": Mistake(
            build_dataset("late", LATE_CLAIM), "SourceMissing", (LATE_CLAIM,), offer_late, "Sealed",
        ),
    }  # fmt: skip


NAMES = tuple(
    build_mistakes(Demo(cluster=None, results={}, bootstrap=(), host_bootstrap=""))  # type: ignore[arg-type]
)


@dataclass(frozen=True)
class Told:
    """All mistakes, made at once, and what was said of each: a condition, or why there was none."""

    mistakes: dict[str, Mistake]
    said: dict[str, Said | AssertionError]
    restarts: dict[str, int]


@pytest.fixture(scope="module")
def told(
    demo: Demo,
    newcomer: User,
    tmp_path_factory: pytest.TempPathFactory,
    restarts: Callable[[], dict[str, int]],
) -> Iterator[Told]:
    before = restarts()
    folder = fill_volume(tmp_path_factory.mktemp("mistakes"))
    sources.offer(demo.cluster, demo.cluster.workers[0], newcomer.namespace, {CLAIM: folder})
    kafka.create_topic(demo.host_bootstrap, "wide", 12)
    mistakes = build_mistakes(demo)
    newcomer.apply(*(mistake.item for mistake in mistakes.values()))
    said = at_once(
        lambda one: newcomer.wait_reason(one.reason, *one.place, one.seconds), list(mistakes.values())
    )
    yield Told(mistakes, dict(zip(mistakes, said, strict=True)), before)
    for name in ("wide", "copies"):
        newcomer.delete(TOPIC, name)  # declared, it would be made again
    kafka.delete_topics(demo.host_bootstrap, ["wide", "copies"])


@pytest.fixture(scope="module")
def healed(told: Told, demo: Demo, newcomer: User) -> dict[str, Said | AssertionError]:
    """All mended at once."""
    for mistake in told.mistakes.values():
        mistake.mend(newcomer, demo.cluster)
    said = at_once(
        lambda one: newcomer.wait_reason(one.healed, *one.place, HEAL_SECONDS), list(told.mistakes.values())
    )
    return dict(zip(told.mistakes, said, strict=True))


def fill_volume(folder: Path) -> Path:
    """Folders with what is wrong, beside a good one."""
    contents = {
        "good/class/1.png": good().read_bytes(),
        "zero/class/0.png": good().read_bytes(),
        "zero/class/1.png": b"",
        "zero-too/class/0.png": good().read_bytes(),
        "zero-too/class/1.png": b"",
        "empty/notes.txt": b"pictures will follow",
    }
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def at_once(call: Callable[[Mistake], Said], mistakes: list[Mistake]) -> list[Said | AssertionError]:
    def attempt(mistake: Mistake) -> Said | AssertionError:
        try:
            return call(mistake)
        except AssertionError as error:
            return error

    with ThreadPoolExecutor(len(mistakes)) as pool:
        return list(pool.map(attempt, mistakes))


def unpack(found: Said | AssertionError) -> Said:
    if isinstance(found, AssertionError):
        raise found
    return found


@pytest.mark.parametrize("name", NAMES)
def test_it_is_said_in_time_and_names_what_is_wrong(told: Told, name: str) -> None:
    said = unpack(told.said[name])
    assert said.status == "False"
    assert [word for word in told.mistakes[name].words if word not in said.message] == [], said.message


@pytest.mark.parametrize("name", NAMES)
def test_it_heals_when_the_cause_is_mended(
    healed: dict[str, Said | AssertionError], told: Told, name: str
) -> None:
    said = unpack(healed[name])
    assert said.status == ("False" if told.mistakes[name].healed == "ClusterOwnedElsewhere" else "True")


def test_quarantine_lists_what_was_left_out(healed: dict[str, Said | AssertionError], newcomer: User) -> None:
    unpack(healed["zero bytes, quarantined"])
    revision = newcomer.get(DATASET, "zero-too")["status"]["revision"]
    assert (revision["records"], revision["rejectedRecords"]) == (1, 1)


def test_lowering_partitions_is_refused_by_the_api_server(newcomer: User, told: Told) -> None:
    with pytest.raises(StepFailed, match="partitions must not be lowered"):
        newcomer.edit(TOPIC, "copies", {"partitions": 3})


def test_a_mistaken_address_of_a_running_cluster(
    demo: Demo, administrator: User, vision: User, healed: dict[str, Any]
) -> None:
    administrator.edit(CLUSTER, DEMO_CLUSTER, {"bootstrapServers": ["nowhere.kafka.svc.cluster.local:9092"]})
    said = administrator.wait_reason("BrokersUnreachable", CLUSTER, DEMO_CLUSTER, SAY_SECONDS)
    assert "nowhere.kafka.svc.cluster.local:9092" in said.message
    vision.wait_for("Ready", DATASET, "digits", 30)  # what is sealed stays readable
    administrator.edit(CLUSTER, DEMO_CLUSTER, {"bootstrapServers": list(demo.bootstrap)})
    administrator.wait_for("Ready", CLUSTER, DEMO_CLUSTER, HEAL_SECONDS)


def test_nothing_of_ours_was_started_again(
    healed: dict[str, Any], told: Told, restarts: Callable[[], dict[str, int]]
) -> None:
    now = restarts()
    assert {name: now.get(name) for name in told.restarts} == told.restarts
    assert [name for name, count in now.items() if name not in told.restarts and count > 0] == []
