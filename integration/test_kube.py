from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from evenkeel.errors import ConfigurationError, InputError, RetryableError
from evenkeel.kube import resources
from evenkeel.kube.client import Kube
from evenkeel.kube.events import Note, emit
from evenkeel.kube.failures import ConflictError, KindAbsentError, NotFoundError
from evenkeel.kube.lease import Lease, LeaseTimes
from evenkeel.kube.resources import BALANCED_TOPIC, CONFIG_MAP, EVENT, Resource
from evenkeel.reasons import Reason
from integration.apiserver.server import ApiServer, Kubectl

TIMES = LeaseTimes(duration=3, deadline=2, period=0.2)
PATIENT = LeaseTimes(duration=15, deadline=12, period=0.2)
"""Where no lease should run out: a busy machine stands still for seconds."""


async def connect(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> Kube:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    return await Kube.connect()


@pytest.fixture
async def kube(apiserver: ApiServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Kube]:
    found = await connect(apiserver.kubeconfig(), monkeypatch)
    yield found
    await found.close()


def config_map(namespace: str, name: str = "a", **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "data": data}


async def test_apply_creates_changes_and_removes(kube: Kube, namespace: str) -> None:
    first = await kube.apply(CONFIG_MAP, config_map(namespace, x="1", y="2"))
    assert first["data"] == {"x": "1", "y": "2"}
    second = await kube.apply(CONFIG_MAP, config_map(namespace, x="1"))
    assert second["data"] == {"x": "1"}
    assert await kube.get(CONFIG_MAP, "a", namespace) == second
    assert await kube.get(CONFIG_MAP, "absent", namespace) is None


async def test_apply_with_uid_never_resurrects(kube: Kube, namespace: str) -> None:
    body = config_map(namespace)
    body["metadata"]["uid"] = "b6e0b1de-0000-4000-8000-000000000000"
    with pytest.raises(ConflictError):
        await kube.apply(CONFIG_MAP, body)


async def test_field_that_the_crd_does_not_know(crds: Kubectl, kube: Kube, namespace: str) -> None:
    meta = {"name": "t", "namespace": namespace}
    with pytest.raises(InputError) as caught:
        await kube.apply(BALANCED_TOPIC, {"metadata": meta, "spec": {"topicName": "t", "ofTomorrow": 1}})
    assert caught.value.reason is Reason.CRD_OLDER_THAN_OPERATOR
    assert not caught.value.retry


async def test_value_that_is_refused_names_the_field(crds: Kubectl, kube: Kube, namespace: str) -> None:
    meta = {"name": "t", "namespace": namespace}
    with pytest.raises(InputError, match=r"spec\.partitions") as caught:
        await kube.apply(BALANCED_TOPIC, {"metadata": meta, "spec": {"topicName": "t", "partitions": 0}})
    assert caught.value.reason is Reason.INVALID_SPEC


async def test_absent_kind_and_absent_object_are_different(kube: Kube, namespace: str) -> None:
    absent = Resource("example.com/v1", "things", namespaced=True, kind="Thing")
    with pytest.raises(KindAbsentError):
        await kube.list(absent)
    with pytest.raises(NotFoundError):
        await kube.patch_merge(CONFIG_MAP, "absent", {"data": {"x": "1"}}, namespace)


async def test_delete_takes_only_the_object_that_was_meant(kube: Kube, namespace: str) -> None:
    item = await kube.create(CONFIG_MAP, config_map(namespace))
    with pytest.raises(ConflictError):
        await kube.create(CONFIG_MAP, config_map(namespace))
    with pytest.raises(ConflictError):
        await kube.delete(CONFIG_MAP, "a", namespace, uid="b6e0b1de-0000-4000-8000-000000000000")
    await kube.delete(CONFIG_MAP, "a", namespace, uid=item["metadata"]["uid"])
    await kube.delete(CONFIG_MAP, "a", namespace)


async def test_json_patch_with_a_failed_test_is_refused(kube: Kube, namespace: str) -> None:
    await kube.create(CONFIG_MAP, config_map(namespace, x="1"))
    operations = [{"op": "test", "path": "/data/x", "value": "2"}, {"op": "remove", "path": "/data/x"}]
    with pytest.raises(InputError):
        await kube.patch_json(CONFIG_MAP, "a", operations, namespace)
    changed = await kube.patch_json(CONFIG_MAP, "a", [{"op": "remove", "path": "/data/x"}], namespace)
    assert not changed.get("data")


async def test_list_pages_and_selects(kube: Kube, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenkeel.kube.client.PAGE", 2)
    for number in range(5):
        body = config_map(namespace, f"m{number}")
        body["metadata"]["labels"] = {"odd": str(number % 2)}
        await kube.create(CONFIG_MAP, body)
    found = await kube.list(CONFIG_MAP, namespace=namespace, label_selector="odd")
    assert len(found) == 5
    assert found[0]["kind"] == "ConfigMap"
    only = await kube.list(CONFIG_MAP, namespace=namespace, field_selector="metadata.name=m3")
    assert [one["metadata"]["name"] for one in only] == ["m3"]


async def test_missing_right_is_a_configuration_error(
    apiserver: ApiServer, monkeypatch: pytest.MonkeyPatch, namespace: str
) -> None:
    alice = await connect(apiserver.kubeconfig("alice"), monkeypatch)
    with pytest.raises(ConfigurationError) as caught:
        await alice.list(CONFIG_MAP, namespace=namespace)
    assert caught.value.reason is Reason.NOT_PERMITTED
    assert await alice.ready()
    await alice.close()


async def test_watch_follows_what_happens(kube: Kube, namespace: str) -> None:
    await kube.create(CONFIG_MAP, config_map(namespace, "one"))
    listed = asyncio.Event()
    seen: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    async def follow() -> None:
        selector = "metadata.name!=kube-root-ca.crt"
        async for kind, item in kube.watch(
            CONFIG_MAP, namespace=namespace, field_selector=selector, on_listed=listed.set
        ):
            await seen.put((kind, item["metadata"]["name"]))

    task = asyncio.create_task(follow())
    await asyncio.wait_for(listed.wait(), 60)
    await kube.apply(CONFIG_MAP, config_map(namespace, "two", x="1"))
    await kube.delete(CONFIG_MAP, "one", namespace)
    events = [await asyncio.wait_for(seen.get(), 60) for _ in range(3)]
    task.cancel()
    assert events == [("ADDED", "one"), ("ADDED", "two"), ("DELETED", "one")]


async def test_token_is_known_by_its_audience(kube: Kube, kube_admin: Kubectl, namespace: str) -> None:
    kube_admin("create", "serviceaccount", "loader", "-n", namespace)
    words = ("create", "token", "loader", "-n", namespace, "--audience=evenkeel-cache")
    token = await asyncio.to_thread(kube_admin, *words)
    found = await kube.review_token(token.strip(), "evenkeel-cache")
    account = await kube.get(resources.SERVICE_ACCOUNT, "loader", namespace)
    assert found is not None
    assert account is not None
    assert found.uid == account["metadata"]["uid"]
    assert await kube.review_token(token.strip(), "other") is None
    assert await kube.review_token("garbage", "evenkeel-cache") is None


async def test_events_are_counted(kube: Kube, namespace: str) -> None:
    item = await kube.create(CONFIG_MAP, config_map(namespace))
    note = Note(Reason.SEALED, "revision ab is sealed", "Ingest")
    for _ in range(3):
        await emit(kube, {**CONFIG_MAP.header(), **item}, note, "operator-1")
    (event,) = await kube.list(EVENT, namespace=namespace)
    assert event["series"]["count"] == 3


async def test_one_leader_at_a_time(kube: Kube, namespace: str) -> None:
    first, second = (Lease(kube, namespace, "lease", name, times=PATIENT) for name in "ab")
    await first.acquire()
    holding = asyncio.create_task(first.hold())
    waiting = asyncio.create_task(second.acquire())
    done, _ = await asyncio.wait([waiting], timeout=PATIENT.duration + 2)
    assert not done
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)
    await first.release()
    await asyncio.wait_for(waiting, 60)
    assert second.held()
    assert not first.held()


async def test_server_that_is_away_or_frozen_is_retryable(
    own_apiserver: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    kube = await connect(own_apiserver.kubeconfig(), monkeypatch)
    lease = Lease(kube, "default", "lease", "a", times=TIMES)
    await lease.acquire()
    own_apiserver.freeze()
    try:
        await asyncio.wait_for(lease.hold(), 30)
        assert not lease.held()
        with pytest.raises(RetryableError):
            await asyncio.wait_for(kube.get(CONFIG_MAP, "a", "default"), 60)
    finally:
        own_apiserver.thaw()
    own_apiserver.stop_server()
    with pytest.raises(RetryableError):
        await kube.get(CONFIG_MAP, "a", "default")
    assert not await kube.ready()
    await kube.close()
