"""Do experts become specialists while they are trained with their gate? The test of specialization along training."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gatewise.arrays import as_rows, Floats
from gatewise.geometry.specialization import Specialization, specialization


class HistoryStep(NamedTuple):
    """One stage of training: the specialists, their part of the rows, and the smallest adjusted p-value.

    ``advantage`` is the mean, over the rows, of the loss of the runner-up less that of the expert that was chosen;
    ``mixture`` the mean loss of the experts by the gate's weights; ``load`` (M,) the mean weight of every expert.
    """

    special: tuple[int, ...]
    rows_of_specialists: float
    p_value: float
    advantage: float
    mixture: float
    load: Floats
    report: Specialization


class SpecializationHistory:
    """Collects the test of specialization at every stage of training.

    Call `add` with losses of rows that no expert of that stage was fitted to, and the gate's weights there: those of
    a round of ``MoERegressor(specialize=n)``, of an epoch of a neural layer (the losses of all experts at held-out
    tokens, and what the router gave), or of a training loop of one's own. The tests of several stages are not
    adjusted for each other.

    >>> rng = np.random.default_rng(0)
    >>> where, history = rng.integers(2, size=400), SpecializationHistory()
    >>> for gap in (0.0, 1.0):  # the experts differ more at the second stage
    ...     _ = history.add(rng.normal(size=(400, 2)) ** 2 + gap * np.eye(2)[1 - where], np.eye(2)[where])
    >>> [step.special for step in history.steps]
    [(), (0, 1)]
    """

    def __init__(self, alpha: float = 0.05, seed: int = 0) -> None:
        self.alpha, self.seed = alpha, seed
        self.steps: list[HistoryStep] = []

    def add(self, losses: ArrayLike, weights: ArrayLike) -> HistoryStep:
        """Test a stage: losses (n, M) of all experts at held-out rows, and the gate's weights there (n, M)."""
        table, gate = as_rows(losses, "losses"), as_rows(weights, "weights")
        report = specialization(table, gate, alpha=self.alpha, seed=self.seed)
        leader = gate.argmax(axis=1)
        own = table[np.arange(len(table)), leader]
        others = np.where(np.eye(table.shape[1], dtype=bool)[leader], np.inf, table)
        step = HistoryStep(
            report.special,
            float(np.isin(leader, report.special).mean()),
            min(expert.adjusted for expert in report.experts),
            float((others.min(axis=1) - own).mean()) if table.shape[1] > 1 else 0.0,
            float((gate * table).sum(axis=1).mean()),
            gate.mean(axis=0),
            report,
        )
        self.steps.append(step)
        return step

    def table(self) -> list[dict[str, Any]]:
        """The stages as plain values."""
        return [
            {
                "step": number,
                "specialists": len(step.special),
                "rows_of_specialists": step.rows_of_specialists,
                "p_value": step.p_value,
                "advantage": step.advantage,
                "mixture": step.mixture,
                "load": step.load.tolist(),
            }
            for number, step in enumerate(self.steps)
        ]


def specialization_history(
    stages: Iterable[tuple[ArrayLike, ArrayLike]], alpha: float = 0.05, seed: int = 0
) -> SpecializationHistory:
    """The history of stages (losses (n, M), weights (n, M)), such as the rounds that an estimator kept."""
    history = SpecializationHistory(alpha, seed)
    for losses, weights in stages:
        history.add(losses, weights)
    return history
