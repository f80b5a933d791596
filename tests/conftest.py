"""What holds for all unit tests."""

from __future__ import annotations

from hypothesis import settings

# A busy machine is no failure: time limits per example fail at random there.
settings.register_profile("evenkeel", deadline=None)
settings.load_profile("evenkeel")
