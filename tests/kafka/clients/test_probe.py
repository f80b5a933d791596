from __future__ import annotations

import pytest

from evenkeel.domain.connection import Connection, Protocol
from evenkeel.errors import ConfigurationError
from evenkeel.kafka.clients.probe import probe
from evenkeel.reasons import Reason

BROKEN = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def test_certificates_that_are_none_are_a_mistake_of_the_configuration() -> None:
    connection = Connection(("127.0.0.1:1",), protocol=Protocol.TLS, ca_certificates=BROKEN)
    with pytest.raises(ConfigurationError, match=r"ssl\.ca\.pem") as caught:
        probe(connection, 1.0)
    assert caught.value.reason is Reason.INVALID_SPEC
