"""A mounted volume as a list of objects, and the bytes of one object. The listing decides identity and order."""

# ruff: noqa: PTH115, PTH116, PTH118 - paths are bytes here, which pathlib does not take

from __future__ import annotations

import errno
import hashlib
import logging
import os
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evenkeel.domain.job import ProducerSettings, SourceFormat
from evenkeel.errors import InputError, RetryableError
from evenkeel.reasons import Reason

log = logging.getLogger(__name__)

IMAGE_SUFFIXES = (b".png", b".jpg", b".jpeg", b".gif", b".webp", b".bmp")
_IGNORED = (b"lost+found",)
"""What a fresh ext4 file system holds; readable by root only."""
_PNG, _JPEG, _BMP = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"BM"
_GIFS = (b"GIF87a", b"GIF89a")
_LONGEST_HEADER = 26


@dataclass(frozen=True, slots=True)
class SourceObject:
    """One object (file) of a source."""

    path: bytes
    """Relative to the source, as the file system has it."""
    size: int
    label: int = 0
    """Index of the class folder in sorted order; 0 for Files."""

    @property
    def name(self) -> str:
        """The path as text; bytes that are no UTF-8 are escaped."""
        return self.path.decode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True)
class Listing:
    """A source as it was found: equal sources give equal listings on every worker."""

    root: Path
    objects: tuple[SourceObject, ...]
    """By the bytes of their paths."""
    classes: tuple[str, ...]
    """Class folders in sorted order; empty for Files."""
    digest: str
    """SHA-256 hex over every path and size."""


class BadRecordError(InputError):
    """A record that cannot be taken; the reason says whether it is bad or too large.

    Args:
        message: names place and path.
        reason: of errors.EvenkeelError.
        digest: SHA-256 hex of the object's bytes; empty where they were not read.
    """

    def __init__(self, message: str, *, reason: Reason, digest: str = "") -> None:
        super().__init__(message, reason=reason)
        self.digest = digest


def list_source(settings: ProducerSettings) -> Listing:
    """List the source.

    Left out, and counted in the log: hidden files, other files than images (ImageFolder), links that lead
    out or nowhere, and links to folders.

    Raises:
        InputError: SOURCE_MISSING: no such folder, or something may not be looked at; SOURCE_EMPTY: no
            object in it.
        RetryableError: the file system failed: a listing is whole or there is none.
    """
    root = Path(settings.source_path)
    images = settings.format is SourceFormat.IMAGE_FOLDER
    left_out: Counter[str] = Counter()
    found = sorted(_walk(root, left_out, images=images))
    if left_out:
        log.info(
            "left out of the listing: %s", ", ".join(f"{n} {what}" for what, n in sorted(left_out.items()))
        )
    if not found:
        what = "images in class folders" if images else "files"
        message = f"source {settings.source_path}: holds no {what}"
        raise InputError(message, reason=Reason.SOURCE_EMPTY)
    classes = sorted({path.split(b"/", 1)[0] for path, _ in found}) if images else []
    labels = {name: label for label, name in enumerate(classes)}
    objects = tuple(SourceObject(path, size, labels.get(path.split(b"/", 1)[0], 0)) for path, size in found)
    names = tuple(name.decode("utf-8", "backslashreplace") for name in classes)
    return Listing(root, objects, names, _digest_objects(settings.format, objects))


def read_object(listing: Listing, index: int, settings: ProducerSettings) -> bytes:
    """The checked bytes of an object.

    Raises:
        BadRecordError: empty, too large, unreadable, or no image; names place and path.
        InputError: SOURCE_CHANGED: its size is no longer that of the listing, or it is gone.
        RetryableError: the file system failed.
    """
    item = listing.objects[index]
    place = f"record {index}.0 ({item.name})"
    if item.size > settings.max_record_bytes:
        message = f"{place}: {item.size} bytes, maxRecordBytes is {settings.max_record_bytes}"
        raise BadRecordError(message, reason=Reason.RECORD_TOO_LARGE)
    content = _read(listing.root, item, place)
    if len(content) != item.size:
        message = f"{place}: {len(content)} bytes, the listing says {item.size}"
        raise InputError(message, reason=Reason.SOURCE_CHANGED)
    if settings.format is SourceFormat.IMAGE_FOLDER:
        problem = find_image_problem(content)
        if problem is not None:
            digest = hashlib.sha256(content).hexdigest()
            raise BadRecordError(f"{place}: {problem}", reason=Reason.BAD_RECORD, digest=digest)
    return content


