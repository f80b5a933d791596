from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from evenkeel.domain.job import ProducerSettings, SourceFormat
from evenkeel.errors import InputError, RetryableError
from evenkeel.ingest.sources import BadRecordError, find_image_problem, list_source, read_object
from evenkeel.reasons import Reason
from tests.support.ingest import PNG, build_settings

JPEG = b"\xff\xd8\xff\xe0" + b"0" * 40


def files(root: Path, **changes: object) -> ProducerSettings:
    return build_settings(root, format=SourceFormat.FILES, **changes)


def fill(root: Path, *names: str, content: bytes = PNG) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def names_of(settings: ProducerSettings) -> list[str]:
    return [item.name for item in list_source(settings).objects]


def test_objects_come_by_the_bytes_of_their_paths(tmp_path: Path) -> None:
    fill(tmp_path, "b/1.png", "B/2.png", "a/ä.png", "a/z.png", "a/10.png", "a/9.png", "a-b/1.png")
    expected = ["B/2.png", "a-b/1.png", "a/10.png", "a/9.png", "a/z.png", "a/ä.png", "b/1.png"]
    assert names_of(build_settings(tmp_path)) == expected
    assert names_of(files(tmp_path)) == expected


def test_classes_are_the_folders_in_sorted_order(tmp_path: Path) -> None:
    listing = list_source(build_settings(fill(tmp_path, "dogs/x/1.jpg", "cats/2.PNG", "ants/3.gif")))
    assert listing.classes == ("ants", "cats", "dogs")
    assert {item.name: item.label for item in listing.objects} == {
        "ants/3.gif": 0,
        "cats/2.PNG": 1,
        "dogs/x/1.jpg": 2,
    }


def test_only_images_in_class_folders_are_records(tmp_path: Path) -> None:
    fill(tmp_path, "a/1.png", "a/readme.txt", "loose.png", "a/.hidden.png", ".git/2.png", "lost+found/3.png")
    assert names_of(build_settings(tmp_path)) == ["a/1.png"]
    assert names_of(files(tmp_path)) == ["a/1.png", "a/readme.txt", "loose.png"]


def test_links_never_lead_out_of_the_source(tmp_path: Path) -> None:
    fill(tmp_path, "secret/password.png", "source/a/1.png")
    source = tmp_path / "source"
    (source / "a" / "out.png").symlink_to(tmp_path / "secret" / "password.png")
    (source / "b").symlink_to(tmp_path / "secret")
    (source / "a" / "in.png").symlink_to("1.png")
    (source / "a" / "loop.png").symlink_to("loop.png")
    assert names_of(build_settings(source)) == ["a/1.png", "a/in.png"]


def test_a_link_that_turns_outward_after_the_listing_is_not_followed(tmp_path: Path) -> None:
    fill(tmp_path, "secret.png", "source/a/1.png")
    settings = build_settings(tmp_path / "source")
    listing = list_source(settings)
    (tmp_path / "source" / "a" / "1.png").unlink()
    (tmp_path / "source" / "a" / "1.png").symlink_to(tmp_path / "secret.png")
    with pytest.raises(InputError) as caught:
        read_object(listing, 0, settings)
    assert caught.value.reason is Reason.SOURCE_CHANGED


def test_the_digest_tells_sources_apart(tmp_path: Path) -> None:
    settings = build_settings(fill(tmp_path, "a/1.png", "b/2.png"))
    first = list_source(settings)
    assert list_source(settings) == first
    seen = {first.digest, list_source(files(tmp_path)).digest}
    (tmp_path / "a" / "1.png").write_bytes(PNG + b"x")
    seen.add(list_source(settings).digest)
    (tmp_path / "a" / "1.png").rename(tmp_path / "a" / "3.png")
    seen.add(list_source(settings).digest)
    assert len(seen) == 4


def test_names_that_are_no_text_are_taken(tmp_path: Path) -> None:
    fill(tmp_path, "a/1.png")
    Path(os.fsdecode(os.fsencode(tmp_path / "a") + b"/\xff.png")).write_bytes(PNG)
    settings = build_settings(tmp_path)
    listing = list_source(settings)
    assert [item.name for item in listing.objects] == ["a/1.png", "a/\\xff.png"]
    assert read_object(listing, 1, settings) == PNG


