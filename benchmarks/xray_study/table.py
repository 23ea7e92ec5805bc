"""``python -m benchmarks.xray_study.table``: the answers of the study as a table, layer by layer."""

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "results" / "xray_study.json"
HEAD = (
    "model", "loss", "token class: bits / random routers", "kind: bits / random routers", "loss without an expert",
    "specialists", "redundant", "gate regret", "fewer experts: rise (bound)",
)  # fmt: skip


def rows(filed: dict[str, Any]) -> list[list[str]]:
    """One row a model; three numbers in a cell are those of the three layers."""
    table = []
    for name in sorted(filed, key=lambda one: (int(one.split()[1]), one)):
        answers = filed[name]["answers"]
        taken = answers["pruning"][answers["pruning"]["taken"]]
        table.append(
            [
                name,
                f"{answers['loss']:.2f}",
                _bits(answers["token class, router"]),
                _bits(answers["kind of document, router"]),
                ", ".join(f"{layer['mean']:.3f}" for layer in answers["ablation"]),
                ", ".join(map(str, answers["specialists"])),
                str(sum(layer["redundant"] for layer in answers["redundant"])),
                ", ".join(
                    f"{layer['gain'][0]:.3f}{'*' * (layer['gain'][1] > 0)}" for layer in answers["gate regret"]
                ),
                f"{taken['rise'][0]:.3f} ({taken['bound']:.3f})",
            ]
        )
    return table


def _bits(layers: list[dict[str, Any]]) -> str:
    """Bits of each layer and of random routers; a star where p is at most 0.05."""
    return ", ".join(f"{one['bits']:.2f}/{one['null']:.2f}{'*' * (one['p'] <= 0.05)}" for one in layers)


def main() -> None:
    filed = json.loads(FILE.read_text())
    for row in (HEAD, ["---"] * len(HEAD), *rows(filed)):
        print("| " + " | ".join(row) + " |")
    held = filed["softmax 8"]["pruning coverage"]
    print(
        f"The bound of pruning held in {held['held']} of {held['repeats']} samples of {held['documents']} documents."
    )


if __name__ == "__main__":
    main()
