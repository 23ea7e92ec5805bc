"""Fits of softmax gates on one GPU beside compiled code on all cores of the same machine, in one run.

``gates``: all gates of a learned list (`gate_fits`) with ready forecasts; seconds of both, and how far apart they
are: the root mean square difference of the mixtures at rows that the fit did not see, in units of the standard
deviation of y, the largest difference of a gate's weights, and how much lower the mean squared error of the GPU's
mixtures is, as quantiles over the fits. ``reversed``: the same differences between compiled code and compiled code
with the experts in reverse order, which only rounding can tell apart.
``fits``: `MoERegressor` on ready forecasts (`large_fits`), in float64 and in float32: seconds, the distance to the
truth at fresh rows beside that of the convex stack, and how far the GPU's predictions and gate weights there are from
those of compiled code. ``python -m benchmarks.gpu_fits --case gates`` needs a GPU.
"""

import argparse
import hashlib
import json
import re
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch
from scipy.special import softmax

import gatewise as gw
import gatewise.nn
from benchmarks import timing
from benchmarks.gate_fits import make_rows as gate_rows
from benchmarks.gate_fits import make_work, Work
from benchmarks.one_fit import FRESH, make_rows, Size
from gatewise.arrays import Floats
from gatewise.experts import ColumnExpert
from gatewise.nn.device_paths import device_paths
from gatewise.solvers.softmax_path import FittedPath, sample_paths

GATES = ((1000, 5), (4000, 10))  # the first one compiles
LINEAR = ((100_000, 32, True), (1_000_000, 32, False))  # linear gates of all rows; whether compiled code is run, too
FITS = (
    (Size(20_000, 10, 32), "float64"),
    (Size(20_000, 10, 32), "float32"),
    (Size(1_000_000, 10, 32), "float64"),
)


def sources() -> str:
    """The SHA-256 of the code that the figures belong to, comments and layout aside."""
    folder = Path(gatewise.nn.__file__).parent
    files = [folder / "device_paths.py", folder / "devices.py"]
    bare = re.sub(r"#[^\n]*", "", "".join(path.read_text() for path in files))
    return hashlib.sha256("".join(bare.split()).encode()).hexdigest()


def gates(n: int, M: int) -> dict[str, Any]:
    """One list of gates by both, and the differences."""
    X, F, y = gate_rows(n, M, d=10)
    work = make_work(X, F, y)
    work.samples[-1] = work.samples[-1]._replace(follows=True)  # all rows follow their folds, as in the router
    found: dict[str, list[list[FittedPath]]] = {}
    row: dict[str, Any] = {"n": n, "M": M, "fits": len(work.samples) * sum(len(r.spreads) for r in work.requests)}
    start = time.perf_counter()
    found["compiled"] = sample_paths(work.requests, F, work.loss, work.samples)
    row["seconds_compiled"] = time.perf_counter() - start
    start = time.perf_counter()
    found["cuda"] = device_paths(work.requests, F, work.loss, work.samples, "cuda")
    row["seconds_cuda"] = time.perf_counter() - start
    print(row, flush=True)
    other = differences(found["compiled"], in_reverse(work, F), work, y)
    return row | differences(found["compiled"], found["cuda"], work, y) | {"reversed": other}


def in_reverse(work: Work, F: Floats) -> list[list[FittedPath]]:
    """The paths of compiled code with the experts in reverse order, put in order again."""
    back = np.append(0, np.arange(F.shape[1], 0, -1))  # of the linear part, which begins with a one
    samples = [
        one._replace(reference=one.reference[::-1].copy(), center=np.asarray(one.center)[back])
        for one in work.samples
    ]
    requests = [one if one.linear is None else one._replace(linear=one.linear[:, back]) for one in work.requests]
    found = sample_paths(requests, F[:, ::-1].copy(), work.loss, samples)
    return [[one._replace(path=one.path._replace(theta=one.path.theta[:, ::-1])) for one in paths] for paths in found]


def linear(n: int, M: int, compare: bool) -> dict[str, Any]:
    """The linear gates of the list, with and without a correction, fitted to all rows."""
    X, F, y = gate_rows(n, M, d=10)
    work = make_work(X, F, y)
    requests, samples = work.requests[:2], [work.samples[-1]._replace(asked=np.arange(2000))]
    row: dict[str, Any] = {"n": n, "M": M, "fits": sum(len(r.spreads) for r in requests)}
    start = time.perf_counter()
    there = device_paths(requests, F, work.loss, samples, "cuda")
    row["seconds_cuda"] = time.perf_counter() - start
    print(row, flush=True)
    if not compare:
        return row
    start = time.perf_counter()
    here = sample_paths(requests, F, work.loss, samples)
    row["seconds_compiled"] = time.perf_counter() - start
    print(row, flush=True)
    return row | differences(here, there, work._replace(requests=requests, samples=samples), y)


