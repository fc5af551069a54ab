"""Numbers in the words of the report."""

from __future__ import annotations


def figure_of(number: float, digits: int = 3) -> str:
    """Format a number with ``digits`` significant digits, separated thousands, and an exponent only if needed.

    >>> [figure_of(x) for x in (12345.6, 0.012345, 7.0, 1e-9, float("nan"))]
    ['12,346', '0.0123', '7', '1e-09', 'not known']
    """
    if number != number:
        return "not known"
    if number == 0 or 1e-4 <= abs(number) < 10 ** (digits + 6):
        if abs(number) >= 10**digits:
            return f"{number:,.0f}"
        rounded = f"{number:.{digits}g}"
        return f"{float(rounded):f}".rstrip("0").rstrip(".") if "e" in rounded else rounded
    return f"{number:.{digits}g}"


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
