"""``python -m examples.neural``: train both models in every variant over five seeds; a table, JSON and a figure."""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from examples.neural import language, regression
from examples.neural.figure import draw
from examples.neural.variants import VARIANTS

SHOWN = "Top-1"


def snapshots(steps: int) -> tuple[int, ...]:
    """The start, a fiftieth, a tenth, three tenths and the end."""
    return tuple(sorted({0, steps // 50, steps // 10, 3 * steps // 10, steps}))


def run(seeds: int, plane_steps: int, text_steps: int, out: Path) -> dict[str, Any]:
    """Everything: figures by run and their means; the files go to ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    maps: list[dict[int, np.ndarray]] = []
    found: dict[str, list[dict[str, Any]]] = {"regression": [], "language": []}
    for name, module, steps in (("regression", regression, plane_steps), ("language", language, text_steps)):
        for variant in VARIANTS:
            for seed in range(seeds):
                keep = variant.name == SHOWN and seed == 0
                done = module.train(variant, seed, steps, snapshots(steps) if keep else ())
                found[name].append(done.figures)
                maps += [done.maps] if keep else []
    plane, text = maps
    plane.pop(min(plane), None)  # its first panel shows the truth
    draw(plane, text, out / "regions.png")
    result = {"seeds": seeds, "steps": {"regression": plane_steps, "language": text_steps}, "runs": found}
    result["summary"] = {name: summary(runs) for name, runs in found.items()}
    (out / "results.json").write_text(json.dumps(result, indent=2) + "\n")
    return result


def summary(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean and standard deviation over seeds of every figure, variant by variant."""
    rows = []
    for variant in VARIANTS:
        mine = [r for r in runs if r["variant"] == variant.name]
        row: dict[str, Any] = {"variant": variant.name}
        for key in mine[0]:
            if key in ("variant", "seed"):
                continue
            values = [r[key] for r in mine]
            row[key] = {"mean": float(np.mean(values)), "sd": float(np.std(values, ddof=1)) if len(mine) > 1 else 0.0}
        rows.append(row)
    return rows


def table(result: dict[str, Any]) -> str:
    """The summary as lines of text."""
    head = ("variant", "active / all", "RMSE", "special", "active / all", "bits/char")
    lines = ["{:16}{:>14}{:>16}{:>9}{:>17}{:>15}".format(*head)]
    for plane, text in zip(result["summary"]["regression"], result["summary"]["language"], strict=True):
        sizes = [f"{r['active_parameters']['mean']:.0f} / {r['parameters']['mean']:.0f}" for r in (plane, text)]
        error, bits = plane["rmse"], text["bits_per_character"]
        special = f"{plane['special_experts']['mean']:.1f}" if "special_experts" in plane else "-"
        lines.append(
            f"{plane['variant']:16}{sizes[0]:>14}{error['mean']:>8.3f} ({error['sd']:.3f}){special:>9}"
            f"{sizes[1]:>17}{bits['mean']:>7.3f} ({bits['sd']:.3f})"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/neural"), help="where results.json and regions.png go")
    parser.add_argument("--quick", action="store_true", help="two seeds and a few steps: does it run?")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # the products are small
    sizes = (2, 20, 10) if arguments.quick else (5, 1500, 400)
    print(table(run(*sizes, arguments.out)))


if __name__ == "__main__":
    main()
