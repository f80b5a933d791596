"""What the ingest of the example dataset will write, packed here by the ingest's own code."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

from evenkeel.api.training_dataset import TrainingDataset
from evenkeel.domain.job import BadRecordPolicy, DatasetRef, ProducerSettings
from evenkeel.format.arrow import schema_digest
from evenkeel.ingest.headers import MessageIdentity
from evenkeel.ingest.packing import Packer
from evenkeel.ingest.plan import build_layout, build_schema
from evenkeel.ingest.sources import list_source

Headers = list[tuple[str, str | bytes | None]]


@dataclass(frozen=True)
class Load:
    """All messages of a dataset."""

    settings: ProducerSettings
    messages: tuple[tuple[bytes, Headers], ...]
    planned_bytes: int
    """On disk in one replica, as the plan record will say."""
    objects: int
    """Records in the source."""

    @property
    def value_bytes(self) -> int:
        """Sum of the messages' values."""
        return sum(len(value) for value, _ in self.messages)


def read_dataset(path: Path) -> TrainingDataset:
    """The TrainingDataset in a file of examples/."""
    documents = yaml.safe_load_all(path.read_text())
    (found,) = (item for item in documents if item and item.get("kind") == "TrainingDataset")
    return TrainingDataset.model_validate(found)


def build_settings(dataset: TrainingDataset, source: Path) -> ProducerSettings:
    """What the operator would tell its producers; the seed changes the order only."""
    ingest = dataset.spec.ingest
    return ProducerSettings(
        source_path=str(source),
        format=dataset.spec.source.format,
        order=ingest.order,
        message_bytes=ingest.message_size,
        max_record_bytes=ingest.max_record_size,
        on_bad_record=ingest.on_bad_record,
        compression=ingest.compression,
        workers=ingest.parallelism,
    )


def count_source(dataset: TrainingDataset, source: Path) -> int:
    """Records that the dataset's source holds."""
    return len(list_source(build_settings(dataset, source)).objects)


def pack(dataset: TrainingDataset, source: Path) -> Load:
    """Pack every record of `source`; about as many bytes of memory as the source has.

    Raises:
        InputError: the source cannot be ingested.
    """
    settings = build_settings(dataset, source)
    listing = list_source(settings)
    layout = build_layout(listing, settings)
    packer = Packer(listing, build_schema(listing, settings.format), settings)
    digest = schema_digest(layout.schema)
    messages: list[tuple[bytes, Headers]] = []
    for message in (item for part in layout.slices for item in part):
        packed = packer.pack(message)
        if packed.rejected and settings.on_bad_record is BadRecordPolicy.FAIL:
            raise ValueError(packed.rejected[0].message)
        if packed.records:
            identity = MessageIdentity(
                "twin", digest, 0, message.slice, message.first, packed.records, packed.digest
            )
            messages.append((packed.value, [*identity.encode()]))
    return Load(settings, tuple(messages), layout.planned_bytes, len(listing.objects))


def placeholder(topic: str) -> DatasetRef:
    """A dataset whose data topic is `topic`: what the ingest's client settings are made from."""
    return DatasetRef("twin", "", "twin", topic, topic, topic, topic)
