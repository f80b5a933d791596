from __future__ import annotations

import pytest

from scripts.provision import gotools, steps


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("go1.24.3\n", (1, 24)),
        ("go1.19", (1, 19)),
        ("go1.26rc1", (1, 26)),
        ("devel +abc", (0, 0)),
        ("", (0, 0)),
    ],
)
def test_versions_of_go_are_compared_as_numbers(text: str, expected: tuple[int, int]) -> None:
    assert gotools.parse_go_version(text) == expected


def test_kubernetes_is_the_version_that_the_images_and_kubeadm_agree_on() -> None:
    assert gotools.kubernetes_version().startswith("v1.34.")
    assert f"gitVersion={gotools.kubernetes_version()}" in gotools.ldflags(gotools.kubernetes_version())


def test_a_module_that_is_not_required_is_named() -> None:
    with pytest.raises(steps.StepFailed, match="no/such"):
        gotools.version_of("no/such")


def test_every_program_that_others_call_is_built() -> None:
    assert set(gotools.PROGRAMS) >= {
        "kind", "kubectl", "kubeadm", "kubelet", "kube-apiserver", "kube-controller-manager", "kube-scheduler",
        "kube-proxy", "etcd", "etcdctl", "coredns", "evenkeel-cni", "crictl", "helm", "pause",
    }  # fmt: skip


def test_own_programs_do_not_decide_whether_kubernetes_is_linked_again() -> None:
    assert gotools.published_key() != gotools.key()
