"""How a benchmark takes time: rivals in turn for equally many rounds, medians with their spread."""

import json
import platform
import subprocess
import time
from collections.abc import Callable, Mapping
from datetime import datetime, UTC
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

RESULTS = Path(__file__).parent / "results"


class Times(NamedTuple):
    """The seconds of every job in every round; the jobs of a round ran one after the other."""

    seconds: dict[str, list[float]]

    def medians(self) -> dict[str, float]:
        """The median seconds of every job."""
        return {name: float(np.median(values)) for name, values in self.seconds.items()}

    def ratio(self, top: str, bottom: str) -> dict[str, float]:
        """The quotient of two jobs in the same round: its median and quartiles over the rounds."""
        quotients = np.array(self.seconds[top]) / np.array(self.seconds[bottom])
        low, median, high = np.quantile(quotients, [0.25, 0.5, 0.75]).tolist()
        return {"median": median, "low": low, "high": high}

    def fastest(self, *names: str) -> str:
        """The one of these jobs with the least median."""
        medians = self.medians()
        return min(names, key=lambda name: medians[name])


def in_turn(jobs: Mapping[str, Callable[[], Any]], rounds: int = 5) -> Times:
    """The seconds of each job: one round to warm up, then ``rounds`` rounds of all jobs one after the other."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(rounds + 1):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return Times(seconds)


def save(name: str, result: dict[str, Any]) -> None:
    """Write one benchmark's result, with the commit, the date and the machine it was taken on, and print it."""
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps({"benchmark": name, **provenance(), **result}, indent=2)
    (RESULTS / f"{name}.json").write_text(text + "\n")
    print(text)


def provenance() -> dict[str, Any]:
    """The commit and the date of a run, and the machine, for the file of its result."""
    machine = {"processor": _processor(), "python": platform.python_version(), "numpy": np.__version__}
    return {"run": {"commit": _commit(), "date": datetime.now(UTC).date().isoformat()}, "machine": machine}


def _commit() -> str:
    """The commit of the sources, with a plus if the package or the benchmarks have changed since."""

    def git(*words: str) -> str:
        folder = Path(__file__).parents[1]
        return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", "src", "benchmarks/*.py")
        return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
