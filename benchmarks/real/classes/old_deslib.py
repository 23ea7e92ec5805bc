"""What DESlib says beside a scikit-learn that it was made for, as a JSON file that a test compares with.

In an environment of its own: ``pip install DESlib==0.3.7 "scikit-learn==1.5.2" "numpy<2"``, then with its Python
``python benchmarks/real/classes/old_deslib.py tests/benchmarks/old_deslib.json``. Needs nothing of the package.
"""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

N, N_TEST, M = 60, 25, 4


def example(n_classes: int) -> tuple[Any, ...]:
    """Rows, held-out probabilities, classes, test rows and test probabilities; the legacy generator never changes."""
    rng = np.random.RandomState(n_classes)
    rows = rng.normal(size=(N + N_TEST, 3))
    outcome = rng.randint(n_classes, size=N + N_TEST)
    scores = rng.normal(size=(N + N_TEST, M, n_classes)) + 1.5 * np.eye(n_classes)[outcome][:, None, :]
    p = np.exp(scores)
    p /= p.sum(axis=2, keepdims=True)
    return rows[:N], p[:N], outcome[:N], rows[N:], p[N:]


def answers(select: Any, methods: Any) -> dict[str, Any]:
    """By method and number of classes: probabilities of the test rows."""
    found = {}
    for name in methods:
        for n_classes in (2, 3):
            rows, P, outcome, rows_test, Q = example(n_classes)
            found[f"{name}, {n_classes}"] = select(name, rows, P, outcome, rows_test, Q, 0).tolist()
    return found


def main() -> None:
    """Write the file."""
    spec = importlib.util.spec_from_file_location("selection", Path(__file__).with_name("dynamic_selection.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    import sklearn  # noqa: PLC0415 - the old one

    found = {"scikit-learn": sklearn.__version__, **answers(module.select_dynamically, module.METHODS)}
    Path(sys.argv[1]).write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
