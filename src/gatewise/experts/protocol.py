"""What an expert is, and how one is asked."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from gatewise.arrays import Floats


class Predictor(Protocol):
    """Anything with scikit-learn's ``predict``."""

    def predict(self, X: Any, /) -> Any:
        """One prediction per row of X, (n,)."""
        ...


Expert = Predictor | Callable[[Any], ArrayLike]


def expert_predictions(expert: Expert, X: Any, label: str = "expert") -> Floats:
    """The predictions of one expert, (n,), checked; ``label`` names it in an error.

    >>> expert_predictions(lambda X: X[:, 0] + 1.0, np.zeros((2, 1)))
    array([1., 1.])
    """
    who = f"{label} ({_describe(expert)})"
    ask = getattr(expert, "predict", expert)
    if not callable(ask):
        raise TypeError(f"{who} must have predict(X) or be a callable X -> (n,)")
    try:
        answer = ask(X)
    except Exception as error:
        raise RuntimeError(f"{who} failed to predict: {error}") from error
    try:
        predictions = np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{who} must return numbers: {error}") from error
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    if predictions.shape != (n,):
        raise ValueError(f"{who} must return shape ({n},), one number per row, not {predictions.shape}")
    if not np.isfinite(predictions).all():
        row = int(np.argmin(np.isfinite(predictions)))
        raise ValueError(f"{who} must return finite numbers, but gave {predictions[row]} at row {row}")
    return predictions


def expert_matrix(experts: Sequence[Expert], X: Any, name: str = "experts") -> Floats:
    """The predictions of every expert, (n, M); an error names the expert at fault.

    >>> from gatewise.experts import ConstantExpert
    >>> expert_matrix([ConstantExpert(1.0), ConstantExpert(2.0)], np.zeros((3, 1)))
    array([[1., 2.],
           [1., 2.],
           [1., 2.]])
    """
    if len(experts) == 0:
        raise ValueError(f"{name} must hold at least one expert")
    columns = [expert_predictions(expert, X, f"{name}[{m}]") for m, expert in enumerate(experts)]
    return np.stack(columns, axis=1)


def _describe(expert: Expert) -> str:
    return getattr(expert, "__name__", type(expert).__name__)
