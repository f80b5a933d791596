from __future__ import annotations

import json
import sys
import time

import pytest

from integration.apiserver.server import ApiServer, Kubectl, KubectlError
from integration.processes import wait_until


def manifest(kind: str, name: str, api: str = "v1", **fields: object) -> str:
    return json.dumps({"apiVersion": api, "kind": kind, "metadata": {"name": name}, **fields})


def owned_by(kubectl: Kubectl, namespace: str, owner: str, name: str) -> str:
    uid = kubectl("get", "configmap", owner, "-n", namespace, "-o", "jsonpath={.metadata.uid}")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "ownerReferences": [reference]},
        }
    )


def test_an_api_server_starts() -> None:
    began = time.monotonic()
    with ApiServer.start() as server:
        seconds = time.monotonic() - began
        sys.stdout.write(f"API server ready in {seconds:.1f} s\n")  # 4 on an idle machine of two cores
        assert server.kubectl()("get", "namespaces", "-o", "name").split()


def test_server_side_apply_and_conflicts(kube_admin: Kubectl, namespace: str) -> None:
    for manager, value in (("one", "1"), ("two", "2")):
        words = ("apply", "--server-side", "-n", namespace, f"--field-manager={manager}", "-f", "-")
        text = manifest("ConfigMap", "shared", data={"key": value})
        if manager == "one":
            kube_admin(*words, stdin=text)
        else:
            with pytest.raises(KubectlError, match="conflict"):
                kube_admin(*words, stdin=text)


def test_a_user_has_only_what_rbac_gives(apiserver: ApiServer, kube_admin: Kubectl, namespace: str) -> None:
    alice = apiserver.kubectl("alice")
    with pytest.raises(KubectlError, match='User "alice" cannot list resource "configmaps"'):
        alice("get", "configmaps", "-n", namespace)
    kube_admin("create", "role", "reader", "-n", namespace, "--verb=list", "--resource=configmaps")
    kube_admin("create", "rolebinding", "alice", "-n", namespace, "--role=reader", "--user=alice")
    wait_until("the right", lambda: lists(alice, namespace))
    with pytest.raises(KubectlError, match='cannot create resource "configmaps"'):
        alice("create", "configmap", "x", "-n", namespace)


def lists(kubectl: Kubectl, namespace: str) -> bool:
    try:
        kubectl("get", "configmaps", "-n", namespace)
    except KubectlError:
        return False
    return True


def test_a_service_account_logs_in_by_token(
    apiserver: ApiServer, kube_admin: Kubectl, namespace: str
) -> None:
    kube_admin("create", "serviceaccount", "keeper", "-n", namespace)
    token = kube_admin("create", "token", "keeper", "-n", namespace).strip()
    keeper = Kubectl(kube_admin.program, apiserver.kubeconfig_for(token, f"{namespace}-keeper"))
    who = json.loads(keeper("auth", "whoami", "-o", "json"))
    assert who["status"]["userInfo"]["username"] == f"system:serviceaccount:{namespace}:keeper"


def test_what_an_owner_owned_is_collected(kube_admin: Kubectl, namespace: str) -> None:
    kube_admin("create", "configmap", "owner", "-n", namespace)
    kube_admin("apply", "-n", namespace, "-f", "-", stdin=owned_by(kube_admin, namespace, "owner", "owned"))
    kube_admin("delete", "configmap", "owner", "-n", namespace)
    wait_until(
        "the collection",
        lambda: not kube_admin("get", "configmap", "owned", "-n", namespace, "--ignore-not-found"),
    )


def test_a_job_completes_when_its_pod_is_said_to_have_succeeded(kube_admin: Kubectl, namespace: str) -> None:
    container = {"name": "work", "image": "example.invalid/work:1"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job = manifest("Job", "work", "batch/v1", spec={"template": template})
    kube_admin("apply", "-n", namespace, "-f", "-", stdin=job)
    pods = ("get", "pods", "-n", namespace, "-l", "job-name=work", "-o", "name")
    pod = wait_until("the pod", lambda: kube_admin(*pods).strip())
    done = json.dumps({"status": {"phase": "Succeeded"}})
    kube_admin("patch", pod, "-n", namespace, "--subresource=status", "--type=merge", "-p", done)
    kube_admin("wait", "--for=condition=Complete", "job/work", "-n", namespace, "--timeout=60s")


def test_a_killed_server_returns_with_what_was_stored(own_apiserver: ApiServer) -> None:
    admin = own_apiserver.kubectl()
    admin("create", "configmap", "kept", "-n", "default")
    own_apiserver.stop_server()
    with pytest.raises(KubectlError, match="refused"):
        admin("get", "configmaps", "-n", "default")
    assert not own_apiserver.ready()
    own_apiserver.start_server()
    assert "kept" in admin("get", "configmaps", "-n", "default", "-o", "name")


def test_a_frozen_server_answers_nothing_until_it_thaws(own_apiserver: ApiServer) -> None:
    own_apiserver.freeze()
    with pytest.raises(KubectlError):
        own_apiserver.kubectl()("get", "namespaces", "--request-timeout=1s")
    own_apiserver.thaw()
    wait_until("an answer", own_apiserver.ready)
