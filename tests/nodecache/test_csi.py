"""Publish and unpublish through the real gRPC server; the kernel and the cache are doubles."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import grpc
import pytest
import pytest_asyncio
from google.protobuf.message import Message

from evenkeel import names
from evenkeel.domain.nodes import HoldState
from evenkeel.errors import RetryableError
from evenkeel.nodecache.csi import Identity, Node, Registration, serve
from evenkeel.nodecache.layout import RevisionKey
from evenkeel.nodecache.local import CacheSocket, Mounted
from evenkeel.nodecache.mounter import Mounter
from evenkeel.nodecache.proto import csi_pb2 as csi
from evenkeel.nodecache.proto import pluginregistration_pb2 as registration
from evenkeel.nodecache.store import Lookup
from evenkeel.reasons import Reason
from tests.support.mounts import FakeMounts

A = TypeVar("A", bound=Message)
KEY = RevisionKey("7c1d2f9e-0000", "ab" * 32)
MOUNT = csi.VolumeCapability(mount=csi.VolumeCapability.MountVolume())
CONTEXT = {
    "csi.storage.k8s.io/ephemeral": "true",
    "csi.storage.k8s.io/pod.namespace": "team",
    "csi.storage.k8s.io/pod.name": "trainer-0",
    "dataset": "digits",
}


@dataclass
class FakeCache(CacheSocket):
    """Warm or not, for one dataset of one namespace."""

    answer: Lookup = field(default_factory=lambda: Lookup(HoldState.WARM, 100, "", KEY))
    silent: bool = False
    reported: list[Mounted] = field(default_factory=list)

    async def lookup(self, reference: str) -> Lookup:
        if self.silent:
            raise RetryableError("the node's cache does not answer", reason=Reason.CACHE_UNAVAILABLE)
        known = reference == names.dataset_reference("team", "digits")
        return self.answer if known else Lookup(HoldState.WANTED, 0, "this node is not asked to hold it")

    async def put_mounts(self, mounted: Mounted) -> None:
        if self.silent:
            raise RetryableError("the node's cache does not answer", reason=Reason.CACHE_UNAVAILABLE)
        self.reported.append(mounted)


@dataclass
class Plugin:
    """The served plug-in, its doubles, and a client."""

    channel: grpc.aio.Channel
    mounts: FakeMounts
    cache: FakeCache
    pods: Path

    @property
    def target(self) -> Path:
        return self.pods / "uid-1" / "volumes" / "kubernetes.io~csi" / "data" / "mount"

    async def call(self, method: str, request: Message, answer: type[A]) -> A:
        call = self.channel.unary_unary(
            f"/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )
        found: A = await call(request)
        return found

    async def publish(self, **changes: object) -> None:
        fields = {
            "volume_id": "csi-1",
            "target_path": str(self.target),
            "volume_capability": MOUNT,
            "readonly": True,
            "volume_context": CONTEXT,
            **changes,
        }
        request = csi.NodePublishVolumeRequest(**fields)  # type: ignore[arg-type]
        await self.call("csi.v1.Node/NodePublishVolume", request, csi.NodePublishVolumeResponse)

    async def unpublish(self, target: Path | None = None) -> None:
        path = str(self.target if target is None else target)
        request = csi.NodeUnpublishVolumeRequest(volume_id="csi-1", target_path=path)
        await self.call("csi.v1.Node/NodeUnpublishVolume", request, csi.NodeUnpublishVolumeResponse)


@pytest_asyncio.fixture
async def plugin(tmp_path: Path) -> AsyncIterator[Plugin]:
    mounts, cache, pods = FakeMounts(), FakeCache(), tmp_path / "pods"
    (pods / "uid-1" / "volumes" / "kubernetes.io~csi" / "data").mkdir(parents=True)
    mounter = Mounter(mounts, cache, store=tmp_path / "store", pods=pods)
    server = await serve(tmp_path / "csi.sock", Identity(), Node(mounter, "node-1"))
    async with grpc.aio.insecure_channel(f"unix://{tmp_path}/csi.sock") as channel:
        yield Plugin(channel, mounts, cache, pods)
    await server.stop(None)


async def refused(work: object) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await work  # type: ignore[misc]
    return caught.value.code(), caught.value.details() or ""


async def test_a_warm_dataset_is_mounted_and_reported(plugin: Plugin) -> None:
    await plugin.publish()
    assert [(mount.root, mount.target) for mount in plugin.mounts.mounted] == [
        (f"/{KEY.dataset_uid}/{KEY.digest}", str(plugin.target))
    ]
    assert plugin.cache.reported[-1].revisions == (KEY,)


async def test_publishing_again_mounts_nothing_more(plugin: Plugin) -> None:
    await asyncio.gather(*(plugin.publish() for _ in range(5)))
    assert len(plugin.mounts.mounted) == 1


async def test_unpublishing_removes_every_layer_and_may_be_repeated(plugin: Plugin) -> None:
    await plugin.publish()
    plugin.mounts.mounted *= 3
    for _ in range(2):
        await plugin.unpublish()
        assert plugin.mounts.mounted == []
        assert not plugin.target.exists()
    assert plugin.cache.reported[-1].revisions == ()


async def test_a_dataset_that_is_not_warm_is_unavailable_with_its_percent(plugin: Plugin) -> None:
    plugin.cache.answer = Lookup(HoldState.LOADING, 42, "42% are here")
    code, message = await refused(plugin.publish())
    assert code is grpc.StatusCode.UNAVAILABLE
    assert "42 percent is loaded" in message
    assert "%" not in message, "kubelet formats the text once more"
    assert not plugin.target.exists()


async def test_a_dataset_of_another_namespace_is_not_found(plugin: Plugin) -> None:
    context = {**CONTEXT, "csi.storage.k8s.io/pod.namespace": "thieves"}
    code, message = await refused(plugin.publish(volume_context=context))
    assert code is grpc.StatusCode.UNAVAILABLE
    assert "not asked to hold" in message
    assert plugin.mounts.mounted == []


async def test_a_cache_that_does_not_answer_is_unavailable(plugin: Plugin) -> None:
    plugin.cache.silent = True
    assert (await refused(plugin.publish()))[0] is grpc.StatusCode.UNAVAILABLE
    plugin.cache.silent = False
    await plugin.publish()
    plugin.cache.silent = True
    await plugin.unpublish()
    assert plugin.mounts.mounted == []


async def test_a_kernel_that_refuses_is_unavailable(plugin: Plugin) -> None:
    plugin.mounts.refuse = OSError(16, "Device or resource busy")
    code, message = await refused(plugin.publish())
    assert (code, "Device or resource busy" in message) == (grpc.StatusCode.UNAVAILABLE, True)


def without(key: str) -> dict[str, str]:
    return {name: value for name, value in CONTEXT.items() if name != key}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"volume_id": ""}, "volume_id: required"),
        ({"target_path": ""}, "target_path: required"),
        ({"volume_capability": None}, "volume_capability: required"),
        (
            {"volume_capability": csi.VolumeCapability(block=csi.VolumeCapability.BlockVolume())},
            "block volumes are not served",
        ),
        ({"readonly": False}, "readOnly must be true"),
        ({"volume_context": without("csi.storage.k8s.io/ephemeral")}, "only inline volumes"),
        ({"volume_context": without("csi.storage.k8s.io/pod.namespace")}, "podInfoOnMount"),
        ({"volume_context": without("dataset")}, "volumeAttributes.dataset ''"),
        ({"volume_context": {**CONTEXT, "dataset": "../x"}}, "volumeAttributes.dataset '../x'"),
        ({"target_path": "/etc"}, "must lie below"),
        ({"target_path": "{pods}/../../etc"}, "must lie below"),
    ],
)
async def test_what_is_refused_for_good(plugin: Plugin, changes: dict[str, object], sentence: str) -> None:
    if "target_path" in changes:
        changes = {**changes, "target_path": str(changes["target_path"]).format(pods=plugin.pods)}
    code, message = await refused(plugin.publish(**changes))
    assert (code, sentence in message) == (grpc.StatusCode.INVALID_ARGUMENT, True)
    assert plugin.mounts.mounted == []


async def test_unpublish_refuses_what_is_not_kubelets(plugin: Plugin) -> None:
    assert (await refused(plugin.unpublish(Path("/proc"))))[0] is grpc.StatusCode.INVALID_ARGUMENT


async def test_identity_and_node_say_who_they_are(plugin: Plugin) -> None:
    info = await plugin.call(
        "csi.v1.Identity/GetPluginInfo", csi.GetPluginInfoRequest(), csi.GetPluginInfoResponse
    )
    assert info.name == names.CSI_DRIVER
    probe = await plugin.call("csi.v1.Identity/Probe", csi.ProbeRequest(), csi.ProbeResponse)
    assert probe.ready.value
    node = await plugin.call("csi.v1.Node/NodeGetInfo", csi.NodeGetInfoRequest(), csi.NodeGetInfoResponse)
    assert node.node_id == "node-1"


async def test_registration_tells_kubelet_where_to_call_and_hears_a_refusal(tmp_path: Path) -> None:
    heard: list[str] = []
    server = await serve(tmp_path / "reg.sock", Registration("/host/csi.sock", heard.append))
    async with grpc.aio.insecure_channel(f"unix://{tmp_path}/reg.sock") as channel:
        client = Plugin(channel, FakeMounts(), FakeCache(), tmp_path)
        service = "pluginregistration.Registration"
        info = await client.call(f"{service}/GetInfo", registration.InfoRequest(), registration.PluginInfo)
        assert (info.type, info.name, info.endpoint) == ("CSIPlugin", names.CSI_DRIVER, "/host/csi.sock")
        assert list(info.supported_versions) == ["1.0.0"]
        for registered, error in ((True, ""), (False, "version mismatch")):
            status = registration.RegistrationStatus(plugin_registered=registered, error=error)
            answer = registration.RegistrationStatusResponse
            await client.call(f"{service}/NotifyRegistrationStatus", status, answer)
    await server.stop(None)
    assert heard == ["version mismatch"]
