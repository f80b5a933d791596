"""What a planner answers: writes as values, carried out by `act`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from evenkeel.controller.store import Object
from evenkeel.kube.events import Note
from evenkeel.kube.resources import Resource

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Moment:
    """Now, by the wall clock; planners never look themselves."""

    now: datetime

    @property
    def text(self) -> str:
        """Kubernetes' Time: seconds, UTC."""
        return self.now.strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class Child:
    """An object that should exist as `body` says."""

    resource: Resource
    body: Body
    create_only: bool = False
    """True for Jobs: their template is immutable, so a present one is left alone."""


@dataclass(frozen=True, slots=True)
class Removal:
    """An object that should go; only the one with this UID."""

    resource: Resource
    namespace: str | None
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Patch:
    """A JSON merge patch of an object that is not ours as a whole (node labels, finalizers, gates)."""

    resource: Resource
    namespace: str | None
    name: str
    body: Body | tuple[Body, ...]
    """A mapping is a merge patch; a tuple is a JSON patch."""


@dataclass(frozen=True, slots=True)
class Saying:
    """An event on an object."""

    regarding: Object
    note: Note
    once: bool = False
    """Not again as long as nothing else was said of the object; for objects without conditions of ours."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything to do for one key. Carried out in this order; the first failure ends it."""

    children: tuple[Child, ...] = ()
    removals: tuple[Removal, ...] = ()
    patches: tuple[Patch, ...] = ()
    status: Body | None = None
    """The whole wanted status of the key's object; None: leave it."""
    sayings: tuple[Saying, ...] = ()
    """Said after the rest worked."""
    again_seconds: float | None = None
    """Look again after this time although nothing changed."""
