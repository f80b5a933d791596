"""Messages of a shard out of a partition that also holds what nobody refers to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import cast

import pytest

from evenkeel.domain.revision import Location, ShardLocation
from evenkeel.errors import DataError
from evenkeel.kafka.clients.reader import LogRecord, PartitionReader
from evenkeel.loader.source import check_location, read_messages
from evenkeel.reasons import Reason
from tests.support.revisions import build_revision

BUILT = build_revision(shards=1, messages=3)
SHARD = BUILT.manifest.shards[0]
VALUES = BUILT.messages[0]
PLACE = ShardLocation(0, 2, (4, 6, 7))


@dataclass
class FakeReader:
    """A partition as a dict of offsets."""

    log: dict[int, bytes]
    start: int = 0

    def bounds(self) -> tuple[int, int]:
        return self.start, max(self.log) + 1

    def read(self, first: int, end: int) -> Iterator[LogRecord]:
        for offset in sorted(self.log):
            if first <= offset < end:
                yield LogRecord(offset, None, self.log[offset], {}, 0)


def read(log: dict[int, bytes], start: int = 0) -> list[bytes]:
    return list(read_messages(cast("PartitionReader", FakeReader(log, start)), SHARD, PLACE))


GOOD = {3: b"before", 4: VALUES[0], 5: b"another attempt", 6: VALUES[1], 7: VALUES[2], 8: b"after"}


def test_exactly_the_referenced_messages_come_in_order() -> None:
    assert read(GOOD) == list(VALUES)


@pytest.mark.parametrize(
    ("log", "start", "reason", "sentence"),
    [
        (GOOD, 5, Reason.DATA_LOST, "begins at 5, offset 4 is gone"),
        ({key: value for key, value in GOOD.items() if key != 6}, 0, Reason.DATA_LOST, "no message at 2/6"),
        (
            {key: value for key, value in GOOD.items() if key < 7},
            0,
            Reason.DATA_LOST,
            "ends at 7, offset 7 is gone",
        ),
        ({**GOOD, 6: b"other"}, 0, Reason.SHARD_CORRUPT, "the message at 2/6 has other bytes"),
    ],
)
def test_lost_or_changed_messages_are_never_handed_on(
    log: dict[int, bytes], start: int, reason: Reason, sentence: str
) -> None:
    with pytest.raises(DataError, match=sentence) as caught:
        read(log, start)
    assert caught.value.reason is reason


def test_a_location_must_belong_to_its_manifest() -> None:
    good = Location(BUILT.digest, "cluster", "topic", "id", (PLACE,))
    check_location(BUILT.manifest, good, BUILT.digest)
    wrong = [
        replace(good, digest="0" * 64),
        replace(good, shards=()),
        replace(good, shards=(replace(PLACE, offsets=(4, 6)),)),
    ]
    for location in wrong:
        with pytest.raises(DataError) as caught:
            check_location(BUILT.manifest, location, BUILT.digest)
        assert caught.value.reason is Reason.DATA_LOST
