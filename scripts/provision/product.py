"""Evenkeel's own images and the demo's training image, built without network from wheels fetched beforehand."""

from __future__ import annotations

import shutil
import sys
import tempfile
import tomllib
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scripts.provision import again, cache, images, steps, venv

ROOT = cache.REPOSITORY
TRAINING = ROOT / "examples" / "training"
IMAGE_PYTHON = "3.11"
"""Of Debian 12 and of the default base image; the wheels must fit it, whatever Python runs this script."""
PLATFORMS = (
    "manylinux_2_28_x86_64",
    "manylinux_2_27_x86_64",
    "manylinux_2_17_x86_64",
    "manylinux2014_x86_64",
)
PILLOW = "pillow>=11,<13"  # what the training example decodes images with


def control_image() -> str:
    """Operator and keeper -> tag."""
    return _image("control")


def data_image() -> str:
    """Producer, sealer, loader and node cache -> tag."""
    return _image("data")


def training_image() -> str:
    """The demo's training job: the data image and Pillow -> tag."""
    with tempfile.TemporaryDirectory() as folder:
        context = Path(folder)
        shutil.copytree(_wheels("training", [PILLOW]), context / "wheels")
        shutil.copy(TRAINING / "train.py", context)
        return images.build_image(
            "training",
            dockerfile=TRAINING / "Dockerfile",
            context=context,
            args={"BASE_IMAGE": data_image()},
        )


def _image(target: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        context = Path(folder)
        for extra in ("control", "data"):
            shutil.copytree(_wheels(extra, _requirements(extra)), context / "wheels" / extra)
        shutil.copytree(_project_wheel(), context / "project")
        return images.build_image(
            f"evenkeel-{target}",
            dockerfile=ROOT / "Dockerfile",
            context=context,
            target=target,
            args={"BASE_IMAGE": images.base_image()},
        )


def _wheels(name: str, requirements: list[str]) -> Path:
    """Folder with the wheels of `requirements` and of all they need, at the versions of the constraints."""

    def build(folder: Path) -> None:
        platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
        command: list[str | Path] = [
            "download",
            "--quiet",
            "--dest",
            folder,
            "--constraint",
            venv.CONSTRAINTS,
        ]
        command += ["--only-binary", ":all:", "--implementation", "cp", "--python-version", IMAGE_PYTHON]
        with steps.step(f"wheels for {name}"):
            again.download([venv.ensure() / "bin" / "pip", *command, *platforms, *requirements])

    key = cache.digest([venv.CONSTRAINTS, *requirements, IMAGE_PYTHON, *PLATFORMS])
    return cache.entry("wheels", f"{name}-{key}", build)


def _requirements(extra: str) -> list[str]:
    with (ROOT / "pyproject.toml").open("rb") as handle:
        project = tomllib.load(handle)["project"]
    return [*project["dependencies"], *project["optional-dependencies"][extra]]


def _project_wheel() -> Path:
    """Folder with the wheel of the tree as it stands."""

    def build(folder: Path) -> None:
        command: list[str | Path] = [
            "wheel",
            "--quiet",
            "--no-deps",
            "--no-build-isolation",
            "--wheel-dir",
            folder,
            ROOT,
        ]
        steps.run([venv.ensure() / "bin" / "pip", *command])

    sources = [ROOT / name for name in ("operator", "pyproject.toml", "README.md", "LICENSE")]
    return cache.entry("project-wheel", cache.digest(sources), build)


if __name__ == "__main__":
    sys.stdout.write(f"{control_image()}\n{data_image()}\n{training_image()}\n")
