"""A small sample of the corpus that benchmarks/routing_corpus.py runs whole."""

from __future__ import annotations

import pytest

from benchmarks.routing_corpus import run_case
from tests.support.corpus import Recipe, build_case, recipes

ALL = recipes()
SAMPLE = [ALL[i] for i in (0, 3, 7, 8, 17, 19, 20, 26, 31)]


@pytest.mark.parametrize("recipe", SAMPLE, ids=lambda recipe: f"{recipe.flow}-{recipe.seed}")
def test_what_is_written_ends_near_the_best_that_could_be_done(recipe: Recipe) -> None:
    row = run_case(build_case(recipe))
    assert not isinstance(row, str)
    assert row.planned_regret <= 0.01
    assert row.written_regret <= 0.02
    assert row.planned_recovered >= 0.9
    assert row.written_recovered >= 0.9
    assert row.caps <= 1.002


def test_the_corpus_holds_every_kind() -> None:
    cases = [build_case(recipe) for recipe in ALL if recipe.shape.partitions < 1000]
    features = {name for case in cases for name in case.features}
    assert {"RF 1", "RF 2", "RF 3", "lognormal", "zipf", "racks", "unequal disks", "JBOD"} <= features
    assert {"shared volumes", "leaderless", "several topics", "half unsteered", "retention"} <= features
    assert min(case.share for case in cases) <= 1e-4
    assert max(case.share for case in cases) >= 0.3 - 1e-9
    assert len(ALL) >= 200
    assert max(recipe.shape.partitions for recipe in ALL) == 10_000


def test_a_case_is_the_same_each_time() -> None:
    assert build_case(ALL[5]) == build_case(ALL[5])
