"""The project's own virtual environment, outside the tree, made again when pyproject.toml changes.

Run as a script it prints the environment's path. It needs nothing but Python itself.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scripts.provision import again, cache, steps

CONSTRAINTS = cache.REPOSITORY / "scripts" / "provision" / "constraints.txt"


def ensure() -> Path:
    """The environment's directory, with Evenkeel installed in editable form with all its extras.

    Raises:
        steps.StepFailed: pip cannot install what pyproject.toml asks for.
    """
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    key = cache.digest([_dependencies(), CONSTRAINTS, str(cache.REPOSITORY), python])
    return cache.root() / "venv" / key if _ready(key) else _build(key)


def _ready(key: str) -> bool:
    return (cache.root() / "venv" / key / "ready").is_file()


def _build(key: str) -> Path:
    # Not cache.entry: a virtual environment knows its own path and cannot be renamed into place.
    path = cache.root() / "venv" / key
    with cache.locked(f"venv-{key}"):
        if _ready(key):
            return path
        with steps.step("python environment"):
            steps.run([sys.executable, "-m", "venv", "--clear", path])
            again.download(
                [path / "bin" / "pip", "install", "--quiet", "--constraint", CONSTRAINTS,
                 "--editable", f"{cache.REPOSITORY}[reader,control,data,dev]"],
            )  # fmt: skip
        (path / "ready").touch()
    return path


def _dependencies() -> str:
    """The part of pyproject.toml that decides what is installed."""
    import tomllib

    with (cache.REPOSITORY / "pyproject.toml").open("rb") as handle:
        content = tomllib.load(handle)
    return repr((content["build-system"], content["project"]))


if __name__ == "__main__":
    sys.stdout.write(f"{ensure()}\n")
