"""kafka-python's exceptions as ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from kafka import errors as theirs

from evenkeel.errors import ConfigurationError, EvenkeelError, InputError, RetryableError
from evenkeel.reasons import Reason

_REFUSED = (
    theirs.InvalidTopicError,
    theirs.InvalidPartitionsError,
    theirs.InvalidReplicationFactorError,
    theirs.InvalidReplicationAssignmentError,
    theirs.InvalidConfigurationError,
    theirs.InvalidRequestError,
    theirs.PolicyViolationError,
)
_ABSENT = (theirs.UnknownBrokerIdError, theirs.BrokerNotAvailableError, theirs.NotControllerError)
_SAID = re.compile(r"error_message=['\"](.+?)['\"], ")


@contextmanager
def translated(what: str, right: str) -> Iterator[None]:
    """Run a call of kafka-python; `what` it does and which `right` it needs end up in the message.

    Raises:
        ConfigurationError: the right is missing (AUTHORIZATION_MISSING) or the password is wrong.
        RetryableError: brokers do not answer (BROKERS_UNREACHABLE).
        InputError: Kafka refuses what was asked.
        EvenkeelError: anything else that Kafka says.
    """
    try:
        yield
    except theirs.KafkaError as error:
        raise translate(error, what, right) from error
    except (OSError, RuntimeError) as error:  # a client whose loop has ended raises RuntimeError
        raise RetryableError(f"{what}: {error}", reason=Reason.BROKERS_UNREACHABLE) from error


def translate(error: theirs.KafkaError, what: str, right: str) -> EvenkeelError:
    """The exception of ours that says the same."""
    if isinstance(error, theirs.AuthorizationError):
        return ConfigurationError(f"{what} needs the right {right}", reason=Reason.AUTHORIZATION_MISSING)
    if isinstance(error, theirs.SaslAuthenticationFailedError):
        return ConfigurationError(f"{what}: Kafka refuses the password", reason=Reason.AUTHENTICATION_FAILED)
    if isinstance(error, _REFUSED):
        return InputError(f"{what}: Kafka refuses: {_sentence(error)}", reason=Reason.INVALID_SPEC)
    if isinstance(error, (theirs.RetriableError, *_ABSENT)):
        return RetryableError(f"{what}: {_sentence(error)}", reason=Reason.BROKERS_UNREACHABLE)
    return EvenkeelError(f"{what}: {_sentence(error)}")


def _sentence(error: theirs.KafkaError) -> str:
    """The broker's own words where the client's dump of request and response holds them."""
    if isinstance(error, theirs.NodeNotReadyError):  # its own text is the broker's number
        return "it took no connection a moment ago"
    text = str(error)
    said = _SAID.search(text)
    return said.group(1) if said else text[:300]


def translate_code(text: str, what: str, right: str) -> EvenkeelError | None:
    """The same for kafka-python's config results, which are texts: `OK` or `[Error 29] Name: message`."""
    if text == "OK":
        return None
    if "AuthorizationFailedError" in text:
        return ConfigurationError(f"{what} needs the right {right}", reason=Reason.AUTHORIZATION_MISSING)
    if "RequestTimedOutError" in text or "NotControllerError" in text:
        return RetryableError(f"{what}: {text}"[:600], reason=Reason.BROKERS_UNREACHABLE)
    return InputError(f"{what}: Kafka refuses: {text}"[:600], reason=Reason.INVALID_SPEC)
