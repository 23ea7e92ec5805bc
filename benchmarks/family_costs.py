"""``python -m benchmarks.family_costs``: what a family of the router's list costs where it does not help.

The truth is a mixture of three given forecasts with constant weights, which the convex stack learns: nothing else in
the list can be better. A family's cost is the mean over samples of log(MSE with it / MSE without it) on fresh rows,
once where it joins the plain answers and once where it is taken from the whole list.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log
from typing import Annotated, Any

import numpy as np
import typer
from joblib import delayed, Parallel

import gatewise as gw
from benchmarks.command import start
from benchmarks.timing import save
from benchmarks.verdict_designs import NULLS
from gatewise.app.terminal import console, Jobs
from gatewise.arrays import Floats
from gatewise.gates.registry import AUTOMATIC
from gatewise.router.candidates import PRIOR
from gatewise.router.settings import MoESettings

DESIGNS, SIZES, N_TEST = ("exact blend", "uneven noise"), (300, 1000), 20_000
GATES = tuple(name for name in AUTOMATIC if name != "tree")
LEARNERS = ("forest", "boosted", "products")


@dataclass(frozen=True)
class Families:
    """A list by the gates and learners that it has beside the plain answers."""

    gates: tuple[str, ...] = ()
    learners: tuple[str, ...] = ()

    def router(self, experts: Any, seed: int) -> gw.MoERegressor:
        """An unfitted router over this list; the test of gates touches no prediction."""
        settings = MoESettings(test=False, learners=self.learners)
        return gw.MoERegressor(experts, gates=self.gates, cv="prefit", random_state=seed, settings=settings)


PLAIN, WHOLE = Families(), Families(AUTOMATIC, LEARNERS)
ALONE: Mapping[str, Families] = {  # Top-K gates come with the softmax gates
    "softmax": Families(GATES),
    "tree": Families(("tree",)),
    **{name: Families((), (name,)) for name in LEARNERS},
    "all": WHOLE,
}
WITHOUT: Mapping[str, Families] = {
    "softmax": Families(("tree",), LEARNERS),
    "tree": Families(GATES, LEARNERS),
    **{name: Families(AUTOMATIC, tuple(other for other in LEARNERS if other != name)) for name in LEARNERS},
    "all": PLAIN,
}


def errors(design: str, n: int, seed: int) -> dict[Families, float]:
    """Mean squared errors on fresh rows of every list, fitted to one sample."""
    rng = np.random.default_rng([seed, n, DESIGNS.index(design)])
    null = NULLS[design]
    (X, y), (X_new, y_new) = null.draw(n, rng), null.draw(N_TEST, rng)
    lists = dict.fromkeys([PLAIN, WHOLE, *ALONE.values(), *WITHOUT.values()])
    return {
        one: float(np.mean((y_new - one.router(null.experts, seed).fit(X, y).predict(X_new)) ** 2)) for one in lists
    }


def cost(runs: list[dict[Families, float]], more: Families, less: Families) -> dict[str, float]:
    """The mean of log(MSE of the longer list / MSE of the shorter one), and its standard error."""
    logs: Floats = np.log([run[more] / run[less] for run in runs])
    return {"mean": float(logs.mean()), "error": float(logs.std(ddof=1) / np.sqrt(len(logs)))}


def main(
    reps: Annotated[int, typer.Option(min=2, help="Samples of every design and size.")] = 20,
    jobs: Jobs = -1,
) -> None:
    """What every family costs, alone and in the whole list."""
    rows = []
    for design in DESIGNS:
        for n in SIZES:
            runs = Parallel(jobs)(delayed(errors)(design, n, seed) for seed in range(reps))
            for family in ALONE:
                alone, joined = cost(runs, ALONE[family], PLAIN), cost(runs, WHOLE, WITHOUT[family])
                rows.append({"design": design, "n": n, "family": family, "alone": alone, "in the list": joined})
                console.print(rows[-1], soft_wrap=True)
    prices = {family: log(1.0 / weight) for family, weight in PRIOR.items()}
    save("family_costs", {"reps": reps, "prices": prices, "rows": rows})


if __name__ == "__main__":
    start(main)
