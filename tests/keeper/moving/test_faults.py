from __future__ import annotations

import pytest

from tests.support.moving_faults import build_story, find_faults_left, find_places_wrong, play

RUNS = 25
"""Seeds per test: 8 tests make 200 faulted runs."""


def check(seed: int, faults: int) -> None:
    story = build_story(seed)
    play(story, faults)
    left = find_faults_left(story) + find_places_wrong(story)
    assert not left, f"seed {seed}, {story.told}: {left}"


@pytest.mark.parametrize("block", range(3))
def test_whatever_befalls_a_run_it_ends_and_leaves_nothing_behind(block: int) -> None:
    for seed in range(block * RUNS, (block + 1) * RUNS):
        check(seed, faults=1)


@pytest.mark.parametrize("block", range(1))
def test_three_faults_in_one_run_leave_nothing_behind_either(block: int) -> None:
    for seed in range(1000 + block * RUNS, 1000 + (block + 1) * RUNS):
        check(seed, faults=3)


def test_without_faults_everything_moves() -> None:
    for seed in range(20):
        story = build_story(seed)
        assert play(story, faults=0).message.startswith("all ")
        assert not find_faults_left(story)
