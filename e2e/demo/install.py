"""Evenkeel by its Helm chart, and the examples."""

from __future__ import annotations

from pathlib import Path

from e2e.cluster import hiccups
from e2e.cluster.lifecycle import Cluster
from evenkeel.names import API_GROUP
from scripts.provision import again, cache, gotools, steps

RELEASE = "evenkeel"
NAMESPACE = "evenkeel-system"
CHART = cache.REPOSITORY / "charts" / "evenkeel"
EXAMPLES = cache.REPOSITORY / "examples"
TRAINING_PLACEHOLDER = "IMAGE_TRAINING"
READY_SECONDS = 300
CRDS = cache.REPOSITORY / "crds"


def install(cluster: Cluster, control: str, data: str) -> None:
    """Install the chart with these images and wait for the operator.

    Raises:
        steps.StepFailed: Helm refuses, or the operator is not ready in time.
    """
    with steps.step("Evenkeel by its Helm chart"):
        words: list[str | Path] = [
            "upgrade",
            RELEASE,
            CHART,
            "--install",
            "--namespace",
            NAMESPACE,
            "--create-namespace",
        ]
        helm(cluster, *words, "--set", "crds.enabled=true", *image_values(control, data))
        limit = f"--timeout={READY_SECONDS}s"
        cluster.kubectl(
            "--namespace", NAMESPACE, "rollout", "status", f"deployment/{RELEASE}-operator", limit,
            timeout=READY_SECONDS + 10.0,
        )  # fmt: skip
        definitions = [f"customresourcedefinition/{path.stem}.{API_GROUP}" for path in CRDS.glob("*.yaml")]
        cluster.kubectl("wait", "--for=condition=Established", *definitions, "--timeout=60s")


def helm(cluster: Cluster, *words: str | Path, timeout: float = 300.0) -> str:
    """`helm WORDS` against the cluster -> its standard output; said again where it did not reach the cluster.

    Raises:
        steps.StepFailed: Helm ended with an error.
    """
    # Helm's own files would otherwise be made in the user's home.
    own = {name: str(cache.root() / "helm" / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
    env = {"KUBECONFIG": str(cluster.kubeconfig), **{f"HELM_{key}_HOME": path for key, path in own.items()}}
    command = [gotools.ensure() / "helm", *words]
    return again.again(
        lambda: steps.run(command, env=env, timeout=timeout),
        hiccups.is_repeatable_by_helm,
        seconds=hiccups.HICCUP_SECONDS,
    )


def image_values(control: str, data: str) -> list[str]:
    """Helm's `--set` words for two image names. Pure."""
    words = []
    for name, image in (("control", control), ("data", data)):
        repository, _, tag = image.rpartition(":")
        words += ["--set", f"image.{name}.repository={repository}", "--set-string", f"image.{name}.tag={tag}"]
    return words


def apply_example(cluster: Cluster, name: str, training: str = "") -> None:
    """Apply examples/NAME; `training` stands in for its placeholder of an image.

    Raises:
        steps.StepFailed: the API server refuses it.
    """
    text = (EXAMPLES / name).read_text().replace(TRAINING_PLACEHOLDER, training)
    cluster.kubectl("apply", "--server-side", "--filename", "-", stdin=text)
