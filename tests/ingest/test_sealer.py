from __future__ import annotations

import base64
import dataclasses
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from evenkeel.domain.job import BadRecordPolicy, SealerSettings
from evenkeel.domain.journal import Entry, JournalState, Lost, encode, parse
from evenkeel.errors import DataError, InputError
from evenkeel.format import arrow
from evenkeel.format.manifest import encode_manifest, manifest_digest
from evenkeel.format.shards import message_digest, shard_digest, shard_file
from evenkeel.ingest.sealer import Sealed, _Identities, build_seal, plan_reopen, verify
from evenkeel.ingest.worker import Step
from evenkeel.kafka.clients.identity import TopicIdentity
from evenkeel.kafka.clients.reader import LogRecord
from evenkeel.reasons import Reason
from tests.support.ingest import DATASET, World, build_settings, write_images

RECORDS = 36


@pytest.fixture
def world(tmp_path: Path) -> World:
    write_images(tmp_path, 3, RECORDS // 3)
    made = World(build_settings(tmp_path))
    run = made.start(0)
    while run.worker.step() is not Step.DONE:
        pass
    return made


def check(
    world: World, shard_bytes: int = 10**6, state: JournalState | None = None
) -> Sealed | tuple[Lost, ...]:
    folded = state or world.journal.fold()
    assert folded.plan is not None
    schema = base64.b64decode(folded.plan.schema)
    return verify(folded, folded.plan, DATASET.uid, schema, shard_bytes, world.data.read)


def sealed(world: World, shard_bytes: int = 10**6) -> Sealed:
    result = check(world, shard_bytes)
    assert isinstance(result, Sealed)
    return result


def test_shards_are_files_of_runs_of_one_partition(world: World) -> None:
    result = sealed(world, shard_bytes=2500)
    manifest = result.manifest
    schema = base64.b64decode(manifest.schema)
    assert len(manifest.shards) > 3
    for shard, place in zip(manifest.shards, result.shards, strict=True):
        values = [world.data.partitions[place.partition][offset].value for offset in place.offsets]
        data = b"".join(shard_file(schema, values))
        assert (message_digest(data), len(data)) == (shard.file_digest, shard.file_bytes)
        assert shard.digest == shard_digest(manifest.schema_digest, [message_digest(v) for v in values])
        assert shard.file_bytes <= 2500
        assert list(place.offsets) == sorted(place.offsets)
    assert [shard.index for shard in manifest.shards] == list(range(len(manifest.shards)))
    assert (manifest.records, manifest.objects, manifest.rejected, manifest.seed) == (RECORDS, RECORDS, 0, 7)


def test_sealing_again_gives_the_same_revision(world: World) -> None:
    one, two = encode_manifest(sealed(world).manifest), encode_manifest(sealed(world).manifest)
    assert manifest_digest(one) == manifest_digest(two)


def test_the_seal_and_location_carry_what_others_need(world: World) -> None:
    result = sealed(world)
    seal = build_seal(result.manifest, "ab" * 32, 0)
    assert (seal.records, seal.shards) == (RECORDS, len(result.manifest.shards))
    assert seal.data_bytes == sum(shard.file_bytes for shard in result.manifest.shards)
    location = result.locate("ab" * 32, "data", TopicIdentity("cluster", "topic-id", 3))
    assert (location.cluster_id, location.topic_id, location.topic) == ("cluster", "topic-id", "data")


@pytest.mark.parametrize("place", [0, 1, 3])
def test_a_message_that_is_gone_is_lost_and_reopened(world: World, place: int) -> None:
    world.data.destroyed.add((1, place))
    (entry,) = (
        item for item in world.journal.fold().entries() if (item.partition, item.offset) == (1, place)
    )
    lost = check(world)
    assert isinstance(lost, tuple)
    assert Lost(entry.slice, entry.first) in lost
    reopen = plan_reopen(world.journal.fold(), SealerSettings(), lost)
    assert (reopen.round, entry.slice in reopen.slices) == (1, True)
    world.journal.values.append(encode(reopen))
    run = world.start(0)
    while run.worker.step() is not Step.DONE:
        pass
    assert sealed(world).manifest.records == RECORDS


def test_of_two_entries_with_one_offset_the_one_whose_bytes_are_not_there_is_lost(world: World) -> None:
    """As a partition leaves it that lost its end and gave the offset out again."""
    one, two = sorted(world.journal.fold().entries(), key=lambda item: (item.slice, item.first))[:2]
    values = []
    for value in world.journal.values:
        record = parse(value)
        if isinstance(record, Entry) and (record.slice, record.first) == (one.slice, one.first):
            record = dataclasses.replace(record, partition=two.partition, offset=two.offset)
        values.append(encode(record))
    world.journal.values = values
    assert check(world) == (Lost(one.slice, one.first),)


@pytest.mark.parametrize("name", ["x", "-1.0", "999.0", "1.1", "٣.0"])
def test_an_id_that_is_not_of_the_source_is_refused(name: str) -> None:
    schema = arrow.files_schema()
    batch = arrow.build_file_batch(schema, [arrow.PackedRecord(name, "a", b"b")])
    entry = Entry(0, 0, 0, 1, 1, 0, 0, 1, "00")
    with pytest.raises(DataError, match="slice 0"):
        _Identities(10).take(arrow.encode_schema(schema), entry, arrow.encode_batch(batch))


@pytest.mark.parametrize(
    "change",
    [{"value": b"other bytes"}, {"headers": {}}, {"headers": {"evenkeel-slice": b"x"}}],
    ids=["value", "no headers", "bad header"],
)
def test_a_message_with_other_bytes_or_identity_is_lost(world: World, change: dict[str, object]) -> None:
    records = world.data.partitions[2]
    records[1] = dataclasses.replace(records[1], **change)  # type: ignore[arg-type]
    lost = check(world)
    assert isinstance(lost, tuple)
    assert len(lost) == 1


def test_a_record_that_is_written_twice_is_never_sealed(world: World) -> None:
    """As a bug of a worker would make it: one message's bytes under two entries."""
    state = world.journal.fold()
    entries = sorted(state.entries(), key=lambda item: (item.records, item.slice, item.first))
    one, two = next((a, b) for a, b in itertools.pairwise(entries) if a.records == b.records)
    source = world.data.partitions[one.partition][one.offset]
    target = world.data.partitions[two.partition]
    headers = {
        **source.headers,
        "evenkeel-slice": str(two.slice).encode(),
        "evenkeel-first": str(two.first).encode(),
    }
    target[two.offset] = LogRecord(two.offset, None, source.value, headers, 0)
    values = []
    for value in world.journal.values:
        record = parse(value)
        if isinstance(record, Entry) and (record.slice, record.first) == (two.slice, two.first):
            record = dataclasses.replace(record, digest=one.digest, length=one.length)
        values.append(encode(record))
    world.journal.values = values
    with pytest.raises(DataError, match="twice"):
        check(world)


def test_rounds_end(world: World) -> None:
    state = world.journal.fold()
    state.round = 3
    with pytest.raises(InputError, match="after 3 rounds"):
        plan_reopen(state, SealerSettings(max_rounds=3), [Lost(0, 0)])


def test_a_failing_read_is_no_loss(world: World) -> None:
    def read(partition: int, first: int, end: int) -> Iterator[LogRecord]:
        yield from world.data.read(partition, first, end)
        raise ConnectionError

    state = world.journal.fold()
    assert state.plan is not None
    with pytest.raises(ConnectionError):
        verify(state, state.plan, DATASET.uid, base64.b64decode(state.plan.schema), 10**6, read)


def test_a_source_of_bad_records_only_is_not_sealed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.png").write_bytes(b"no image")
    made = World(build_settings(tmp_path, on_bad_record=BadRecordPolicy.QUARANTINE))
    run = made.start(0)
    while run.worker.step() is not Step.DONE:
        pass
    with pytest.raises(InputError, match="all 1 records") as caught:
        check(made)
    assert caught.value.reason is Reason.BAD_RECORD
