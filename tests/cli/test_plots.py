from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.cli.plots import BAR, build_plot, write_plot
from evenkeel.domain.moves import VolumeFill
from evenkeel.errors import InputError

FILLS = (
    VolumeFill("1:/data", 600, 400, 600),
    VolumeFill("2:/var/lib/kafka/a <very> & long/path/of/data", 200, 400, 410),
)


def count(svg: str, kind: str) -> int:
    return sum(one.get("class") == kind for one in ET.fromstring(svg).iter())


def test_two_bars_and_a_peak_per_volume_and_one_limit() -> None:
    svg = build_plot(FILLS, "a & b", 85)
    assert [count(svg, kind) for kind in ("volume", "before", "after", "peak", "limit")] == [2, 2, 2, 2, 1]
    assert count(build_plot(FILLS, "t"), "limit") == 0


def test_it_can_be_read_without_colours_and_by_machines() -> None:
    root = ET.fromstring(build_plot(FILLS, "a & b", 85))
    texts = [one.text for one in root.iter() if one.tag.endswith("text")]
    for wanted in ("a & b", "before", "after", "limit 85 %", "fill, % of capacity", "60.0 → 40.0 %"):
        assert wanted in texts
    told = [one.text for one in root.iter() if one.tag.endswith(("title", "desc"))]
    assert told[:2] == ["a & b", "2 volumes; the fullest is at 60.0 % before and at 40.0 % after the moves."]
    assert f"{FILLS[1].volume}: 20.0 → 40.0 %, at most 41.0 %" in told


def test_bars_are_as_long_as_the_fill() -> None:
    root = ET.fromstring(build_plot(FILLS, "t"))
    bars = [float(one.get("width", 0)) for one in root.iter() if one.get("class") == "before"]
    assert bars == [0.6 * BAR, 0.2 * BAR]


fills = st.builds(
    VolumeFill,
    volume=st.text(st.characters(max_codepoint=0xFFFF), min_size=1, max_size=80),
    before_permille=st.integers(0, 1500),
    after_permille=st.integers(0, 1500),
    peak_permille=st.integers(0, 1500),
)


@given(st.lists(fills, max_size=200), st.none() | st.integers(1, 99))
def test_any_number_of_volumes_stays_within_the_picture(some: list[VolumeFill], limit: int | None) -> None:
    svg = build_plot(some, "t", limit)
    root = ET.fromstring(svg)
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    assert count(svg, "volume") == len(some)
    for one in root.iter():
        if one.tag.endswith("rect"):
            assert float(one.get("x", 0)) + float(one.get("width", 0)) <= width
            assert float(one.get("y", 0)) + float(one.get("height", 0)) <= height


def test_many_volumes_stand_side_by_side() -> None:
    root = ET.fromstring(build_plot([VolumeFill(f"{n}:/d", 500, 500, 500) for n in range(512)], "t"))
    assert float(root.get("height", 0)) < 1400


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--plot .*none/x.svg: cannot be written"):
        write_plot(str(tmp_path / "none/x.svg"), FILLS, "t")
