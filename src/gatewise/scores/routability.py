"""What a perfect router would reach, and how much of that is the luck of single answers.

The perfect router of a table looks at the scores first: mean_i max_m score_im. Where a model is right by chance, it
collects that chance, too, which no router can forecast. With repeated scores the luck is measured; without, it is
bounded under a stated assumption.
"""

from dataclasses import dataclass

import numpy as np

from gatewise.arrays import Floats
from gatewise.scores.answer_model import fit_answers

N_SHUFFLES = 5


@dataclass(frozen=True)
class Routability:
    """How far a pool can be routed.

    best_single, router
        Mean scores of the best single model, and of the router on held-out queries.
    perfect
        What a router would reach that sees the scores before it decides.
    by_luck
        What that router would reach if nothing could be routed: the best model were the same for every query.
    low, high
        Bounds of what a router could reach that knows every query's expected scores.
    assumption
        What ``by_luck`` and the bounds rest on.
    """

    best_single: float
    router: float
    perfect: float
    by_luck: float
    low: float
    high: float
    assumption: str

    @property
    def luck_share(self) -> float:
        """The fraction of the distance from the best single model to the perfect router that luck can explain.

        What is known to be routable, up to ``low``, is not luck.
        """
        reach = self.perfect - self.best_single
        luck = min(self.by_luck - self.best_single, self.perfect - self.low)
        return max(0.0, luck / reach) if reach > 0.0 else 0.0

    def __str__(self) -> str:
        reached = f"best single {self.best_single:.3f}, router {self.router:.3f}, perfect router {self.perfect:.3f}"
        luck = f"{self.by_luck:.3f} by luck alone ({self.luck_share:.0%} of the distance can be luck)"
        bounds = f"a router that knew all expected scores reaches {self.low:.3f} to {self.high:.3f}"
        return f"{reached}, {luck}; {bounds} ({self.assumption})"


def measure_routability(scores: Floats, router: float, repeats: Floats | None = None) -> Routability:
    """Routability from scores (n, M), the router's held-out mean score, and repeated scores (n, M, R) if there are.

    >>> scores = np.array([[1.0, 0.0], [0.0, 1.0]] * 50)
    >>> measure_routability(scores, 1.0, np.repeat(scores[:, :, None], 2, axis=2)).luck_share
    0.0
    """
    single = float(scores.mean(axis=0).max())
    if repeats is not None:
        return _repeated(repeats, single, router)
    perfect = max(single, float(scores.max(axis=1).mean()))
    if set(np.unique(scores)) <= {0.0, 1.0}:
        luck = fit_answers(scores).best_of_all()
        words = "luck, if answers to a query are independent given its difficulty; the bounds assume nothing"
    else:
        luck = luck_of_residuals(scores)
        words = (
            "luck, if deviations from model plus query are exchangeable between queries; the bounds assume nothing"
        )
    luck = min(max(luck, single), perfect)
    return Routability(single, router, perfect, luck, max(single, router), perfect, words)


def _repeated(repeats: Floats, single: float, router: float) -> Routability:
    """With repeats the luck is what is lost when a query's best model is asked again, exact in the mean."""
    n, _, R = repeats.shape
    rows, tie = np.arange(n), 1e-9 * repeats.mean(axis=(0, 2))
    perfect, again, low = 0.0, 0.0, 0.0
    for r in range(R):
        other = np.delete(repeats, r, axis=2)
        perfect += float(repeats[:, :, r].max(axis=1).mean()) / R
        again += float(other[rows, (repeats[:, :, r] + tie).argmax(axis=1)].mean()) / R
        low += float(repeats[rows, (other.mean(axis=2) + tie).argmax(axis=1), r].mean()) / R
    high = float(repeats.mean(axis=2).max(axis=1).mean())
    by_luck = single + max(0.0, perfect - again)
    words = "repeated scores of a query are independent draws"
    return Routability(
        single, router, perfect, min(by_luck, perfect), max(low, single, router), max(high, single, router), words
    )


def luck_of_residuals(scores: Floats) -> float:
    """What a perfect router reaches when deviations from model plus query effects are shuffled between queries."""
    effects = scores.mean(axis=0) + scores.mean(axis=1, keepdims=True) - scores.mean()
    residual, rng = scores - effects, np.random.default_rng(0)
    shuffled = [effects + rng.permuted(residual, axis=0) for _ in range(N_SHUFFLES)]
    return float(np.mean([np.clip(one, scores.min(), scores.max()).max(axis=1).mean() for one in shuffled]))
