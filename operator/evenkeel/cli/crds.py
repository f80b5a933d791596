"""`evenkeel crds`: write the CustomResourceDefinitions, or check that a folder holds just these."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from evenkeel.api.export import build_crds, render_crd


def main(arguments: list[str]) -> int:
    """Exit code: 0 written or fresh, 1 stale (each file is named), 2 the folder does not exist."""
    options = _parse(arguments)
    folder: Path = options.directory
    if not folder.is_dir():
        sys.stderr.write(f"evenkeel crds: --directory {folder}: no such folder\n")
        return 2
    texts = {name: render_crd(crd) for name, crd in build_crds().items()}
    if options.check:
        stale = find_stale(folder, texts)
        sys.stderr.writelines(f"{line}\n" for line in stale)
        return 1 if stale else 0
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return 0


def find_stale(folder: Path, texts: dict[str, str]) -> list[str]:
    """What is wrong with the YAML files of a folder, one sentence per file; empty: they are fresh."""
    found = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.yaml"))}
    cure = "run `evenkeel crds`"
    missing = [f"{folder / name}: missing; {cure}" for name in texts if name not in found]
    stale = [
        f"{folder / name}: stale; {cure}" for name in texts if found.get(name, texts[name]) != texts[name]
    ]
    foreign = [f"{folder / name}: belongs to no kind; remove it" for name in found if name not in texts]
    return [*missing, *stale, *foreign]


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="evenkeel crds", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 unless the files are fresh"
    )
    parser.add_argument(
        "--directory", type=Path, default=Path("crds"), help="folder of the files (default: crds)"
    )
    return parser.parse_args(arguments)
