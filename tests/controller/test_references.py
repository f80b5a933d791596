from __future__ import annotations

from typing import Any

import pytest

from evenkeel.api.balanced_cluster import BalancedCluster
from evenkeel.api.meta import ObjectRef
from evenkeel.controller.references import Asker, choose_cluster
from evenkeel.reasons import Reason
from tests.support.world import cluster


def parsed(name: str, namespace: str = "data", **allowed: Any) -> BalancedCluster:
    spec = {"allowedNamespaces": allowed} if allowed else {}
    return BalancedCluster.model_validate(cluster(name, namespace, **spec))


OWN = parsed("own")
OPEN = parsed("open", "kafka", **{"from": "All"})
CLOSED = parsed("closed", "kafka")
TEAM = parsed("team", "kafka", **{"from": "Selector", "selector": {"matchLabels": {"team": "vision"}}})


def asker(labels: dict[str, str] | None = None, wanted: str = "", given: str = "") -> Asker:
    def ref(text: str) -> ObjectRef | None:
        namespace, _, name = text.rpartition("/")
        return ObjectRef(name=name, namespace=namespace or None) if text else None

    return Asker("data", labels or {}, ref(wanted), ref(given))


@pytest.mark.parametrize(
    ("who", "clusters", "found"),
    [
        (asker(), [OWN, CLOSED], "data/own"),
        (asker(), [OPEN, CLOSED], "kafka/open"),
        (asker({"team": "vision"}), [TEAM], "kafka/team"),
        (asker(wanted="kafka/open"), [OWN, OPEN], "kafka/open"),
        (asker(wanted="own"), [OWN, OPEN], "data/own"),
        (asker(given="data/own"), [OWN, OPEN], "data/own"),
        (asker(), [], Reason.NO_CLUSTER_PERMITTED),
        (asker({"team": "speech"}), [TEAM, CLOSED], Reason.NO_CLUSTER_PERMITTED),
        (asker(), [OWN, OPEN], Reason.CLUSTER_AMBIGUOUS),
        (asker(wanted="absent"), [OWN], Reason.CLUSTER_NOT_FOUND),
        (asker(given="data/gone"), [OWN], Reason.CLUSTER_NOT_FOUND),
        (asker(wanted="kafka/closed"), [CLOSED], Reason.NO_CLUSTER_PERMITTED),
    ],
)
def test_choice(who: Asker, clusters: list[BalancedCluster], found: str | Reason) -> None:
    choice = choose_cluster(who, clusters)
    assert (choice.cluster.key if choice.cluster else choice.reason) == found


def test_sentences_name_what_to_change() -> None:
    assert "kafka/open" in choose_cluster(asker(), [OWN, OPEN]).message
    assert "data/absent" in choose_cluster(asker(wanted="absent"), []).message
    assert "allowedNamespaces" in choose_cluster(asker(wanted="kafka/closed"), [CLOSED]).message
