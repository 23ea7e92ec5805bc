"""Whether a target asks for numbers or for classes."""

from typing import Any, Literal

import numpy as np

from gatewise.app.models.cell_values import padded_codes, strange_numbers, word_numbers
from gatewise.app.models.tables import check_columns
from gatewise.arrays import Floats

Task = Literal["regression", "classification"]
TASKS: tuple[Task, ...] = ("regression", "classification")
FEW = 5  # different whole numbers, at most: such a target is taken for classes
SEVERAL = 10  # at most, each in many rows: such a target is taken for a number, and a note says so
SLIPS = 0.1  # of the values: if fewer are no numbers, the target is a number with slips
NUMBER = "is taken for a number; --task classification takes it for classes"
MANY_ROWS = 20  # for each of the different numbers: on average for few of them, and at least for several


def find_task(frame: Any, target: str) -> tuple[Task, str]:
    """What a target asks for, and a note where that was guessed, as it has few or several different whole numbers.

    Text, and true and false, are classes; numbers are responses, unless they are few different whole ones in many
    rows. Infinity is no class: a target with it is left to the checks of numbers.

    >>> import pandas as pd
    >>> find_task(pd.DataFrame({"y": ["a", "b"]}), "y")
    ('classification', '')
    >>> find_task(pd.DataFrame({"y": [0.5, 2.0]}), "y")
    ('regression', '')
    """
    check_columns(frame, [target], "target")
    values = frame[target].dropna()
    if values.dtype.kind == "b":
        return "classification", ""
    if values.dtype.kind == "O":
        found = word_numbers(values, frame.attrs.get("decimal", "."))
        if found is None:  # numbers with some slips among them are not meant as classes
            slips = strange_numbers(values, frame.attrs.get("decimal", "."))
            return ("regression" if 0 < len(slips) <= SLIPS * len(values) else "classification"), ""
        padded, values = padded_codes(values), found.values.dropna()
        task, note = _task_of_numbers(values.to_numpy(dtype=np.float64), target)
        if len(padded) and task == "regression" and not note:
            note = f"target {target!r} has values such as {padded.iloc[0]!r} and {NUMBER}"
        return task, note
    if values.dtype.kind not in "iuf":
        return "regression", ""
    return _task_of_numbers(values.to_numpy(dtype=np.float64), target)


def _task_of_numbers(numbers: Floats, target: str) -> tuple[Task, str]:
    """What a target of numbers (n,) asks for, and a note where that was guessed."""
    different, counts = np.unique(numbers, return_counts=True)
    if len(different) > SEVERAL or not np.isfinite(different).all() or (different % 1 != 0).any():
        return "regression", ""
    found = f"target {target!r} has {len(different)} different whole numbers"
    if len(different) > FEW:
        return "regression", f"{found} and {NUMBER}" if counts.min() >= MANY_ROWS else ""
    if len(numbers) < MANY_ROWS * len(different):
        return "regression", f"{found} in {len(numbers)} rows, fewer than {MANY_ROWS} for each, and {NUMBER}"
    return "classification", f"{found} and is taken for classes; --task regression takes it for a number"


def checked_task(task: str) -> Task:
    """A task by its name, or an error."""
    for known in TASKS:
        if task == known:
            return known
    raise ValueError(f"task must be one of {', '.join(TASKS)}, not {task!r}")
