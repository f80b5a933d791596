"""Who may upload what: the service account behind a token, asked of the API server and remembered shortly."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from evenkeel import names
from evenkeel.errors import EvenkeelError, InputError, RetryableError
from evenkeel.kube.client import TokenIdentity
from evenkeel.reasons import Reason

REMEMBER_SECONDS = 60.0
"""How long an answer of the API server counts; a token lives for ten minutes at least."""
REMEMBERED = 1024
QUESTIONS = 4
"""To the API server at the same time: whoever reaches the port can make us ask."""

ReviewToken = Callable[[str, str], Awaitable[TokenIdentity | None]]
"""`(token, audience) -> identity`, None for a token that is not valid; Kube.review_token."""


class UnauthenticatedError(InputError):
    """No token, or one that the API server does not know for our audience."""


class ForbiddenError(InputError):
    """A valid token of somebody else."""


@dataclass(frozen=True, slots=True)
class _Answer:
    identity: TokenIdentity | None
    until: float


class Gatekeeper:
    """Checks bearer tokens. Tokens are kept as hashes only and never appear in a message.

    Args:
        review: asks the API server.
        clock: seconds, monotonic.
    """

    def __init__(self, review: ReviewToken, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._review = review
        self._clock = clock
        self._answers: dict[str, _Answer] = {}
        self._questions = asyncio.Semaphore(QUESTIONS)

    async def admit(self, authorization: str | None, permitted: Collection[str]) -> None:
        """Return if the caller is one of the `permitted` service account UIDs.

        Raises:
            UnauthenticatedError, ForbiddenError: no.
            RetryableError: the API server cannot be asked.
        """
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            message = "a bearer token is required"
            raise UnauthenticatedError(message, reason=Reason.NOT_PERMITTED)
        if (
            not permitted
        ):  # nobody is: that needs no question to the API server, and says nothing of the token
            message = "nobody may upload this dataset to this node"
            raise ForbiddenError(message, reason=Reason.NOT_PERMITTED)
        async with self._questions:
            identity = await self._identify(token.strip())
        if identity is None:
            message = f"the token is not valid for the audience {names.TOKEN_AUDIENCE}"
            raise UnauthenticatedError(message, reason=Reason.NOT_PERMITTED)
        if not identity.uid or identity.uid not in permitted:
            message = f"{identity.username} may not upload this dataset to this node"
            raise ForbiddenError(message, reason=Reason.NOT_PERMITTED)

    async def _identify(self, token: str) -> TokenIdentity | None:
        key, now = hashlib.sha256(token.encode()).hexdigest(), self._clock()
        known = self._answers.get(key)
        if known is not None and known.until > now:
            return known.identity
        try:
            identity = await self._review(token, names.TOKEN_AUDIENCE)
        except EvenkeelError as error:
            message = f"the API server cannot be asked whose token this is: {error.reason}"
            raise RetryableError(message, reason=Reason.CACHE_UNAVAILABLE) from error
        if len(self._answers) >= REMEMBERED:
            self._answers.clear()
        self._answers[key] = _Answer(identity, now + REMEMBER_SECONDS)
        return identity
