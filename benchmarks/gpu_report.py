"""``python -m benchmarks.gpu_report``: the tables of `docs/neural-gpu.md`, from the results of the GPU benchmarks."""

import json
from typing import Any

from benchmarks.headlines import GPU_GOALS
from benchmarks.timing import RESULTS

NAMES = {
    "olmoe": "OLMoE",
    "qwen3_30b": "Qwen3-30B",
    "mixtral": "Mixtral",
    "deepseek_moe": "DeepSeekMoE",
    "fine_grained": "fine-grained",
}
FIRST = 1  # the smallest number of tokens, whose row names the shape


def read(name: str) -> dict[str, Any]:
    """The results of one benchmark."""
    result: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return result


def token_table() -> list[str]:
    """The lines of the table of `gpu_tokens`, in microseconds."""
    return [_token_line(row) for row in read("gpu_tokens")["rows"]]


def _token_line(row: dict[str, Any]) -> str:
    few = "in_a_row" in row
    shown = [row["ms"][key] * 1000 for key in ("fused", "plain", "dense")]
    floors = [row["ms"][key] * 1000 for key in ("floor", "read")] if few else []
    cells = [_label(row) if row["tokens"] == FIRST else "", f"{row['tokens']:,}", *map(_rounded, [*shown, *floors])]
    ratios = [f"{row['over_floor']:.2f}", f"{row['in_a_row']['over_floor']:.2f}"] if few else [""] * 4
    return "| " + " | ".join([*cells, *ratios]) + " |"


def layer_table() -> list[str]:
    """The lines of the table of `gpu_moe`, in TFLOP/s."""
    lines = []
    for row in read("gpu_moe")["rows"]:
        if row["skewed"]:
            continue
        forward = [row[path]["forward_tflops"] for path in ("fused", "plain", "one_by_one", "dense")]
        backward = [row[path]["backward_tflops"] for path in ("fused", "plain")]
        figures = " | ".join(f"{value:.0f}" for value in (GPU_GOALS[row["shape"]], *forward, *backward))
        lines.append(f"| {_label(row)} | {figures} |")
    return lines


def _label(row: dict[str, Any]) -> str:
    return f"{NAMES[row['shape']]} ({', '.join(str(row[key]) for key in 'dhMK')})"


def _rounded(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


if __name__ == "__main__":
    print(*layer_table(), *token_table(), sep="\n")
