from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from evenkeel import names
from evenkeel.api.kinds import KINDS
from evenkeel.cli.main import COMMANDS
from evenkeel.reasons import Reason

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
PAGES = sorted(path for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")] if path.is_file())
BY_KIND = {model.__name__: model for model in KINDS}
FIRST_SCREEN = 16
"""Lines that everybody sees."""


def blocks(language: str) -> list[str]:
    """Fenced blocks of the README in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def declarations() -> list[dict[str, Any]]:
    return [yaml.safe_load(text) for text in blocks("yaml")]


def training() -> tuple[list[str], dict[str, Any]]:
    """Lines that are added to the training Job, and the whole Job."""
    (text,) = blocks("diff")
    lines = text.splitlines()
    added = [line for line in lines if line.startswith("+")]
    return added, yaml.safe_load("\n".join(line[1:] for line in lines))


def test_every_reason_has_one_line_in_the_runbook_and_no_other_has() -> None:
    text = (ROOT / "docs" / "runbook.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \|$", text, re.MULTILINE)
    counted = Counter(reason for reason, _, _ in rows)
    assert counted == Counter(reason.value for reason in Reason)
    assert all(meaning.endswith((".", "?")) and cure.endswith(".") for _, meaning, cure in rows)


def test_readme_begins_with_the_two_commands() -> None:
    first = README.splitlines()[:FIRST_SCREEN]
    for command in ("scripts/demo", "scripts/test"):
        assert any(line.strip().startswith(f"{command} ") for line in first), command


def test_readme_shows_the_flow() -> None:
    (picture,) = blocks("mermaid")
    assert picture.startswith("flowchart")


def test_simplest_use_is_seven_and_eleven_lines() -> None:
    cluster, dataset = blocks("yaml")
    assert (len(cluster.splitlines()), len(dataset.splitlines())) == (7, 11)


def test_simplest_use_takes_seven_lines_in_the_training_job() -> None:
    added, job = training()
    assert len(added) == 7
    assert job["kind"] == "Job"


@pytest.mark.parametrize("document", declarations(), ids=lambda document: document["kind"])
def test_simplest_declarations_are_what_the_models_know(document: dict[str, Any]) -> None:
    model = BY_KIND[document["kind"]].model_validate(document)
    said = model.model_dump(mode="json", by_alias=True, exclude_unset=True, include={"spec"})
    assert said == {"spec": document["spec"]}


def test_training_job_asks_for_the_declared_dataset_in_the_words_of_the_code() -> None:
    dataset = declarations()[1]["metadata"]["name"]
    _, job = training()
    template = job["spec"]["template"]
    assert template["metadata"]["labels"] == {names.LABEL_DATASET: dataset}
    assert template["spec"]["schedulingGates"] == [{"name": names.GATE_WARM}]
    (volume,) = template["spec"]["volumes"]
    wanted = {names.CSI_ATTRIBUTE_DATASET: dataset}
    assert volume["csi"] == {"driver": names.CSI_DRIVER, "readOnly": True, "volumeAttributes": wanted}
    (mount,) = template["spec"]["containers"][0]["volumeMounts"]
    assert mount["name"] == volume["name"]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_in_pages_exist(page: Path) -> None:
    said = re.findall(r"(?:^    |`)evenkeel ([a-z-]+)", page.read_text(), re.MULTILINE)
    assert set(said) <= set(COMMANDS)


def test_layout_of_the_readme_is_the_tree() -> None:
    section = README.split("## Layout")[1].split("## ")[0]
    for line in re.findall(r"^    (\S.*)$", section, re.MULTILINE):
        for name in line.split("   ")[0].split():
            assert (ROOT / name).is_dir(), name
