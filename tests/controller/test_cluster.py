from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from evenkeel import names
from evenkeel.domain import envelope
from evenkeel.domain.exchange import Fault, MovesReport, VolumeReport
from evenkeel.reasons import Reason
from tests.support.world import World, cluster, namespace_object, ready_world, secured_cluster, topic

GOLDEN = Path(__file__).parents[1] / "data" / "controller"


def started(item: dict[str, Any] | None = None) -> World:
    world = World()
    world.add(namespace_object("data"))
    world.add(item or cluster())
    world.run("BalancedCluster", "kafka")
    return world


def keeper_pod(world: World) -> dict[str, Any]:
    item = world.get("Deployment", "kafka-keeper")
    assert item is not None
    spec: dict[str, Any] = item["spec"]["template"]["spec"]
    return spec


def test_status_as_people_see_it() -> None:
    world = started()
    world.keeper_runs()
    moves = MovesReport(
        Reason.MOVES_PLANNED, "2 replicas would move", "Move", 90_000, 60_000,
        moves=2, move_bytes=500, deviation_before_permille=300, deviation_after_permille=20,
    )  # fmt: skip
    volumes = (VolumeReport(1, "/data", 1000, 900, "node-1"), VolumeReport(2, "/data", None, None))
    world.report(volumes=volumes, moves=moves, deviation_permille=300, max_fill_permille=900)
    world.run("BalancedCluster", "kafka")
    found = (world.get("BalancedCluster", "kafka") or {})["status"]
    assert found == yaml.safe_load((GOLDEN / "cluster-status.yaml").read_text())


def test_starts_and_says_so() -> None:
    world = started()
    assert world.condition("BalancedCluster", "kafka") == ("False", "Starting")
    assert world.condition("BalancedCluster", "kafka", "Reconciling")[0] == "True"


def test_children_in_the_order_they_are_needed() -> None:
    world = started()
    kinds = [child.resource.kind for child in world.plan("BalancedCluster", "kafka").children]
    assert kinds == ["ConfigMap", "ConfigMap", "ServiceAccount", "Role", "RoleBinding", "Deployment"]


def test_keeper_may_touch_two_config_maps_only() -> None:
    role = started().get("Role", "kafka-keeper") or {}
    (rule,) = role["rules"]
    assert rule["resourceNames"] == ["kafka-desired", "kafka-report"]
    assert set(rule["verbs"]) == {"get", "list", "watch", "patch"}


def test_keeper_pod_is_restricted() -> None:
    pod = keeper_pod(started())
    (container,) = pod["containers"]
    assert container["args"] == [
        "keeper", "--kubernetes", "--namespace=data", "--desired=kafka-desired", "--report=kafka-report",
    ]  # fmt: skip
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_secrets_are_mounted_optional_and_never_named_in_desired() -> None:
    world = started(secured_cluster())
    pod = keeper_pod(world)
    secrets = {one["name"]: one["secret"] for one in pod["volumes"] if "secret" in one}
    assert secrets == {
        "credentials-observe": {"secretName": "observe", "optional": True},
        "credentials-move": {"secretName": "move", "optional": True},
    }
    told = world.desired().connection
    assert told.credentials_path == f"{names.CREDENTIALS_PATH}/observe"
    assert told.move_credentials_path == f"{names.CREDENTIALS_PATH}/move"


def test_plain_cluster_needs_no_credentials() -> None:
    assert started().desired().connection.credentials_path is None


@pytest.mark.parametrize(
    ("reason", "other"),
    [
        (Reason.BROKERS_UNREACHABLE, "Reconciling"),
        (Reason.SECRET_MISSING, "Stalled"),
        (Reason.AUTHENTICATION_FAILED, "Stalled"),
        (Reason.CLUSTER_OWNED_ELSEWHERE, "Stalled"),
    ],
)
def test_fault_of_the_cluster_is_the_reason(reason: Reason, other: str) -> None:
    world = started()
    world.keeper_runs()
    world.report(faults=(Fault(Reason.TOPIC_DRIFT, "x", "topic/a"), Fault(reason, "why")))
    plan = world.run("BalancedCluster", "kafka")
    assert world.condition("BalancedCluster", "kafka") == ("False", reason)
    assert world.condition("BalancedCluster", "kafka", other)[0] == "True"
    assert reason in {saying.note.reason for saying in plan.sayings}


