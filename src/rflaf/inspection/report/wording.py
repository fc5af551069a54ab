"""Numbers in the words of the report."""

from __future__ import annotations

from rflaf.estimators.metrics import figure_of

__all__ = ["count_of", "figure_of", "per_cent", "roughly", "share_of"]


def per_cent(share: float) -> str:
    """Format a share in per cent, with two digits below ten.

    >>> per_cent(0.27), per_cent(0.0432), per_cent(0.0004)
    ('27%', '4.3%', '0.04%')
    """
    return f"{100 * share:.0f}%" if share >= 0.0995 else f"{float(f'{100 * share:.2g}'):g}%"


def share_of(share: float) -> str:
    """Format a share in per cent with one digit after the point.

    >>> share_of(0.98234), share_of(-1e-5)
    ('98.2%', '0.0%')
    """
    words = f"{share:.1%}"
    return "0.0%" if words == "-0.0%" else words


def roughly(number: float) -> str:
    """Format a large number with two significant digits.

    >>> roughly(1_077_784), roughly(51_234), roughly(7.3)
    ('1.1 million', '51,000', '7.3')
    """
    if number >= 1e6:
        return f"{float(f'{number / 1e6:.2g}'):,.10g} million"
    return f"{float(f'{number:.2g}'):,.10g}"


def count_of(number: int, singular: str, plural: str | None = None) -> str:
    """Format a number with its noun.

    >>> count_of(1, "row"), count_of(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"
