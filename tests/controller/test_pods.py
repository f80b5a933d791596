from __future__ import annotations

import pytest

from evenkeel.api.meta import ResourceAmounts, Resources
from evenkeel.controller.pods import NAME_LIMIT, Size, build_resources, child_name

SIZE = Size(cpu="50m", memory="128Mi", memory_limit="512Mi")


def test_users_sizes_win_one_by_one() -> None:
    wanted = Resources(requests=ResourceAmounts(memory="1Gi"), limits=ResourceAmounts(cpu="2"))
    assert build_resources(SIZE, wanted) == {
        "requests": {"cpu": "50m", "memory": "1Gi"},
        "limits": {"memory": "512Mi", "cpu": "2"},
    }
    assert build_resources(SIZE, None)["limits"] == {"memory": "512Mi"}


@pytest.mark.parametrize("suffix", ["producer-0", "loader-abcdef01-123456-12"])
def test_names_stay_short_and_apart(suffix: str) -> None:
    first, second = (child_name("d" * 49 + end, suffix) for end in "ab")
    assert first != second
    assert max(len(first), len(second)) <= NAME_LIMIT
    assert first.endswith(suffix)
    assert child_name("short", suffix) == f"short-{suffix}"
