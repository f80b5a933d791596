"""The mount table as the kernel prints it, and which mounts are ours."""

from __future__ import annotations

import pytest

from evenkeel.nodecache.layout import RevisionKey, parse_mount_root
from evenkeel.nodecache.mounts import parse_mount_table

UID, DIGEST = "7c1d2f9e-0000", "ab" * 32
TABLE = rf"""
36 35 98:0 /{UID}/{DIGEST} /var/lib/kubelet/pods/u/volumes/kubernetes.io~csi/data/mount ro,nosuid - ext4 /dev/loop0 rw
37 35 0:5 / /mnt/with\040space rw,relatime shared:1 - tmpfs tmpfs rw
""".strip()


def test_a_table_is_parsed() -> None:
    first, second = parse_mount_table(TABLE)
    assert (first.root, "ro" in first.options) == (f"/{UID}/{DIGEST}", True)
    assert second.target == "/mnt/with space"


@pytest.mark.parametrize(
    ("root", "found"),
    [
        (f"/{UID}/{DIGEST}", True),
        (f"/var/lib/evenkeel/cache/{UID}/{DIGEST}", True),
        (f"/{UID}/{DIGEST}.partial", True),  # taken out by a scrub while a pod has it mounted
        (f"/{UID}/{DIGEST}/deeper", False),
        (f"/{DIGEST}", False),
        (f"/{UID}/.trash-0123", False),
        ("/", False),
    ],
)
def test_a_mounts_root_names_its_revision(root: str, found: object) -> None:
    assert parse_mount_root(root) == (RevisionKey(UID, DIGEST) if found else None)
