from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from evenkeel.api.balanced_cluster import BalancedCluster
from evenkeel.api.balanced_topic import BalancedTopic
from evenkeel.api.fields import MESSAGE_LIMIT
from evenkeel.api.kinds import KINDS
from evenkeel.api.meta import Condition, ConditionStatus, clip
from evenkeel.api.node_cache import Held, NodeCache, Wanted
from evenkeel.api.training_dataset import TrainingDataset
from evenkeel.domain.exchange import BalanceMode, Policy, Score, TopicRouting
from evenkeel.domain.job import ProducerSettings, SourceFormat
from evenkeel.domain.nodes import HeldRevision, HoldState, WantedRevision
from evenkeel.reasons import ConditionType, Reason

GOLDEN = Path(__file__).resolve().parents[1] / "data" / "api"
BY_KIND = {model.__name__: model for model in KINDS}


def load(name: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((GOLDEN / "valid" / f"{name}.yaml").read_text())
    return document


@pytest.mark.parametrize("path", sorted((GOLDEN / "valid").glob("*.yaml")), ids=lambda path: path.stem)
def test_golden_object_survives_reading_and_writing(path: Path) -> None:
    document = yaml.safe_load(path.read_text())
    model = BY_KIND[document["kind"]]
    once = model.model_validate(document)
    assert model.model_validate(once.dump()) == once
    assert once.model_dump(mode="json", by_alias=True, exclude_unset=True) == document


@pytest.mark.parametrize(("name", "lines"), [("cluster-smallest", 7), ("dataset-smallest", 11)])
def test_simplest_use_is_as_short_as_promised(name: str, lines: int) -> None:
    assert len((GOLDEN / "valid" / f"{name}.yaml").read_text().splitlines()) == lines


def test_defaults_are_those_that_the_keeper_assumes() -> None:
    cluster = BalancedCluster.model_validate(load("cluster-smallest"))
    topic = BalancedTopic.model_validate(load("topic-smallest"))
    assert cluster.spec.policy() == Policy()
    assert topic.spec.routing.domain() == TopicRouting()


def test_scores_reach_the_keeper_with_weight_and_parameters() -> None:
    scores = BalancedTopic.model_validate(load("topic-full")).spec.routing.domain().scores
    assert scores == (Score("Storage", 50), Score("RackLocality", 0, {"rack": "a,b", "strength": "4.5"}))


def test_defaults_are_those_that_the_jobs_assume() -> None:
    ingest = TrainingDataset.model_validate(load("dataset-smallest")).spec.ingest
    assumed = ProducerSettings(source_path="", format=SourceFormat.FILES)
    assert ingest.message_size == assumed.message_bytes
    assert ingest.max_record_size == assumed.max_record_bytes
    assert ingest.order is assumed.order
    assert ingest.compression is assumed.compression
    assert ingest.on_bad_record is assumed.on_bad_record


def test_policy_of_a_full_spec() -> None:
    policy = BalancedCluster.model_validate(load("cluster-full")).spec.policy()
    assert policy == Policy(
        interval_seconds=5,
        mode=BalanceMode.DISABLED,
        enter_percent=100,
        leave_percent=0,
        max_fill_percent=99,
        exclude_topics=("Orders.v1_x-2",),
        slack_percent=0,
        move_budget_bytes=50 * 2**30,
        throttle_bytes_per_second=50_000_000,
        drain=(3, 9),
    )


def test_fields_of_a_younger_version_are_ignored() -> None:
    document = load("topic-smallest")
    document["spec"]["colour"] = "blue"
    assert BalancedTopic.model_validate(document) == BalancedTopic.model_validate(load("topic-smallest"))


def test_a_value_out_of_bounds_is_refused_by_its_field() -> None:
    document = load("topic-smallest")
    document["spec"]["partitions"] = 0
    with pytest.raises(ValidationError, match=r"spec\.partitions"):
        BalancedTopic.model_validate(document)


def test_absent_fields_are_left_out_of_what_is_written() -> None:
    written = BalancedTopic.model_validate(load("topic-smallest")).dump()
    assert "partitions" not in written["spec"]
    assert "routes" not in written["status"]


def test_key_names_an_object() -> None:
    assert NodeCache.model_validate(load("node-cache-empty")).key == "worker-1.example.org"
    document = load("topic-smallest")
    document["metadata"]["namespace"] = "data"
    assert BalancedTopic.model_validate(document).key == "data/orders"


WANTED = WantedRevision("uid", "a" * 64, 10, "loader", "0" * 20, pinned=True)
HELD = HeldRevision("uid", "a" * 64, HoldState.LOADING, 1, 2, 3, "Preloading", "1 of 2 files.")


def test_revisions_of_a_node_cache_are_the_values_of_planning() -> None:
    assert Wanted.of(WANTED).domain() == WANTED
    assert Held.of(HELD).domain() == HELD
    assert Wanted.of(WANTED).dump()["retention"] == "Pinned"


def condition(type_: str, reason: str) -> Condition:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Condition(
        type=type_,
        status=ConditionStatus.TRUE,
        observed_generation=1,
        last_transition_time=now,
        reason=reason,
        message="",
    )


def test_every_reason_and_condition_type_fits_into_a_condition() -> None:
    written = [condition(type_, reason).dump() for type_ in ConditionType for reason in Reason]
    assert {item["lastTransitionTime"] for item in written} == {"2026-01-01T00:00:00Z"}


def test_condition_is_found_by_its_type() -> None:
    ready = condition(ConditionType.READY, Reason.READY)
    status = BalancedTopic.model_validate(
        {**load("topic-smallest"), "status": {"conditions": [ready]}}
    ).status
    assert status.condition(ConditionType.READY) == ready
    assert status.condition(ConditionType.STALLED) is None


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        ("a\n  b\t", "a b"),
        ("x" * MESSAGE_LIMIT, "x" * MESSAGE_LIMIT),
        ("x" * (MESSAGE_LIMIT + 1), "x" * (MESSAGE_LIMIT - 1) + "…"),
    ],
    ids=["one line", "at the limit", "beyond"],
)
def test_message_is_clipped_to_one_line_within_the_limit(message: str, wanted: str) -> None:
    assert clip(message) == wanted
