from __future__ import annotations

import pytest
from kafka import errors as theirs

from evenkeel.errors import ConfigurationError, EvenkeelError, InputError, RetryableError
from evenkeel.kafka.failures import translate, translate_code, translated
from evenkeel.reasons import Reason

DUMP = (
    "Request 'CreateTopicsRequest(...)' failed with response 'CreateTopicsResponse(error_code=39, "
    "error_message='no such broker is registered.', topic_config_error_code=0)'."
)


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        (theirs.ClusterAuthorizationFailedError(), ConfigurationError, Reason.AUTHORIZATION_MISSING),
        (theirs.TopicAuthorizationFailedError(), ConfigurationError, Reason.AUTHORIZATION_MISSING),
        (theirs.SaslAuthenticationFailedError(), ConfigurationError, Reason.AUTHENTICATION_FAILED),
        (theirs.KafkaTimeoutError(), RetryableError, Reason.BROKERS_UNREACHABLE),
        (theirs.NodeNotReadyError(2), RetryableError, Reason.BROKERS_UNREACHABLE),
        (theirs.UnknownBrokerIdError(2), RetryableError, Reason.BROKERS_UNREACHABLE),
        (theirs.RequestTimedOutError(), RetryableError, Reason.BROKERS_UNREACHABLE),
        (theirs.InvalidPartitionsError(), InputError, Reason.INVALID_SPEC),
        (theirs.PolicyViolationError(), InputError, Reason.INVALID_SPEC),
        (theirs.UnknownError(), EvenkeelError, Reason.INTERNAL_ERROR),
    ],
)
def test_each_error_becomes_one_that_says_whether_to_retry(
    error: theirs.KafkaError, kind: type[EvenkeelError], reason: Reason
) -> None:
    found = translate(error, "asking", "Describe on the Cluster")
    assert type(found) is kind
    assert found.reason is reason
    assert found.message.startswith("asking")


def test_a_missing_right_is_named() -> None:
    told = "creating topic t needs the right Create on Topic t"
    with pytest.raises(ConfigurationError, match=told), translated("creating topic t", "Create on Topic t"):
        raise theirs.TopicAuthorizationFailedError


def test_the_brokers_own_words_are_kept_and_not_the_dump() -> None:
    found = translate(theirs.InvalidReplicationAssignmentError(DUMP), "creating topic t", "Create")
    assert found.message == "creating topic t: Kafka refuses: no such broker is registered."


def test_a_broker_that_is_not_tried_again_yet_is_said_in_words() -> None:
    found = translate(theirs.NodeNotReadyError(2), "log directories of broker 2", "Describe")
    assert found.message == "log directories of broker 2: it took no connection a moment ago"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[Error 29] TopicAuthorizationFailedError: no", ConfigurationError),
        ("[Error 40] InvalidConfigurationError: not a number", InputError),
        ("[Error 7] RequestTimedOutError: late", RetryableError),
    ],
)
def test_results_that_are_texts_are_read(text: str, kind: type[EvenkeelError]) -> None:
    assert type(translate_code(text, "setting x", "AlterConfigs")) is kind
    assert translate_code("OK", "setting x", "AlterConfigs") is None


def test_a_client_that_is_closed_is_worth_another_try() -> None:
    with pytest.raises(RetryableError), translated("asking", "Describe"):
        raise RuntimeError("NetworkSelector closed!")
