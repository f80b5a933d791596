"""The one directory outside the tree that scripts and tests write to.

Every entry is made once for a key (a digest of all that goes into it), in a directory beside its
final place, and renamed when it is whole: a build that was interrupted leaves nothing that a
second run takes for finished, and two runs at once wait for each other instead of building twice.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def root() -> Path:
    """`${XDG_CACHE_HOME:-~/.cache}/evenkeel`, made if it is absent."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    path = Path(base) / "evenkeel"
    path.mkdir(parents=True, exist_ok=True)
    return path


def digest(parts: Iterable[Path | str]) -> str:
    """First 16 hex digits of the SHA-256 over texts, files and (recursively) folders."""
    total = hashlib.sha256()
    for part in parts:
        for name, body in _bodies(part):
            total.update(f"{len(name)}:{name}:{len(body)}:".encode())
            total.update(body)
    return total.hexdigest()[:16]


def entry(kind: str, key: str, build: Callable[[Path], None]) -> Path:
    """The directory `root()/kind/key`, built by `build(empty directory)` if it is not there.

    Older keys of the same kind stay; nothing removes them.
    """
    final = root() / kind / key
    if final.is_dir():
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    with locked(f"{kind}-{key}"):
        if final.is_dir():
            return final
        work = final.with_name(f".{key}.partial")
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        build(work)
        work.rename(final)
    return final


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the lock file `name` of the cache; waits for another process that holds it."""
    path = root() / "locks" / f"{name.replace('/', '_')}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _bodies(part: Path | str) -> Iterator[tuple[str, bytes]]:
    if isinstance(part, str):
        yield "", part.encode()
    elif part.is_dir():
        for path in sorted(part.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield str(path.relative_to(part)), path.read_bytes()
    else:
        yield part.name, part.read_bytes()
