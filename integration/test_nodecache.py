"""The node cache as it runs: real mounts, its two processes, a loader, Kafka and an API server."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import grpc
import pytest
from google.protobuf.message import Message

from evenkeel import names
from evenkeel.domain import codec
from evenkeel.domain.connection import Connection
from evenkeel.domain.job import DatasetRef, JobSpec, LoaderSettings, Role
from evenkeel.domain.revision import Location, ShardLocation
from evenkeel.domain.upload import manifest_path
from evenkeel.format.manifest import encode_location
from evenkeel.format.shards import MANIFEST_NAME, shard_name
from evenkeel.kafka.clients.append import Appender
from evenkeel.kafka.clients.identity import wait_for_topic
from evenkeel.kafka.manifests import ManifestWriter
from evenkeel.nodecache.main import FIELD_MANAGER
from evenkeel.nodecache.mounts import KernelMounts, parse_mount_table
from evenkeel.nodecache.proto import csi_pb2 as csi
from evenkeel.nodecache.proto import pluginregistration_pb2 as registration
from integration.apiserver.server import ApiServer, Kubectl, KubectlError
from integration.conftest import unavailable
from integration.kafka.clients import create_topic, remake_topic, unique
from integration.kafka.cluster import KafkaCluster
from integration.kafka.disks import may_mount
from integration.processes import Process, wait_until
from integration.workspace import Workspace
from tests.support.revisions import BuiltRevision, build_revision

A = TypeVar("A", bound=Message)
ROOT = Path(__file__).resolve().parents[1]
DATASET_UID = "7c1d2f9e-0000-4000-8000-000000000001"
NODE_UID = "7c1d2f9e-0000-4000-8000-00000000000a"


@pytest.fixture
def workspace() -> Iterator[Workspace]:
    """A folder whose mounts and processes go with the test."""
    if not may_mount():
        unavailable("mounts need root")
    found = Workspace("nodecache")
    yield found
    found.close()


def make_store(root: Path) -> Path:
    folder = root / "store" / DATASET_UID / ("ab" * 32)
    folder.mkdir(parents=True)
    (folder / MANIFEST_NAME).write_bytes(b"content")
    return folder


def test_a_bind_mount_is_read_only_and_goes_with_all_its_layers(workspace: Workspace) -> None:
    mounts, folder, target = KernelMounts(), make_store(workspace.path), workspace.path / "mount"
    target.mkdir()
    for _ in range(3):
        mounts.bind(workspace.path / "store", folder.parts[-2:], target)
    assert (target / MANIFEST_NAME).read_bytes() == b"content"
    with pytest.raises(OSError, match="Read-only file system"):
        (target / "new").touch()
    assert sum(mount.target == str(target) for mount in mounts.table()) == 3
    (folder / "later").touch()
    assert (target / "later").exists(), "a repaired shard is seen through the mount"
    for _ in range(2):
        mounts.unmount(target)
        assert not any(mount.target == str(target) for mount in mounts.table())


def test_a_symbolic_link_in_the_store_is_never_mounted(workspace: Workspace) -> None:
    make_store(workspace.path)
    store, target = workspace.path / "store", workspace.path / "mount"
    target.mkdir()
    (store / "linked").symlink_to("/etc")
    (store / DATASET_UID / "linked").symlink_to("/etc")
    for folders in (("linked", "ssl"), (DATASET_UID, "linked")):
        with pytest.raises(NotADirectoryError):
            KernelMounts().bind(store, folders, target)


def test_the_mount_is_read_only_on_the_host_too(workspace: Workspace) -> None:
    """A child in its own mount namespace, as a container with Bidirectional propagation, mounts for us."""
    folder, pods = make_store(workspace.path), workspace.path / "pods"
    (pods / "mount").mkdir(parents=True)
    subprocess.run(["mount", "--bind", pods, pods], check=True)
    subprocess.run(["mount", "--make-shared", pods], check=True)
    code = (
        "import sys; from pathlib import Path; from evenkeel.nodecache.mounts import KernelMounts;"
        "KernelMounts().bind(Path(sys.argv[1]), sys.argv[2].split('/'), Path(sys.argv[3]))"
    )
    inner = "/".join(folder.parts[-2:])
    words = ["unshare", "--mount", "--propagation", "unchanged", sys.executable, "-c", code]
    words += [str(workspace.path / "store"), inner, str(pods / "mount")]
    subprocess.run(words, check=True, env={**os.environ, "PYTHONPATH": str(ROOT / "operator")})
    table = parse_mount_table(Path("/proc/self/mountinfo").read_text())
    (mount,) = [mount for mount in table if mount.target == str(pods / "mount")]
    assert {"ro", "nosuid", "nodev"} <= mount.options


@dataclass
class Site:
    """A node with its two processes, an API server and Kafka."""

    workspace: Workspace
    kubectl: Kubectl
    api: ApiServer
    kafka: KafkaCluster
    namespace: str
    node: str
    port: int

    @property
    def store(self) -> Path:
        return self.workspace.path / "store"

    @property
    def pods(self) -> Path:
        return self.workspace.path / "pods"

    @property
    def connection(self) -> Connection:
        return Connection(tuple(self.kafka.bootstrap.split(",")))

    def launch(self, name: str, code: str, env: dict[str, str]) -> Process:
        path = {"PYTHONPATH": str(ROOT / "operator")}
        return self.workspace.launch(name, [sys.executable, "-c", code], {**path, **env})

    def start_cache(self) -> Process:
        """The cache with its real rights: a service account whose token is bound to the node."""
        bound = ("--bound-object-kind", "Node", "--bound-object-name", self.node)
        token = self.kubectl("create", "token", "-n", self.namespace, "evenkeel-cache", *bound).strip()
        code = (
            "import sys; from evenkeel.nodecache.main import cache_main; sys.exit(cache_main(sys.argv[1:]))"
        )
        words = [
            "--node",
            self.node,
            "--address",
            "127.0.0.1",
            "--port",
            str(self.port),
            "--scrub-seconds",
            "1",
        ]
        words += ["--health-port", str(self.workspace.lease_port()), "--store", str(self.store)]
        words += ["--socket", str(self.workspace.path / "cache.sock")]
        return self.launch_with(
            "cache", code, words, {"KUBECONFIG": str(self.api.kubeconfig_for(token, f"cache-{self.node}"))}
        )

    def start_mounter(self) -> Process:
        code = "import sys; from evenkeel.nodecache.main import mounter_main; sys.exit(mounter_main(sys.argv[1:]))"
        root = self.workspace.path
        words = ["--node", self.node, "--store", str(self.store), "--socket", str(root / "cache.sock")]
        words += [
            "--pods",
            str(self.pods),
            "--csi",
            str(root / "csi.sock"),
            "--csi-on-host",
            "/host/csi.sock",
        ]
        words += ["--registration", str(root / "reg.sock")]
        return self.launch_with("mounter", code, words, {})

    def launch_with(self, name: str, code: str, words: list[str], env: dict[str, str]) -> Process:
        path = {"PYTHONPATH": str(ROOT / "operator")}
        return self.workspace.launch(name, [sys.executable, "-c", code, *words], {**path, **env})

    def status(self) -> dict[str, Any]:
        text = self.kubectl("get", "nodecache", self.node, "-o", "json")
        found: dict[str, Any] = json.loads(text).get("status", {})
        return found

    def state(self) -> str:
        revisions = self.status().get("revisions", ())
        return str(revisions[0]["state"]) if revisions else ""

    def want(self, built: BuiltRevision | None) -> None:
        wanted = []
        if built is not None:
            text = self.kubectl("get", "serviceaccount", "loader", "-n", self.namespace, "-o", "json")
            entry = {"datasetUID": DATASET_UID, "digest": built.digest, "dataBytes": built.data_bytes}
            entry |= {"loaderUID": json.loads(text)["metadata"]["uid"]}
            entry |= {"reference": names.dataset_reference("team", "digits")}
            wanted = [entry]
        body = {"apiVersion": names.GROUP_VERSION, "kind": "NodeCache", "metadata": {"name": self.node}}
        body |= {"spec": {"nodeUID": NODE_UID, "wanted": wanted}}
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(body))

    def load(self, job: JobSpec) -> Process:
        """Run a loader with a token of its own service account until it ends."""
        account = ("-n", self.namespace, "loader", f"--audience={names.TOKEN_AUDIENCE}")
        token = self.workspace.path / "token"
        token.write_text(self.kubectl("create", "token", *account))
        code = "import sys; from evenkeel.loader.main import main; sys.exit(main(sys.argv[1:]))"
        loader = self.launch("loader", code, {names.JOB_VARIABLE: codec.dumps(job)})
        loader.wait(90)
        return loader

    def job(self, dataset: DatasetRef, built: BuiltRevision) -> JobSpec:
        endpoint = f"http://127.0.0.1:{self.port}"
        settings = LoaderSettings(built.digest, endpoint, str(self.workspace.path / "token"), self.node)
        return JobSpec(Role.LOADER, dataset, self.connection, loader=settings)


RULES = [
    {"apiGroups": [names.API_GROUP], "resources": ["nodecaches"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [names.API_GROUP], "resources": ["nodecaches/status"], "verbs": ["patch"]},
    {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
]


@pytest.fixture
def site(
    workspace: Workspace, crds: Kubectl, apiserver: ApiServer, kafka: KafkaCluster, namespace: str
) -> Iterator[Site]:
    node = f"node-{namespace}"
    for account in ("evenkeel-cache", "loader"):
        crds("create", "serviceaccount", account, "-n", namespace)
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": node},
        "rules": RULES,
    }
    crds("create", "-f", "-", stdin=json.dumps(role))
    account = f"--serviceaccount={namespace}:evenkeel-cache"
    crds("create", "clusterrolebinding", node, f"--clusterrole={node}", account)
    crds(
        "create",
        "-f",
        "-",
        stdin=json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}),
    )
    found = Site(workspace, crds, apiserver, kafka, namespace, node, workspace.lease_port())
    found.store.mkdir()
    found.pods.mkdir()
    yield found
    crds("delete", "nodecache", node, "--ignore-not-found")
    crds("delete", "node", node)
    crds("delete", "clusterrole,clusterrolebinding", node)


def write_revision(site: Site, built: BuiltRevision) -> DatasetRef:
    """A sealed revision as producer and sealer leave it, with records between that nobody refers to."""
    config = site.kafka.client_config()
    topics = [create_topic(config, unique(role), [[1, 2]] * 2) for role in ("data", "manifest")]
    data, manifest = topics
    places = []
    with Appender(site.connection) as appender:
        for index, values in enumerate(built.messages):
            partition, offsets = index % 2, []
            for value in values:
                appender.append(data, b"another attempt", partition=partition)
                offsets.append(appender.append(data, value, partition=partition))
            places.append(ShardLocation(index, partition, tuple(offsets)))
        identity = wait_for_topic(site.connection, data, 30)
        location = Location(built.digest, identity.cluster_id, data, identity.topic_id, tuple(places))
        ManifestWriter(appender, manifest, "w1").write(built.stored, encode_location(location))
    return DatasetRef(DATASET_UID, "team", "digits", data, "unused", manifest, "unused")


async def call(socket: Path, method: str, request: Message, answer: type[A]) -> A:
    async with grpc.aio.insecure_channel(f"unix://{socket}") as channel:
        stub = channel.unary_unary(
            f"/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )
        found: A = await stub(request, timeout=60)
        return found


def publish(site: Site, namespace: str = "team") -> Path:
    """As kubelet does for a pod of a namespace -> the mount."""
    parent = site.pods / f"uid-{namespace}" / "volumes" / "kubernetes.io~csi" / "data"
    parent.mkdir(parents=True, exist_ok=True)
    request = csi.NodePublishVolumeRequest(
        volume_id="csi-1",
        target_path=str(parent / "mount"),
        volume_capability=csi.VolumeCapability(mount=csi.VolumeCapability.MountVolume()),
        readonly=True,
        volume_context={
            "csi.storage.k8s.io/ephemeral": "true",
            "csi.storage.k8s.io/pod.namespace": namespace,
            "csi.storage.k8s.io/pod.name": "trainer-0",
            "dataset": "digits",
        },
    )
    method = "csi.v1.Node/NodePublishVolume"
    asyncio.run(call(site.workspace.path / "csi.sock", method, request, csi.NodePublishVolumeResponse))
    return parent / "mount"


def unpublish(site: Site, target: Path) -> None:
    request = csi.NodeUnpublishVolumeRequest(volume_id="csi-1", target_path=str(target))
    method = "csi.v1.Node/NodeUnpublishVolume"
    asyncio.run(call(site.workspace.path / "csi.sock", method, request, csi.NodeUnpublishVolumeResponse))


def test_from_kafka_to_a_pods_folder(site: Site) -> None:
    """Want, load, mount, damage, repair, remove: one story, since its servers take a while to start."""
    built = build_revision(shards=4, messages=3, message_bytes=200_000)
    dataset = write_revision(site, built)
    site.want(built)
    cache, mounter = site.start_cache(), site.start_mounter()
    wait_until("a status", lambda: site.state() == "Wanted", processes=[cache, mounter])
    status = site.status()
    assert status["endpoint"] == f"http://127.0.0.1:{site.port}"
    assert status["conditions"][0] | {"lastTransitionTime": ""} == {
        "type": "Ready",
        "status": "True",
        "observedGeneration": 1,
        "lastTransitionTime": "",
        "reason": "Ready",
        "message": "the cache listens and its disk is usable",
    }
    managers = site.kubectl("get", "nodecache", site.node, "--show-managed-fields", "-o", "json")
    assert FIELD_MANAGER in managers

    sockets = [site.workspace.path / name for name in ("csi.sock", "reg.sock", "cache.sock")]
    wait_until("sockets", lambda: all(path.is_socket() for path in sockets), processes=[mounter])
    info = asyncio.run(
        call(
            sockets[1],
            "pluginregistration.Registration/GetInfo",
            registration.InfoRequest(),
            registration.PluginInfo,
        )
    )
    assert (info.name, info.endpoint) == (names.CSI_DRIVER, "/host/csi.sock")
    namespaces = [Path(f"/proc/{who}/ns/net").readlink() for who in (mounter.pid, "self")]
    assert namespaces[0] != namespaces[1], "the privileged process has left the network"
    with pytest.raises(grpc.aio.AioRpcError, match="0 percent is loaded"):
        publish(site)

    loader = site.load(site.job(dataset, built))
    assert loader.wait(1) == 0, loader.output()
    assert "percent=100" in loader.output()
    wait_until("warm", lambda: site.state() == "Warm", processes=[cache])
    target = publish(site)
    assert [(target / shard_name(index)).read_bytes() for index in range(4)] == list(built.files)
    assert (target / MANIFEST_NAME).read_bytes() == built.stored
    with pytest.raises(OSError, match="Read-only file system"):
        (target / "new").touch()
    with pytest.raises(grpc.aio.AioRpcError, match="not asked to hold"):
        publish(site, namespace="thieves")

    damaged = site.store / DATASET_UID / built.digest / shard_name(2)
    data = bytearray(damaged.read_bytes())
    data[100_000] ^= 1
    damaged.write_bytes(bytes(data))
    wait_until("the scrub", lambda: site.state() == "Loading", processes=[cache])
    assert site.status()["revisions"][0]["reason"] == "ShardCorrupt"
    assert not (target / shard_name(2)).exists(), "a pod gets no bad bytes"
    loader = site.load(site.job(dataset, built))
    assert loader.wait(1) == 0, loader.output()
    assert loader.output().count("sent shard=") == 1
    assert (target / shard_name(2)).read_bytes() == built.files[2]

    cache.kill()
    cache = site.start_cache()
    site.want(None)
    wait_until("the restart", lambda: not site.status().get("revisions"), processes=[cache])
    mounter.stop(30)
    sockets[0].unlink(missing_ok=True)  # an old one would be taken for the new one's
    mounter = site.start_mounter()
    wait_until("the socket", sockets[0].is_socket, processes=[mounter])
    assert (target / shard_name(0)).exists(), "it is mounted, so it stays"
    unpublish(site, target)
    unpublish(site, target)
    assert not target.exists()
    wait_until("removal", lambda: not any(site.store.iterdir()), processes=[cache])
    for process in (cache, mounter):
        process.stop(30)
        assert process.wait(1) == 0, process.output()


def test_a_loader_says_when_kafka_has_lost_the_revision(site: Site) -> None:
    built = build_revision(message_bytes=5000)
    dataset = write_revision(site, built)
    remake_topic(site.kafka.client_config(), dataset.data_topic, [[1, 2]] * 2)
    loader = site.load(site.job(dataset, built))
    assert loader.wait(1) == 1
    assert "reason=DataLost" in loader.output()


def test_a_loader_of_another_dataset_is_kept_out(site: Site) -> None:
    built = build_revision(message_bytes=5000)
    site.want(built)
    cache = site.start_cache()
    wait_until("a status", lambda: site.state() == "Wanted", processes=[cache])
    for account, audience, status in (("default", names.TOKEN_AUDIENCE, 403), ("loader", "other", 401)):
        token = site.kubectl(
            "create", "token", "-n", site.namespace, account, f"--audience={audience}"
        ).strip()
        connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=60)
        path = manifest_path(DATASET_UID, built.digest)
        connection.request("PUT", path, built.stored, {"Authorization": f"Bearer {token}"})
        assert connection.getresponse().status == status
        connection.close()
        assert token not in cache.output()
    assert not any(site.store.iterdir())


def test_a_cache_may_write_its_status_and_nothing_else(site: Site) -> None:
    site.want(None)
    token = site.kubectl("create", "token", "-n", site.namespace, "evenkeel-cache").strip()
    kubectl = Kubectl(site.kubectl.program, site.api.kubeconfig_for(token, f"bare-{site.node}"))
    with pytest.raises(KubectlError, match="forbidden"):
        kubectl("patch", "nodecache", site.node, "--type=merge", "-p", '{"spec": {"wanted": []}}')
