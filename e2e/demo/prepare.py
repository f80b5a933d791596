"""Everything that the demo needs on this machine, made side by side. Needs nothing but Python."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import asdict, dataclass

from e2e.cluster import lifecycle, nodeimage
from e2e.demo import data
from scripts.provision import apt, docker, gotools, images, jars, product, steps, venv
from scripts.provision.tasks import Tasks

VENV_PACKAGE = "python3-venv"
_TOOLS = {"java": jars.JAVA_PACKAGE, "mvn": "maven", "mmdebstrap": "mmdebstrap"}


@dataclass(frozen=True)
class Prepared:
    """What was made, as the second half of the demo needs it; travels as JSON."""

    control: str
    data: str
    training: str
    began: float
    """time.monotonic() of the start."""
    steps: tuple[tuple[str, float], ...] = ()

    def dumps(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def loads(cls, text: str) -> Prepared:
        """From JSON."""
        raw = json.loads(text)
        raw["steps"] = tuple((title, seconds) for title, seconds in raw["steps"])
        return cls(**raw)


def plan_changes() -> list[str]:
    """What `prepare` would change on this machine outside the cache directory, a sentence each."""
    packages = [] if images.can_pull(images.KAFKA_IMAGE) else apt.missing(_TOOLS)
    if not _can_make_environments():
        packages.append(VENV_PACKAGE)
    return [*(f"install the Debian package {name}" for name in packages), *docker.plan_changes()]


def prepare(name: str, began: float) -> Prepared:
    """Fetch and build what is not there yet, and remove the cluster of an earlier run.

    Afresh each time: nothing that an earlier run left can be mistaken for a result of this one.

    Args:
        name: of the cluster.
        began: time.monotonic() of the demo's start.

    Raises:
        steps.StepFailed: something cannot be had; what was under way has been stopped.
    """
    with Tasks() as tasks:
        # First of all: it takes minutes of both cores where nothing is cached.
        tasks.start(gotools.ensure)
        if not _can_make_environments():
            apt.ensure({"ensurepip": VENV_PACKAGE})
        with steps.step("docker"):
            docker.ensure()
        tasks.start(lambda: lifecycle.down(name))
        for call in (venv.ensure, images.base_image, _kafka_parts, data.ensure_clipart):
            tasks.start(call)
        control, others = tasks.start(product.control_image), tasks.start(_data_images)
        tasks.start(nodeimage.ensure)
        tasks.wait_all()
    times = tuple((step.title, step.seconds) for step in steps.finished)
    return Prepared(control.result(), *others.result(), began, times)


def _kafka_parts() -> None:
    if not images.pull(images.KAFKA_IMAGE):
        jars.ensure_libs()
        images.jre_image()


def _data_images() -> tuple[str, str]:
    return product.data_image(), product.training_image()  # the second one is made of the first one


def _can_make_environments() -> bool:
    # Debian's Python has no ensurepip without its package.
    return importlib.util.find_spec("ensurepip") is not None
