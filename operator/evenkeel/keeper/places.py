"""Which of the volumes that the operator names can be believed: directories of other sizes share none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from evenkeel.domain.exchange import BrokerPlace, Fault
from evenkeel.keeper.measurement import Measurement
from evenkeel.reasons import Reason


def believe_places(
    places: Iterable[BrokerPlace], measurement: Measurement
) -> tuple[tuple[BrokerPlace, ...], list[Fault]]:
    """The places without volumes that hold directories of different sizes, and a fault for each of these.

    One file system tells one size. Planned as one, two disks would count as the larger of them, which is as full
    as the fuller: writes would be kept off an empty disk, or sent to a full one.

    Args:
        places: where brokers run, as the operator found it.
        measurement: last known answers included.
    """
    places = tuple(places)
    holders: dict[str, dict[int, tuple[int, str]]] = {}
    sizes = _sizes(measurement)
    for place in places:
        for path, volume in place.volumes.items():
            total = sizes.get((place.broker, path))
            if total is not None:
                holders.setdefault(volume, {}).setdefault(total, (place.broker, path))
    odd = {volume: found for volume, found in holders.items() if len(found) > 1}
    if not odd:
        return places, []
    believed = tuple(
        replace(place, volumes={path: volume for path, volume in place.volumes.items() if volume not in odd})
        for place in places
    )
    return believed, [_build_fault(volume, sorted(found.values())) for volume, found in sorted(odd.items())]


def _sizes(measurement: Measurement) -> dict[tuple[int, str], int]:
    return {
        (broker, entry.path): entry.total_bytes
        for broker, dirs in measurement.dirs.items()
        if isinstance(dirs, tuple)
        for entry in dirs
        if entry.online and entry.total_bytes is not None
    }


def _build_fault(volume: str, holders: list[tuple[int, str]]) -> Fault:
    (broker, path), (other, another) = holders[:2]
    message = (
        f"{path} of broker {broker} and {another} of broker {other} lie on volume {volume} by spec.brokers, but have "
        "different sizes: they are planned as volumes of their own"
    )
    return Fault(Reason.MEASUREMENT_INCOMPLETE, message, f"volume/{volume}")
