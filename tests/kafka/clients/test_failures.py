from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from evenkeel.errors import ConfigurationError, DataError, FencedError, InputError, RetryableError
from evenkeel.kafka.clients.failures import ErrorWatch, UnknownOutcomeError, build_error, build_write_error
from evenkeel.reasons import Reason


@pytest.mark.parametrize(
    ("code", "kind", "reason"),
    [
        (KafkaError._TRANSPORT, RetryableError, Reason.BROKERS_UNREACHABLE),
        (KafkaError._ALL_BROKERS_DOWN, RetryableError, Reason.BROKERS_UNREACHABLE),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, RetryableError, Reason.TOPIC_MISSING),
        (KafkaError._UNKNOWN_PARTITION, RetryableError, Reason.TOPIC_MISSING),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, ConfigurationError, Reason.AUTHORIZATION_MISSING),
        (KafkaError._AUTHENTICATION, ConfigurationError, Reason.AUTHENTICATION_FAILED),
        (KafkaError._FENCED, FencedError, Reason.CLUSTER_OWNED_ELSEWHERE),
        (KafkaError.OFFSET_OUT_OF_RANGE, DataError, Reason.DATA_LOST),
        (KafkaError._AUTO_OFFSET_RESET, DataError, Reason.DATA_LOST),
        (KafkaError.MSG_SIZE_TOO_LARGE, InputError, Reason.RECORD_TOO_LARGE),
    ],
)
def test_codes_become_our_classes(code: int, kind: type[Exception], reason: Reason) -> None:
    error = build_error(KafkaError(code), "reading t/0")
    assert type(error) is kind
    assert error.reason is reason
    assert error.message.startswith("reading t/0: ")


@pytest.mark.parametrize(
    ("code", "unknown"),
    [
        (KafkaError._MSG_TIMED_OUT, True),
        (KafkaError._PURGE_INFLIGHT, True),
        (KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND, True),
        (KafkaError._FATAL, True),
        (KafkaError._PURGE_QUEUE, False),
        (KafkaError.MSG_SIZE_TOO_LARGE, False),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, False),
    ],
)
def test_a_failed_write_is_unknown_unless_it_cannot_be_in_the_log(
    code: int,
    unknown: bool,  # noqa: FBT001 - a column of the table
) -> None:
    assert isinstance(build_write_error(KafkaError(code), "writing to t"), UnknownOutcomeError) is unknown


def test_a_refused_login_explains_the_time_out_that_follows() -> None:
    watch = ErrorWatch()
    late = KafkaError(KafkaError._TIMED_OUT)
    assert watch.explain(late, "asking").reason is Reason.BROKERS_UNREACHABLE
    watch(KafkaError(KafkaError._AUTHENTICATION))
    watch(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert watch.explain(late, "asking").reason is Reason.AUTHENTICATION_FAILED