def test_keeper_that_vanished_is_said() -> None:
    world = ready_world()
    assert world.condition("BalancedCluster", "kafka") == ("True", "Measured")
    world.change("Deployment", "kafka-keeper", status={})
    world.run("BalancedCluster", "kafka")
    assert world.condition("BalancedCluster", "kafka") == ("False", "KeeperUnavailable")


def test_keeper_that_cannot_start_says_why() -> None:
    world = started()
    failure = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}
    world.change("Deployment", "kafka-keeper", status={"conditions": [failure]})
    world.run("BalancedCluster", "kafka")
    assert "exceeded quota" in world.message("BalancedCluster", "kafka")


def test_measurement_that_is_too_old() -> None:
    world = started()
    world.keeper_runs()
    world.report(measured=False)
    world.run("BalancedCluster", "kafka")
    assert world.condition("BalancedCluster", "kafka") == ("False", "Starting")
    world.report(measured=False, volumes=(VolumeReport(1, "/d", 10, 5),))
    world.run("BalancedCluster", "kafka")
    assert world.condition("BalancedCluster", "kafka") == ("False", "MeasurementStale")


@pytest.mark.parametrize("text", ["{", json.dumps({"claim": 1})])
def test_report_that_cannot_be_read_is_said(text: str) -> None:
    world = started()
    world.keeper_runs()
    world.change("ConfigMap", "kafka-report", **envelope.pack(names.REPORT_KEY, text))
    world.run("BalancedCluster", "kafka")
    assert world.condition("BalancedCluster", "kafka") == ("False", "KeeperUnavailable")


def test_report_of_a_deleted_cluster_of_the_same_name_is_not_believed() -> None:
    world = ready_world()
    world.change("BalancedCluster", "kafka", metadata={"uid": "another"}, status={})
    plan = world.plan("BalancedCluster", "kafka")
    assert plan.status is not None
    assert plan.status["conditions"][0]["reason"] == "Starting"


def test_second_look_changes_nothing() -> None:
    world = ready_world(topic("events"))
    plan = world.plan("BalancedCluster", "kafka")
    assert not plan.sayings
    assert (world.get("BalancedCluster", "kafka") or {})["status"]["conditions"] == (plan.status or {})[
        "conditions"
    ]


def test_cluster_on_its_way_out_is_left_alone() -> None:
    world = ready_world()
    world.change("BalancedCluster", "kafka", metadata={"deletionTimestamp": "2026-01-02T00:00:00Z"})
    plan = world.plan("BalancedCluster", "kafka")
    assert plan.children == ()
    assert plan.status is None


def test_large_desired_is_compressed() -> None:
    world = World()
    world.add(namespace_object("data"))
    world.add(cluster())
    config = [{"name": f"x{number}", "value": "y" * 900} for number in range(60)]
    for number in range(10):
        world.add(topic(f"t{number}", f"events-{number}", config=config))
        world.run("BalancedTopic", f"t{number}")
    world.run("BalancedCluster", "kafka")
    item = world.get("ConfigMap", "kafka-desired") or {}
    assert "data" not in item
    assert len(world.desired().topics) == 10


def test_new_spec_is_not_ready_until_the_keeper_took_it_up() -> None:
    world = ready_world()
    assert world.condition("BalancedCluster", "kafka") == ("True", "Measured")
    world.change(
        "BalancedCluster", "kafka", metadata={"generation": 2}, spec={"bootstrapServers": ["other:9092"]}
    )
    for _ in range(2):
        world.run("BalancedCluster", "kafka")
        assert world.condition("BalancedCluster", "kafka") == ("False", "Pending")
    world.report()
    world.run("BalancedCluster", "kafka")
    assert world.condition("BalancedCluster", "kafka") == ("True", "Measured")


def test_topic_that_is_added_does_not_disturb_its_cluster() -> None:
    world = ready_world()
    world.add(topic("events"))
    world.run("BalancedTopic", "events")
    world.run("BalancedCluster", "kafka")
    assert world.condition("BalancedCluster", "kafka") == ("True", "Measured")


