"""``python -m benchmarks.xray_levels``: how often do the tests of the X-ray raise a false alarm?

Documents of 64 tokens whose routing sticks to them: with probability sqrt(r) a token goes to the favourite expert of
its document, so that r is the intraclass correlation of "expert m is chosen"; losses and token classes stick to
documents in the same way, independently of the routing. Nominal is 5 %.
"""

import json
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from benchmarks.command import start
from gatewise.arrays import Floats, Indices
from gatewise.geometry import alignment, best_expert, specialization
from gatewise.nn.xray.coactivation import coactivations
from gatewise.nn.xray.layer_trace import LayerTrace
from gatewise.nn.xray.random_routers import random_choices
from gatewise.nn.xray.usage import measured_usage

DOCUMENTS, LENGTH, DRAWS = 80, 64, 99
CORRELATIONS = (0.0, 0.05, 0.2)
EXPERTS = (2, 8, 64)
FILE = Path(__file__).parent / "results" / "xray_levels.json"


def sticky_labels(rng: np.random.Generator, n_labels: int, correlation: float) -> Indices:
    """Labels (G T,) of tokens, equally frequent, with that intraclass correlation within documents."""
    favourite = rng.integers(n_labels, size=(DOCUMENTS, 1))
    stays = rng.uniform(size=(DOCUMENTS, LENGTH)) < np.sqrt(correlation)
    return np.where(stays, favourite, rng.integers(n_labels, size=(DOCUMENTS, LENGTH))).ravel()


def sticky_losses(rng: np.random.Generator, n_experts: int, correlation: float) -> Floats:
    """Losses (G T, M) of one distribution for all experts, with that intraclass correlation within documents."""
    common = rng.normal(size=(DOCUMENTS, 1, n_experts))
    own = rng.normal(size=(DOCUMENTS, LENGTH, n_experts))
    return (np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own).reshape(-1, n_experts)


def documents() -> Indices:
    """The document of every token, (G T,)."""
    return np.repeat(np.arange(DOCUMENTS), LENGTH)


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
    """The same with tokens as units: what a test that does not know of documents does."""
    losses, labels = sticky_losses(rng, n_experts, correlation), sticky_labels(rng, n_experts, correlation)
    return {"alignment, tokens as units": alignment(labels, best_expert(losses), n_experts, seed=rng).p_value}


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
    blank = LayerTrace(
        "layer", n_experts, classes[:, None] % n_experts, np.ones((len(classes), 1)), hidden.astype(np.float32)
    )
    load = rng.dirichlet(np.full(n_experts, 8.0))
    even = rng.choice(n_experts, size=(len(classes), 1), p=load)
    own = random_choices(LayerTrace("layer", n_experts, even, np.ones(even.shape), blank.hidden), rng)
    layer = LayerTrace("layer", n_experts, own, np.ones(own.shape), blank.hidden)
    used = measured_usage([layer], documents(), classes, tuple(range(5)), "router", 39, rng).layers[0]
    any_expert = float(used.p_values.min()) if used.tested.any() else np.nan
    return {"random router, layer": used.total_p, "random router, any expert": any_expert}


def of_pairs(rng: np.random.Generator, n_experts: int, correlation: float) -> dict[str, float]:
    """The favourite of the document, or one at random, and others at random: two experts a token, eight of 64."""
    one = sticky_labels(rng, n_experts, correlation)
    keys = rng.uniform(size=(len(one), n_experts))
    keys[np.arange(len(one)), one] = -1.0
    places = np.argsort(keys, axis=1)[:, : 8 if n_experts > 8 else 2]
    layer = LayerTrace("layer", n_experts, places, np.ones(places.shape), np.zeros((len(one), 1), np.float32))
    if n_experts == 2:
        return {"any pair": np.nan}  # both are always active
    found = coactivations([layer], np.zeros_like(one), documents(), 199, rng)[0].p_values
    return {"any pair": float(found.min()) if (found < 1.0).any() else np.nan}  # too rare to be tested


TESTS: dict[str, Callable[[np.random.Generator, int, float], dict[str, float]]] = {
    "specialization": of_specialization,
    "tokens": of_tokens,
    "usage": of_usage,
    "random routers": of_random_routers,
    "pairs": of_pairs,
}


def level(name: str, n_experts: int, correlation: float, draws: int) -> dict[str, Any]:
    """The fraction of draws with p <= 0.05, of those in which the test could be made."""
    torch.set_num_threads(1)
    made = []
    for draw in range(draws):
        rng = np.random.default_rng([16, n_experts, round(1000 * correlation), draw])
        made.append(TESTS[name](rng, n_experts, correlation))
    shares = {}
    for key in made[0]:
        p_values = np.array([one[key] for one in made])
        tested = ~np.isnan(p_values)
        shares[key] = float((p_values[tested] <= 0.05).mean()) if tested.any() else None
    return {"M": n_experts, "correlation": correlation, "draws": draws, "levels": shares}


def main(
    test: Annotated[
        list[str] | None, typer.Option(help=f"Which of {', '.join(TESTS)}; all if none is given.")
    ] = None,
    draws: Annotated[int, typer.Option(min=1, help="Draws a cell.")] = 2000,
    jobs: Annotated[int, typer.Option(min=1, help="Cells at a time.")] = 1,
    out: Annotated[Path, typer.Option(help="The file.")] = FILE,
) -> None:
    """The levels of the tests, cell by cell; they are filed in benchmarks/results/xray_levels.json."""
    filed = json.loads(out.read_text()) if out.exists() else {}
    for name in test or TESTS:
        cells = [(name, m, r, draws) for m in EXPERTS for r in CORRELATIONS]
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            filed[name] = list(pool.map(level, *zip(*cells, strict=True)))
        print(name, json.dumps(filed[name]), flush=True)
        out.write_text(json.dumps(filed, indent=1) + "\n")


if __name__ == "__main__":
    start(main)
