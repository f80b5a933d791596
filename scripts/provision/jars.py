"""The jars of Kafka 4.3.1 from a Maven repository, and a class archive that halves a broker's start.

Tests run brokers from these jars as processes; the demo's Kafka image holds the same ones.
Run as a script it prints the directory of the jars. It needs nothing but Python, Java 17 and Maven.
"""

from __future__ import annotations

import dataclasses
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scripts.provision import again, apt, cache, steps

SOURCES = cache.REPOSITORY / "integration" / "kafka"
POM = SOURCES / "pom.xml"
LOGGING = SOURCES / "log4j2.yaml"
OLDEST_JAVA = 17
JAVA_PACKAGE = "openjdk-17-jre-headless"
# Serial GC and the first compiler tier: with the archive 0.52 of the plain start time, half its CPU.
JVM_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
# The log cleaner takes 128 MiB of heap unless told otherwise: these two lines let 96 MiB suffice.
SMALL_HEAP = {"log.cleaner.dedupe.buffer.size": "2097152", "log.cleaner.threads": "1"}
_START_SECONDS = 300.0  # beside a build of Go programs on the same cores


@dataclasses.dataclass(frozen=True)
class KafkaHome:
    """Where the jars are: all that is needed to start a broker.

    Attributes:
        libs: the directory of the jars, nothing else in it.
        class_path: the jars in sorted order; the archive holds only for this order, append at the end.
        archive: class data archive (AppCDS) made with this class path by this Java.
    """

    libs: Path
    class_path: str
    archive: Path

    def command(self, main: str, *arguments: str | Path, heap_mib: int = 96) -> list[str]:
        """The words that run class `main` with these jars, at most `heap_mib` MiB of heap."""
        return [
            *_java(self.class_path, heap_mib),
            f"-XX:SharedArchiveFile={self.archive}",
            "-Xshare:auto",
            main,
            *map(str, arguments),
        ]


def ensure() -> KafkaHome:
    """Jars and archive, fetched and made where they are not there yet.

    Raises:
        steps.StepFailed: Java or Maven is missing and cannot be installed, a jar cannot be had,
            or the broker that makes the archive does not start.
    """
    libs = ensure_libs()
    class_path = ":".join(map(str, sorted(libs.glob("*.jar"))))
    key = cache.digest([class_path, _java_version(), " ".join(JVM_FLAGS)])
    folder = cache.entry("kafka-archive", key, lambda work: _make_archive(work, class_path))
    return KafkaHome(libs=libs, class_path=class_path, archive=folder / "kafka.jsa")


def ensure_libs() -> Path:
    """The directory of the jars alone (44 files, 46 MB): what a container image needs.

    Raises:
        steps.StepFailed: as `ensure`.
    """
    _require_tools()
    return cache.entry("kafka-jars", cache.digest([POM]), _fetch)


def _fetch(work: Path) -> None:
    with steps.step("Kafka jars"):
        again.download(
            [
                "mvn",
                "-B",
                "-ntp",
                "-q",
                "-f",
                POM,
                "dependency:copy-dependencies",
                f"-DoutputDirectory={work}",
            ],
            cwd=work,
            timeout=600,
        )
    if not any(work.glob("kafka_2.13-*.jar")):
        raise steps.StepFailed(f"Maven ended well but left no kafka_2.13 jar for {POM.name}")


def _require_tools() -> None:
    apt.ensure({"java": JAVA_PACKAGE, "mvn": "maven"})
    if _java_major() < OLDEST_JAVA:
        raise steps.StepFailed(
            f"java in PATH is version {_java_major()}, Kafka needs {OLDEST_JAVA} or newer: "
            f"install {JAVA_PACKAGE} and put it first"
        )


def _java_version() -> str:
    # Java prints its version on standard error.
    done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)  # noqa: S607
    return done.stderr


def _java_major() -> int:
    found = re.search(r'version "(\d+)', _java_version())
    return int(found.group(1)) if found else 0


def _java(class_path: str, heap_mib: int) -> list[str]:
    return [
        "java",
        f"-Xms{min(48, heap_mib)}m",
        f"-Xmx{heap_mib}m",
        *JVM_FLAGS,
        f"-Dlog4j2.configurationFile={LOGGING}",
        "-cp",
        class_path,
    ]


def _make_archive(work: Path, class_path: str) -> None:
    """Run one broker until it has started, stop it; Java writes the archive as it ends."""
    java = _java(class_path, 256)
    with steps.step("Kafka class archive"), tempfile.TemporaryDirectory(dir=work) as temporary:
        scratch = Path(temporary)
        properties = scratch / "server.properties"
        properties.write_text(_combined_properties(scratch))
        tool = [*java, "kafka.tools.StorageTool"]
        cluster = steps.run([*tool, "random-uuid"]).strip().splitlines()[-1]
        steps.run([*tool, "format", "-t", cluster, "-c", properties])
        log = scratch / "log"
        with log.open("wb") as output:
            broker = subprocess.Popen(
                [*java, f"-XX:ArchiveClassesAtExit={work / 'kafka.jsa'}", "kafka.Kafka", str(properties)],
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        _run_once(broker, log)
    if not (work / "kafka.jsa").is_file():
        raise steps.StepFailed("Java ended without writing the class archive")


def _run_once(broker: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    try:
        while "Kafka Server started" not in log.read_text(errors="replace"):
            if broker.poll() is not None or time.monotonic() > deadline:
                tail = log.read_text(errors="replace")[-2000:]
                raise steps.StepFailed(f"the broker that makes the class archive did not start:\n{tail}")
            time.sleep(0.1)
        broker.terminate()
        broker.wait(_START_SECONDS)
    finally:
        if broker.poll() is None:
            broker.kill()
            broker.wait()


def _combined_properties(scratch: Path) -> str:
    client, controller = _free_port(), _free_port()
    lines = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(scratch / "data"),
        **SMALL_HEAP,
    }
    return "".join(f"{key}={value}\n" for key, value in lines.items())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


if __name__ == "__main__":
    sys.stdout.write(f"{ensure().libs}\n")
