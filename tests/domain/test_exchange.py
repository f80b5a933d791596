from __future__ import annotations

import dataclasses

import pytest

from evenkeel.domain import codec
from evenkeel.domain.connection import Connection
from evenkeel.domain.exchange import Desired, DesiredTopic, Owner, Report, TopicReport, VolumeReport
from evenkeel.errors import InputError

DESIRED = Desired(
    owner=Owner("i", "u", "ns/c"), connection=Connection(("kafka:9092",)), topics=(DesiredTopic("o", "t"),)
)


def test_desired_comes_back() -> None:
    assert codec.loads(Desired, codec.dumps(DESIRED)) == DESIRED


def test_an_unknown_size_comes_back_as_unknown() -> None:
    report = Report(desired_version="v", volumes=(VolumeReport(1, "/data", None, None),))
    assert codec.loads(Report, codec.dumps(report)) == report


def test_a_missing_field_that_may_not_be_unknown_is_named() -> None:
    text = codec.dumps(Report(desired_version="v", topics=(TopicReport("t", exists=True),)))
    with pytest.raises(InputError, match=r"Report\.topics\[0\]\.exists: required"):
        codec.loads(Report, text.replace('"exists":true,', "").replace('"exists":true', '"x":1'))


def test_the_version_is_that_of_the_content() -> None:
    sealed = DESIRED.sealed()
    assert sealed.version == sealed.sealed().version
    assert sealed.version != dataclasses.replace(DESIRED, paused=True).sealed().version
