"""From librdkafka's error codes to our exceptions: the one place that knows both."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from evenkeel.errors import (
    ConfigurationError,
    DataError,
    EvenkeelError,
    FencedError,
    InputError,
    RetryableError,
)
from evenkeel.reasons import Reason

Client = TypeVar("Client")


class UnknownOutcomeError(RetryableError):
    """A write was neither confirmed nor refused for sure: it may be in the log, now or later."""


_RIGHTS = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "the topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "the group",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "the cluster",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "the transactional id",
}
_LOGIN = {KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED}  # noqa: SLF001 - librdkafka's own codes
_TOPIC = {
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    KafkaError.UNKNOWN_TOPIC_OR_PART,
}
_RANGE = {KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET}  # noqa: SLF001
_FENCED = {
    KafkaError._FENCED,  # noqa: SLF001
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
}
_TOO_LARGE = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}
_KINDS: tuple[tuple[set[int], type[EvenkeelError], Reason], ...] = (
    (_TOPIC, RetryableError, Reason.TOPIC_MISSING),
    (_RANGE, DataError, Reason.DATA_LOST),
    (_FENCED, FencedError, Reason.CLUSTER_OWNED_ELSEWHERE),
    (_TOO_LARGE, InputError, Reason.RECORD_TOO_LARGE),
)
_NEVER_WRITTEN = frozenset(_RIGHTS) | _TOO_LARGE | {KafkaError._PURGE_QUEUE}  # noqa: SLF001


def build_error(error: KafkaError, doing: str) -> EvenkeelError:
    """Our exception for what librdkafka says.

    Args:
        error: of an event, an exception or a delivery report.
        doing: what was being done, with the name it was done to: begins the sentence.
    """
    code = error.code()
    if code in _RIGHTS:
        message = f"{doing}: the principal lacks a right on {_RIGHTS[code]}"
        return ConfigurationError(message, reason=Reason.AUTHORIZATION_MISSING)
    if code in _LOGIN:
        message = f"{doing}: Kafka refused the credentials"
        return ConfigurationError(message, reason=Reason.AUTHENTICATION_FAILED)
    kind: type[EvenkeelError] = RetryableError
    reason = Reason.BROKERS_UNREACHABLE
    for codes, other, why in _KINDS:
        if code in codes:
            kind, reason = other, why
    return kind(f"{doing}: {error.name()}: {error.str()}", reason=reason)


def build_write_error(error: KafkaError, doing: str) -> EvenkeelError:
    """The same for a failed delivery: whatever is not surely absent from the log is an unknown outcome."""
    if error.code() in _NEVER_WRITTEN:
        return build_error(error, doing)
    return UnknownOutcomeError(f"{doing}: {error.name()}: {error.str()}", reason=Reason.BROKERS_UNREACHABLE)


@contextmanager
def write_errors(doing: str) -> Iterator[None]:
    """Turn what the client raises while it takes a record into what `build_write_error` gives.

    A producer that has failed for good raises from every later call: its records are unknown as well.
    """
    try:
        yield
    except KafkaException as error:
        raise build_write_error(unwrap(error), doing) from error


def open_client(make: Callable[..., Client], config: Mapping[str, Any]) -> Client:
    """A client of librdkafka by its class.

    Raises:
        ConfigurationError: INVALID_SPEC: the client refuses its settings, a broken certificate for one.
    """
    try:
        return make(dict(config), logger=client_logger)
    except KafkaException as error:
        message = f"the Kafka client refuses its settings: {unwrap(error).str()}"
        raise ConfigurationError(message, reason=Reason.INVALID_SPEC) from error


def unwrap(exception: KafkaException) -> KafkaError:
    """The KafkaError inside an exception of the client."""
    inner = exception.args[0]
    return inner if isinstance(inner, KafkaError) else KafkaError(KafkaError._FAIL, str(inner))  # noqa: SLF001


class ErrorWatch:
    """An `error_cb` that remembers why a client is in trouble.

    Calls end in bare time-outs; the cause, such as a refused password, comes only by this callback.
    """

    def __init__(self) -> None:
        self.last: KafkaError | None = None

    def __call__(self, error: KafkaError) -> None:
        """Remember `error`; a refused login is not forgotten for what follows it."""
        if self.last is None or self.last.code() not in _LOGIN:
            self.last = error

    @property
    def refused(self) -> bool:
        """Whether Kafka refused the credentials: waiting longer is in vain."""
        return self.last is not None and self.last.code() in _LOGIN

    def explain(self, fallback: KafkaError, doing: str) -> EvenkeelError:
        """The exception for a call that ended in `fallback`: a refused login wins over the time-out."""
        if self.last is not None and self.refused:
            return build_error(self.last, doing)
        return build_error(fallback, doing)


client_logger = logging.getLogger("evenkeel.kafka.librdkafka")
"""Where librdkafka's own lines go instead of to stderr."""
