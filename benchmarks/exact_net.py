"""The exact net on one GPU: 1e10 candidates of a linear softmax gate, three experts, the paper's linear design.

First, on nets that compiled code can do, `RouterAggregator` with ``device="cuda"`` beside ``device=None``: times, and
the largest differences of predictions (in units of the standard deviation of y), gate weights and one-step-ahead
predictions. Then 1e10 candidates: seconds of the fit and of a prediction, and the distance to the truth at fresh
points beside that of the smaller nets. ``python -m benchmarks.exact_net`` needs a GPU.
"""

import argparse
import hashlib
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gatewise as gw
import gatewise.nn.exact
from benchmarks import timing
from gatewise.experts.pool import expert_predictions
from gatewise.nets import ProductNet
from gatewise.paper import DESIGNS

DESIGN = DESIGNS["linear"]
GATE = gw.LinearGate(3, intercept=False)
LOW, HIGH = -3.0, 3.0


def sources() -> str:
    """The SHA-256 of the code that the figures belong to."""
    folder = Path(gatewise.nn.exact.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def grid(*counts: int) -> ProductNet:
    """All combinations of evenly spaced values of the two coefficients of each of two experts."""
    axes = [np.linspace(LOW, HIGH, count) for count in counts]
    return ProductNet([*axes, *axes], (2, 2))


def fit(net: ProductNet, n: int, device: str | None) -> tuple[gw.RouterAggregator, float]:
    """A router after its fit to n rows, half of them for calibration, and the seconds that it took."""
    X, y = DESIGN.sample(n, np.random.default_rng(0))
    router = gw.RouterAggregator(DESIGN.experts, GATE, net, random_state=0, device=device)
    start = time.perf_counter()
    router.fit(X, y)
    return router, time.perf_counter() - start


def errors(router: gw.RouterAggregator, points: np.ndarray) -> dict[str, float]:
    """Root mean square distances to the truth at fresh points: of the mixture, and of the gate's weights."""
    weights = router.gate_weights(points)
    truth = DESIGN.weights(points)
    F = np.column_stack([expert_predictions(expert, points) for expert in DESIGN.experts])
    return {
        "mixture_error": float(np.sqrt(np.mean(((weights - truth) * F).sum(axis=1) ** 2))),
        "weights_error": float(np.sqrt(np.mean((weights - truth) ** 2))),
    }


def beside(counts: tuple[int, int], n: int) -> dict[str, Any]:
    """Compiled code and the GPU on one net: seconds of the second fit, and the largest differences."""
    net, (points, y) = grid(*counts), DESIGN.sample(500, np.random.default_rng(1))
    routers = {}
    row: dict[str, Any] = {"candidates": net.size, "n": n}
    for device in (None, "cuda"):
        fit(net, n, device)
        routers[device], row[f"seconds_{device or 'compiled'}"] = fit(net, n, device)
    a, b = routers[None], routers["cuda"]
    sd = float(np.std(y))
    row |= {
        "prediction_difference_in_sd_y": float(np.abs(a.predict(points) - b.predict(points)).max()) / sd,
        "weight_difference": float(np.abs(a.gate_weights(points) - b.gate_weights(points)).max()),
        "online_difference_in_sd_y": float(np.abs(a.online_predictions_ - b.online_predictions_).max()) / sd,
        "same_nearest_candidate": a.projection_.candidate == b.projection_.candidate,
    }
    return row | errors(b, points)


def large(counts: tuple[int, int], n: int) -> dict[str, Any]:
    """A net of 1e10 candidates: seconds, memory and errors."""
    net, points = grid(*counts), DESIGN.sample(500, np.random.default_rng(1))[0]
    fit(grid(20, 20), n, "cuda")  # compiles
    torch.cuda.reset_peak_memory_stats()
    router, seconds = fit(net, n, "cuda")
    start = time.perf_counter()
    router.predict(points[:1])
    one = time.perf_counter() - start
    return {
        "candidates": net.size,
        "n": n,
        "seconds": seconds,
        "seconds_to_predict_one_row": one,
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30,
        "effective_candidates": router.effective_candidates_,
        "theta": router.theta_.tolist(),
        **errors(router, points),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=timing.RESULTS, help="the folder of the JSON file")
    timing.RESULTS = parser.parse_args().out
    if not torch.cuda.is_available():
        raise SystemExit("exact_net needs a GPU; there is none here")
    small = [beside((10, 10), 400), beside((30, 40), 666)]
    rows = []
    for n in (333, 666):
        rows.append(large((100, 1000), n))
        torch.cuda.empty_cache()
    facts = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "sources": sources()}
    timing.save("exact_net", facts | {"beside_compiled": small, "large": rows})


if __name__ == "__main__":
    main()
