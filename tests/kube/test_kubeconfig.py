from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evenkeel.errors import ConfigurationError
from evenkeel.kube.kubeconfig import connect_user


def write_kubeconfig(path: Path, current: str = "one", **contexts: dict[str, Any]) -> Path:
    body = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": current,
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [
            {"name": name, "context": {"cluster": "c", "user": "u", **more}}
            for name, more in contexts.items()
        ],
    }
    path.write_text(json.dumps(body))
    return path


async def test_context_and_namespace_are_those_of_the_kubeconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_kubeconfig(tmp_path / "config", one={"namespace": "team"}, two={})
    for context, namespace in ((None, "team"), ("two", "default")):
        access = await connect_user(str(path), context, manager="test")
        await access.kube.close()
        assert access.namespace == namespace
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'none'}:{path}")
    access = await connect_user(None, None, manager="test")
    await access.kube.close()
    assert access.namespace == "team"


@pytest.mark.parametrize("content", [None, "a: [", "{}", "[]"])
async def test_a_kubeconfig_that_cannot_be_used_is_said(tmp_path: Path, content: str | None) -> None:
    path = write_kubeconfig(tmp_path / "config", one={})
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigurationError, match=r"config: the context three cannot be used"):
        await connect_user(str(path), "three", manager="test")
