"""Tables of several Parquet files, as folders and patterns name them, read block by block."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

from gatewise.arrays import MOST_NUMBERS, RowDraw

ENDINGS = (".parquet", ".pq")
BLOCK = 2**16  # rows that are read together


def parquet_files(path: Path) -> list[Path]:
    """The Parquet files of a folder, or those that a pattern such as ``data/*.parquet`` names, sorted; else none."""
    if path.is_dir():
        return sorted(file for file in path.iterdir() if file.suffix.lower() in ENDINGS and file.is_file())
    if path.exists() or not any(mark in path.name for mark in "*?["):
        return []
    return sorted(file for file in path.parent.glob(path.name) if file.suffix.lower() in ENDINGS and file.is_file())


def blocks_of_rows(files: list[Path]) -> Iterator[Any]:
    """Data frames of at most BLOCK rows, file after file; all files must have the columns of the first."""
    pq = import_module("pyarrow.parquet")
    wanted: list[str] | None = None
    for file in files:
        with pq.ParquetFile(file) as table:
            names = list(table.schema_arrow.names)
            wanted = wanted or names
            if sorted(names) != sorted(wanted):
                odd = sorted(set(names) ^ set(wanted))
                raise ValueError(
                    f"{file.name} and {files[0].name} must have the same columns; {odd[0]!r} is in one only"
                )
            for batch in table.iter_batches(BLOCK):
                yield batch.to_pandas()[wanted]


def count_rows(files: list[Path]) -> int:
    """The rows of all files."""
    pq = import_module("pyarrow.parquet")
    return sum(pq.read_metadata(file).num_rows for file in files)


def read_folder(files: list[Path]) -> tuple[Any, tuple[str, ...]]:
    """The rows of all files in one data frame, and notes on them.

    Of more than MOST_NUMBERS values a random part of the rows is kept, always the same one.
    """
    pq, n = import_module("pyarrow.parquet"), count_rows(files)
    width = pq.read_metadata(files[0]).num_columns
    draw = RowDraw(min(1.0, MOST_NUMBERS / max(1, n * width)), seed=0)
    start, parts = 0, []
    for block in blocks_of_rows(files):
        parts.append(block.iloc[draw(start, start + len(block))])
        start += len(block)
    frame = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    note = f"read {len(files)} files with {n:,} rows"
    return frame, (note if len(frame) == n else f"{note}, of which {len(frame):,} were drawn at random",)
