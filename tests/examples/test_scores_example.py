"""The worked example of docs/scores.md says what the scores do, and the page says what the example gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import scores_example
from benchmarks.scores_example import plan_all

PAGE = Path(__file__).resolve().parents[2] / "docs" / "scores.md"
EVEN = 1 / 6
ODD = {"Storage": 1, "NodeLoad": 2, "WriteLatency": 3, "DataDistribution": 4}


@pytest.fixture(scope="module")
def figures() -> dict[str, dict[int, tuple[float, float]]]:
    return plan_all()


@pytest.mark.parametrize(("score", "broker"), ODD.items())
def test_each_score_turns_from_its_odd_broker_alone(
    figures: dict[str, dict[int, tuple[float, float]]], score: str, broker: int
) -> None:
    led = {number: shares[0] for number, shares in figures[score].items()}
    assert led[broker] < EVEN / 2
    others = [share for number, share in led.items() if number != broker]
    assert max(others) - min(others) < 0.02


def test_locality_turns_to_the_producers_rack_as_far_as_the_cap(
    figures: dict[str, dict[int, tuple[float, float]]],
) -> None:
    led = {number: shares[0] for number, shares in figures["RackLocality"].items()}
    assert led[3] == pytest.approx(1 / 3, abs=0.01)
    assert led[6] == pytest.approx(1 / 3, abs=0.01)


def test_together_the_broker_that_is_odd_in_nothing_leads_most(
    figures: dict[str, dict[int, tuple[float, float]]],
) -> None:
    led = {number: shares[0] for number, shares in figures["all five"].items()}
    assert max(led, key=led.__getitem__) == 6
    assert all(led[broker] < EVEN for broker in ODD.values() if broker != 3)


def test_the_page_holds_the_numbers(figures: dict[str, dict[int, tuple[float, float]]]) -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    for title, shares in figures.items():
        (line,) = [one for one in lines if one.startswith(f"| {title} |")]
        told = [int(cell) for cell in line.strip("|").split("|")[1:]]
        assert told == pytest.approx([100 * led for led, _ in shares.values()], abs=1.5)
    assert f"({scores_example.PLOT.name})" in "\n".join(lines)
    assert scores_example.PLOT.is_file()
