from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from evenkeel.domain.job import BadRecordPolicy, ProducerSettings
from evenkeel.errors import InputError
from evenkeel.format import arrow
from evenkeel.ingest.packing import Packer, refuse_bad_sizes
from evenkeel.ingest.plan import MessageRange, build_schema
from evenkeel.ingest.sources import list_source
from evenkeel.reasons import Reason
from tests.support.ingest import PNG, build_settings, write_images

MESSAGE = MessageRange(slice=2, first=6, objects=(3, 0, 1))


def packer(settings: ProducerSettings) -> Packer:
    listing = list_source(settings)
    return Packer(listing, build_schema(listing, settings.format), settings)


def ids(settings: ProducerSettings, value: bytes) -> list[str]:
    schema = arrow.encode_schema(build_schema(list_source(settings), settings.format))
    names: list[str] = arrow.decode(schema, value).column("_id").to_pylist()
    return names


def test_a_message_holds_its_records_in_order(tmp_path: Path) -> None:
    write_images(tmp_path, 2, 2)
    settings = build_settings(tmp_path)
    packed = packer(settings).pack(MESSAGE)
    assert ids(settings, packed.value) == ["3.0", "0.0", "1.0"]
    assert (packed.records, packed.rejected) == (3, ())
    assert packed.digest == hashlib.sha256(packed.value).hexdigest()
    assert packer(settings).pack(MESSAGE) == packed


def test_a_bad_record_is_put_aside_by_position(tmp_path: Path) -> None:
    write_images(tmp_path, 2, 2)
    settings = build_settings(tmp_path, on_bad_record=BadRecordPolicy.QUARANTINE)
    (tmp_path / "class-00" / "000.png").write_bytes(b"no image")
    packed = packer(settings).pack(MESSAGE)
    assert ids(settings, packed.value) == ["3.0", "1.0"]
    (bad,) = packed.rejected
    assert (bad.position, bad.record_id, bad.reason) == (7, "0.0", Reason.BAD_RECORD)
    assert bad.digest == hashlib.sha256(b"no image").hexdigest()


def test_what_was_rejected_stays_rejected(tmp_path: Path) -> None:
    write_images(tmp_path, 2, 2)
    settings = build_settings(tmp_path)
    packed = packer(settings).pack(MESSAGE, left_out={7})
    assert ids(settings, packed.value) == ["3.0", "1.0"]
    assert packed.rejected == ()


def test_a_message_of_bad_records_only_is_empty(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.png").write_bytes(b"no image")
    settings = build_settings(tmp_path, on_bad_record=BadRecordPolicy.QUARANTINE)
    packed = packer(settings).pack(MessageRange(0, 0, (0,)))
    assert (packed.records, packed.value, len(packed.rejected)) == (0, b"", 1)


def test_under_fail_a_bad_record_ends_the_ingest(tmp_path: Path) -> None:
    write_images(tmp_path, 2, 2)
    (tmp_path / "class-00" / "000.png").write_bytes(b"no image")
    with pytest.raises(InputError, match=r"class-00/000\.png"):
        packer(build_settings(tmp_path)).pack(MESSAGE)


@pytest.mark.parametrize(
    ("size", "policy", "reason"),
    [
        (0, BadRecordPolicy.FAIL, Reason.BAD_RECORD),
        (2000, BadRecordPolicy.FAIL, Reason.RECORD_TOO_LARGE),
        (0, BadRecordPolicy.QUARANTINE, None),
        (2000, BadRecordPolicy.QUARANTINE, None),
    ],
)
def test_what_the_listing_shows_is_refused_before_the_first_write(
    tmp_path: Path, size: int, policy: BadRecordPolicy, reason: Reason | None
) -> None:
    write_images(tmp_path, 1, 2)
    (tmp_path / "class-00" / "bad.png").write_bytes((PNG * 100)[:size])
    settings = build_settings(tmp_path, max_record_bytes=1000, on_bad_record=policy)
    if reason is None:
        refuse_bad_sizes(list_source(settings), settings)
        return
    with pytest.raises(InputError, match=r"record 2\.0 \(class-00/bad\.png\)") as caught:
        refuse_bad_sizes(list_source(settings), settings)
    assert caught.value.reason is reason
