"""``python -m benchmarks.simulations``: the runs whose tables the guides show, filed in ``docs/results``.

Each is a command of Gatewise, or of this folder, that prints a table and writes it as JSON. The file has the command,
the commit, the date and the machine, and the rows. Names on the command line run these alone.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.timing import provenance

FOLDER = Path(__file__).parents[1] / "docs" / "results"
_SELECTION = "gatewise reproduce selection --reps 100"
COMMANDS: Mapping[str, str] = {
    "verify": "gatewise verify --quick",
    "selection": _SELECTION,
    "selection-orders": f"{_SELECTION} --orders 10",
    "selection-half": f"{_SELECTION} --burn-in 0.5",
    "selection-small": f"{_SELECTION} --n 60 --n 100",
    "selection-wide": f"{_SELECTION} --radius 6",
    "shared": "gatewise reproduce shared --reps 200",
    "shared-moving": "gatewise reproduce shared --coordinates moving --reps 20",
    "two-stage": "gatewise reproduce two-stage",
    "scales": "gatewise reproduce scales --reps 100",
    "rates": "gatewise reproduce rates --reps 100",
    "settings": "gatewise reproduce settings --seed 777",
    "regret": "benchmarks.regret --reps 10",
}


def record(command: str, rows: Any) -> dict[str, Any]:
    """What is filed of a run."""
    return {"command": command, **provenance(), "rows": rows}


def run(name: str) -> None:
    """Run a command, with what it prints, and file its rows."""
    command = COMMANDS[name]
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "rows.json"
        where = ["--json", str(found)] + ([] if name == "verify" else ["--out", folder])
        subprocess.run([sys.executable, "-m", *command.split(), *where], check=True)
        content = record(command, json.loads(found.read_text()))
    (FOLDER / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")


def main() -> None:
    """Run the commands that are named, or all."""
    for name in sys.argv[1:] or COMMANDS:
        run(name)


if __name__ == "__main__":
    main()
