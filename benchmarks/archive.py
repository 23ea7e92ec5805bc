"""Finished runs of long benchmarks beside their results: on another machine a run goes on from them.

``python -m benchmarks.archive verdict out/verdict/verdicts.sqlite`` keeps the runs of a store under a name; the
benchmark of that name adds what is kept to its store before it begins.
"""

import json
import lzma
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from benchmarks import timing
from benchmarks.command import start
from gatewise.paper.store import Store


def kept_at(name: str) -> Path:
    """The file of the runs of that name: a line of JSON for every run, compressed."""
    return timing.RESULTS / "runs" / f"{name}.jsonl.xz"


def keep(name: str, path: Path) -> int:
    """Write the runs of the store at ``path``, in the order of their keys; their number."""
    if not path.exists():
        raise ValueError(f"{path} must be a store of finished runs; there is none")
    with closing(sqlite3.connect(path)) as database:
        runs = database.execute("SELECT key, record FROM records ORDER BY key").fetchall()
    lines = [json.dumps([json.loads(key), json.loads(record)]) for key, record in runs]
    kept_at(name).parent.mkdir(exist_ok=True)
    kept_at(name).write_bytes(lzma.compress("\n".join(lines).encode()))
    return len(runs)


def restore(name: str, path: Path) -> Store:
    """The store at ``path``, with the runs that are kept under that name and that it lacks."""
    store, file = Store(path), kept_at(name)
    if file.exists():
        runs = [json.loads(line) for line in lzma.decompress(file.read_bytes()).decode().splitlines()]
        records = [(json.dumps(key, sort_keys=True), json.dumps(record)) for key, record in runs]
        with closing(sqlite3.connect(path, timeout=60)) as database, database:
            database.executemany("INSERT OR IGNORE INTO records VALUES (?, ?)", records)
    return store


def main(
    name: Annotated[str, typer.Argument(help="What the runs are called.")],
    path: Annotated[Path, typer.Argument(help="The store of the runs.")],
) -> None:
    """Keep the runs of a store."""
    print(f"{keep(name, path):,} runs in {kept_at(name)}")


if __name__ == "__main__":
    start(main)
