"""Small tables of queries and scores for which the right answer is known."""

import numpy as np
import pandas as pd

FIELDS = np.array(["law", "math", "music", "physics"])


def small_table(n=400, seed=0, gain=0.35):
    """Queries with a field, a size and a text; in maths and physics the second model is better by ``gain``.

    Returns the table, chances of being right (n, 3), answers (n, 3) and costs (3,).
    """
    rng = np.random.default_rng(seed)
    field = rng.choice(FIELDS, n)
    hard = np.isin(field, ["math", "physics"])
    words = np.where(hard, "compute the number of", "who was the author of")
    ends = rng.choice(["apples", "songs", "courts", "waves"], n)
    X = pd.DataFrame(
        {
            "field": field,
            "size": rng.normal(size=n),
            "question": [f"{a} {b}" for a, b in zip(words, ends, strict=True)],
        }
    )
    level = 0.55 + 0.1 * np.tanh(X["size"].to_numpy())
    chance = np.clip(np.c_[level + 0.05, level + np.where(hard, gain, -gain), level - 0.2], 0.02, 0.98)
    return X, chance, (rng.random(chance.shape) < chance).astype(float), np.array([1.0, 2.0, 0.1])


def folds_of(n, k=4, seed=0):
    return np.array_split(np.random.default_rng(seed).permutation(n), k)
