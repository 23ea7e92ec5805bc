"""Fits of the list that several settings share, made once: those that differ only in how its members are weighed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import joblib

from gatewise.router import learning


@contextmanager
def lists_once() -> Iterator[dict[str, Any]]:
    """Within it a list is fitted once to the same rows; what is yielded holds the fits by what they depend on."""
    fit_lists, kept = learning.fit_lists, {}

    def remembered(*given: Any) -> Any:
        key = str(joblib.hash((*given[:6], *given[7:])))  # all but the purpose
        if key not in kept:
            kept[key] = fit_lists(*given)
        return kept[key]

    with patch.object(learning, "fit_lists", remembered):
        yield kept
