"""Checks of the plain numbers that the bounds take."""

from math import isfinite
from typing import Any


def not_negative(value: Any, name: str) -> float:
    """value as a finite number of at least zero."""
    number = float(value)
    if not (isfinite(number) and number >= 0):
        raise ValueError(f"{name} must be a finite number of at least 0, not {value!r}")
    return number


def inside(value: Any, name: str, low: float, high: float) -> float:
    """value as a number strictly between low and high.

    >>> inside(1.5, "separation", 0.0, 1.0)
    Traceback (most recent call last):
        ...
    ValueError: separation must lie strictly between 0 and 1, not 1.5
    """
    number = float(value)
    if not low < number < high:
        raise ValueError(f"{name} must lie strictly between {low:g} and {high:g}, not {value!r}")
    return number
