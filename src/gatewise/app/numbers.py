"""Numbers as a person would write them."""

from math import floor, isfinite, log10

from gatewise.geometry import Interval


def short_number(value: float) -> str:
    """Four digits, without an exponent where a person would write none.

    >>> short_number(54093.2), short_number(0.12345), short_number(-81234567890.0), short_number(0.0000123)
    ('54,093', '0.1235', '-81.23 billion', '0.0000123')
    """
    size = abs(value)
    if 1e9 <= size < 1e15:
        unit, word = (1e12, "trillion") if size >= 1e12 else (1e9, "billion")
        return f"{value / unit:.4g} {word}"
    if 1e-8 < size < 1e-4:
        return f"{value:.{2 - floor(log10(size))}f}"
    return f"{value:,.0f}" if 1000 <= size < 1e9 else f"{value:.4g}"


def percent(share: Interval, space: str = " ") -> str:
    """A fraction and its interval in percent, as text; a question mark for an end that is not finite.

    >>> percent(Interval(0.1, -0.02, 0.22)), percent(Interval(0.1, float("-inf"), 0.22))
    ('+10.0 % (-2.0 to +22.0)', '+10.0 % (? to +22.0)')
    """
    value, low, high = (f"{100 * end:+.1f}" if isfinite(end) else "?" for end in share)
    return f"{value}{space}% ({low} to {high})"
