"""Multinomial logistic regression with a ridge penalty."""

import numpy as np
from scipy.optimize import minimize

from gatewise.arrays import Floats, Indices

OFFSET_SPREAD = 3.0  # prior standard deviation of the offsets of the classes: a class without rows keeps some chance
MOST_STEPS = 200


def class_log_probabilities(columns: Floats, theta: Floats, base: Floats | float = 0.0) -> Floats:
    """log p(c | x) (n, C) with scores base_c + theta_c0 + columns . theta_c.

    The columns are (n, p), theta is (C, 1 + p), and the base, if there is one, (n, C).
    """
    scores = base + columns @ theta[:, 1:].T + theta[:, 0]
    scores -= scores.max(axis=1, keepdims=True)
    return np.asarray(scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)))


def multinomial_ridge(
    columns: Floats,
    outcome: Indices,
    sample_weight: Floats,
    n_classes: int,
    spread: float,
    base: Floats | float = 0.0,
) -> Floats:
    """The parameters (C, 1 + p) of a multinomial logistic regression on columns (n, p), beside a base (n, C).

    Minimised is sum_i w_i (-log p(y_i | x_i)) + |slopes|^2 / (2 spread^2) + |offsets|^2 / (2 OFFSET_SPREAD^2), which
    is convex; ``outcome`` (n,) are the numbers of the classes.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(2000, 1))
    >>> outcome = (rng.uniform(size=2000) < 1 / (1 + np.exp(-2 * x[:, 0]))).astype(int)
    >>> theta = multinomial_ridge(x, outcome, np.ones(2000), 2, 10.0)
    >>> (theta[1] - theta[0]).round(0)
    array([0., 2.])
    """
    n, p = columns.shape
    design, seen = np.column_stack([np.ones(n), columns]), np.eye(n_classes)[outcome]
    precision = np.append(OFFSET_SPREAD**-2.0, np.full(p, spread**-2.0))

    def objective(flat: Floats) -> tuple[float, Floats]:
        theta = flat.reshape(n_classes, 1 + p)
        logs = class_log_probabilities(columns, theta, base)
        value = -sample_weight @ logs[np.arange(n), outcome] + 0.5 * (precision * theta**2).sum()
        gradient = ((np.exp(logs) - seen) * sample_weight[:, None]).T @ design + precision * theta
        return float(value), gradient.ravel()

    found = minimize(
        objective, np.zeros(n_classes * (1 + p)), jac=True, method="L-BFGS-B", options={"maxiter": MOST_STEPS}
    )
    return np.asarray(found.x.reshape(n_classes, 1 + p))
