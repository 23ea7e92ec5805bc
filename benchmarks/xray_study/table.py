"""``python -m benchmarks.xray_study.table``: the answers of the study as a table, layer by layer."""

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "results" / "xray_study.json"
HEAD = (
    "model", "loss", "token class: bits / random routers", "kind: bits / random routers", "loss without an expert",
    "needed", "specialists", "redundant", "pairs", "gate regret", "fewer experts: rise (bound)",
)  # fmt: skip
VERDICTS = ("learned", "no more than a random router", "redundant", "cannot be told")
SECOND = (
    "model",
    "token class, beyond the initial checkpoint",
    "best expert chosen, beyond chance",
    *VERDICTS,
    "bound held",
)


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
                ", ".join(str(layer["needed"]) for layer in answers["ablation"]),
                ", ".join(map(str, answers["specialists"])),
                str(sum(layer["redundant"] for layer in answers["redundant"])),
                ", ".join(f"{layer['more']}+{layer['less']}/{layer['tested']}" for layer in answers["pairs"]),
                ", ".join(
                    f"{_plain(layer['gain'][0])}{'*' * (layer['p'] <= 0.05)}" for layer in answers["gate regret"]
                ),
                f"{taken['rise'][0]:.3f} ({taken['bound']:.3f})",
            ]
        )
    return table


def _bits(layers: list[dict[str, Any]]) -> str:
    """Bits of each layer and of random routers; a star where p is at most 0.05."""
    return ", ".join(f"{one['bits']:.2f}/{one['null']:.2f}{'*' * (one['p'] <= 0.05)}" for one in layers)


def _plain(value: float) -> str:
    """Three digits; zero without a sign."""
    return f"{value:.3f}".replace("-0.000", "0.000")


def second_table(filed: dict[str, Any]) -> list[list[str]]:
    """What is beyond the initial checkpoint, the alignment with the best experts, the verdicts, and the bound."""
    table = []
    for name in sorted(filed, key=lambda one: (int(one.split()[1]), one)):
        answers = filed[name]["answers"]
        first = ", ".join(
            f"{one['beyond_initial'][0]:.2f}{'*' * (one['beyond_initial'][1] > 0)}"
            for one in answers["token class, router"]
        )
        aligned = ", ".join(f"{one['excess'][0]:.3f}{'*' * (one['p_value'] <= 0.05)}" for one in answers["alignment"])
        said = answers["verdicts"]
        held = filed[name].get("pruning coverage")
        table.append(
            [
                name,
                first,
                aligned,
                *(str(said.get(word, 0)) for word in VERDICTS),
                f"{held['held']} of {held['repeats']}" if held else "-",
            ]
        )
    return table


def main() -> None:
    filed = json.loads(FILE.read_text())
    for head, made in ((HEAD, rows(filed)), (SECOND, second_table(filed))):
        for row in (head, ["---"] * len(head), *made):
            print("| " + " | ".join(row) + " |")
        print()


if __name__ == "__main__":
    main()