@pytest.mark.parametrize(
    ("present", "path", "reason"),
    [
        ((), "missing", Reason.SOURCE_MISSING),
        (("file.png",), "file.png", Reason.SOURCE_MISSING),
        ((), "", Reason.SOURCE_EMPTY),
        (("a/readme.txt",), "", Reason.SOURCE_EMPTY),
    ],
)
def test_a_source_without_records_is_refused_by_its_path(
    tmp_path: Path, present: tuple[str, ...], path: str, reason: Reason
) -> None:
    fill(tmp_path, *present)
    with pytest.raises(InputError, match=str(tmp_path / path)) as caught:
        list_source(build_settings(tmp_path / path))
    assert caught.value.reason is reason


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (PNG, None),
        (JPEG, None),
        (b"GIF89a\x01\x00\x01\x00", None),
        (b"RIFF\x24\x00\x00\x00WEBPVP8 ", None),
        (b"BM" + b"\x00" * 16 + b"\x02\x00\x00\x00" + b"\x02\x00\x00\x00", None),
        (b"", "zero bytes"),
        (b"<html>", "not a PNG"),
        (PNG[:18], "cut off"),
        (PNG[:16] + b"\x00" * 8, "no pixels"),
        (b"\xff\xd8\xff", "cut off"),
        (b"GIF89a\x00\x00\x01\x00", "no pixels"),
        (b"RIFF\x24\x00\x00\x00WEBPXXXX", "cut off"),
        (b"BM" + b"\x00" * 30, "no pixels"),
    ],
)
def test_image_headers_are_looked_at(content: bytes, problem: str | None) -> None:
    found = find_image_problem(content)
    assert found == problem if problem is None else problem in (found or "")


@pytest.mark.parametrize(
    ("content", "limit", "reason"),
    [(b"", 100, Reason.BAD_RECORD), (b"text", 100, Reason.BAD_RECORD), (PNG, 10, Reason.RECORD_TOO_LARGE)],
)
def test_a_bad_record_is_named_by_place_and_path(
    tmp_path: Path, content: bytes, limit: int, reason: Reason
) -> None:
    settings = build_settings(fill(tmp_path, "a/1.png", content=content), max_record_bytes=limit)
    with pytest.raises(BadRecordError, match=r"record 0\.0 \(a/1\.png\)") as caught:
        read_object(list_source(settings), 0, settings)
    assert caught.value.reason is reason


@pytest.mark.parametrize("content", [PNG + b"longer", PNG[:-1]])
def test_a_file_that_changed_its_size_is_another_source(tmp_path: Path, content: bytes) -> None:
    settings = build_settings(fill(tmp_path, "a/1.png"))
    listing = list_source(settings)
    (tmp_path / "a" / "1.png").write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_object(listing, 0, settings)
    assert caught.value.reason is Reason.SOURCE_CHANGED
    (tmp_path / "a" / "1.png").unlink()
    with pytest.raises(InputError, match="no longer there"):
        read_object(listing, 0, settings)


def test_a_file_that_cannot_be_looked_at_is_never_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = build_settings(fill(tmp_path, "a/1.png", "a/2.png"))
    stat = os.stat
    for code, kind in (
        (errno.EIO, RetryableError),
        (errno.ESTALE, RetryableError),
        (errno.EACCES, InputError),
    ):

        def fail(path: bytes, code: int = code) -> os.stat_result:
            if path.endswith(b"2.png"):
                raise OSError(code, os.strerror(code))
            return stat(path)

        monkeypatch.setattr(os, "stat", fail)
        with pytest.raises(kind, match=r"2\.png") as caught:
            list_source(settings)
        assert caught.value.reason is Reason.SOURCE_MISSING


def test_a_pipe_in_place_of_a_file_does_not_stop_the_reader(tmp_path: Path) -> None:
    settings = build_settings(fill(tmp_path, "a/1.png"))
    listing = list_source(settings)
    (tmp_path / "a" / "1.png").unlink()
    os.mkfifo(tmp_path / "a" / "1.png")
    with pytest.raises(InputError, match="no longer there"):
        read_object(listing, 0, settings)


def test_what_is_left_out_is_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    fill(tmp_path, "a/1.png", "a/readme.txt", "a/.hidden.png")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    list_source(files(tmp_path))
    assert "1 hidden, 1 links or special files" in caplog.text
