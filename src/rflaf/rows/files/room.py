"""How much of a table is looked at together before a fit, as arithmetic on its memory.

Blocks that are summed are planned in `rflaf.training.memory`, when the table is known; the look that makes it known
needs

    fixed + rows * row_bytes        bytes,    rows looked at together

and a memory that does not hold a few rows is refused before anything is read.
"""

from __future__ import annotations

from rflaf.errors import MemoryBudgetError
from rflaf.rows.blocks import LEAST_ROWS

_ENOUGH_BYTES = 2**22  # to look at together
_MARGIN = 2**19  # small things


def rows_together(row_bytes: int, fixed: int, memory: int | None) -> int:
    """Rows to look at together.

    >>> rows_together(1000, 0, None)
    4194
    >>> rows_together(1000, 10**6, 2 * 10**6)
    475
    """
    enough = max(LEAST_ROWS, _ENOUGH_BYTES // row_bytes)
    if memory is None:
        return enough
    refuse_less(memory, fixed + LEAST_ROWS * row_bytes)
    return min(enough, (memory - fixed - _MARGIN) // row_bytes)


def refuse_less(memory: int, needed: int) -> None:
    """Refuse a memory that does not hold what the look needs, and small things."""
    least = needed + _MARGIN
    if memory < least:
        raise MemoryBudgetError(
            f"memory must hold the first look at the files of {least} bytes",
            memory,
            f"Allow at least {least} bytes, or choose fewer columns.",
        )
