"""Uploads, restarts, space, scrubs and removal of the store, on a real file system."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from evenkeel.domain.nodes import HoldState
from evenkeel.errors import DataError, InputError, RetryableError
from evenkeel.format.manifest import encode_manifest
from evenkeel.format.shards import MANIFEST_NAME, shard_name
from evenkeel.names import dataset_reference
from evenkeel.nodecache.files import DiskSpace
from evenkeel.nodecache.layout import RevisionKey
from evenkeel.nodecache.store import Store
from evenkeel.reasons import Reason
from tests.support.revisions import UID, BuiltRevision, build_revision

PLENTY = DiskSpace(1 << 40, 1 << 40)


def open_store(root: Path, *built: BuiltRevision, space: DiskSpace = PLENTY) -> Store:
    store = Store(root, disk=lambda _: space)
    store.recover()
    store.set_wanted([item.wanted() for item in built])
    return store


def key_of(built: BuiltRevision) -> RevisionKey:
    return RevisionKey(UID, built.digest)


def send_shard(store: Store, built: BuiltRevision, index: int, data: bytes | None = None) -> None:
    content = built.files[index] if data is None else data
    upload = store.open_shard(key_of(built), index, len(built.files[index]))
    assert upload is not None
    try:
        upload.write(content[:700])
        upload.write(content[700:])
        upload.finish()
    finally:
        store.close_shard(key_of(built), upload)


def fill(store: Store, built: BuiltRevision) -> None:
    store.put_manifest(key_of(built), built.stored)
    for index in range(len(built.files)):
        if index not in store.describe(key_of(built)).present:
            send_shard(store, built, index)
    store.finish_complete()


def state_of(store: Store, built: BuiltRevision) -> HoldState:
    return store.describe(key_of(built)).state


def test_a_revision_is_warm_only_when_every_shard_was_verified(tmp_path: Path) -> None:
    built = build_revision(shards=2)
    store = open_store(tmp_path, built)
    assert state_of(store, built) is HoldState.WANTED
    store.put_manifest(key_of(built), built.stored)
    send_shard(store, built, 1)
    store.finish_complete()
    (held,) = store.report()
    assert (held.state, held.verified_shards, held.total_shards) == (HoldState.LOADING, 1, 2)
    assert held.verified_bytes == len(built.files[1])
    assert not key_of(built).whole(tmp_path).exists()
    send_shard(store, built, 0)
    store.finish_complete()
    assert state_of(store, built) is HoldState.WARM
    folder = key_of(built).whole(tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == [MANIFEST_NAME, shard_name(0), shard_name(1)]
    assert [(folder / shard_name(i)).read_bytes() for i in range(2)] == list(built.files)


def test_pods_of_any_user_may_read_the_files(tmp_path: Path) -> None:
    built = build_revision(shards=1)
    before = os.umask(0o077)
    try:
        fill(open_store(tmp_path, built), built)
    finally:
        os.umask(before)
    folder = key_of(built).whole(tmp_path)
    assert {path.stat().st_mode & 0o777 for path in (folder, folder.parent)} == {0o755}
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o644}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda data: data[:-1], "bytes were sent"),
        (lambda data: data[:50] + bytes([data[50] ^ 1]) + data[51:], "its digest is"),
        (lambda data: data + b"x", "more than"),
    ],
)
def test_wrong_bytes_never_become_a_shard(tmp_path: Path, change: object, sentence: str) -> None:
    built = build_revision(shards=1)
    store = open_store(tmp_path, built)
    store.put_manifest(key_of(built), built.stored)
    with pytest.raises(DataError, match=sentence) as caught:
        send_shard(store, built, 0, change(built.files[0]))  # type: ignore[operator]
    assert caught.value.reason is Reason.SHARD_CORRUPT
    assert store.describe(key_of(built)).present == ()
    assert [path.name for path in key_of(built).partial(tmp_path).iterdir()] == [MANIFEST_NAME]


def test_a_manifest_with_another_digest_is_refused(tmp_path: Path) -> None:
    built, other = build_revision(), build_revision(seed=1)
    store = open_store(tmp_path, built)
    with pytest.raises(DataError, match="digest"):
        store.put_manifest(key_of(built), other.stored)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["../etc", "a/b", "", "x" * 64, ".hidden"])
def test_names_that_would_leave_the_store_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="datasetUID"):
        RevisionKey(name, "0" * 64)


@pytest.mark.parametrize(
    ("index", "delta", "sentence"),
    [(9, 0, "has 0 to 2"), (0, 1, "Content-Length"), (0, -1, "Content-Length")],
)
def test_a_shard_must_be_one_of_the_manifest(tmp_path: Path, index: int, delta: int, sentence: str) -> None:
    built = build_revision()
    store = open_store(tmp_path, built)
    with pytest.raises(InputError, match="manifest first"):
        store.open_shard(key_of(built), 0, 1)
    store.put_manifest(key_of(built), built.stored)
    with pytest.raises(InputError, match=sentence):
        store.open_shard(key_of(built), index, len(built.files[0]) + delta)


def test_an_unwanted_revision_is_refused(tmp_path: Path) -> None:
    built = build_revision()
    store = open_store(tmp_path)
    with pytest.raises(InputError) as caught:
        store.put_manifest(key_of(built), built.stored)
    assert caught.value.reason is Reason.DATASET_NOT_FOUND


def test_a_restart_in_the_middle_keeps_verified_shards(tmp_path: Path) -> None:
    built = build_revision()
    store = open_store(tmp_path, built)
    store.put_manifest(key_of(built), built.stored)
    send_shard(store, built, 1)
    left = store.open_shard(key_of(built), 2, len(built.files[2]))  # a process that dies here closes nothing
    assert left is not None
    left.write(b"half")
    again = open_store(tmp_path, built)
    assert again.describe(key_of(built)).present == (1,)
    assert {path.name for path in key_of(built).partial(tmp_path).iterdir()} == {MANIFEST_NAME, shard_name(1)}
    fill(again, built)
    assert state_of(again, built) is HoldState.WARM
    assert state_of(open_store(tmp_path, built), built) is HoldState.WARM
    left.close()


def test_shards_of_an_earlier_process_are_hashed_before_the_revision_is_warm(tmp_path: Path) -> None:
    built = build_revision()
    store = open_store(tmp_path, built)
    store.put_manifest(key_of(built), built.stored)
    for index in range(3):
        send_shard(store, built, index)
    flip(key_of(built).partial(tmp_path) / shard_name(2))
    again = open_store(tmp_path, built)
    again.finish_complete()
    assert again.describe(key_of(built)).present == (0, 1)
    assert again.report()[0].reason == Reason.SHARD_CORRUPT
    fill(again, built)
    assert state_of(again, built) is HoldState.WARM
    assert again.report()[0].reason == ""


def test_a_whole_folder_with_a_wrong_size_is_not_warm_after_a_restart(tmp_path: Path) -> None:
    built = build_revision()
    fill(open_store(tmp_path, built), built)
    with (key_of(built).whole(tmp_path) / shard_name(0)).open("ab") as file:
        file.write(b"x")
    again = open_store(tmp_path, built)
    assert again.describe(key_of(built)).present == (1, 2)
    assert state_of(again, built) is HoldState.LOADING
    assert not key_of(built).whole(tmp_path).exists()


def test_a_damaged_manifest_has_to_be_sent_again(tmp_path: Path) -> None:
    built = build_revision()
    store = open_store(tmp_path, built)
    fill(store, built)
    flip(key_of(built).whole(tmp_path) / MANIFEST_NAME)
    store.scrub()
    assert store.describe(key_of(built)).total_shards == 0
    fill(store, built)
    assert state_of(store, built) is HoldState.WARM
    flip(key_of(built).whole(tmp_path) / MANIFEST_NAME)
    again = open_store(tmp_path, built)
    assert again.describe(key_of(built)).total_shards == 0
    fill(again, built)
    assert state_of(again, built) is HoldState.WARM


def test_a_folder_that_somebody_removed_is_not_warm_after_a_scrub(tmp_path: Path) -> None:
    built = build_revision()
    store = open_store(tmp_path, built)
    fill(store, built)
    shutil.rmtree(key_of(built).whole(tmp_path))
    store.scrub()
    assert state_of(store, built) is HoldState.WANTED
    fill(store, built)
    assert state_of(store, built) is HoldState.WARM


def test_a_scrub_takes_a_flipped_shard_out_and_a_new_inode_repairs_it(tmp_path: Path) -> None:
    built = build_revision()
    store = open_store(tmp_path, built)
    fill(store, built)
    store.scrub()
    assert state_of(store, built) is HoldState.WARM
    folder = os.open(key_of(built).whole(tmp_path), os.O_PATH)  # as a mount holds it
    flip(key_of(built).whole(tmp_path) / shard_name(1))
    store.scrub()
    (held,) = store.report()
    assert (held.state, held.reason, held.verified_shards) == (HoldState.LOADING, Reason.SHARD_CORRUPT, 2)
    assert store.lookup(built.wanted().reference).state is HoldState.LOADING
    fill(store, built)
    assert state_of(store, built) is HoldState.WARM
    assert Path(f"/proc/self/fd/{folder}/{shard_name(1)}").read_bytes() == built.files[1]
    os.close(folder)


def test_space_is_promised_once(tmp_path: Path) -> None:
    first, second = build_revision(message_bytes=8192), build_revision(message_bytes=8192, seed=1)
    store = open_store(tmp_path, first, second, space=DiskSpace(1 << 20, 100_000))
    store.put_manifest(key_of(first), first.stored)
    with pytest.raises(InputError, match=r"needs \d+ bytes, the cache's disk has \d+ left") as caught:
        store.put_manifest(key_of(second), second.stored)
    assert caught.value.reason is Reason.DOES_NOT_FIT
    assert store.space().usable < 100_000 - first.data_bytes
    assert [item.state for item in store.report()] == [HoldState.LOADING, HoldState.FAILED]
    assert store.report()[1].reason == Reason.DOES_NOT_FIT


def test_a_full_disk_says_that_it_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = build_revision(shards=1)
    store = open_store(tmp_path, built)
    store.put_manifest(key_of(built), built.stored)

    def refuse(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("evenkeel.nodecache.upload.os.fsync", refuse)
    with pytest.raises(InputError, match="disk is full") as caught:
        send_shard(store, built, 0)
    assert caught.value.reason is Reason.DOES_NOT_FIT
    assert store.describe(key_of(built)).present == ()


def test_a_disk_that_fails_is_worth_another_try(tmp_path: Path) -> None:
    def refuse(_: Path) -> DiskSpace:
        raise OSError(5, "Input/output error")

    store = Store(tmp_path, disk=refuse)
    with pytest.raises(RetryableError, match="Input/output error"):
        store.space()


def test_the_newer_of_two_uploads_of_a_shard_wins(tmp_path: Path) -> None:
    built = build_revision(shards=1)
    store = open_store(tmp_path, built)
    store.put_manifest(key_of(built), built.stored)
    older = store.open_shard(key_of(built), 0, len(built.files[0]))
    assert older is not None
    older.write(built.files[0])
    send_shard(store, built, 0)
    with pytest.raises(RetryableError, match="took over"):
        older.finish()
    store.close_shard(key_of(built), older)
    assert store.describe(key_of(built)).present == (0,)
    assert store.open_shard(key_of(built), 0, len(built.files[0])) is None


def test_uploads_of_many_shards_at_once(tmp_path: Path) -> None:
    built = build_revision(shards=24, message_bytes=3000)
    store = open_store(tmp_path, built)
    store.put_manifest(key_of(built), built.stored)
    threads = [threading.Thread(target=send_shard, args=(store, built, index)) for index in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.finish_complete()
    store.scrub()
    assert state_of(store, built) is HoldState.WARM


def test_an_unwanted_revision_goes_only_when_no_pod_has_it_mounted(tmp_path: Path) -> None:
    built = build_revision()
    store = open_store(tmp_path, built)
    fill(store, built)
    folder, key = key_of(built).whole(tmp_path), key_of(built)
    store.set_wanted([])
    store.remove_unwanted()
    assert folder.exists(), "the mounter has not reported yet"
    store.set_mounted([key])
    store.remove_unwanted()
    assert folder.exists(), "a pod has it mounted"
    store.set_mounted([])
    store.remove_unwanted()
    assert list(tmp_path.iterdir()) == []


def test_a_revision_that_is_being_mounted_stays_until_the_next_report(tmp_path: Path) -> None:
    built = build_revision()
    store = open_store(tmp_path, built)
    fill(store, built)
    store.set_mounted([])
    assert store.lookup(built.wanted().reference).key == key_of(built)
    store.set_wanted([])
    store.remove_unwanted()
    assert key_of(built).whole(tmp_path).exists()
    store.set_mounted([])
    store.remove_unwanted()
    assert not key_of(built).whole(tmp_path).exists()


def test_nothing_is_removed_before_the_wanted_ones_are_known(tmp_path: Path) -> None:
    built = build_revision()
    fill(open_store(tmp_path, built), built)
    store = Store(tmp_path)
    store.recover()
    store.set_mounted([])
    store.remove_unwanted()
    assert key_of(built).whole(tmp_path).exists()


def test_removal_gives_up_uploads_in_progress(tmp_path: Path) -> None:
    built = build_revision()
    store = open_store(tmp_path, built)
    store.set_mounted([])
    store.put_manifest(key_of(built), built.stored)
    upload = store.open_shard(key_of(built), 0, len(built.files[0]))
    assert upload is not None
    store.set_wanted([])
    store.remove_unwanted()
    with pytest.raises(RetryableError, match="unwanted"):
        upload.write(b"x")
    store.close_shard(key_of(built), upload)
    assert list(tmp_path.iterdir()) == []


def test_trash_of_an_interrupted_removal_goes_at_the_next_start(tmp_path: Path) -> None:
    trash = tmp_path / UID / ".trash-0123"
    trash.mkdir(parents=True)
    (trash / "shard").write_bytes(b"x")
    open_store(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_pods_get_the_newest_warm_revision_of_their_own_namespace(tmp_path: Path) -> None:
    old, new = build_revision(), build_revision(seed=1)
    store = open_store(tmp_path, old, new)
    reference = old.wanted().reference
    assert store.lookup(dataset_reference("other", "digits")).state is HoldState.WANTED
    fill(store, old)
    assert store.lookup(reference).key == key_of(old)
    store.put_manifest(key_of(new), new.stored)
    assert store.lookup(reference).key == key_of(old)
    fill(store, new)
    assert store.lookup(reference).key == key_of(new)


def test_a_lookup_says_how_far_it_is(tmp_path: Path) -> None:
    built = build_revision(shards=4)
    store = open_store(tmp_path, built)
    store.put_manifest(key_of(built), built.stored)
    send_shard(store, built, 0)
    found = store.lookup(built.wanted().reference)
    assert (found.state, found.percent, found.key) == (HoldState.LOADING, 25, None)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def test_a_manifest_cannot_give_back_space_that_it_never_had(tmp_path: Path) -> None:
    built = build_revision(shards=2)
    shards = (replace(built.manifest.shards[0], file_bytes=-(1 << 40)), built.manifest.shards[1])
    stored = encode_manifest(replace(built.manifest, shards=shards))
    lying = BuiltRevision(built.manifest, stored, built.messages)
    store = open_store(tmp_path, lying)
    with pytest.raises(DataError, match="fileBytes"):
        store.put_manifest(key_of(lying), stored)
    assert store.space() == PLENTY


def test_a_revision_that_could_not_be_moved_away_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = build_revision()
    store = open_store(tmp_path, built)
    fill(store, built)
    store.set_wanted([])
    store.set_mounted(())
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "failed")))
        with pytest.raises(RetryableError):
            store.remove_unwanted()
    store.remove_unwanted()
    assert not any(tmp_path.iterdir())


def test_hashing_ends_when_it_is_told_to(tmp_path: Path) -> None:
    built = build_revision(shards=3)
    store = open_store(tmp_path, built)
    store.put_manifest(key_of(built), built.stored)
    for index in range(3):
        send_shard(store, built, index)
    again = open_store(tmp_path, built)
    asked: list[bool] = []

    def keep_going() -> bool:
        asked.append(len(asked) < 1)
        return asked[-1]

    again.finish_complete(keep_going)
    assert (asked, state_of(again, built)) == ([True, False], HoldState.LOADING)
    again.finish_complete()
    assert state_of(again, built) is HoldState.WARM
