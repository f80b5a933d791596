from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import pytest

from e2e.demo.ledger import RankLog, check_coverage, parse_log, record_ids

IDS = record_ids(5)


def build_log(epochs: Sequence[Sequence[str]], *, rank: int = 0, **changes: object) -> str:
    total = hashlib.sha256()
    lines = ["warning: not JSON", "[1, 2]"]
    for epoch, ids in enumerate(epochs):
        total.update("\n".join(ids).encode())
        lines.append(json.dumps({"ledger": {"rank": rank, "epoch": epoch, "ids": list(ids)}}))
    result = {
        "rank": rank, "digest": "sha256:d", "records": sum(map(len, epochs)), "ledgerDigest": total.hexdigest(),
        "heldOut": 1, "accuracy": 0.95,
    }  # fmt: skip
    return "\n".join([*lines, json.dumps({**result, **changes})])


def parse(rank: int, *epochs: Sequence[str]) -> RankLog:
    return parse_log(build_log(epochs, rank=rank))


def test_a_log_tells_what_a_rank_read() -> None:
    log = parse_log(build_log([IDS[:3], IDS[2:]], rank=1))
    assert (log.rank, log.records, log.digest, log.accuracy, log.held_out) == (1, 6, "sha256:d", 0.95, 1)
    assert log.consistent


@pytest.mark.parametrize("change", [{"records": 1}, {"ledgerDigest": "0"}])
def test_a_result_that_is_not_that_of_the_ledger_is_seen(change: dict[str, object]) -> None:
    assert not parse_log(build_log([IDS], **change)).consistent


def test_a_log_without_result_is_refused() -> None:
    with pytest.raises(ValueError, match="without its result"):
        parse_log('{"ledger": {"rank": 0, "epoch": 0, "ids": []}}')


def test_an_epoch_that_is_told_twice_is_refused() -> None:
    line = json.dumps({"ledger": {"rank": 0, "epoch": 0, "ids": []}})
    with pytest.raises(ValueError, match="epoch 0 of rank 0"):
        parse_log(f"{line}\n{line}")


def test_two_ranks_that_share_every_epoch_are_exact() -> None:
    coverage = check_coverage([parse(0, IDS[:2], IDS[3:]), parse(1, IDS[2:], IDS[:3])], IDS)
    assert coverage.exact
    assert coverage.epochs == 2


@pytest.mark.parametrize(
    ("first", "second", "missing", "repeated", "foreign"),
    [
        (IDS[:2], IDS[3:], 1, 0, 0),
        (IDS[:3], IDS[2:], 0, 1, 0),
        (IDS, ["9.0"], 0, 0, 1),
        (IDS, [], 0, 0, 0),
    ],
)
def test_what_is_missing_repeated_or_unknown_is_counted_per_epoch(
    first: list[str], second: list[str], missing: int, repeated: int, foreign: int
) -> None:
    coverage = check_coverage([parse(0, first, IDS), parse(1, second, [])], IDS)
    assert (coverage.missing, coverage.repeated, coverage.foreign) == (missing, repeated, foreign)
    assert coverage.exact == (missing + repeated + foreign == 0)


def test_nothing_read_is_not_exact() -> None:
    assert not check_coverage([], IDS).exact
