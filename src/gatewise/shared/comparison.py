"""Does a shared component pay? Two methods side by side on held-out rows."""

from dataclasses import dataclass
from typing import Any

from sklearn.base import clone

from gatewise.arrays import as_vector
from gatewise.stats import mean_and_error


@dataclass(frozen=True, repr=False)
class Comparison:
    """Cross-validated mean squared errors of a shared-routed model and its pure-routed counterpart.

    ``gain`` is pure minus shared, ``gain_se`` the standard error of its mean over rows: it takes the rows' errors for
    independent, though models of different folds share rows, so read two of them as a rule of thumb.
    """

    method: str
    folds: int
    shared_mse: float
    shared_se: float
    pure_mse: float
    pure_se: float
    gain: float
    gain_se: float

    @property
    def verdict(self) -> str:
        """Whether a shared component pays: the gain against two of its standard errors."""
        if self.gain > 2.0 * self.gain_se:
            return "a shared component pays"
        if self.gain < -2.0 * self.gain_se:
            return "a shared component does not pay: the pure-routed model is better"
        return "no clear difference: take the pure-routed model unless the shared part is of interest"

    def __repr__(self) -> str:
        return "\n".join(
            [
                f"{self.folds}-fold cross-validation   mean squared error (standard error)",
                f"  {self.method:<24} {self.shared_mse:.4g} ({self.shared_se:.2g})",
                f"  {'pure':<24} {self.pure_mse:.4g} ({self.pure_se:.2g})",
                f"  {'gain by sharing':<24} {self.gain:.4g} ({self.gain_se:.2g})",
                f"verdict: {self.verdict}",
            ]
        )


def compare_methods(model: Any, X: Any, y: Any, folds: int, seed: int) -> Comparison:
    """Cross-validate the model and its pure-routed counterpart on the same folds.

    A model whose own method is "pure" is compared as its "joint" counterpart.
    """
    from sklearn.model_selection import cross_val_predict, KFold  # noqa: PLC0415 - slow to import

    target = as_vector(y, "y")
    ours = clone(model)
    if ours.method == "pure":
        ours.set_params(method="joint")
    pure = clone(ours).set_params(**_pure_params(ours))
    cv = KFold(folds, shuffle=True, random_state=seed)
    errors = [(cross_val_predict(m, X, target, cv=cv) - target) ** 2 for m in (ours, pure)]
    (a, a_se), (b, b_se), (gain, gain_se) = (mean_and_error(e) for e in (*errors, errors[1] - errors[0]))
    name = ours.method if isinstance(ours.method, str) else "backfit"
    return Comparison(name, folds, a, a_se, b, b_se, gain, gain_se)


def _pure_params(model: Any) -> dict[str, Any]:
    """The pure-routed counterpart of general learners is backfitting with a shared learner that predicts 0."""
    if isinstance(model.method, str) and model.method != "backfit":
        return {"method": "pure"}
    from sklearn.dummy import DummyRegressor  # noqa: PLC0415 - seldom needed

    return {"shared": DummyRegressor(strategy="constant", constant=0.0)}
