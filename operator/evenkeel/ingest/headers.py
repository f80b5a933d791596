"""Headers of a message in the data topic: who it is, so that the journal can be checked and rebuilt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_PREFIX = "evenkeel-"


@dataclass(frozen=True, slots=True)
class MessageIdentity:
    """Identity of a message; `attempt` says who wrote it and is no part of what is checked."""

    dataset: str
    schema: str
    attempt: int
    slice: int
    first: int
    count: int
    digest: str

    def encode(self) -> list[tuple[str, bytes]]:
        """As headers of a Kafka record."""
        return [(f"{_PREFIX}{name}", str(getattr(self, name)).encode()) for name in self.__slots__]

    def same_content(self, other: MessageIdentity) -> bool:
        """Whether both name the same records with the same bytes."""
        return all(
            getattr(self, name) == getattr(other, name) for name in self.__slots__ if name != "attempt"
        )


def parse_identity(headers: Mapping[str, bytes]) -> MessageIdentity | None:
    """The identity in a record's headers, None for a record that is not ours."""
    try:
        texts = {name: headers[f"{_PREFIX}{name}"].decode() for name in MessageIdentity.__slots__}
        return MessageIdentity(
            dataset=texts["dataset"],
            schema=texts["schema"],
            attempt=int(texts["attempt"]),
            slice=int(texts["slice"]),
            first=int(texts["first"]),
            count=int(texts["count"]),
            digest=texts["digest"],
        )
    except (KeyError, ValueError):
        return None
