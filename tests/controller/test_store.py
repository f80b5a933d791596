from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from evenkeel.controller.store import Key, Store, key_of


def job(name: str, version: int, uid: str = "u", **labels: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": "a", "uid": uid, "resourceVersion": str(version), "labels": labels}
    return {"kind": "Job", "metadata": meta}


def itself(_store: Store, old: Any, new: Any) -> Iterable[Key]:
    return [key_of(new or old)]


@pytest.fixture
def store() -> Store:
    return Store(itself)


def test_change_makes_dirty_once(store: Store) -> None:
    store.put("ADDED", job("x", 1))
    store.put("MODIFIED", job("x", 2))
    assert store.changed.is_set()
    assert store.take_dirty() == [Key("Job", "a", "x")]
    assert not store.changed.is_set()
    assert store.take_dirty() == []


def test_older_and_equal_versions_are_ignored(store: Store) -> None:
    store.put("ADDED", job("x", 10))
    store.take_dirty()
    store.put("MODIFIED", job("x", 9))
    store.put("MODIFIED", job("x", 10))
    assert store.take_dirty() == []
    assert store.get("Job", "a", "x") == job("x", 10)


def test_deleted_does_not_come_back(store: Store) -> None:
    store.put("ADDED", job("x", 1))
    store.put("DELETED", job("x", 3))
    store.put("MODIFIED", job("x", 2))
    assert store.get("Job", "a", "x") is None
    store.put("ADDED", job("x", 5, uid="another"))
    assert store.get("Job", "a", "x") is not None


def test_deletion_of_a_predecessor_keeps_the_successor(store: Store) -> None:
    store.put("ADDED", job("x", 5, uid="new"))
    store.put("DELETED", job("x", 4, uid="old"))
    assert store.get("Job", "a", "x") is not None


def test_labelled_and_namespaced(store: Store) -> None:
    store.put("ADDED", job("x", 1, uid="1", role="a"))
    store.put("ADDED", job("y", 1, uid="2", role="b"))
    assert [one["metadata"]["name"] for one in store.labelled("Job", "role", "a", "a")] == ["x"]
    assert list(store.all("Job", "other")) == []
    assert store.count("Job") == 2


def test_listed_needs_all(store: Store) -> None:
    store.listed("Job")
    assert store.is_listed(["Job"])
    assert not store.is_listed(["Job", "Pod"])


def test_object_that_only_left_a_selection_comes_back(store: Store) -> None:
    store.put("ADDED", job("x", 1))
    store.put("DELETED", job("x", 3))
    store.put("ADDED", job("x", 4))
    assert store.get("Job", "a", "x") == job("x", 4)
