"""The whole error tree. Whether to try again is a property of the class, not of the place that catches."""

from __future__ import annotations

from evenkeel.reasons import Reason


class EvenkeelError(Exception):
    """Anything that Evenkeel raises on purpose.

    Args:
        message: a sentence for people; names the field, the value and the limit; holds no secret.
        reason: the typed reason that appears in conditions, events, metrics and the command line.
    """

    retry = False
    """Whether the same call may succeed later without anybody changing anything."""

    def __init__(self, message: str, *, reason: Reason = Reason.INTERNAL_ERROR) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason


class RetryableError(EvenkeelError):
    """An outside system did not answer, or answered that it is busy: try again."""

    retry = True


class InputError(EvenkeelError):
    """What a user or a file said cannot be done as it stands; trying again changes nothing."""


class ConfigurationError(InputError):
    """A setting, credential or right is missing or wrong; heals when somebody mends it.

    It is retried, because the cure comes from outside without a change that we would see.
    """

    retry = True


class FencedError(EvenkeelError):
    """Somebody else owns what we were about to write; stop at once and measure only."""


class DataError(EvenkeelError):
    """Bytes are not what their digest or position says; never use them."""
