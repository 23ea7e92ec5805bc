"""Tables in files: CSV in the customs of any country, Parquet and Excel in; CSV and Parquet out.

Separator, encoding and decimal mark of a CSV file are guessed unless they are given, and what was guessed is said.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd

from gatewise.app.files import as_output, Output, same_header, same_json, write_json
from gatewise.app.models.cell_values import padded_codes
from gatewise.app.models.parquet_folder import parquet_files, read_folder

CSV, PARQUET, EXCEL = (".csv", ".tsv", ".txt"), (".parquet", ".pq"), (".xlsx", ".xls", ".xlsm", ".ods")
WRITTEN = (*CSV[:2], *PARQUET)
SEPARATORS = ("\t", ";", "|", ",")
WORDS = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas", " ": "spaces"}
LOOKED_AT = 200  # lines that a guess is made from
MOST_COLUMNS = 5000
ZIP, OLD_EXCEL = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
# How files begin that are taken for text because of their names, and what they are.
NO_TEXT = {
    b"\x1f\x8b": "it is compressed by gzip; unpack it first",
    ZIP: "it is an Excel workbook, whose name should end in .xlsx, or a zip archive to unpack first",
    OLD_EXCEL: "it is an Excel workbook, whose name should end in .xls",
    b"PAR1": "it is a Parquet file, whose name should end in .parquet",
    b"%PDF": "it is a PDF file",
}


@dataclass(frozen=True)
class TextFormat:
    """How a text file holds a table; None is guessed."""

    sep: str | None = None
    encoding: str | None = None
    decimal: str | None = None


@dataclass(frozen=True, eq=False)
class ReadTable:
    """The data frame of a file, whose column names are text, and notes on how it was read."""

    frame: Any
    notes: tuple[str, ...] = ()


def read_table(path: Path, form: TextFormat | None = None) -> ReadTable:
    """The table in a CSV, Parquet or Excel file, or in the Parquet files of a folder or of a pattern.

    ``frame.attrs["decimal"]`` is the decimal mark of its texts.
    """
    path, form = Path(path), form or TextFormat()
    files = parquet_files(path)
    if not path.is_file() and not files:
        raise ValueError(f"{path}: {'is a folder without Parquet files' if path.is_dir() else 'no such file'}")
    ending = path.suffix.lower()
    kind = "Parquet" if files or ending in PARQUET else "Excel" if ending in EXCEL else "CSV"
    try:
        if files:
            table = ReadTable(*read_folder(files))
        elif kind == "CSV":
            table = _read_text(path.read_bytes(), form)
        else:
            table = ReadTable(pd.read_parquet(path)) if kind == "Parquet" else _read_excel(path)
    except ImportError as error:
        raise ValueError(
            f"{path}: reading {kind} needs a package that is not installed: {_first_line(error)}"
        ) from error
    except Exception as error:
        raise ValueError(f"{path}: cannot be read as {kind}: {_first_line(error)}") from error
    _check(path, table.frame)
    return table


def read_frame(path: Path, form: TextFormat | None = None) -> Any:
    """The data frame of `read_table`."""
    return read_table(path, form).frame


def write_frame(frame: Any, place: Path | Output) -> Path:
    """Write a data frame as CSV, with tabs or as Parquet if the name says so.

    Only a table with the same columns is replaced unasked.
    """
    return write_frames(iter([frame]), place)[0]


def write_answer(frame: Any, place: Path | Output, facts: Output | None) -> Path:
    """Write a data frame as a table and, if a place was given, as JSON; neither if one may not be replaced."""
    rows = frame.to_dict(orient="records")
    if facts is not None:
        facts.check(same_json(rows))
    where = write_frame(frame, place)
    write_json(facts, rows)
    return where


def write_frames(frames: Iterator[Any], place: Path | Output) -> tuple[Path, int]:
    """Write data frames with the same columns one below the other, as `write_frame` does; the path, and the rows."""
    output, first = as_output(place, WRITTEN), next(frames)
    ending, n = output.path.suffix.lower(), 0
    with output.replacing(same_header(first.columns)) as part:
        if ending in PARQUET:
            n = _write_parquet(chain([first], frames), part)
        else:
            with part.open("w", newline="", encoding="utf-8") as text:
                for frame in chain([first], frames):
                    frame.to_csv(text, index=False, header=n == 0, sep="\t" if ending == ".tsv" else ",")
                    n += len(frame)
    return output.path, n


def _write_parquet(frames: Iterator[Any], part: Path) -> int:
    """Write data frames with the columns of the first one; the number of rows."""
    tables = (import_module("pyarrow").Table.from_pandas(frame, preserve_index=False) for frame in frames)
    first = next(tables)
    with import_module("pyarrow.parquet").ParquetWriter(part, first.schema) as writer:
        n = int(first.num_rows)
        writer.write_table(first)
        for table in tables:
            writer.write_table(table.cast(first.schema))
            n += table.num_rows
    return n


def _read_text(content: bytes, form: TextFormat) -> ReadTable:
    for begin, what in NO_TEXT.items():
        if content.startswith(begin):
            raise ValueError(what)
    text, encoding = _decode(content, form.encoding)
    if "\0" in text:
        raise ValueError("it holds zero bytes, so it is no text")
    if "\n" not in text:
        text = text.replace("\r", "\n")  # as old Macintosh programs end lines
    hint = re.match(r"sep=(.)\r?\n", text)  # as Excel writes it
    if hint:
        text, form = text[hint.end() :], replace(form, sep=form.sep or hint.group(1))
    lines = text.splitlines()[:LOOKED_AT]
    sep = _separator(form.sep) or _guess_separator(lines)
    decimal = form.decimal or _guess_decimal(lines, sep)
    if decimal not in {".", ","}:
        raise ValueError(f"decimal must be '.' or ',', not {decimal!r}")
    notes = [f"read with {WORDS.get(sep, repr(sep))} between values, decimal mark {decimal!r}, encoding {encoding}"]
    if (sep, decimal, encoding) == (",", ".", "utf-8"):
        notes = []
    notes += _check_shape(text, sep)
    options: dict[str, Any] = {"sep": sep, "decimal": decimal, "skipinitialspace": True, "low_memory": False}
    ends = _ends_in_separators(text, sep)
    if ends:
        options |= {"index_col": False, "usecols": range(ends)}
        notes.append("every row ends in a separator, which stands for no value")
    frame = _with_zeros(pd.read_csv(io.StringIO(text), **options), text, options)
    if not ends and _has_more_values_than_names(text, sep):  # pandas makes an index of the first ones
        frame = frame.reset_index(drop=True)
        notes.append("left out: the first value of every row, as rows have one more value than there are names")
    frame.attrs["decimal"] = decimal
    frame.attrs["american"] = sep == "," and decimal == "."
    return ReadTable(frame, tuple(notes))


def _with_zeros(frame: Any, text: str, options: dict[str, Any]) -> Any:
    """The data frame of a text, with a column of whole numbers as text where one begins with a zero too many."""
    if not re.search(rf'["\s{re.escape(options["sep"])}]0[0-9]', text):
        return frame
    read_as_numbers = [name for name in frame.columns if frame[name].dtype.kind in "iuf"]
    written = pd.read_csv(io.StringIO(text), dtype=dict.fromkeys(read_as_numbers, str), **options)
    for name in read_as_numbers:
        if len(padded_codes(written[name])):
            frame[name] = written[name].str.strip().array
    return frame


def _decode(content: bytes, encoding: str | None) -> tuple[str, str]:
    """The text of a file and the name of its encoding: that of its byte order mark, UTF-8, or that of Windows."""
    if encoding is not None:
        try:
            return content.decode(encoding), encoding
        except LookupError:
            raise ValueError(f"there is no encoding {encoding!r}") from None
    if content[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        return content.decode("utf-16"), "utf-16"
    for guess in ("utf-8-sig", "cp1252"):
        try:
            return content.decode(guess), guess.removesuffix("-sig")
        except UnicodeDecodeError:
            continue
    return content.decode("latin-1"), "latin-1"


def _separator(given: str | None) -> str | None:
    if given is None:
        return None
    sep = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}.get(given.lower(), given)
    if len(sep) != 1:
        raise ValueError(f"sep must be one character, or tab, not {given!r}")
    return sep


def _guess_separator(lines: list[str]) -> str:
    """The character that cuts the most lines into as many values as the first; of equals, the one that cuts more."""
    best, choice = (0.0, 1), ","
    for sep in SEPARATORS:
        widths = [len(row) for row in _rows(lines, sep) if row]
        if widths and widths[0] > 1:
            score = (sum(width == widths[0] for width in widths) / len(widths), widths[0])
            if score > best:
                best, choice = score, sep
    return choice


def _guess_decimal(lines: list[str], sep: str) -> str:
    """The comma if values have one where a decimal mark would be, and none has a point there."""
    if sep == ",":
        quoted = [cell for row in _rows(lines[1:], sep) for cell in row if "," in cell]
        numbers = all(re.fullmatch(r"[+-]?\d+,\d+", cell) for cell in quoted)
        return "," if numbers and any(not re.fullmatch(r"[+-]?\d{1,3},\d{3}", cell) for cell in quoted) else "."
    cells = [cell.strip() for row in _rows(lines[1:], sep) for cell in row]
    comma = sum(bool(re.search(r"\d,\d+\D*$", cell)) for cell in cells)
    point = sum(bool(re.fullmatch(r"[+-]?\d*\.\d+([eE][+-]?\d+)?", cell)) for cell in cells)
    thousands = sum(bool(re.fullmatch(r"[+-]?\d{1,3}(\.\d{3})+", cell)) for cell in cells)
    return "," if comma > point - thousands else "."


def _rows(lines: list[str], sep: str) -> list[list[str]]:
    try:
        return list(csv.reader(lines, delimiter=sep, skipinitialspace=True))
    except csv.Error:
        return []


def _check_shape(text: str, sep: str) -> list[str]:
    """Notes on rows that are too short; an error if two columns have one name."""
    reader = csv.reader(io.StringIO(text), delimiter=sep, skipinitialspace=True)
    names = next((row for row in reader if row), [])
    if len(names) > MOST_COLUMNS:
        raise ValueError(f"it has {len(names):,} columns; at most {MOST_COLUMNS:,} are taken")
    twice = [name for name, count in Counter(name.strip() for name in names).items() if count > 1 and name]
    if twice:
        places = [str(place) for place, name in enumerate(names, start=1) if name.strip() == twice[0]]
        raise ValueError(f"columns {' and '.join(places)} have one name, {twice[0]!r}; rename one")
    short = [reader.line_num for row in reader if row and len(row) < len(names)]
    if not short:
        return []
    return [f"{len(short)} rows have fewer values than there are columns, the first in line {short[0]}"]


def _ends_in_separators(text: str, sep: str) -> int:
    """The number of names, if every row has one value more than there are names and the last one is empty; else 0."""
    reader = csv.reader(io.StringIO(text), delimiter=sep, skipinitialspace=True)
    n = len(next((row for row in reader if row), []))
    rows = [len(row) == n + 1 and not row[-1].strip() for row in reader if row]
    return n if rows and all(rows) else 0


def _has_more_values_than_names(text: str, sep: str) -> bool:
    """Whether the first row below the names has more values than there are names."""
    reader = csv.reader(io.StringIO(text), delimiter=sep, skipinitialspace=True)
    names, first = (next((row for row in reader if row), []) for _ in range(2))
    return len(first) > len(names)


def _read_excel(path: Path) -> ReadTable:
    """The first sheet that has rows."""
    if path.suffix.lower() != ".ods" and path.read_bytes()[:4] not in {ZIP, OLD_EXCEL}:
        raise ValueError("it is no Excel workbook; if it is text, its name should end in .csv")
    with pd.ExcelFile(path) as book:
        names = book.sheet_names
        for name in names:
            frame = pd.read_excel(book, sheet_name=name)
            if len(frame):
                break
    which = "the first" if name == names[0] else "the first with rows"
    note = f"read {which} of {len(names)} sheets, {name!r}"
    return ReadTable(frame, (note,) if len(names) > 1 else ())


def _check(path: Path, frame: Any) -> None:
    frame.columns = [str(name) for name in frame.columns]
    twice = [name for name, count in Counter(frame.columns).items() if count > 1]
    if twice:
        raise ValueError(f"{path}: two columns have one name, {twice[0]!r}; rename one")
    if frame.shape[1] > MOST_COLUMNS:
        raise ValueError(f"{path}: it has {frame.shape[1]:,} columns; at most {MOST_COLUMNS:,} are taken")
    if len(frame) == 0:
        raise ValueError(f"{path}: it has names of columns and no rows")


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
