"""Everything that a first `up` and the images need, side by side: the Go build takes both cores' time, the rest waits for disks and mirrors."""

from __future__ import annotations

from e2e.cluster import nodeimage
from scripts.provision import docker, gotools, images, steps
from scripts.provision.tasks import Tasks


def prepare() -> None:
    """Pull or build the Go programs, the node image and the images of `scripts.provision.images`.

    Raises:
        steps.StepFailed: one of them failed; what was under way has been stopped.
    """
    with Tasks() as tasks:
        tasks.start(gotools.ensure)
        with steps.step("docker"):
            docker.ensure()
        # In the order in which a Dockerfile, Kafka and the nodes can go on with them.
        for call in (images.base_image, images.jre_image, nodeimage.ensure):
            tasks.start(call)
        tasks.wait_all()
