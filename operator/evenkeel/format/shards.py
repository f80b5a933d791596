"""Shard files: schema message, messages as they are in Kafka, end marker: an Arrow IPC stream.

https://arrow.apache.org/docs/format/Columnar.html, section "IPC Streaming Format": encapsulated messages
one after the other, then a continuation marker with length 0.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

END_MARKER = b"\xff\xff\xff\xff\x00\x00\x00\x00"
MANIFEST_NAME = "manifest.json"
"""The content manifest's file in a folder that holds a revision."""


def shard_name(index: int) -> str:
    """File name of a shard in a folder that holds a revision."""
    return f"shard-{index:05d}.arrow"


def shard_file(schema_message: bytes, messages: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces of a shard's file in order."""
    yield schema_message
    yield from messages
    yield END_MARKER


def file_bytes(schema_length: int, message_lengths: Iterable[int]) -> int:
    """Size of a shard's file."""
    return schema_length + sum(message_lengths) + len(END_MARKER)


def message_digest(value: bytes) -> str:
    """SHA-256 hex of a message's value."""
    return hashlib.sha256(value).hexdigest()


def shard_digest(schema_digest: str, message_digests: Iterable[str]) -> str:
    """SHA-256 hex over the schema's digest and the messages' digests (32 bytes each) in order."""
    total = hashlib.sha256(bytes.fromhex(schema_digest))
    for digest in message_digests:
        total.update(bytes.fromhex(digest))
    return total.hexdigest()
