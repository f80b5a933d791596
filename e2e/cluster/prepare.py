"""Everything that a first `up` and the images need, side by side: the Go build takes both cores' time, the rest waits for disks and mirrors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from e2e.cluster import nodeimage
from scripts.provision import docker, gotools, images, steps


def prepare() -> None:
    """Pull or build the Go programs, the node image and the images of `scripts.provision.images`.

    Raises:
        steps.StepFailed: one of them failed; the others were let end.
    """
    with _gathered() as start:
        start(gotools.ensure)
        with steps.step("docker"):
            docker.ensure()
        # In the order in which a Dockerfile, Kafka and the nodes can go on with them.
        start(images.base_image)
        start(images.jre_image)
        start(nodeimage.ensure)


@contextlib.contextmanager
def _gathered() -> Iterator[Callable[[Callable[[], object]], None]]:
    """Run what the body starts on threads; the first failure is raised when all have ended."""
    futures: list[Future[object]] = []
    with ThreadPoolExecutor(max_workers=4, thread_name_prefix="prepare") as pool:
        yield lambda task: futures.append(pool.submit(task))
    for future in futures:
        future.result()