def find_image_problem(content: bytes) -> str | None:
    """What is wrong with an image, by its header alone; None if nothing is seen.

    Signatures and dimensions as the formats define them: PNG (W3C PNG, section 5), JPEG (ITU T.81),
    GIF (GIF89a, section 18), WebP (RFC 9649), BMP (BITMAPINFOHEADER).
    """
    if not content:
        return "zero bytes"
    head = content[:_LONGEST_HEADER]
    if head.startswith(_PNG):
        good = head[12:16] == b"IHDR" and _positive(head[16:20], "big") and _positive(head[20:24], "big")
    elif head.startswith(_GIFS):
        good = _positive(head[6:8], "little") and _positive(head[8:10], "little")
    elif head.startswith(_BMP):
        good = len(content) >= _LONGEST_HEADER and _positive(head[18:22], "little")
    elif head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        good = head[12:15] == b"VP8"
    elif head.startswith(_JPEG):
        good = len(content) > _LONGEST_HEADER
    else:
        return "not a PNG, JPEG, GIF, WebP or BMP image"
    return None if good else "its header is cut off or says that it has no pixels"


def _positive(field: bytes, order: str) -> bool:
    return int.from_bytes(field, "big" if order == "big" else "little") > 0


def _walk(root: Path, left_out: Counter[str], *, images: bool) -> Iterator[tuple[bytes, int]]:
    """Relative paths and sizes, in any order."""
    base = os.path.realpath(os.fsencode(root))
    folders = [b""]
    while folders:
        folder = folders.pop()
        for entry in _scan(base, folder):
            if entry.name.startswith(b".") or (not folder and entry.name in _IGNORED):
                left_out["hidden"] += 1
                continue
            path = folder + b"/" + entry.name if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                folders.append(path)
            elif not images or (folder and entry.name.lower().endswith(IMAGE_SUFFIXES)):
                size = _measure(base, path)
                if size is not None:
                    yield path, size
                else:
                    left_out["links or special files"] += 1
            else:
                left_out["no images in class folders"] += 1


def _scan(base: bytes, folder: bytes) -> list[os.DirEntry[bytes]]:
    place = os.path.join(base, folder)
    try:
        with os.scandir(place) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError) as error:
        message = f"source {os.fsdecode(place)}: no such folder in the volume"
        raise InputError(message, reason=Reason.SOURCE_MISSING) from error
    except PermissionError as error:
        message = f"source {os.fsdecode(place)}: may not be listed by user {os.geteuid()}"
        raise InputError(message, reason=Reason.SOURCE_MISSING) from error
    except OSError as error:
        message = f"source {os.fsdecode(place)}: {error.strerror}"
        raise RetryableError(message, reason=Reason.SOURCE_MISSING) from error


def _measure(base: bytes, path: bytes) -> int | None:
    """Size of a regular file inside the source, None for anything else.

    A failing file system raises: a file must not be missing from the revision because of a hiccup.
    """
    resolved = os.path.realpath(os.path.join(base, path))
    if not resolved.startswith(base.rstrip(b"/") + b"/"):
        return None
    try:
        status = os.stat(resolved)
    except (FileNotFoundError, NotADirectoryError):
        return None  # a dangling link
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        message = f"source {os.fsdecode(resolved)}: {error.strerror}"
        kind = InputError if isinstance(error, PermissionError) else RetryableError
        raise kind(message, reason=Reason.SOURCE_MISSING) from error
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _read(root: Path, item: SourceObject, place: str) -> bytes:
    base = os.path.realpath(os.fsencode(root))
    try:
        with open(os.path.join(base, item.path), "rb", opener=_open_at_once) as handle:
            if not _is_file_inside(handle.fileno(), base):
                raise InputError(f"{place}: no longer there", reason=Reason.SOURCE_CHANGED)
            return handle.read(item.size + 1)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(f"{place}: no longer there", reason=Reason.SOURCE_CHANGED) from error
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EIO):
            message = f"{place}: cannot be read: {error.strerror}"
            raise BadRecordError(message, reason=Reason.BAD_RECORD) from error
        raise RetryableError(f"{place}: {error.strerror}", reason=Reason.SOURCE_MISSING) from error


def _open_at_once(path: str | bytes, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a pipe that took the file's place would wait for ever


def _is_file_inside(handle: int, base: bytes) -> bool:
    """By what was opened, not by its name: whoever may write to the volume can turn a link at any moment."""
    inside = os.readlink(b"/proc/self/fd/%d" % handle).startswith(base.rstrip(b"/") + b"/")
    return inside and stat.S_ISREG(os.fstat(handle).st_mode)


def _digest_objects(kind: SourceFormat, objects: tuple[SourceObject, ...]) -> str:
    total = hashlib.sha256(kind.value.encode())
    for item in objects:
        total.update(b"%d:%b:%d;" % (len(item.path), item.path, item.size))
    return total.hexdigest()
