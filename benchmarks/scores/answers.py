"""The table of questions and answers, where it lies, and the made-up prices of the study."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gatewise.arrays import Floats
from gatewise.scores.queries import Queries, QueryReader

VARIABLE = "GATEWISE_MMLU_PRO"
BESIDE = Path(__file__).parents[3] / "shared" / "data" / "mmlu_pro_models.parquet"
COLUMNS = ["category", "source", "question", "options"]
# Price per character of an answer, made up: the first text that a model's name holds decides.
PRICES = (
    ("gemini-1.5-pro", 10.0),
    ("jamba", 8.0),
    ("70B", 0.9),
    ("70b", 0.9),
    ("72B", 0.9),
    ("110B", 0.9),
    ("34B", 0.8),
    ("command-r", 0.8),
    ("8x7B", 0.6),
    ("flash", 0.6),
    ("13b", 0.3),
    ("", 0.2),
)


class Answers(NamedTuple):
    """Questions as a table, right answers (n, M) and costs (n, M) of the models."""

    X: Any
    names: tuple[str, ...]
    right: Floats
    costs: Floats


def read_answers(path: Path | None = None) -> Answers | None:
    """The table at a path, where GATEWISE_MMLU_PRO says, or beside the repository; None if there is none."""
    place = path or Path(os.environ.get(VARIABLE, BESIDE))
    if not place.is_file():
        print(f"skipped: {place} is not there; {VARIABLE} or --data says where the table of answers lies")
        return None
    frame = pd.read_parquet(place)
    names = tuple(str(name)[6:] for name in frame.columns if str(name).startswith("right/"))
    price = np.array([next(price for part, price in PRICES if part in name) for name in names])
    right = frame[[f"right/{name}" for name in names]].to_numpy(dtype=np.float64)
    lengths = frame[[f"length/{name}" for name in names]].to_numpy(dtype=np.float64)
    return Answers(frame[COLUMNS], names, right, lengths * price)


def read_features(answers: Answers) -> tuple[QueryReader, Queries]:
    """What the router sees of all questions: it is computed once, and without any answer."""
    return QueryReader.fit(answers.X, "auto", "auto", n_components=60, seed=0)
