"""The Java partitioner's jar, built and tested by Maven once per state of its sources.

Run as a script it prints the jar's path. It needs nothing but Python, a Java 17 compiler and Maven.
"""

from __future__ import annotations

import dataclasses
import shutil
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scripts.provision import again, apt, cache, steps

SOURCES = cache.REPOSITORY / "plugins" / "partitioner"
TABLES = cache.REPOSITORY / "tests" / "data" / "tables"
COMPILER_PACKAGE = "openjdk-17-jdk-headless"


@dataclasses.dataclass(frozen=True)
class Partitioner:
    """What a build leaves.

    Attributes:
        jar: the partitioner, to be put beside kafka-clients.
        test_classes: the classes of its tests, among them the programs that integration tests run.
    """

    jar: Path
    test_classes: Path


def ensure() -> Partitioner:
    """The jar of the sources as they stand; its own tests have passed.

    Raises:
        steps.StepFailed: Java or Maven is missing and cannot be installed, a plugin or jar cannot be had, the
            sources do not compile, or a test fails.
    """
    apt.ensure({"javac": COMPILER_PACKAGE, "mvn": "maven"})
    key = cache.digest([SOURCES / "pom.xml", SOURCES / "src", TABLES])
    folder = cache.entry("partitioner", key, _build)
    (jar,) = folder.glob("*.jar")
    return Partitioner(jar=jar, test_classes=folder / "test-classes")


def _build(work: Path) -> None:
    with steps.step("Java partitioner"), tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        shutil.copy(SOURCES / "pom.xml", project)
        shutil.copytree(SOURCES / "src", project / "src")
        _package(project)
        (jar,) = (project / "target").glob("*.jar")
        shutil.copy(jar, work)
        shutil.copytree(project / "target" / "test-classes", work / "test-classes")


def _package(project: Path) -> None:
    """Without network where Maven has all it needs already."""
    words = ["mvn", "-B", "-ntp", "-q", f"-Devenkeel.tables={TABLES}", "package"]
    try:
        steps.run([*words[:1], "--offline", *words[1:]], cwd=project, timeout=600)
    except steps.StepFailed:
        # Not `download`: its marks may be in what a test of the partitioner says.
        again.again(
            lambda: steps.run(words, cwd=project, timeout=600),
            lambda said: "Could not transfer artifact" in said,
            seconds=again.DOWNLOAD_SECONDS,
        )


if __name__ == "__main__":
    sys.stdout.write(f"{ensure().jar}\n")
