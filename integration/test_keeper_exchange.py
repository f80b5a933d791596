"""The keeper's two ConfigMaps on a real API server, with the very role that the operator gives it."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from evenkeel import names
from evenkeel.domain import codec, envelope
from evenkeel.domain.connection import Connection
from evenkeel.domain.exchange import Desired, Owner, Report, TopicReport
from evenkeel.errors import ConfigurationError
from evenkeel.keeper.exchange import ConfigMapExchange
from evenkeel.kube.client import Kube
from evenkeel.kube.resources import CONFIG_MAP
from integration.apiserver.server import ApiServer, Kubectl, await_right

CLUSTER = "demo"
DESIRED, REPORT = names.desired_name(CLUSTER), names.report_name(CLUSTER)


def apply_desired(kubectl: Kubectl, namespace: str, desired: Desired) -> None:
    packed = envelope.pack(names.DESIRED_KEY, codec.dumps(desired.sealed()))
    content = {kind: {k: v for k, v in values.items() if v is not None} for kind, values in packed.items()}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": DESIRED}, **content}
    kubectl("apply", "--server-side", "-n", namespace, "-f", "-", stdin=json.dumps(body))


@pytest.fixture
async def exchange(
    apiserver: ApiServer, kube_admin: Kubectl, namespace: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[ConfigMapExchange]:
    """As the keeper's service account: get, list, watch, patch of just these two."""
    kube_admin("create", "serviceaccount", "keeper", "-n", namespace)
    kube_admin(
        "create", "role", "keeper", "-n", namespace, "--verb=get,list,watch,patch", "--resource=configmaps",
        f"--resource-name={DESIRED}", f"--resource-name={REPORT}",
    )  # fmt: skip
    kube_admin(
        "create",
        "rolebinding",
        "keeper",
        "-n",
        namespace,
        "--role=keeper",
        f"--serviceaccount={namespace}:keeper",
    )
    kube_admin("create", "configmap", REPORT, "-n", namespace)
    account = f"system:serviceaccount:{namespace}:keeper"
    await_right(kube_admin, account, "patch", f"configmap/{REPORT}", "-n", namespace)
    token = kube_admin("create", "token", "keeper", "-n", namespace).strip()
    monkeypatch.setenv("KUBECONFIG", str(apiserver.kubeconfig_for(token, "keeper")))
    found = ConfigMapExchange(await Kube.connect(), namespace, DESIRED, REPORT)
    yield found
    await found.close()


def build_desired() -> Desired:
    return Desired(owner=Owner("i", "u", "ns/c"), connection=Connection(("kafka:9092",)))


async def test_desired_arrives_with_every_change(
    exchange: ConfigMapExchange, kube_admin: Kubectl, namespace: str
) -> None:
    changes = exchange.watch()
    waiting = asyncio.ensure_future(anext(changes))
    await asyncio.to_thread(apply_desired, kube_admin, namespace, build_desired())
    assert await asyncio.wait_for(waiting, 60) == build_desired().sealed()
    paused = dataclasses.replace(build_desired(), paused=True)
    await asyncio.to_thread(apply_desired, kube_admin, namespace, paused)
    assert (await asyncio.wait_for(anext(changes), 60)).paused


async def test_a_report_is_written_small_and_large_and_read_back(exchange: ConfigMapExchange) -> None:
    assert await exchange.read_report() is None
    small = Report(desired_version="v")
    await exchange.write(small)
    assert await exchange.read_report() == small
    topics = tuple(TopicReport(f"topic-{number:06}", exists=True) for number in range(8000))
    large = Report(desired_version="v", topics=topics)
    await exchange.write(large)
    assert await exchange.read_report() == large
    await exchange.write(small)
    assert await exchange.read_report() == small


async def test_nothing_else_may_be_touched(exchange: ConfigMapExchange, namespace: str) -> None:
    with pytest.raises(ConfigurationError):
        await exchange._kube.get(CONFIG_MAP, "another", namespace)