def differences(a: list[list[FittedPath]], b: list[list[FittedPath]], work: Any, y: Floats) -> dict[str, Any]:
    """Quantiles over the fits of the differences of mixtures, weights and errors, and the shares within the bars."""
    mean, errors, weights, variance = [], [], [], float(y.var())
    for one, other, sample in zip(a, b, work.samples, strict=True):
        for here, there, request in zip(one, other, work.requests, strict=True):
            gaps = (here.mixtures - there.mixtures)[:, 0]
            mean += np.sqrt((gaps**2).mean(axis=1) / variance).tolist()
            squares = [((y[sample.asked] - path.mixtures[:, 0]) ** 2).mean(axis=1) for path in (here, there)]
            errors += ((squares[0] - squares[1]) / variance).tolist()
            some = request.features[:2000]
            for s in range(len(request.spreads)):
                scores = [np.log(sample.reference) + some @ path.path.theta[s].T for path in (here, there)]
                weights.append(np.abs(softmax(scores[0], axis=1) - softmax(scores[1], axis=1)).max())
    names, levels = ("least", "10 %", "median", "90 %", "largest"), (0.0, 0.1, 0.5, 0.9, 1.0)
    quantiles = {
        name: dict(zip(names, np.quantile(values, levels).tolist(), strict=True))
        for name, values in (("rms_in_sd_y", mean), ("weights", weights), ("error_lower_by", errors))
    }
    shares = {"within_1e-4_sd_y": np.mean(np.array(mean) <= 1e-4), "within_1e-3": np.mean(np.array(weights) <= 1e-3)}
    return quantiles | {name: float(value) for name, value in shares.items()}


def fits(size: Size, dtype: str) -> list[dict[str, Any]]:
    """The full list on the GPU, then in compiled code."""
    rows: list[dict[str, Any]] = []
    found: list[tuple[Floats, Floats]] = []
    for device in ("cuda", None):
        row, *answers = fit(size, device, dtype)
        print(row, flush=True)
        rows.append(row)
        found.append((answers[0], answers[1]))
    (mean, weights), (other, others) = found
    rows[0]["rms_in_sd_y"] = float(np.sqrt(np.mean((mean - other) ** 2))) / rows[0]["sd_y"]
    rows[0]["weights"] = float(np.abs(weights - others).max())
    return rows


def fit(size: Size, device: str | None, dtype: str = "float64") -> tuple[dict[str, Any], Floats, Floats]:
    """One fit of the full list: seconds and accuracy, then predictions and gate weights at the fresh rows."""
    rng = np.random.default_rng(0)
    X, y, _ = make_rows(size, rng)
    fresh, _, truth = make_rows(size._replace(n=FRESH), rng)
    X, fresh = X.astype(dtype), fresh.astype(dtype)
    experts = [(f"e{m}", ColumnExpert(size.d + m)) for m in range(size.M)]
    model = gw.MoERegressor(experts, cv="prefit", random_state=0, device=device)
    start = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - start
    prediction, stack = model.predict(fresh), fresh[:, size.d :] @ model.stack_weights_
    row = {
        **size._asdict(),
        "device": device or "compiled",
        "dtype": dtype,
        "seconds": seconds,
        "distance": float(np.sqrt(np.mean((prediction - truth) ** 2))),
        "distance_of_stack": float(np.sqrt(np.mean((stack - truth) ** 2))),
        "sd_y": float(y.std()),
    }
    return row, prediction, model.gate_weights(fresh)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=["gates", "fits"], default="gates")
    parser.add_argument("--most", type=int, default=1_000_000, help="rows of the largest fit")
    parser.add_argument("--out", type=Path, default=timing.RESULTS, help="the folder of the JSON file")
    given = parser.parse_args()
    timing.RESULTS = given.out
    if not torch.cuda.is_available():
        raise SystemExit("gpu_fits needs a GPU; there is none here")
    file = given.out / "gpu_fits.json"
    facts: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    facts |= {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "sources": sources()}
    facts["threads"] = numba.get_num_threads()
    if given.case == "gates":
        facts |= {"gates": [], "linear": []}
        for n, M in GATES:
            facts["gates"].append(gates(n, M))
        for n, M, compare in LINEAR:
            facts["linear"].append(linear(n, M, compare))
            timing.save("gpu_fits", facts)
    else:
        fit(Size(500, 10, 4), None), fit(Size(500, 10, 4), "cuda")
        facts["fits"] = []
        for size, dtype in FITS:
            if size.n <= given.most:
                facts["fits"] += fits(size, dtype)
                timing.save("gpu_fits", facts)


if __name__ == "__main__":
    main()
