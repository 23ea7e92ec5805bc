"""``python -m benchmarks.xray_levels``: how often do the tests of the X-ray raise a false alarm?

Documents of 64 tokens whose routing sticks to them: with probability sqrt(r) a token goes to the favourite expert of
its document, so that r is the intraclass correlation of "expert m is chosen"; losses and token classes stick to
documents in the same way, independently of the routing. Nominal is 5 %.
"""

import json
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, product
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from benchmarks.command import start
from gatewise.arrays import Floats, Indices
from gatewise.geometry import alignment, best_expert, specialization
from gatewise.nn.xray.ablation import risen
from gatewise.nn.xray.coactivation import coactivations
from gatewise.nn.xray.gate_regret import measured_regret
from gatewise.nn.xray.layer_trace import LayerTrace
from gatewise.nn.xray.random_routers import random_choices
from gatewise.nn.xray.redundancy import adjusted_substitutes, tested_substitutes
from gatewise.nn.xray.usage import measured_usage

DOCUMENTS, LENGTH, DRAWS, PART = 80, 64, 99, 25
CORRELATIONS = (0.0, 0.05, 0.2)
EXPERTS = (2, 8, 64)
FILE = Path(__file__).parent / "results" / "xray_levels.json"


def sticky_labels(rng: np.random.Generator, n_labels: int, correlation: float, length: int = LENGTH) -> Indices:
    """Labels (G T,) of tokens, equally frequent, with that intraclass correlation within documents."""
    favourite = rng.integers(n_labels, size=(DOCUMENTS, 1))
    stays = rng.uniform(size=(DOCUMENTS, length)) < np.sqrt(correlation)
    return np.where(stays, favourite, rng.integers(n_labels, size=(DOCUMENTS, length))).ravel()


def sticky_losses(rng: np.random.Generator, n_experts: int, correlation: float) -> Floats:
    """Losses (G T, M) of one distribution for all experts, with that intraclass correlation within documents."""
    common = rng.normal(size=(DOCUMENTS, 1, n_experts))
    own = rng.normal(size=(DOCUMENTS, LENGTH, n_experts))
    return (np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own).reshape(-1, n_experts)


def documents(length: int = LENGTH) -> Indices:
    """The document of every token, (G T,)."""
    return np.repeat(np.arange(DOCUMENTS), length)


def of_specialization(rng: np.random.Generator, n_experts: int, correlation: float) -> dict[str, float]:
    """The excess and the advantage of the first expert, any specialist among all, and alignment."""
    losses, labels = sticky_losses(rng, n_experts, correlation), sticky_labels(rng, n_experts, correlation)
    found = specialization(losses, labels, groups=documents(), seed=rng)
    first = found.experts[0]
    return {
        "excess of one expert": first.p_value if first.tested else np.nan,
        "advantage of one expert": first.p_positive if first.tested else np.nan,
        "any specialist": float(not found.special),  # as a p-value: 0 at a false alarm
        "alignment": alignment(labels, best_expert(losses), n_experts, groups=documents(), seed=rng).p_value,
    }


def of_tokens(rng: np.random.Generator, n_experts: int, correlation: float) -> dict[str, float]:
    """The same with tokens as units: what tests that do not know of documents do."""
    losses, labels = sticky_losses(rng, n_experts, correlation), sticky_labels(rng, n_experts, correlation)
    first = specialization(losses, labels, n_permutations=199, seed=rng).experts[0]
    aligned = alignment(labels, best_expert(losses), n_experts, n_permutations=199, seed=rng)
    return {
        "excess of one expert, tokens as units": first.p_value if first.tested else np.nan,
        "alignment, tokens as units": aligned.p_value,
    }


def of_usage(rng: np.random.Generator, n_experts: int, correlation: float) -> dict[str, float]:
    """Token classes and topics that have nothing to do with the routing: the layer, and any expert."""
    places, topics = sticky_labels(rng, n_experts, correlation)[:, None], rng.integers(4, size=DOCUMENTS)[documents()]
    layer = LayerTrace("layer", n_experts, places, np.ones(places.shape), np.zeros((len(places), 1), np.float32))
    found = {}
    for name, classes in (("token class", sticky_labels(rng, 5, correlation)), ("topic", topics)):
        used = measured_usage([layer], documents(), classes, tuple(range(5)), "chance", DRAWS, rng).layers[0]
        found[f"{name}, layer"] = used.total_p
        found[f"{name}, any expert"] = float(used.p_values.min()) if used.tested.any() else np.nan
    return found


def of_random_routers(rng: np.random.Generator, n_experts: int, correlation: float) -> dict[str, float]:
    """A router of random weights against others: hidden states stick to documents and know the token class."""
    classes = sticky_labels(rng, 5, correlation)
    hidden = sticky_losses(rng, 16, correlation) + rng.normal(size=(5, 16))[classes]
    load = rng.dirichlet(np.full(n_experts, 8.0))
    even = rng.choice(n_experts, size=(len(classes), 1), p=load)
    wanted, device = LayerTrace("layer", n_experts, even, np.ones(even.shape), hidden.astype(np.float32)), where()
    own = next(random_choices(wanted, 1, rng, device))
    layer = LayerTrace("layer", n_experts, own, np.ones(own.shape), wanted.hidden)
    used = measured_usage([layer], documents(), classes, tuple(range(5)), "router", 39, rng, device=device).layers[0]
    any_expert = float(used.p_values.min()) if used.tested.any() else np.nan
    return {"random router, layer": used.total_p, "random router, any expert": any_expert}


