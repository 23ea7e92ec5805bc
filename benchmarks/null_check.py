"""``python -m benchmarks.null_check``: in the null designs with fitted experts, is there really no gate to find?

Experts are fitted to n rows, as in `benchmarks.verdict`. Of 100,000 fresh rows one half teaches a router over their
forecasts, once with all gates and once with answers whose weights are the same for every row, and the other half
judges both. The gain is the share of the mean squared error that gates save there, with its standard error.
"""

import numpy as np
from sklearn.base import clone

import gatewise as gw
from benchmarks.command import start
from benchmarks.timing import save
from benchmarks.verdict_designs import D, NULLS, VerdictDesign
from gatewise.app.terminal import console
from gatewise.arrays import Floats
from gatewise.experts import ColumnExpert
from gatewise.router.settings import MoESettings

SIZES, FRESH = (100, 300, 1000), 100_000


def gain(design: VerdictDesign, n: int, seed: int = 0) -> dict[str, float]:
    """What gates learned from half of the fresh rows save on the other half, with its standard error."""
    rng = np.random.default_rng([seed, n])
    X, y = design.draw(n, rng)
    experts = [clone(expert).fit(X, y) for _, expert in design.experts]
    fresh, response = design.draw(FRESH, rng)
    rows = np.column_stack([fresh, *(expert.predict(fresh) for expert in experts)])
    half = FRESH // 2
    losses: list[Floats] = []
    for gates in ("auto", ()):
        columns = [(f"f{m}", ColumnExpert(D + m)) for m in range(len(experts))]
        settings = MoESettings(test=False, learners=())
        router = gw.MoERegressor(columns, gates=gates, cv="prefit", random_state=seed, settings=settings)
        router.fit(rows[:half], response[:half])
        losses.append((response[half:] - router.predict(rows[half:])) ** 2)
    gated, plain = losses
    saved = (plain - gated) / plain.mean()
    return {"gain": float(saved.mean()), "error": float(saved.std() / np.sqrt(half))}


def main() -> None:
    """Print and file the gain of every design and size."""
    rows = []
    for name, design in NULLS.items():
        for n in SIZES if not design.given else ():
            rows.append({"design": name, "n": n, **gain(design, n)})
            console.print(rows[-1])
    save("null_check", {"fresh rows": FRESH, "rows": rows})


if __name__ == "__main__":
    start(main)
