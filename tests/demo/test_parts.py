from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from e2e.demo import fills, install, messages, prepare, sources
from e2e.demo.fills import Disk, Gauge
from e2e.demo.messages import Load
from e2e.demo.meter import available_bytes
from e2e.demo.twins import plain_config
from e2e.demo.yardstick import build_yardstick
from evenkeel.domain.exchange import Policy
from evenkeel.domain.snapshot import Broker, ClusterSnapshot, LogDir
from evenkeel.errors import ConfigurationError, EvenkeelError, RetryableError
from evenkeel.planning.placement import plan_assignments
from evenkeel.reasons import Reason
from scripts.provision import cache
from scripts.provision.steps import StepFailed
from scripts.provision.tasks import Tasks

MIB = 1 << 20
SIZES = {1: 512 * MIB, 2: 768 * MIB, 3: 1024 * MIB, 4: 1024 * MIB}
TARGETS = {1: 0.60, 2: 0.45, 3: 0.30, 4: 0.15}
PNG = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + b"\0\0\0\x08" * 2 + b"more"


def build_snapshot() -> ClusterSnapshot:
    brokers = tuple(
        Broker(id=i, log_dirs=(LogDir("/data", size, int(size * (1 - TARGETS[i]))),))
        for i, size in SIZES.items()
    )
    return ClusterSnapshot(brokers=brokers, partitions=(), incoming=())


def build_gauge(readings: Sequence[dict[int, Disk] | EvenkeelError]) -> Gauge:
    """A gauge of a cluster whose brokers say one reading after the other, the last one for ever."""
    gauge = object.__new__(Gauge)
    clock, left = [0.0], list(readings)

    def pause(seconds: float) -> None:
        clock[0] += seconds

    def ask() -> dict[int, Disk]:
        found = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(found, EvenkeelError):
            raise found
        return found

    gauge._monotonic, gauge._pause = lambda: clock[0], pause
    gauge._ask = ask  # type: ignore[method-assign]
    return gauge


def disk(used: int) -> dict[int, Disk]:
    return {1: Disk(100 * MIB, used)}


def test_ballast_fills_what_is_missing() -> None:
    assert fills.plan_ballast({1: Disk(1000, 100)}, {1: 0.6}) == {1: 500}


def test_a_disk_that_is_too_full_for_its_target_is_named() -> None:
    with pytest.raises(ValueError, match=r"broker 1: 70.0% used, 60.0% wanted"):
        fills.plan_ballast({1: Disk(1000, 700)}, {1: 0.6})


def test_disks_are_read_once_they_stand_still() -> None:
    gauge = build_gauge([disk(0), disk(5 * MIB), disk(9 * MIB), disk(9 * MIB + 100)])
    assert gauge.read_still()[1].used_bytes == 9 * MIB + 100


def test_a_broker_that_takes_no_connection_yet_is_asked_again() -> None:
    absent = RetryableError("broker 1: not connected", reason=Reason.BROKERS_UNREACHABLE)
    assert build_gauge([absent, absent, disk(7)]).read() == disk(7)


def test_a_broker_that_never_answers_is_said() -> None:
    absent = RetryableError("broker 1: not connected", reason=Reason.BROKERS_UNREACHABLE)
    with pytest.raises(RetryableError, match="broker 1: not connected"):
        build_gauge([absent]).read()


def test_a_refusal_is_said_at_once() -> None:
    refusal = ConfigurationError("no right", reason=Reason.AUTHORIZATION_MISSING)
    with pytest.raises(ConfigurationError, match="no right"):
        build_gauge([refusal, disk(7)]).read()


def test_a_measurement_with_gaps_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, gauge = build_snapshot(), build_gauge([disk(0)])
    found = [replace(whole, unknown=("brokers[0].logDirs",)), whole]
    monkeypatch.setattr(gauge, "_measure", lambda: found.pop(0))
    assert gauge.snapshot() == whole


def test_gaps_that_stay_are_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    partial, gauge = replace(build_snapshot(), unknown=("brokers[0].logDirs",)), build_gauge([disk(0)])
    monkeypatch.setattr(gauge, "_measure", lambda: partial)
    assert gauge.snapshot() == partial
    assert "the brokers leave open: brokers[0].logDirs" in capsys.readouterr().err


def test_disks_that_never_stand_still_are_said() -> None:
    gauge = build_gauge([disk(i * MIB) for i in range(1000)])
    with pytest.raises(StepFailed, match="do not come to rest within 180 s"):
        gauge.read_still()


