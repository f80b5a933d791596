"""What the Java partitioner shares with the rest of the project."""

from __future__ import annotations

import tomllib
from pathlib import Path
from xml.etree import ElementTree as ET

from evenkeel import names

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "plugins" / "partitioner"
SPACE = {"m": "http://maven.apache.org/POM/4.0.0"}


def pom(path: Path = PLUGIN / "pom.xml") -> ET.Element:
    return ET.parse(path).getroot()


def test_has_the_version_of_the_project() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert pom().findtext("m:version", namespaces=SPACE) == version


def test_is_built_for_the_kafka_of_the_tests() -> None:
    brokers = pom(ROOT / "integration" / "kafka" / "pom.xml")
    versions = [
        found.findtext("m:version", namespaces=SPACE)
        for found in brokers.iterfind(".//m:dependency", SPACE)
        if found.findtext("m:artifactId", namespaces=SPACE) == "kafka_2.13"
    ]
    assert [pom().findtext("m:properties/m:kafka.version", namespaces=SPACE)] == versions


def test_puts_nothing_but_itself_into_a_producer() -> None:
    scopes = {
        found.findtext("m:artifactId", namespaces=SPACE): found.findtext("m:scope", namespaces=SPACE)
        for found in pom().iterfind("m:dependencies/m:dependency", SPACE)
    }
    assert scopes.pop("kafka-clients") == "provided"
    assert set(scopes.values()) == {"test"}


def test_reads_and_writes_the_topics_of_the_keeper() -> None:
    follower = (PLUGIN / "src/main/java/dev/evenkeel/partitioner/Follower.java").read_text()
    assert f'ROUTES_TOPIC = "{names.ROUTES_TOPIC}"' in follower
    assert f'HEARTBEATS_TOPIC = "{names.HEARTBEATS_TOPIC}"' in follower
