"""The demo's real input: folders of images from packages, one folder per class."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from pathlib import Path

from scripts.provision import cache, steps

CLIPART_PACKAGE = "openclipart-png"
CLIPART_ROOT = Path("usr/share/openclipart/png")
DIGIT_LEVELS = 16  # scikit-learn's digits have pixels of 0..16
FORMAT = "2"  # counts up when what is written changes


def ensure_clipart() -> Path:
    """About 130 MB of PNGs from Debian's openclipart-png in 21 category folders.

    Raises:
        steps.StepFailed: the package cannot be fetched or unpacked.
    """
    return cache.entry("clipart", cache.digest([CLIPART_PACKAGE, FORMAT]), _unpack_clipart)


def ensure_digits() -> Path:
    """scikit-learn's 1,797 handwritten digits as 8 x 8 PNGs in folders 0 to 9."""
    return cache.entry("digits", cache.digest([FORMAT, f"{sys.version_info.major}"]), _write_digits)


def count_files(folder: Path) -> int:
    """Records that the folder holds."""
    return sum(1 for path in folder.rglob("*") if path.is_file())


def _unpack_clipart(target: Path) -> None:
    with steps.step("clip art"), tempfile.TemporaryDirectory(dir=target.parent) as folder:
        _download(Path(folder))
        (package,) = Path(folder).glob("*.deb")
        steps.run(["dpkg", "-x", package, Path(folder) / "root"])
        source = Path(folder) / "root" / CLIPART_ROOT
        for path in sorted(source.rglob("*.png")):
            # The package has links to files and to folders beside the files themselves: once is enough.
            if path.is_symlink() or not path.is_file():
                continue
            category, *rest = path.relative_to(source).parts
            (target / category).mkdir(exist_ok=True)
            shutil.move(path, target / category / "-".join(rest))


def _download(folder: Path) -> None:
    command = ["apt-get", "download", "-qq", CLIPART_PACKAGE]
    try:
        steps.run(command, cwd=folder)
    except steps.StepFailed:
        # A fresh machine has no lists of packages yet; without root nothing can be done about it.
        with contextlib.suppress(steps.StepFailed), cache.locked("apt"):
            steps.run(["apt-get", "-qq", "update"])
        steps.run(command, cwd=folder)


def _write_digits(target: Path) -> None:
    # Only here: everything else of this file runs before the project's packages are installed.
    import numpy as np
    from PIL import Image
    from sklearn.datasets import load_digits

    with steps.step("digits"):
        digits = load_digits()
        for index, (pixels, label) in enumerate(zip(digits.images, digits.target, strict=True)):
            folder = target / str(label)
            folder.mkdir(exist_ok=True)
            grey = np.round(pixels * (255 / DIGIT_LEVELS)).astype(np.uint8)
            Image.fromarray(grey).save(folder / f"{index:04d}.png")
