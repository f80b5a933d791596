"""What the operator wants on a node's cache, and what the cache says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class HoldState(StrEnum):
    """How far a wanted revision is on a node."""

    WANTED = "Wanted"
    LOADING = "Loading"
    WARM = "Warm"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class WantedRevision:
    """A revision that a node should hold."""

    dataset_uid: str
    digest: str
    data_bytes: int
    loader_uid: str
    """UID of the service account whose token may upload it."""
    reference: str
    """names.dataset_reference of the dataset: pods of its namespace ask by name, nodes are told no names."""
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class HeldRevision:
    """A revision as a node's cache reports it."""

    dataset_uid: str
    digest: str
    state: HoldState
    verified_shards: int = 0
    total_shards: int = 0
    verified_bytes: int = 0
    reason: str = ""
    message: str = ""