def test_deleted_bytes_are_waited_for() -> None:
    gauge = build_gauge([disk(50 * MIB), disk(30 * MIB), disk(11 * MIB)])
    gauge.wait_back(disk(10 * MIB))


def test_deleted_bytes_that_stay_are_said() -> None:
    gauge = build_gauge([disk(50 * MIB)])
    with pytest.raises(StepFailed, match="still on the disks after 180 s"):
        gauge.wait_back(disk(10 * MIB))


def test_the_yardstick_lies_between_the_fullest_disk_and_equal_shares() -> None:
    snapshot = build_snapshot()
    best = build_yardstick(snapshot, plan_assignments(snapshot.brokers, 24, 2), 154 * MIB, Policy())
    assert 0.60 <= best.uncapped <= best.optimum < 0.62
    assert best.uniform == pytest.approx(0.60 + 154 / 2 / 512, abs=0.01)


@pytest.mark.parametrize("name", ["30-clipart.yaml", "31-digits.yaml"])
def test_the_examples_can_be_packed_as_the_ingest_does(name: str, tmp_path: Path) -> None:
    for category in ("cats", "dogs"):
        (tmp_path / category).mkdir()
        for number in range(3):
            (tmp_path / category / f"{number}.png").write_bytes(PNG)
    dataset = messages.read_dataset(install.EXAMPLES / name)
    load = messages.pack(dataset, tmp_path)
    assert load.objects == messages.count_source(dataset, tmp_path) == 6
    assert sum(int(dict(headers)["evenkeel-count"]) for _, headers in load.messages) == 6
    assert load.value_bytes < load.planned_bytes * 2


def test_the_plain_producer_differs_from_the_ingest_by_routing_alone(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.png").write_bytes(PNG)
    load: Load = messages.pack(messages.read_dataset(install.EXAMPLES / "30-clipart.yaml"), tmp_path)
    config = plain_config("127.0.0.1:9092", load)
    assert not [key for key in config if key.startswith("evenkeel")]
    assert "partitioner" not in config
    assert config["acks"] == "all"


def test_a_source_volume_is_bound_to_its_claim() -> None:
    volume, claim = sources.build_volume("clipart", "team", "node-1", "/somewhere")
    assert volume["spec"]["claimRef"]["name"] == claim["metadata"]["name"] == "clipart"
    assert claim["spec"]["volumeName"] == volume["metadata"]["name"]
    assert "node-1" in json.dumps(volume)


def test_images_are_told_to_helm_by_repository_and_tag() -> None:
    words = install.image_values("evenkeel/evenkeel-control:12", "evenkeel/evenkeel-data:34")
    assert "image.control.repository=evenkeel/evenkeel-control" in words
    assert "image.data.tag=34" in words


def test_the_training_example_has_the_placeholder_of_its_image() -> None:
    assert install.TRAINING_PLACEHOLDER in (install.EXAMPLES / "40-training.yaml").read_text()


def test_what_was_prepared_survives_its_way_to_the_second_half() -> None:
    prepared = prepare.Prepared("c:1", "d:2", "t:3", 1.5, (("docker", 0.5),))
    assert prepare.Prepared.loads(prepared.dumps()) == prepared


def test_changes_of_the_machine_name_missing_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare.apt, "missing", lambda _: ["maven"])
    monkeypatch.setattr(prepare.docker, "plan_changes", list)
    monkeypatch.setattr(prepare, "_can_make_environments", lambda: False)
    changes = prepare.plan_changes()
    assert [change.split()[-1] for change in changes] == ["maven", "python3-venv"]


def test_a_failed_task_is_raised_and_the_others_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[bool] = []
    monkeypatch.setattr("scripts.provision.steps.stop", lambda: stopped.append(True))

    def fail() -> None:
        raise StepFailed("no")

    def work() -> None:
        with Tasks() as tasks:
            tasks.start(fail)
            tasks.wait_all()

    with pytest.raises(StepFailed, match="no"):
        work()
    assert stopped == [True]


def test_tasks_give_their_results() -> None:
    with Tasks() as tasks:
        future = tasks.start(lambda: 7)
        tasks.wait_all()
    assert future.result() == 7


def test_available_memory_is_read_in_bytes() -> None:
    assert available_bytes("MemTotal: 9 kB\nMemAvailable:   2 kB\n") == 2048


def test_the_whole_house_is_there() -> None:
    expected: list[Any] = [
        "10-cluster.yaml",
        "20-topic.yaml",
        "30-clipart.yaml",
        "31-digits.yaml",
        "40-training.yaml",
    ]
    assert [path.name for path in sorted((cache.REPOSITORY / "examples").glob("*.yaml"))] == expected
