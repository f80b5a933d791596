"""Read a sealed revision in training pods: every live record once per epoch, resumable at any world size."""

from evenkeel.reader.dataset import Batch, Dataset, Tail

__all__ = ["Batch", "Dataset", "Tail"]
