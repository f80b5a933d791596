from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evenkeel.domain.revision import Location, Manifest, MessageEntry, Shard, ShardLocation
from evenkeel.errors import DataError
from evenkeel.format.manifest import (
    decode_location,
    decode_manifest,
    encode_location,
    encode_manifest,
    manifest_digest,
)

GOLDEN = Path(__file__).resolve().parents[1] / "data" / "manifest.json"
MANIFEST = Manifest(
    schema="c2NoZW1h",
    schema_digest="22" * 32,
    seed=2**64 - 1,
    records=3,
    objects=4,
    rejected=1,
    shards=(
        Shard(
            index=0,
            records=3,
            file_bytes=1024,
            digest="aa" * 32,
            file_digest="bb" * 32,
            messages=(MessageEntry(0, 0, 2, 400, "cc" * 32), MessageEntry(1, 0, 1, 300, "dd" * 32)),
        ),
    ),
)
LOCATION = Location("ee" * 32, "cluster", "topic", "topic-id", (ShardLocation(0, 5, (7, 9)),))


def test_the_bytes_of_a_manifest_never_change() -> None:
    """Revisions are named by these bytes: a change here renames every revision there is."""
    assert encode_manifest(MANIFEST) == GOLDEN.read_bytes().rstrip(b"\n")
    assert manifest_digest(encode_manifest(MANIFEST)) == (
        "b7838d25e07bec2cd681d788d6b8b547ad2744abe45256563d1d4e3ba13d1d41"
    )


def test_a_topic_id_of_an_earlier_writer_is_read_in_kafkas_own_way() -> None:
    stored = encode_location(replace(LOCATION, topic_id="+/Ab"))
    assert decode_location(stored).topic_id == "-_Ab"


def test_manifest_and_location_come_back() -> None:
    stored = encode_manifest(MANIFEST)
    assert decode_manifest(stored, manifest_digest(stored)) == MANIFEST
    assert decode_location(encode_location(LOCATION)) == LOCATION


def test_other_bytes_are_refused() -> None:
    stored = encode_manifest(MANIFEST)
    with pytest.raises(DataError, match="is meant"):
        decode_manifest(stored.replace(b"1024", b"1025"), manifest_digest(stored))
    with pytest.raises(DataError, match="Manifest"):
        decode_manifest(b"{}")


def test_a_table_of_another_version_is_never_read_as_ours() -> None:
    newer = encode_manifest(MANIFEST).replace(b'"schemaVersion":1', b'"schemaVersion":2')
    with pytest.raises(DataError, match="schemaVersion 2"):
        decode_manifest(newer, manifest_digest(newer))
    with pytest.raises(DataError, match="schemaVersion 2"):
        decode_location(encode_location(LOCATION).replace(b'"schemaVersion":1', b'"schemaVersion":2'))