def where() -> str:
    """Random routers are drawn on the GPU where there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def of_pairs(rng: np.random.Generator, n_experts: int, correlation: float) -> dict[str, float]:
    """The favourite of the document, or one at random, and others at random: two experts a token, eight of 64.

    With 64 experts documents have 256 tokens: in 64 every pair is too rare to be tested.
    """
    if n_experts == 2:
        return {"any pair": np.nan}  # both are always active
    active, length = (8, 256) if n_experts > 8 else (2, LENGTH)
    one = sticky_labels(rng, n_experts, correlation, length)
    keys = rng.uniform(size=(len(one), n_experts))
    keys[np.arange(len(one)), one] = -1.0
    places = np.argpartition(keys, active, axis=1)[:, :active]
    layer = LayerTrace("layer", n_experts, places, np.ones(places.shape), np.zeros((len(one), 1), np.float32))
    found = coactivations([layer], np.zeros_like(one), documents(length), 199, rng)[0]
    return {"any pair": float(found.p_values.min()) if found.tested.any() else np.nan}


def of_substitutes(rng: np.random.Generator, n_experts: int, correlation: float) -> dict[str, float]:
    """Substitutes that cost the margin, on average: none may be called redundant."""
    labels = sticky_labels(rng, n_experts, correlation)
    rises = 0.01 + 0.1 * sticky_losses(rng, n_experts, correlation)
    layer = LayerTrace("layer", n_experts, labels[:, None], np.ones((len(labels), 1)), np.zeros((len(labels), 1)))
    rise = np.take_along_axis(rises, labels[:, None], axis=1)
    found = tested_substitutes(0, layer, np.zeros(n_experts, dtype=np.intp), rise, documents(), 0.01)
    first = found[0][1] if found[0][0].tested else np.nan
    return {"redundancy of one": first, "any redundant": min(one.adjusted for one in adjusted_substitutes(found))}


def of_routers(rng: np.random.Generator, n_experts: int, correlation: float) -> dict[str, float]:
    """No expert costs or gains anything, on average, anywhere; hidden states are noise that sticks to documents."""
    rises, hidden = sticky_losses(rng, n_experts, correlation), sticky_losses(rng, 16, correlation)
    barred = np.zeros(rises.shape, dtype=np.bool_)
    regret = measured_regret(0, hidden, rises, barred, documents(), rng)
    before, used = np.zeros(len(rises)), np.ones(len(rises), dtype=np.bool_)
    return {"gate regret": regret.adjusted, "ablation": risen(before, rises[:, 0], used, documents())[2]}


TESTS: dict[str, Callable[[np.random.Generator, int, float], dict[str, float]]] = {
    "specialization": of_specialization,
    "tokens": of_tokens,
    "usage": of_usage,
    "random routers": of_random_routers,
    "pairs": of_pairs,
    "substitutes": of_substitutes,
    "better routers": of_routers,
}


def drawn(name: str, n_experts: int, correlation: float, start: int, stop: int) -> list[dict[str, float]]:
    """The p-values of the draws from ``start`` to ``stop`` of a cell."""
    torch.set_num_threads(1)
    seeds = ([16, n_experts, round(1000 * correlation), draw] for draw in range(start, stop))
    return [TESTS[name](np.random.default_rng(seed), n_experts, correlation) for seed in seeds]


def level(name: str, n_experts: int, correlation: float, draws: int) -> dict[str, Any]:
    """A cell in one process."""
    return cell(n_experts, correlation, drawn(name, n_experts, correlation, 0, draws))


def cell(n_experts: int, correlation: float, made: list[dict[str, float]]) -> dict[str, Any]:
    """The fraction of draws with p <= 0.05, of those in which the test could be made, and how many these are."""
    shares, tested = {}, {}
    for key in made[0]:
        p_values = np.array([one[key] for one in made])
        some = ~np.isnan(p_values)
        shares[key] = float((p_values[some] <= 0.05).mean()) if some.any() else None
        tested[key] = int(some.sum())
    return {"M": n_experts, "correlation": correlation, "draws": len(made), "levels": shares, "tested": tested}


def table(filed: dict[str, Any]) -> str:
    """The levels in percent as markdown: for every number of experts those of the three correlations."""
    lines = ["| test | M = 2 | M = 8 | M = 64 | draws |", "|---|---|---|---|---|"]
    for cells in filed.values():
        for key in cells[0]["levels"]:
            found = [[one["levels"][key] for one in cells if one["M"] == m] for m in EXPERTS]
            said = ["-" if None in part else ", ".join(f"{100 * share:.1f}" for share in part) for part in found]
            lines.append(f"| {key} | {' | '.join(said)} | {cells[0]['draws']:,} |")
    return "\n".join(lines)


def main(
    test: Annotated[
        list[str] | None, typer.Option(help=f"Which of {', '.join(TESTS)}; all if none is given.")
    ] = None,
    draws: Annotated[int, typer.Option(min=1, help="Draws a cell.")] = 2000,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    out: Annotated[Path, typer.Option(help="The file.")] = FILE,
    show: Annotated[
        bool, typer.Option("--show", help="Print what the file has as a table, and draw nothing.")
    ] = False,
) -> None:
    """The levels of the tests, cell by cell; they are filed in benchmarks/results/xray_levels.json."""
    filed = json.loads(out.read_text()) if out.exists() else {}
    if show:
        print(table(filed))
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for name in test or TESTS:
            filed[name] = []
            for m, r in product(EXPERTS, CORRELATIONS):
                parts = [(name, m, r, start, min(start + PART, draws)) for start in range(0, draws, PART)]
                made = list(chain.from_iterable(pool.map(drawn, *zip(*parts, strict=True))))
                filed[name].append(cell(m, r, made))
                print(name, json.dumps(filed[name][-1]), flush=True)
                out.write_text(json.dumps(filed, indent=1) + "\n")


if __name__ == "__main__":
    start(main)
