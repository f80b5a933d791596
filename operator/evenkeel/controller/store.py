"""What the API server holds, as far as we follow it, and which of our objects are to be looked at again.

Lives in one event loop. Objects are read only: whoever plans must not change them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Object = Mapping[str, Any]

TOMBSTONES = 8192
"""How many deleted UIDs are remembered against late answers that would bring them back."""


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """Name of an object; `namespace` is empty for cluster scope."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}" if self.namespace else f"{self.kind}/{self.name}"


def key_of(item: Object) -> Key:
    """The key of an object; it must carry `kind`."""
    meta = item["metadata"]
    return Key(item["kind"], meta.get("namespace", ""), meta["name"])


Affected = Callable[["Store", Object | None, Object | None], Iterable[Key]]
"""`(store, old, new)` -> keys that have to be reconciled because of this change."""


class Store:
    """Objects by kind and key, and the set of dirty keys."""

    def __init__(self, affected: Affected) -> None:
        self._affected = affected
        self._objects: dict[str, dict[tuple[str, str], Object]] = {}
        self._gone: dict[str, int] = {}
        """UID -> version at which it left: what is older is late, what is newer came back by its labels."""
        self._dirty: set[Key] = set()
        self._listed: set[str] = set()
        self.changed = asyncio.Event()
        """Set when something is dirty."""

    def put(self, change: str, item: Object) -> None:
        """Take over a change (`ADDED`, `MODIFIED`, `DELETED`); what is older than what we have is ignored."""
        key = key_of(item)
        objects = self._objects.setdefault(key.kind, {})
        old = objects.get((key.namespace, key.name))
        uid = item["metadata"]["uid"]
        if change == "DELETED":
            self._bury(uid, _version(item))
            if old is None or old["metadata"]["uid"] != uid:
                return
            del objects[key.namespace, key.name]
            self._mark(old, None)
        elif _version(item) > self._gone.get(uid, -1) and (old is None or is_newer(item, old)):
            objects[key.namespace, key.name] = item
            self._mark(old, item)

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """One object, or None."""
        return self._objects.get(kind, {}).get((namespace, name))

    def all(self, kind: str, namespace: str | None = None) -> Iterator[Object]:
        """All objects of a kind, of one namespace if given, in no particular order."""
        for (where, _), item in self._objects.get(kind, {}).items():
            if namespace is None or where == namespace:
                yield item

    def labelled(self, kind: str, label: str, value: str, namespace: str | None = None) -> Iterator[Object]:
        """As `all`, those whose label has this value."""
        for item in self.all(kind, namespace):
            if (item["metadata"].get("labels") or {}).get(label) == value:
                yield item

    def count(self, kind: str) -> int:
        """How many objects of a kind there are."""
        return len(self._objects.get(kind, {}))

    def listed(self, kind: str) -> None:
        """Say that all present objects of this kind have been put."""
        self._listed.add(kind)

    def is_listed(self, kinds: Iterable[str]) -> bool:
        """Whether all these kinds are complete: before that absence means nothing."""
        return self._listed.issuperset(kinds)

    def mark(self, keys: Iterable[Key]) -> None:
        """Make keys dirty."""
        self._dirty.update(keys)
        if self._dirty:
            self.changed.set()

    def take_dirty(self) -> list[Key]:
        """The dirty keys, in order, which are clean from now on."""
        taken = sorted(self._dirty)
        self._dirty.clear()
        self.changed.clear()
        return taken

    def dirty_count(self) -> int:
        """How much waits."""
        return len(self._dirty)

    def _mark(self, old: Object | None, new: Object | None) -> None:
        self.mark(self._affected(self, old, new))

    def _bury(self, uid: str, version: int) -> None:
        self._gone[uid] = max(version, self._gone.pop(uid, -1))
        while len(self._gone) > TOMBSTONES:
            del self._gone[next(iter(self._gone))]


def is_newer(new: Object, old: Object) -> bool:
    """Whether `new` is a later state than `old`."""
    # Versions compare as numbers: always so with etcd, and promised since Kubernetes 1.35.
    return _version(new) > _version(old)


def _version(item: Object) -> int:
    return int(item["metadata"].get("resourceVersion") or 0)
