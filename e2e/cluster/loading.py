"""Bring images of the machine's docker into the nodes of a cluster: there is no registry."""

from __future__ import annotations

from collections.abc import Sequence

from scripts.provision import gotools, steps


def load(image: str | Sequence[str], name: str, nodes: Sequence[str] | None = None) -> None:
    """Copy `image`, or several, to the named nodes (None: all) of the cluster; a node that has it is skipped.

    Several at once are quicker than one after the other: layers that they share are copied once.
    The tag should name the content (`scripts.provision.images.build_image`): pods then never run an
    older image of the same name. Use `imagePullPolicy: IfNotPresent` or `Never`.

    Raises:
        steps.StepFailed: docker has no such image, or the cluster no such node.
    """
    images = [image] if isinstance(image, str) else list(image)
    chosen = ["--nodes", ",".join(nodes)] if nodes is not None else []
    with steps.step(f"load {', '.join(tag.rpartition('/')[2].partition(':')[0] for tag in images)}"):
        steps.run([gotools.ensure() / "kind", "load", "docker-image", *images, "--name", name, *chosen])
