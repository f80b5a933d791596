from __future__ import annotations

from typing import Any

import pytest

from evenkeel.controller import act
from evenkeel.controller.act import ANNOTATION_APPLIED, NotLeaderError, Pace, Writer, contains
from evenkeel.controller.health import Metrics
from evenkeel.controller.plan import Child, Patch, Plan, Removal, Saying
from evenkeel.controller.store import Key, Store
from evenkeel.errors import ConfigurationError, InputError, RetryableError
from evenkeel.kube import resources
from evenkeel.kube.client import Kube
from evenkeel.kube.events import Note
from evenkeel.kube.failures import ConflictError
from evenkeel.reasons import Reason
from tests.support.world import cluster

KEY = Key("BalancedCluster", "data", "kafka")
OLD_OWNER = {"apiVersion": "evenkeel.dev/v1alpha1", "kind": "BalancedCluster", "uid": "old"}


class FakeKube(Kube):
    """Records calls; answers with what was sent; `trouble` is raised by calls of that verb."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, Any]] = []
        self.trouble: dict[str, Exception] = {}
        self.version = 100
        self.there: list[dict[str, Any]] = []

    async def list(self, resource: Any, **_: Any) -> Any:
        return [item for item in self.there if item["kind"] == resource.kind]

    def _answer(self, verb: str, kind: str, body: Any) -> dict[str, Any]:
        self.calls.append((verb, kind, body))
        if verb in self.trouble:
            raise self.trouble[verb]
        self.version += 1
        meta = {"uid": "u", **body.get("metadata", {}), "resourceVersion": str(self.version)}
        return {**body, "metadata": meta}

    async def apply(self, resource: Any, body: Any, *, subresource: str = "", force: bool = True) -> Any:
        return self._answer(f"apply{subresource}", resource.kind, dict(body))

    async def create(self, resource: Any, body: Any, **_: Any) -> Any:
        return self._answer("create", resource.kind, dict(body))

    async def delete(self, resource: Any, name: str, *_: Any) -> None:
        self._answer("delete", resource.kind, {"metadata": {"name": name}})

    async def patch_json(self, resource: Any, name: str, operations: Any, *_: Any, **__: Any) -> Any:
        return self._answer("json", resource.kind, {"metadata": {"name": name, "namespace": "data"}})

    async def patch_merge(self, resource: Any, name: str, body: Any, *_: Any, **__: Any) -> Any:
        return self._answer("merge", resource.kind, {**body, "metadata": {"name": name}})


class Bench:
    def __init__(self) -> None:
        self.kube = FakeKube()
        self.store = Store(lambda *_: ())
        self.held = True
        meta = {**cluster()["metadata"], "uid": "u", "resourceVersion": "1"}
        self.store.put("ADDED", {**cluster(), "metadata": meta})
        pace = Pace(1000.0)
        self.writer = Writer(self.kube, self.store, lambda: self.held, "operator-1", pace, Metrics())

    async def do(self, plan: Plan) -> float | None:
        return await self.writer.carry_out(KEY, plan)

    def verbs(self) -> list[tuple[str, str]]:
        return [(verb, kind) for verb, kind, _ in self.kube.calls]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def config_map(**data: str) -> Child:
    owner = [{"apiVersion": "v1", "kind": "X", "name": "kafka", "uid": "u"}]
    meta = {"name": "kafka-desired", "namespace": "data", "ownerReferences": owner}
    return Child(resources.CONFIG_MAP, {"metadata": meta, "data": data})


async def test_child_is_written_once(bench: Bench) -> None:
    await bench.do(Plan(children=(config_map(a="1"),)))
    await bench.do(Plan(children=(config_map(a="1"),)))
    assert bench.verbs() == [("apply", "ConfigMap")]
    await bench.do(Plan(children=(config_map(b="1"),)))
    assert len(bench.verbs()) == 2


async def test_drift_is_written_back(bench: Bench) -> None:
    await bench.do(Plan(children=(config_map(a="1"),)))
    item = dict(bench.store.get("ConfigMap", "data", "kafka-desired") or {})
    changed = {**item, "data": {"a": "other"}, "metadata": {**item["metadata"], "resourceVersion": "500"}}
    bench.store.put("MODIFIED", changed)
    await bench.do(Plan(children=(config_map(a="1"),)))
    assert len(bench.verbs()) == 2


async def test_value_that_the_server_writes_its_own_way_is_applied_once(bench: Bench) -> None:
    await bench.do(Plan(children=(config_map(cpu="1000m"),)))
    item = dict(bench.store.get("ConfigMap", "data", "kafka-desired") or {})
    # The same version with another value stands for what the server made of it.
    item["data"] = {"cpu": "1"}
    bench.store._objects["ConfigMap"]["data", "kafka-desired"] = item
    await bench.do(Plan(children=(config_map(cpu="1000m"),)))
    assert len(bench.verbs()) == 1
    bench.store.put("MODIFIED", {**item, "metadata": {**item["metadata"], "resourceVersion": "500"}})
    await bench.do(Plan(children=(config_map(cpu="1000m"),)))
    assert len(bench.verbs()) == 2


async def test_present_job_is_left_alone(bench: Bench) -> None:
    job = Child(
        resources.JOB, {"metadata": {"name": "j", "namespace": "data"}, "spec": {"x": 1}}, create_only=True
    )
    await bench.do(Plan(children=(job,)))
    other = Child(
        resources.JOB, {"metadata": {"name": "j", "namespace": "data"}, "spec": {"x": 2}}, create_only=True
    )
    await bench.do(Plan(children=(other,)))
    assert bench.verbs() == [("create", "Job")]


async def test_object_of_another_owner_is_waited_for(bench: Bench) -> None:
    meta = {"name": "kafka-desired", "namespace": "data", "uid": "c", "resourceVersion": "1"}
    bench.store.put("ADDED", {"kind": "ConfigMap", "metadata": {**meta, "ownerReferences": [OLD_OWNER]}})
    with pytest.raises(RetryableError, match="another owner"):
        await bench.do(Plan(children=(config_map(a="1"),)))
    assert bench.verbs() == []


async def test_nothing_is_written_without_the_lease(bench: Bench) -> None:
    bench.held = False
    with pytest.raises(NotLeaderError):
        await bench.do(Plan(children=(config_map(a="1"),)))
    assert bench.verbs() == []


def status(reason: str = "Starting", **more: Any) -> dict[str, Any]:
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": reason,
        "message": "m",
        "observedGeneration": 1,
    }
    return {"observedGeneration": 1, "conditions": [condition], **more}


async def test_status_is_written_only_if_it_differs(bench: Bench) -> None:
    assert await bench.do(Plan(status=status())) is None
    assert await bench.do(Plan(status=status(volumes=[]))) is None
    assert bench.verbs() == [("applystatus", "BalancedCluster")]
    assert bench.kube.calls[0][2]["metadata"]["uid"] == "u"


async def test_progress_waits_and_flips_do_not(bench: Bench) -> None:
    await bench.do(Plan(status=status(brokers=1)))
    wait = await bench.do(Plan(status=status(brokers=2)))
    assert wait is not None
    assert 4 < wait <= act.PROGRESS_SECONDS
    assert await bench.do(Plan(status=status("Measured", brokers=2))) is None
    assert len(bench.verbs()) == 2


async def test_events_come_after_the_rest_worked(bench: Bench) -> None:
    item = bench.store.get("BalancedCluster", "data", "kafka")
    assert item is not None
    note = Saying(item, Note(Reason.MEASURED, "m", "Measure"))
    await bench.do(Plan(status=status(), sayings=(note,)))
    assert bench.verbs() == [("applystatus", "BalancedCluster"), ("create", "Event")]
    bench.kube.trouble["apply"] = RetryableError("away")
    with pytest.raises(RetryableError):
        await bench.do(Plan(children=(config_map(a="1"),), sayings=(note,)))
    assert bench.verbs()[-1] == ("apply", "ConfigMap")


async def test_event_that_cannot_be_written_is_no_failure(bench: Bench) -> None:
    bench.kube.trouble["create"] = ConfigurationError("forbidden")
    item = bench.store.get("BalancedCluster", "data", "kafka")
    assert item is not None
    await bench.do(Plan(sayings=(Saying(item, Note(Reason.MEASURED, "m", "Measure")),)))


async def test_events_on_foreign_objects_are_said_once(bench: Bench) -> None:
    item = bench.store.get("BalancedCluster", "data", "kafka")
    assert item is not None
    saying = Saying(item, Note(Reason.NOT_WARM, "waiting", "Wait"), once=True)
    await bench.do(Plan(sayings=(saying,)))
    await bench.do(Plan(sayings=(saying,)))
    assert bench.verbs() == [("create", "Event")]


async def test_refusal_is_said_to_the_owner(bench: Bench) -> None:
    bench.kube.trouble["apply"] = ConfigurationError("configmaps is forbidden", reason=Reason.NOT_PERMITTED)
    with pytest.raises(ConfigurationError):
        await bench.do(Plan(children=(config_map(a="1"),), status=status()))
    (verb, _, body), (_, _, event) = bench.kube.calls[-2:]
    ready = body["status"]["conditions"][0]
    assert (verb, ready["status"], ready["reason"]) == ("applystatus", "False", "NotPermitted")
    assert event["reason"] == "NotPermitted"


async def test_refusal_does_not_take_ready_away(bench: Bench) -> None:
    bench.kube.trouble["create"] = ConfigurationError("jobs is forbidden", reason=Reason.NOT_PERMITTED)
    job = Child(resources.JOB, {"metadata": {"name": "j", "namespace": "data"}}, create_only=True)
    planned = status("Sealed")
    planned["conditions"][0]["status"] = "True"
    with pytest.raises(ConfigurationError):
        await bench.do(Plan(children=(job,), status=planned))
    written = [body for verb, _, body in bench.kube.calls if verb == "applystatus"]
    assert [one["status"]["conditions"][0]["status"] for one in written] == ["True"]


async def test_refused_write_does_not_hold_up_the_others(bench: Bench) -> None:
    bench.kube.trouble["json"] = InputError("test failed")
    patches = (
        Patch(resources.POD, "data", "rank", ({"op": "test"},)),
        Patch(resources.NODE, None, "a", {"metadata": {}}),
    )
    with pytest.raises(RetryableError):
        await bench.do(Plan(patches=patches))
    assert bench.verbs() == [("json", "Pod"), ("merge", "Node")]


async def test_server_that_does_not_answer_ends_the_plan(bench: Bench) -> None:
    bench.kube.trouble["apply"] = RetryableError("away")
    with pytest.raises(RetryableError):
        await bench.do(Plan(children=(config_map(a="1"), config_map(a="1"))))
    assert bench.verbs() == [("apply", "ConfigMap")]


@pytest.mark.parametrize(
    ("labels", "owners", "error"),
    [
        ({}, [], InputError),
        ({}, [{"apiVersion": "apps/v1", "kind": "Deployment", "uid": "x"}], InputError),
        ({}, [OLD_OWNER], RetryableError),
        ({"app.kubernetes.io/managed-by": "evenkeel"}, [], None),
    ],
)
async def test_object_of_somebody_else_is_never_taken_over(
    bench: Bench, labels: Any, owners: Any, error: type[Exception] | None
) -> None:
    meta = {"name": "kafka-desired", "namespace": "data", "uid": "c", "labels": labels}
    bench.kube.there = [{"kind": "ConfigMap", "metadata": {**meta, "ownerReferences": owners}}]
    if error is None:
        await bench.do(Plan(children=(config_map(a="1"),)))
        assert ("apply", "ConfigMap") in bench.verbs()
    else:
        with pytest.raises(error):
            await bench.do(Plan(children=(config_map(a="1"),)))
        assert ("apply", "ConfigMap") not in bench.verbs()


async def test_conflicts_are_tried_again(bench: Bench) -> None:
    bench.kube.trouble["apply"] = ConflictError("uid mismatch")
    with pytest.raises(RetryableError):
        await bench.do(Plan(children=(config_map(a="1"),)))


async def test_failed_test_of_a_json_patch_is_tried_again_but_a_bad_merge_is_not(bench: Bench) -> None:
    bench.kube.trouble = {"json": InputError("test failed"), "merge": InputError("no")}
    with pytest.raises(RetryableError):
        await bench.do(Plan(patches=(Patch(resources.POD, "data", "rank", ({"op": "test"},)),)))
    with pytest.raises(InputError, match="no"):
        await bench.do(Plan(patches=(Patch(resources.NODE, None, "a", {"metadata": {}}),)))


async def test_removal(bench: Bench) -> None:
    await bench.do(Plan(removals=(Removal(resources.JOB, "data", "j", "u"),)))
    assert bench.verbs() == [("delete", "Job")]


async def test_applied_digest_is_on_the_object(bench: Bench) -> None:
    await bench.do(Plan(children=(config_map(a="1"),)))
    assert ANNOTATION_APPLIED in bench.kube.calls[0][2]["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("present", "wanted", "same"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": [{"x": 1, "y": 2}]}, {"a": [{"x": 1}]}, True),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ({}, {"a": []}, True),
        ({}, {"a": {}}, True),
        ({"a": [1]}, {"a": []}, False),
        ({"a": "1"}, {"a": 1}, False),
        ({"a": None}, {"a": {"b": 1}}, False),
    ],
)
def test_contains(present: Any, wanted: Any, same: bool) -> None:  # noqa: FBT001 - a table
    assert contains(present, wanted) is same


def test_pace_lets_a_burst_through_and_then_a_rate() -> None:
    pace = Pace(10.0, clock=lambda: 100.0)
    waits = [pace.reserve() for _ in range(25)]
    assert waits[:20] == [0.0] * 20
    assert waits[-1] == pytest.approx(0.4, abs=0.11)
