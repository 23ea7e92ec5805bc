"""Numbers as a person would write them."""


def short_number(value: float) -> str:
    """Four digits, without an exponent where a person would write none.

    >>> short_number(54093.2), short_number(0.12345)
    ('54,093', '0.1235')
    """
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"
