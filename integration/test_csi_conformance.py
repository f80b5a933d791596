"""csi-sanity against the mounter with real mounts. What it lacks, a controller and pods, is added here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
import pytest

from evenkeel.domain.nodes import HoldState
from evenkeel.nodecache.csi import Identity, Node, serve
from evenkeel.nodecache.layout import RevisionKey
from evenkeel.nodecache.local import CacheSocket, Mounted
from evenkeel.nodecache.mounter import Mounter
from evenkeel.nodecache.mounts import KernelMounts
from evenkeel.nodecache.proto import csi_pb2 as csi
from evenkeel.nodecache.store import Lookup
from integration.conftest import unavailable
from integration.kafka.disks import may_mount
from integration.workspace import Workspace
from scripts.provision import csi_sanity
from scripts.provision.steps import StepFailed

KEY = RevisionKey("7c1d2f9e-0000", "ab" * 32)
FOCUS = "Identity Service|Node Service"
# Protobuf by hand: a list with the one capability number 1 (CONTROLLER_SERVICE, CREATE_DELETE_VOLUME).
ONE_CAPABILITY = bytes.fromhex("0a040a020801")
VOLUME = bytes.fromhex("0a05") + b"\x12\x03vol"
"""CreateVolumeResponse with the volume id `vol`."""


class WarmCache(CacheSocket):
    """Has every dataset."""

    async def lookup(self, reference: str) -> Lookup:
        return Lookup(HoldState.WARM, 100, "", KEY)

    async def put_mounts(self, mounted: Mounted) -> None:
        pass


class KubeletNode(Node):
    """Adds to a request what kubelet would: csi-sanity knows no pods and mounts for writing."""

    async def publish(self, request: csi.NodePublishVolumeRequest) -> csi.NodePublishVolumeResponse:
        request.readonly = True
        request.volume_context["csi.storage.k8s.io/ephemeral"] = "true"
        request.volume_context["csi.storage.k8s.io/pod.namespace"] = "team"
        request.volume_context["dataset"] = "digits"
        return await super().publish(request)


def canned(answer: bytes) -> grpc.RpcMethodHandler[Any, Any]:
    async def call(_request: bytes, _context: object) -> bytes:
        return answer

    return grpc.unary_unary_rpc_method_handler(call)


class ControllerIdentity(Identity):
    """Says that there is a controller, so that csi-sanity makes its volumes."""

    def methods(self) -> Mapping[str, grpc.RpcMethodHandler[Any, Any]]:
        return {**super().methods(), "GetPluginCapabilities": canned(ONE_CAPABILITY)}


class Controller:
    """A controller whose volumes are all the same."""

    name = "csi.v1.Controller"

    def methods(self) -> Mapping[str, grpc.RpcMethodHandler[Any, Any]]:
        return {
            "ControllerGetCapabilities": canned(ONE_CAPABILITY),
            "CreateVolume": canned(VOLUME),
            "DeleteVolume": canned(b""),
        }


@pytest.fixture
def workspace() -> Iterator[Workspace]:
    if not may_mount():
        unavailable("mounts need root")
    found = Workspace("csi")
    yield found
    found.close()


@pytest.fixture(scope="module")
def program() -> Path:
    try:
        return csi_sanity.ensure()
    except StepFailed as error:
        unavailable(str(error))


async def run_sanity(program: Path, root: Path) -> tuple[int, str]:
    mounter = Mounter(KernelMounts(), WarmCache(root / "unused"), store=root / "store", pods=root)
    services = (ControllerIdentity(), Controller(), KubeletNode(mounter, "node-1"))
    server = await serve(root / "csi.sock", *services)
    words = [
        f"-csi.endpoint=unix://{root}/csi.sock",
        f"-csi.mountdir={root}/mount",
        f"-csi.stagingdir={root}/stage",
    ]
    words += [f"--ginkgo.focus={FOCUS}", "--ginkgo.no-color"]
    child = await asyncio.create_subprocess_exec(
        program, *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await child.communicate()
    await server.stop(None)
    return child.returncode or 0, output.decode()


def test_the_node_plugin_conforms(program: Path, workspace: Workspace) -> None:
    (workspace.path / "store" / KEY.dataset_uid / KEY.digest).mkdir(parents=True)
    code, output = asyncio.run(run_sanity(program, workspace.path))
    summary = next(line for line in output.splitlines() if " Passed" in line)
    assert code == 0, output[-6000:]
    assert "0 Failed" in summary
    assert int(summary.split("|")[0].split()[-2]) >= 10, summary
