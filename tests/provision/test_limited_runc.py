from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scripts.provision import limited_runc

KINDS = ("bounding", "effective", "permitted")
WITHOUT_SYS_RESOURCE = (1 << 41) - 1 - (1 << 24)


def build_process() -> dict[str, Any]:
    return {"args": ["true"], "capabilities": {kind: ["CAP_CHOWN", "CAP_SYS_RESOURCE"] for kind in KINDS}}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--root", "/r", "create", "--bundle", "/b", "id"], Path("/b/config.json")),
        (["run", "--bundle", "/b", "id"], Path("/b/config.json")),
        (["exec", "--process", "/p.json", "id"], Path("/p.json")),
        (["delete", "id"], None),
        (["create", "id"], None),
    ],
)
def test_the_specification_is_found_where_runc_looks_for_it(words: list[str], expected: Path | None) -> None:
    assert limited_runc.find_specification(words) == expected


@pytest.mark.parametrize("wrap", [lambda process: {"process": process}, lambda process: process])
def test_only_what_the_machine_cannot_give_is_dropped(wrap: Any) -> None:
    process = build_process()
    limited_runc.limit(wrap(process), WITHOUT_SYS_RESOURCE)
    assert process["capabilities"] == {kind: ["CAP_CHOWN"] for kind in KINDS}
    assert process["args"] == ["true"]


def test_a_process_without_capabilities_stays_as_it_is() -> None:
    assert limited_runc.limit({"args": ["true"]}, 0) == {"args": ["true"]}


def test_there_is_a_name_for_every_capability_of_the_kernel() -> None:
    assert limited_runc.NAMES[24] == "SYS_RESOURCE"
    assert len(limited_runc.NAMES) > int(Path("/proc/sys/kernel/cap_last_cap").read_text())
