from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from evenkeel.cli import doctor
from evenkeel.domain import codec
from evenkeel.planning.diagnosis import Facts, diagnose
from tests.support.snapshots import demo_snapshot


def test_findings_and_topics_are_tables() -> None:
    text = io.StringIO()
    doctor.print_diagnosis(
        diagnose(Facts(demo_snapshot(), metadata_version=30, steerable={"clipart": 90})),
        Console(file=text, width=200),
    )
    assert "Kafka version" in text.getvalue()
    assert "clipart" in text.getvalue()
    assert "90 %" in text.getvalue()


def test_a_diagnosis_has_a_json_form() -> None:
    found = json.loads(json.dumps(codec.to_json(diagnose(Facts(demo_snapshot())))))
    assert {"findings", "topics", "routedMaxFill"} <= found.keys()


@pytest.mark.parametrize("words", [[], ["--bootstrap", "a:1", "--sample", "-1"]])
def test_bad_arguments_are_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        doctor.main(words)
    assert ended.value.code == 2
