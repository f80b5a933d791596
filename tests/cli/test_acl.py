from __future__ import annotations

import json

import pytest

from evenkeel import names
from evenkeel.cli import acl

UID = "0c5d5c1e"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert acl.main(list(arguments)) == 0
    return capsys.readouterr().out


def test_commands_grant_the_rights_of_each_principal(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys)
    assert "# observe" in text
    assert "kafka-acls.sh --add --allow-principal User:observe --operation Describe --cluster" in text
    assert "--operation Write --transactional-id evenkeel- --resource-pattern-type prefixed" in text
    assert "User:dataset" not in text


def test_a_dataset_may_touch_its_own_topics_only(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "--principal", "dataset", "--dataset-uid", UID, "-o", "json")
    topics = {(right["name"], right["operation"]) for right in json.loads(text)["dataset"]}
    prefix = f"evenkeel-{names.short_uid(UID)}-"
    assert topics == {
        (names.ROUTES_TOPIC, "Read"),
        (names.HEARTBEATS_TOPIC, "Write"),
        (prefix, "Read"),
        (prefix, "Write"),
    }


def test_a_principal_may_have_another_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert "User:keeper's" not in run(capsys, "--principal", "move", "--user", "CN=keeper,O=x")


@pytest.mark.parametrize("arguments", [["--principal", "dataset"], ["--user", "x"], ["--principal", "x"]])
def test_incomplete_arguments_are_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        acl.main(arguments)
    assert ended.value.code == 2
