"""One shard on its way to disk: counted, hashed, synced, and only then given its name."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from evenkeel.errors import DataError, EvenkeelError, InputError, RetryableError
from evenkeel.nodecache import files
from evenkeel.nodecache.holding import ShardFile
from evenkeel.reasons import Reason


class ShardUpload:
    """A temporary file that becomes a shard, or vanishes. Use it from one thread at a time.

    Args:
        path: the final name.
        shard: length and digest that the bytes must have.
        commit: called with the synced temporary file; renames it and takes note, under the store's lock.
    """

    def __init__(self, path: Path, shard: ShardFile, commit: Callable[[Path], None]) -> None:
        self.shard = shard
        self.written = 0
        self._commit = commit
        self._hash = hashlib.sha256()
        self._abandoned = False
        self._temporary = files.temporary_name(path)
        with disk_errors(f"shard {shard.index}"):
            self._file = os.fdopen(files.create_file(self._temporary), "wb", buffering=0)

    def write(self, data: bytes) -> None:
        """Append bytes.

        Raises:
            DataError: more bytes than the manifest promises.
            InputError: reason DoesNotFit, the disk is full.
            RetryableError: the upload was given up (a newer one took over), or the disk failed.
        """
        self._expect_current()
        if self.written + len(data) > self.shard.length:
            raise self._wrong(f"more than {self.shard.length} bytes were sent")
        rest = memoryview(data)
        with disk_errors(f"shard {self.shard.index}"):
            while rest:
                rest = rest[self._file.write(rest) :]
        self._hash.update(data)
        self.written += len(data)

    def finish(self) -> None:
        """Check, sync and commit; errors as `write`."""
        if self.written != self.shard.length:
            raise self._wrong(f"{self.written} bytes were sent, the manifest says {self.shard.length}")
        found = self._hash.hexdigest()
        if found != self.shard.digest:
            raise self._wrong(f"its digest is {found}, the manifest says {self.shard.digest}")
        with disk_errors(f"shard {self.shard.index}"):
            os.fsync(self._file.fileno())
            self._expect_current()
            self._commit(self._temporary)

    def abandon(self) -> None:
        """Give the upload up from outside: its next step raises. The space is free when it is closed."""
        self._abandoned = True

    def close(self) -> None:
        """Close, and remove what was not committed. May be called twice."""
        with contextlib.suppress(OSError):
            self._file.close()
        self._temporary.unlink(missing_ok=True)

    def _expect_current(self) -> None:
        if self._abandoned:
            message = f"shard {self.shard.index}: another upload took over, or the revision is unwanted now"
            raise RetryableError(message, reason=Reason.CONFLICT)

    def _wrong(self, what: str) -> DataError:
        return DataError(f"shard {self.shard.index}: {what}", reason=Reason.SHARD_CORRUPT)


@contextlib.contextmanager
def disk_errors(what: str) -> Iterator[None]:
    """Turn what the operating system says about a disk into our errors."""
    try:
        yield
    except EvenkeelError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            message = f"{what}: the cache's disk is full"
            raise InputError(message, reason=Reason.DOES_NOT_FIT) from error
        message = f"{what}: the cache's disk failed: {error.strerror}"
        raise RetryableError(message, reason=Reason.CACHE_UNAVAILABLE) from error
