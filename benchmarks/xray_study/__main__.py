"""``python -m benchmarks.xray_study``: train eight small models, ask them everything, file the answers.

Needs one GPU, and the tokens of `benchmarks.xray_study.corpus`. Several models share the GPU.
"""

import json
import time
from concurrent.futures import as_completed, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.command import start
from benchmarks.xray_study.examined_model import one_model
from benchmarks.xray_study.small_models import EXPERTS, ROUTERS


def main(
    out: Annotated[Path, typer.Option(help="Folder for the answers, pages and checkpoints.")] = Path(
        "out/xray_study"
    ),
    steps: Annotated[int, typer.Option(min=1, help="Steps of training.")] = 1000,
    at_once: Annotated[int, typer.Option(min=1, help="Models that share the GPU.")] = 8,
    device: Annotated[str, typer.Option(help="Where the models are.")] = "cuda",
    only: Annotated[str, typer.Option(help="Models whose name holds this.")] = "",
) -> None:
    """Train, ask and file."""
    out.mkdir(parents=True, exist_ok=True)
    names = [(router, m) for m in EXPERTS for router in ROUTERS if only in f"{router} {m}"]
    results, began = {}, time.monotonic()
    with ProcessPoolExecutor(at_once, mp_context=get_context("spawn")) as pool:
        jobs = [pool.submit(one_model, *name, steps, str(out), device) for name in names]
        for job in as_completed(jobs):
            name, found = job.result()
            results[name] = found
            print(f"{time.monotonic() - began:.0f} s", name, json.dumps(found)[:1500], flush=True)
            (out / "xray_study.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    start(main)
