from __future__ import annotations

from evenkeel.kube import resources


def test_paths() -> None:
    assert resources.POD.path("a", "b", "status") == "/api/v1/namespaces/a/pods/b/status"
    assert resources.POD.path() == "/api/v1/pods"
    assert resources.NODE.path("ignored", "n") == "/api/v1/nodes/n"
    assert resources.JOB.path("a") == "/apis/batch/v1/namespaces/a/jobs"
    assert resources.NODE_CACHE.path(None, "n", "status") == "/apis/evenkeel.dev/v1alpha1/nodecaches/n/status"
