"""How a benchmark takes time: rivals in turn, the best of several rounds, so that they meet the same machine."""

import json
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"


def best_times(jobs: Mapping[str, Callable[[], Any]], rounds: int = 5) -> dict[str, float]:
    """Seconds of each job: one round to warm up, then the best of ``rounds`` interleaved ones."""
    best = dict.fromkeys(jobs, np.inf)
    for turn in range(rounds + 1):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            if turn:
                best[name] = min(best[name], time.perf_counter() - start)
    return best


def save(name: str, result: dict[str, Any]) -> None:
    """Write one benchmark's result, with the machine it was taken on, and print it."""
    machine = {"processor": _processor(), "python": platform.python_version(), "numpy": np.__version__}
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps({"benchmark": name, "machine": machine, **result}, indent=2)
    (RESULTS / f"{name}.json").write_text(text + "\n")
    print(text)


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
