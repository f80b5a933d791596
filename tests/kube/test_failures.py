from __future__ import annotations

import json

import pytest

from evenkeel.errors import ConfigurationError, EvenkeelError, InputError, RetryableError
from evenkeel.kube.failures import (
    MESSAGE_LIMIT,
    ConflictError,
    ExpiredError,
    KindAbsentError,
    NotFoundError,
    failure,
)
from evenkeel.reasons import Reason


def status(message: str, **details: str) -> str:
    return json.dumps({"kind": "Status", "message": message, "details": details})


@pytest.mark.parametrize(
    ("code", "body", "kind", "reason", "retry"),
    [
        (404, status('jobs "a" not found', name="a"), NotFoundError, Reason.INTERNAL_ERROR, False),
        (404, "404 page not found\n", KindAbsentError, Reason.INTERNAL_ERROR, True),
        (404, status("the server could not find the requested resource"), KindAbsentError, None, True),
        (403, status("cannot patch"), ConfigurationError, Reason.NOT_PERMITTED, True),
        (401, "Unauthorized", ConfigurationError, Reason.NOT_PERMITTED, True),
        (409, status("exists"), ConflictError, None, True),
        (410, status("too old"), ExpiredError, None, True),
        (422, status("spec.x: invalid"), InputError, Reason.INVALID_SPEC, False),
        (429, status("slow down"), RetryableError, None, True),
        (503, "not ready", RetryableError, None, True),
        (500, status("failed to create typed patch object (a/b; C): .spec.x: field not declared in schema"),
         InputError, Reason.CRD_OLDER_THAN_OPERATOR, False),
        (500, status("etcd is away"), RetryableError, None, True),
    ],
)  # fmt: skip
def test_answers_become_errors(
    code: int, body: str, kind: type[EvenkeelError], reason: Reason | None, *, retry: bool
) -> None:
    error = failure(code, body, "PATCH /x")
    assert type(error) is kind
    assert error.retry is retry
    assert reason is None or error.reason is reason
    assert error.message.startswith(f"PATCH /x: HTTP {code}: ")


def test_long_refusals_are_cut() -> None:
    error = failure(422, status("x" * 100_000), "POST /jobs")
    assert len(error.message) < MESSAGE_LIMIT + 40
