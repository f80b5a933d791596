"""Numbers as people read them: durations, shares, and bars of text."""

from __future__ import annotations

HELD, LEAVES, COMES, LIMIT, FREE = "█", "░", "▓", "┊", " "
"""Signs of a bar; told apart by shape, so that no colour is needed."""
BAR_WIDTH = 30


def tell_seconds(seconds: float | None) -> str:
    """Two significant digits of a handy unit; `?` where it is not known."""
    if seconds is None:
        return "?"
    if 0 < seconds < 1:
        return "< 1 s"
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f}".removesuffix(".0") + f" {unit}"
    return f"{seconds:.0f} s"


def tell_permille(permille: int | None) -> str:
    """Thousandths as percent; `?` where it is not known."""
    return "?" if permille is None else f"{permille / 10:.1f} %"


def count(number: int, noun: str) -> str:
    """`1 move`, `2 moves`, `2 batches`."""
    ending = "es" if noun.endswith("ch") else "s"
    return f"{number} {noun}" if number == 1 else f"{number} {noun}{ending}"


def draw_change(before: int, after: int, limit: int | None = None, width: int = BAR_WIDTH) -> str:
    """A volume as a bar: what stays, what leaves or comes, and the limit.

    Args:
        before: fill in thousandths of the capacity.
        after: the same after the moves.
        limit: fill that nothing may pass, in thousandths; None: none is shown.
        width: of 1000 thousandths, in signs.
    """
    now, then = (_signs(one, width) for one in (before, after))
    rest = COMES if then > now else LEAVES
    bar = list((HELD * min(now, then) + rest * abs(now - then)).ljust(width, FREE))
    if limit is not None:
        at = min(width - 1, _signs(limit, width))
        bar[at] = LIMIT if bar[at] == FREE else bar[at]
    return "".join(bar)


def draw_fill(fill: int | None, limit: int | None = None, width: int = BAR_WIDTH) -> str:
    """A volume's fill in thousandths as a bar; one that is not known is empty."""
    return draw_change(fill or 0, fill or 0, limit, width)


def _signs(permille: int, width: int) -> int:
    return max(0, min(width, round(permille * width / 1000)))
