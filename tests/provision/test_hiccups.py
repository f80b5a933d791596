from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import hiccups, lifecycle
from e2e.cluster.lifecycle import Cluster
from scripts.provision import again, gotools, steps
from scripts.provision.steps import StepFailed

REFUSED = "The connection to the server 172.18.0.2:6443 was refused - did you specify the right host or port?"
TIMED_OUT = "Error from server: etcdserver: request timed out"
NOT_THERE = 'Error from server (NotFound): pods "a" not found'
NOT_IN_TIME = "error: timed out waiting for the condition on pods/a"


@pytest.mark.parametrize("words", [("create", "namespace", "a"), ("get", "pods"), ("delete", "pod", "a")])
def test_what_was_not_heard_may_be_said_again(words: tuple[str, ...]) -> None:
    assert hiccups.is_repeatable(words, REFUSED)


@pytest.mark.parametrize(
    ("words", "repeatable"),
    [
        (("get", "pods"), True),
        (("--namespace", "create", "wait", "pods"), True),
        (("apply", "--filename", "-"), True),
        (("delete", "pod", "a", "--ignore-not-found"), True),
        (("delete", "pod", "a"), False),
        (("create", "namespace", "a"), False),
        (("--namespace", "get", "create", "namespace", "a"), False),
    ],
)
def test_what_may_have_been_done_is_said_again_only_where_twice_is_the_same(
    words: tuple[str, ...],
    repeatable: bool,  # noqa: FBT001 - of a table
) -> None:
    assert hiccups.is_repeatable(words, TIMED_OUT) is repeatable


@pytest.mark.parametrize("said", [NOT_THERE, NOT_IN_TIME, "partitions must not be lowered"])
def test_an_answer_is_an_answer(said: str) -> None:
    assert not hiccups.is_repeatable(("get", "pods"), said)


def test_helm_is_run_again_only_where_it_did_not_reach_the_cluster() -> None:
    unreachable = "Error: Kubernetes cluster unreachable: Get https://172.18.0.2:6443/version: EOF"
    assert hiccups.is_repeatable_by_helm(unreachable)
    assert not hiccups.is_repeatable_by_helm("Error: UPGRADE FAILED: etcdserver: request timed out")


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What is said to kubectl; the first word of each test is not heard."""
    found: list[list[str]] = []

    def run(command: list[Any], **_: object) -> str:
        found.append([str(word) for word in command[3:]])
        if len(found) == 1:
            raise StepFailed(REFUSED)
        return "answer"

    monkeypatch.setattr(gotools, "ensure", lambda: Path("programs"))
    monkeypatch.setattr(steps, "run", run)
    monkeypatch.setattr(again, "PAUSE_SECONDS", 0.0)
    return found


def test_kubectl_goes_on_when_the_api_server_is_back(said: list[list[str]]) -> None:
    cluster = Cluster("demo", Path("kubeconfig"), ())
    assert cluster.kubectl("get", "pods") == "answer"
    assert said == [["get", "pods"]] * 2


def test_a_namespace_is_there_with_the_account_of_its_pods(said: list[list[str]]) -> None:
    Cluster("demo", Path("kubeconfig"), ()).make_namespace("team")
    assert said[-1][:5] == ["--namespace", "team", "wait", "--for=create", "serviceaccount/default"]


def test_only_a_node_that_starts_late_is_started_again() -> None:
    assert lifecycle._starts_late("ERROR: could not find a log line that matches 'Reached target'")
    assert not lifecycle._starts_late("ERROR: failed to init node with kubeadm")


def test_only_a_container_that_ends_late_is_removed_again() -> None:
    late = "could not kill: tried to kill container, but did not receive an exit event"
    assert lifecycle._ends_late(late)
    assert not lifecycle._ends_late("permission denied")
