from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from evenkeel.api.rebalance_plan import RebalancePlan
from evenkeel.controller.plans import is_standing, stands_until, tell_expiration
from evenkeel.reasons import Reason
from tests.support.plans import written

MADE = datetime(2026, 1, 1, tzinfo=UTC)
INVALID: dict[str, Any] = {
    "moves": [{"batch": 0, "topic": "orders", "partition": 0, "source": [1, 2], "target": [3, 4]}]
}


def made(*, ended: str = "", reason: Reason = Reason.PLAN_REJECTED, **spec: Any) -> RebalancePlan:
    """A rejected plan; `ended`: when."""
    item = written("mine", **{"approval": "Rejected", **spec})
    item["metadata"] |= {"uid": "uid-mine", "creationTimestamp": "2026-01-01T00:00:00Z"}
    ready = {
        "type": "Ready", "status": "True", "reason": reason, "message": "", "observedGeneration": 1,
        "lastTransitionTime": ended,
    }  # fmt: skip
    status = {"state": "Finished", "conditions": [ready]} if ended else {"state": "Running"}
    return RebalancePlan.model_validate({**item, "status": status})


@pytest.mark.parametrize(
    ("plan", "hours"),
    [
        (made(), None),
        (made(expirationTime="2025-12-01T00:00:00Z"), None),
        (made(ended="2026-01-01T01:00:00Z"), 25),
        (made(ended="2026-01-03T00:00:00Z"), 72),
        (made(ended="2026-01-01T01:00:00Z", expirationTime="2026-01-05T00:00:00Z"), 96),
        (made(**INVALID), 24),
    ],
    ids=["runs", "runs past its time", "ended", "ended past its time", "long time", "invalid"],
)
def test_rejection_stands_until(plan: RebalancePlan, hours: int | None) -> None:
    assert stands_until(plan) == (None if hours is None else MADE + timedelta(hours=hours))


@pytest.mark.parametrize("reason", [Reason.MOVED, Reason.PLAN_OUTDATED, Reason.PLAN_EXPIRED])
def test_rejection_of_what_had_ended_otherwise_does_not_stand(reason: Reason) -> None:
    assert not is_standing(made(ended="2026-01-01T01:00:00Z", reason=reason), MADE)


def test_times_are_told_in_utc() -> None:
    assert tell_expiration(made(expirationTime="2026-01-02T01:30:00+02:00")) == "2026-01-01T23:30:00Z"
