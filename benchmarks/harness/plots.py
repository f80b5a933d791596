"""Plots of results as SVG and PNG, in colours that colour-blind readers can tell apart."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "evenkeel"  # equal results give equal files

# Okabe and Ito's palette.
COLOURS: Mapping[str, str] = {
    "evenkeel": "#0072B2",
    "evenkeel-java": "#56B4E9",
    "librdkafka": "#D55E00",
    "round-robin": "#E69F00",
    "java-built-in": "#CC79A7",
    "most-free": "#009E73",
}
OTHERS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999")


def save_plot(figure: Figure, folder: Path, name: str) -> tuple[Path, Path]:
    """Write `<name>.svg` and `<name>.png`."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / f"{name}.svg", folder / f"{name}.png"
    figure.savefig(paths[0], bbox_inches="tight", metadata={"Date": None})
    figure.savefig(paths[1], bbox_inches="tight", dpi=110)
    return paths
