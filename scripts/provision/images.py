"""Container images: pulled where a registry answers, else made from Debian packages; and built by content.

An image has a tag that names its content, so that it is built once and loaded once, and never
confused with an older one.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scripts.provision import apt, cache, docker, steps

PYTHON_IMAGE = "python:3.11-slim-bookworm"
JRE_IMAGE = "eclipse-temurin:17-jre-jammy"
KAFKA_IMAGE = "apache/kafka:4.3.1"
"""Kafka's own image, in place of jars and Java."""
PYTHON_PACKAGES = ("ca-certificates", "python3", "python3-venv")
JRE_PACKAGES = ("ca-certificates", "openjdk-17-jre-headless")
PROBE_SECONDS = 10.0
PULL_SECONDS = 900.0
_PATH = "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def base_image() -> str:
    """The image for `ARG BASE_IMAGE` of the Dockerfile: Debian 12 with python3 3.11 and its venv module."""
    return _pulled_or_made(PYTHON_IMAGE, "base", PYTHON_PACKAGES)


def jre_image() -> str:
    """An image with `java` 17 on PATH, for Kafka."""
    return _pulled_or_made(JRE_IMAGE, "jre", JRE_PACKAGES)


def can_pull(image: str) -> bool:
    """Whether docker has `image` or its registry answers; changes nothing."""
    return docker.answers() and (docker.has_image(image) or _registry_answers(image))


def pull(image: str) -> bool:
    """Whether docker has `image` now; a registry that does not answer costs `PROBE_SECONDS` once."""
    if docker.has_image(image):
        return True
    if not _registry_answers(image):
        return False
    try:
        with steps.step(f"pull {image.partition('@')[0]}"):
            docker.call("pull", "--quiet", image, timeout=PULL_SECONDS)
    except steps.StepFailed:
        return False
    return True


def import_root(tag: str, archive: Path, changes: Sequence[str] = (_PATH,)) -> str:
    """Make the tar file of a whole file system an image of one layer -> `tag`."""
    options = [word for change in changes for word in ("--change", change)]
    docker.call("import", *options, archive, tag)
    return tag


def debian_tag(name: str, packages: Sequence[str]) -> str:
    """The name of the image that `debian_image` makes."""
    return f"evenkeel/{name}:{cache.digest([apt.SUITE, apt.RECIPE, *packages])}"


def debian_image(name: str, packages: Sequence[str]) -> str:
    """`evenkeel/NAME:<content>`: Debian's smallest root file system with `packages`."""
    tag = debian_tag(name, packages)
    with cache.locked(f"image-{name}"):
        if not docker.has_image(tag):
            import_root(tag, apt.root_archive(name, packages))
    return tag


def build_image(
    name: str,
    *,
    dockerfile: Path,
    context: Path,
    target: str | None = None,
    args: Mapping[str, str] | None = None,
) -> str:
    """Build a Dockerfile -> its tag `evenkeel/NAME:<content>`; nothing happens where docker has that already.

    The content is the Dockerfile, every file of `context`, the target and the arguments, so the
    context should hold only what the image needs. The build has no network.

    Raises:
        steps.StepFailed: the build failed; the message ends with what it said.
    """
    words = [f"{key}={value}" for key, value in sorted((args or {}).items())]
    tag = f"evenkeel/{name}:{cache.digest([dockerfile, context, target or '', *words])}"
    with cache.locked(f"image-{name}"):
        if docker.has_image(tag):
            return tag
        command: list[str | Path] = [
            "docker",
            "build",
            "--quiet",
            "--network",
            "none",
            "--tag",
            tag,
            "--file",
            dockerfile,
        ]
        command += ["--target", target] if target else []
        command += [part for word in words for part in ("--build-arg", word)]
        with steps.step(f"image {tag}"):
            classic = _is_classic()
            # The classic builder keeps the container of a step that failed, unless told otherwise.
            options = ["--force-rm"] if classic else []
            steps.run([*command, *options, context], env={"DOCKER_BUILDKIT": "0"} if classic else {})
    return tag


def _pulled_or_made(image: str, name: str, packages: Sequence[str]) -> str:
    if not docker.has_image(debian_tag(name, packages)) and pull(image):
        return image
    return debian_image(name, packages)


@functools.cache
def _registry_answers(image: str) -> bool:
    # The client asks the registry itself here: seconds, where a pull by the daemon tries for minutes.
    try:
        docker.call("manifest", "inspect", image, timeout=PROBE_SECONDS)
    except steps.StepFailed:
        return False
    return True


@functools.cache
def _is_classic() -> bool:
    """Whether only docker's classic builder is installed; newer clients want it to be asked for."""
    try:
        docker.call("buildx", "version", timeout=docker.ANSWER_SECONDS)
    except steps.StepFailed:
        return True
    return False


if __name__ == "__main__":
    sys.stdout.write(f"{base_image()}\n{jre_image()}\n")
