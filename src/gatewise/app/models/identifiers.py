"""Columns that name a row and say nothing about it: identifiers and row numbers."""

import re
from typing import Any

import numpy as np

LEAST_ROWS = 20
NEARLY_ALL = 0.95  # of the texts differ: they name rows
_NAMES = re.compile(r"(.*[_ .-])?(id|key|uuid|guid|index|idx|row|rowid|nr|no|number|code)", re.IGNORECASE)


def identifier(name: str, values: Any, kind: str) -> str | None:
    """What a column looks like that only names its rows, or None.

    Whole numbers that count the rows from 0 or 1; different whole numbers or texts in every row under a name such as
    "id"; and texts nearly all of which differ. Numbers with decimals and dates are never taken for names.

    >>> import pandas as pd
    >>> identifier("n", pd.Series(range(1, 41)), "number")
    'a row number'
    >>> identifier("age", pd.Series([31, 44] * 20), "number")
    """
    seen = values.dropna()
    if len(seen) < LEAST_ROWS or kind == "date":
        return None
    different = seen.nunique()
    if kind == "number" and (seen.dtype.kind not in "iu" or different < len(values)):
        return None
    if kind == "number" and seen.iloc[0] in {0, 1} and (np.diff(seen.to_numpy()) == 1).all():
        return "a row number"
    if different == len(values) and _NAMES.fullmatch(name.strip()):
        return "an identifier"
    if kind == "text" and different >= NEARLY_ALL * len(seen):
        return f"a name of the row: {different:,} different texts in {len(seen):,} rows"
    return None
