"""Where things lie in the store: `UID/DIGEST/` is a whole revision, `UID/DIGEST.partial/` one on its way.

A file has its final name only after its bytes were checked and synced; anything else ends in `.tmp`. A
folder that is being deleted has a name beginning with `.trash-`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evenkeel.errors import InputError
from evenkeel.reasons import Reason

PARTIAL = ".partial"
TEMPORARY = ".tmp"
TRASH = ".trash-"
UID_PATTERN = r"[A-Za-z0-9][A-Za-z0-9-]{0,62}"
DIGEST_PATTERN = r"[0-9a-f]{64}"
_MOUNT_ROOT = re.compile(rf"(?:^|/)({UID_PATTERN})/({DIGEST_PATTERN})(?:{re.escape(PARTIAL)})?$")


@dataclass(frozen=True, slots=True, order=True)
class RevisionKey:
    """Which revision of which dataset; both parts are safe as names of folders.

    Raises:
        InputError: the UID or the digest is not one.
    """

    dataset_uid: str
    digest: str

    def __post_init__(self) -> None:
        if not re.fullmatch(UID_PATTERN, self.dataset_uid):
            message = f"datasetUID {self.dataset_uid!r:.80}: must be letters, digits and dashes, at most 63"
            raise InputError(message, reason=Reason.INVALID_SPEC)
        if not re.fullmatch(DIGEST_PATTERN, self.digest):
            message = f"digest {self.digest!r:.80}: must be 64 hex digits"
            raise InputError(message, reason=Reason.INVALID_SPEC)

    def __str__(self) -> str:
        return f"{self.dataset_uid}/{self.digest[:12]}"

    def whole(self, root: Path) -> Path:
        """Folder of the complete revision."""
        return root / self.dataset_uid / self.digest

    def partial(self, root: Path) -> Path:
        """Folder in which the revision is put together."""
        return root / self.dataset_uid / f"{self.digest}{PARTIAL}"


def find_revisions(root: Path) -> Iterator[RevisionKey]:
    """Every revision of which something lies in the store, in order."""
    found = set()
    for folder in root.iterdir():
        if not folder.is_dir() or not re.fullmatch(UID_PATTERN, folder.name):
            continue
        for entry in folder.iterdir():
            digest = entry.name.removesuffix(PARTIAL)
            if entry.is_dir() and re.fullmatch(DIGEST_PATTERN, digest):
                found.add(RevisionKey(folder.name, digest))
    yield from sorted(found)


def find_trash(root: Path) -> Iterator[Path]:
    """Folders that were being deleted when the process ended."""
    yield from sorted(root.glob(f"*/{TRASH}*"))


def parse_mount_root(path: str) -> RevisionKey | None:
    """The revision whose folder is the root of a mount (field 4 of mountinfo); None: not one of ours."""
    found = _MOUNT_ROOT.search(path)
    return RevisionKey(found.group(1), found.group(2)) if found else None