def test_what_lies_on_a_silent_broker_is_not_called_balanced() -> None:
    world = ready_world()
    fault = Fault(Reason.MEASUREMENT_INCOMPLETE, "broker 3 is not online", "broker/3")
    world.report(faults=(fault,), deviation_permille=10, max_fill_permille=100)
    world.run("BalancedCluster", "kafka")
    assert world.condition("BalancedCluster", "kafka") == ("True", "Measured")
    assert "broker 3 is not online" in world.message("BalancedCluster", "kafka")
    for kind in ("Balanced", "StorageLow"):
        assert world.condition("BalancedCluster", "kafka", kind) == ("Unknown", "MeasurementIncomplete")
    world.report(faults=(fault,), deviation_permille=10, max_fill_permille=990)
    world.run("BalancedCluster", "kafka")
    assert world.condition("BalancedCluster", "kafka", "StorageLow") == ("True", "StorageLow")


@pytest.mark.parametrize(
    ("days", "told"),
    [
        ((None, None), ""),
        ((40, 3), "; if inflow goes on as now, /data of broker 2 is the first to be full, in about 3 days"),
        (
            (0, None),
            "; if inflow goes on as now, /data of broker 1 is the first to be full, in less than a day",
        ),
        ((1, None), "; if inflow goes on as now, /data of broker 1 is the first to be full, in about a day"),
    ],
)
def test_the_first_volume_to_be_full_is_named(days: tuple[int | None, int | None], told: str) -> None:
    world = ready_world()
    volumes = tuple(
        VolumeReport(number, "/data", 10, 5, full_in_days=left) for number, left in enumerate(days, 1)
    )
    world.report(volumes=volumes, max_fill_permille=500)
    world.run("BalancedCluster", "kafka")
    message = world.message("BalancedCluster", "kafka", "StorageLow")
    assert message == f"the fullest volume is at 50.0 %, limit 85 %{told}"
    status = (world.get("BalancedCluster", "kafka") or {})["status"]
    assert [one.get("fullInDays") for one in status["volumes"]] == list(days)


SERIES = Fault(Reason.SERIES_REFUSED, "cpu of 1 brokers (1) is not used: missing", "prometheus")
AWAITED = Fault(Reason.PENDING, "the first answer of Prometheus is awaited", "prometheus")


def watched_by_prometheus() -> World:
    world = started(cluster(measure={"prometheus": {"url": "http://prometheus:9090"}}))
    world.keeper_runs()
    return world


@pytest.mark.parametrize(
    ("faults", "told"),
    [
        ((), ("True", "Measured")),
        ((SERIES,), ("False", "SeriesRefused")),
        ((AWAITED,), ("Unknown", "Pending")),
    ],
)
def test_loads_that_are_not_known_turn_nothing_else_false(
    faults: tuple[Fault, ...], told: tuple[str, str]
) -> None:
    world = watched_by_prometheus()
    world.report(faults=faults)
    world.run("BalancedCluster", "kafka")
    assert world.condition("BalancedCluster", "kafka", "LoadsKnown") == told
    assert world.condition("BalancedCluster", "kafka") == ("True", "Measured")


def test_a_keeper_that_starts_anew_is_no_news_of_loads() -> None:
    world = watched_by_prometheus()
    for faults in ((SERIES,), (AWAITED,)):
        world.report(faults=faults)
        plan = world.plan("BalancedCluster", "kafka")
        world.run("BalancedCluster", "kafka")
    assert world.condition("BalancedCluster", "kafka", "LoadsKnown") == ("False", "SeriesRefused")
    assert not plan.sayings


def test_volumes_that_pods_and_sizes_do_not_agree_on_are_said_beside_ready_only() -> None:
    world = started()
    world.keeper_runs()
    odd = Fault(Reason.MEASUREMENT_INCOMPLETE, "/a and /b have different sizes", "volume/pv-1")
    world.report(faults=(odd,), deviation_permille=10, max_fill_permille=500)
    world.run("BalancedCluster", "kafka")
    assert world.condition("BalancedCluster", "kafka") == ("True", "Measured")
    assert "/a and /b have different sizes" in world.message("BalancedCluster", "kafka")
    assert world.condition("BalancedCluster", "kafka", "Balanced") == ("True", "Balanced")


def test_heartbeats_that_are_not_believed_are_said_beside_ready() -> None:
    world = started()
    world.keeper_runs()
    doubt = Fault(Reason.MEASUREMENT_INCOMPLETE, "heartbeats of routers are not believed", "routers")
    world.report(faults=(doubt,), deviation_permille=10, max_fill_permille=500)
    world.run("BalancedCluster", "kafka")
    assert world.condition("BalancedCluster", "kafka") == ("True", "Measured")
    assert doubt.message in world.message("BalancedCluster", "kafka")
