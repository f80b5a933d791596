from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

from evenkeel.domain.connection import Connection, Protocol, SaslMechanism
from evenkeel.errors import ConfigurationError, RetryableError
from evenkeel.kafka import admin as module
from evenkeel.reasons import Reason
from tests.support.fake_brokers import FakeBrokers, build_story


def test_settings_of_a_plain_cluster() -> None:
    assert module.admin_settings(Connection(("a:1", "b:2"))) == {
        "bootstrap_servers": ["a:1", "b:2"],
        "security_protocol": "PLAINTEXT",
    }


def test_settings_of_a_cluster_with_passwords(tmp_path: Path) -> None:
    for use in ("observe", "move"):
        (tmp_path / use).mkdir()
        (tmp_path / use / "username").write_text(use)
        (tmp_path / use / "password").write_text(f"{use}-secret")
    connection = Connection(
        ("a:1",),
        Protocol.SASL_PLAINTEXT,
        SaslMechanism.SCRAM_SHA_256,
        credentials_path=str(tmp_path / "observe"),
        move_credentials_path=str(tmp_path / "move"),
    )
    settings = module.admin_settings(connection, move=True)
    assert settings["sasl_mechanism"] == "SCRAM-SHA-256"
    assert settings["sasl_plain_username"] == "move"
    assert module.admin_settings(connection)["sasl_plain_password"] == "observe-secret"


def test_a_broken_certificate_is_named_by_its_file(tmp_path: Path) -> None:
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).write_text("no certificate")
    with pytest.raises(ConfigurationError, match=r"tls\.crt") as refused:
        module.admin_settings(Connection(("a:1",), Protocol.TLS, credentials_path=str(tmp_path)))
    assert refused.value.reason is Reason.SECRET_MISSING


def test_the_library_that_logs_passwords_is_silent() -> None:
    assert not logging.getLogger("kafka").isEnabledFor(logging.DEBUG)


def test_an_address_that_says_nothing_costs_a_second_not_the_connection() -> None:
    story = build_story(3)
    story.silent = frozenset({1, 2})
    with FakeBrokers(story) as fake:
        addresses = tuple(fake.address(broker) for broker in (1, 2, 3))
        with module.Admin(Connection(addresses), timeout=6.0) as admin:
            assert [broker.id for broker in admin.describe_cluster().brokers] == [1, 2, 3]


def test_a_client_that_finds_nobody_leaves_no_thread() -> None:
    story = build_story(1)
    story.silent = frozenset({1})
    with FakeBrokers(story) as fake:
        before = threading.active_count()
        with pytest.raises(RetryableError, match="connecting to"):
            module.Admin(Connection((fake.address(1),)), timeout=0.5)
        assert threading.active_count() == before


def test_what_any_broker_can_tell_does_not_wait_for_one_that_is_silent() -> None:
    story = build_story(4)
    story.silent = frozenset({2, 3, 4})
    with FakeBrokers(story) as fake, module.Admin(Connection((fake.address(1),)), timeout=5.0) as admin:
        assert set(admin.describe_topics()) == {"t"}
        assert set(admin.describe_topics(["t", "other"])) == {"t"}
        assert admin.list_reassignments() == {}
        assert admin.describe_topic_configs(["t"], ["retention.ms"]) == {"t": {"retention.ms": "-1"}}


def test_a_silent_broker_costs_its_own_answer_only() -> None:
    story = build_story(3)
    story.silent = frozenset({2})
    with FakeBrokers(story) as fake, module.Admin(Connection((fake.address(1),)), timeout=1.0) as admin:
        found = admin.ask_log_dirs([1, 2, 3]).answers()
        assert isinstance(found[2], RetryableError)
        assert found[2].reason is Reason.BROKERS_UNREACHABLE
        assert found[1] == story.dirs[1]
        assert found[3] == story.dirs[3]


def test_only_throttles_that_are_set_are_told() -> None:
    story = build_story(2)
    story.rates = {
        1: {"leader.replication.throttled.rate": "20000000"},
        2: {"follower.replication.throttled.rate": str(2**63 - 1)},
    }
    with FakeBrokers(story) as fake, module.Admin(Connection((fake.address(1),))) as admin:
        assert admin.ask_rates([1, 2]).answers() == {1: {"leader": 20_000_000}, 2: {}}
