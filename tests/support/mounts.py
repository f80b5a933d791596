"""A mount table that is a list: what the mounter would do to the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evenkeel.nodecache.mounts import Mount


class FakeMounts:
    """Remembers mounts in order; a path may carry several layers."""

    def __init__(self) -> None:
        self.mounted: list[Mount] = []
        self.refuse: OSError | None = None

    def table(self) -> tuple[Mount, ...]:
        return tuple(self.mounted)

    def bind(self, root: Path, folders: Sequence[str], target: Path) -> None:
        if self.refuse is not None:
            raise self.refuse
        assert target.is_dir()
        self.mounted.append(Mount("/".join(("", *folders)), str(target), frozenset({"ro"})))

    def unmount(self, target: Path) -> None:
        if self.refuse is not None:
            raise self.refuse
        self.mounted = [mount for mount in self.mounted if mount.target != str(target)]
