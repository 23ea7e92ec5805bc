"""The numbers in README and docs, and what each is bound to: ``python -m tools.figures``.

A number that comes from a run is followed by a comment that names its file in ``benchmarks/results``,
``docs/results`` or ``docs/assets`` and its place there; the number must be what the file has, rounded to the digits
that are shown::

    4.4<!-- aggregation: n200/faster_than_numpy_product/median --> times

Keys are separated by slashes. ``k=8`` picks the row of a list that has this entry (``k=8,n=20`` both), a whole number
the entry at this place, and ``*`` stands for all values; of an entry with quartiles the median counts. Behind the
place may stand ``over PLACE`` (a quotient), ``max``, ``min`` or ``mean`` (of several values), ``x100`` (per cent) and
``less 1`` (how much more). A comment binds the last number before it on its line. ``--write`` puts the numbers of the
files into the texts; a question mark in the place of a number stands for one that is not in the file yet.

A paragraph, list item or row of a table whose other numbers are settings or facts, and not results, says so by
``<!-- given -->``; a line ``<!-- given columns 1-4 -->`` above a table says it of these columns of its rows, a line
``<!-- checked by tests/FILE.py::NAME -->`` that this test compares the table or paragraph below with what it is from.
``<!-- unfiled: WHY -->`` in a block says that its other numbers are in no file. Numbers in code, which tests run, and
in links count as given, as do sizes such as n = 1,000 and years. All other numbers are bound to nothing.
"""

import argparse
import hashlib
import json
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = (ROOT / "benchmarks" / "results", ROOT / "docs" / "results", ROOT / "docs" / "assets")
COMPLETE = (  # every number of these must be bound, checked, given or said to be unfiled
    *(
        "README.md",
        "docs/benchmarks.md",
        "docs/gates.md",
        "docs/geometry.md",
        "docs/mixture.md",
        "docs/net-values.md",
    ),
    *("docs/neural.md", "docs/neural-gpu.md", "docs/outlook.md", "docs/paper-labels.md", "docs/reproduce.md"),
    *("docs/rows-in-time.md", "docs/selection.md", "docs/shared-experts.md", "docs/theory.md", "docs/xray.md"),
)
FILED = {  # files that record no run, by their hash: the commit that brought them, and our machine
    "fd312190": {"commit": "04de244", "date": "2026-11-16", "processor": "AMD EPYC"},  # classes
    "68560e8c": {"commit": "da38d13", "date": "2026-11-16", "processor": "AMD EPYC"},  # locality
    "4ee8e766": {"commit": "da38d13", "date": "2026-11-16", "processor": "AMD EPYC"},  # scores
    "c2278c04": {"commit": "3bc5306", "date": "2026-11-16", "processor": "AMD EPYC"},  # xray_levels
    "f758b9f4": {"commit": "3bc5306", "date": "2026-11-16", "processor": "NVIDIA H200"},  # xray_study
    "b79d8c90": {"commit": "5bd8cd7", "date": "2026-11-15"},  # real-named, of version 0.1
    "a384e080": {
        "commit": "b92824d",
        "date": "2026-11-15",
        "processor": "AMD EPYC",
    },  # table1, equal when run again
    "91d7b1c1": {"commit": "b92824d", "date": "2026-11-15", "processor": "AMD EPYC"},  # table1-common, likewise
}
NUMBER = re.compile(r"(?<![\w.^/-])[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?(?![\w^])|\?(?=<!-- \w)")
COMMENT = re.compile(r"<!--\s*(.*?)\s*-->")
SIZE = re.compile(r"\b[nMdKkSCTBRpr] = [\d,]+(?:\.\d+)?(?:(?:,| and| or) [\d,]+\b)*|\b(?:19|20)\d\d\b(?=[);,]| and)")
SHOWN = re.compile(NUMBER.pattern.replace(r"\?(?=<!-- \w)", r"\?"))
HIDDEN = re.compile(r"^\s*\d+\. |`[^`]*`|\]\([^)]*\)|<!--.*?-->")
COLUMNS = re.compile(r"given columns (\d+)-(\d+)")
RUNS = re.compile(r"(<!-- runs begin -->\n).*?(<!-- runs end -->)", re.S)
KINDS = ("bound", "checked", "given", "unfiled", "open", "unbound", "wrong")


@dataclass(frozen=True)
class Number:
    """A number in a text, its place there, and which of KINDS it is, with what it is bound to or why it is wrong."""

    file: str
    line: int
    start: int
    text: str
    kind: str
    why: str = ""


@dataclass
class Block:
    """A paragraph, list item or row of a table, and what the line above it says."""

    lines: list[tuple[int, str]] = field(default_factory=list)
    above: str = ""


def blocks(text):
    """The blocks of a text, without fenced code and headings."""
    current, fenced, above = Block(), False, ""
    for number, line in enumerate(text.splitlines(), start=1):
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        blank = fence or fenced or not line.strip() or line.startswith("#")
        alone = COMMENT.fullmatch(line.strip())
        if current.lines and (blank or alone or re.match(r"\s*(?:[-*]|\d+\.) |\|", line)):
            yield current
            current = Block(above=above)
        if blank:
            current, above = Block(), ""
        elif alone:
            above = alone[1]
            current = Block(above=above)
        else:
            current.lines.append((number, line))
    if current.lines:
        yield current


def numbers_in(file, text):
    """Every number of a text outside of code and links."""
    for block in blocks(text):
        comments = COMMENT.findall("\n".join(line for _, line in block.lines))
        whole = next((c for c in comments if re.match(r"given\b|unfiled\b", c)), block.above)
        for number, line in block.lines:
            yield from _of_line(file, number, line, whole)


def _of_line(file, number, line, whole):
    comments = HIDDEN.sub(lambda match: match[0] if match[0].startswith("<!--") else " " * len(match[0]), line)
    open_places = {match.start() for match in NUMBER.finditer(comments) if match[0] == "?"}
    plain = COMMENT.sub(lambda match: " " * len(match[0]), comments)
    shown = [match for match in SHOWN.finditer(plain) if match[0] != "?" or match.start() in open_places]
    sizes = [match.span() for match in SIZE.finditer(plain)]
    bindings = {}
    for comment in COMMENT.finditer(line):
        before = [match for match in shown if match.end() <= comment.start()]
        if before and re.match(r"[\w-]+: ", comment[1]) and not comment[1].startswith("unfiled"):
            bindings[before[-1].start()] = comment[1]
    for match in shown:
        place = match.start()
        if place in bindings:
            kind, why = "bound", bindings[place]
            wrong = disagreement(match[0], why)
            if wrong:
                kind, why = ("open" if match[0] == "?" and "the file has" not in wrong else "wrong"), wrong
        elif any(low <= place < high for low, high in sizes):
            kind, why = "given", ""
        else:
            kind, why = _by_comment(whole, line.count("|", 0, place))
        yield Number(file, number, place, match[0], kind, why)


def _by_comment(whole, column):
    """What a comment of the block, or above it, says of a number in this column of a table."""
    columns = COLUMNS.match(whole)
    if columns:
        return ("given", "") if int(columns[1]) <= column <= int(columns[2]) else ("unbound", "")
    if whole.startswith("checked by "):
        test = whole.removeprefix("checked by ")
        path, _, name = test.partition("::")
        found = (ROOT / path).is_file() and f"def {name}(" in (ROOT / path).read_text()
        return ("checked", test) if found else ("wrong", f"there is no test {test}")
    if whole.startswith("unfiled"):
        return "unfiled", whole
    return ("given", "") if whole.startswith("given") else ("unbound", "")


def disagreement(shown, binding):
    """Why a number is not what its file says; empty if it is."""
    try:
        value = value_of(binding)
    except (KeyError, IndexError, StopIteration, TypeError, ValueError, OSError) as error:
        return f"{binding}: {type(error).__name__} {error}"
    if shown != "?" and abs(value - float(shown.replace(",", ""))) <= 0.5000001 * 10.0 ** -_places(shown):
        return ""
    return f"{binding}: the file has {value:.6g}"


def _places(shown):
    head, _, power = shown.replace(",", "").partition("e")
    return len(head.partition(".")[2]) - int(power or 0)


def like(value, shown):
    """A value as text with the digits and signs of a number that is shown."""
    if shown == "?":
        return f"{value:.3g}" if abs(value) < 10.0 else f"{value:,.0f}"
    if "e" in shown:
        return f"{value:.{len(shown.partition('e')[0].partition('.')[2])}e}"
    sign = "+" if shown.startswith("+") else ""
    comma = "," if "," in shown or value >= 10_000 else ""
    return f"{value:{sign}{comma}.{_places(shown)}f}"


def value_of(binding):
    """The value that a comment names."""
    stem, _, words = binding.partition(": ")
    place, *rest = re.split(r" (?=(?:over|max|min|mean|x100|less 1)\b)", words.strip())
    content = json.loads(_read(stem.strip()))
    value = follow(content, place)
    for word in rest:
        if word.startswith("over "):
            value = value / follow(content, word.removeprefix("over "))
        elif word == "x100":
            value = 100.0 * value
        elif word == "less 1":
            value = value - 1.0
        else:
            value = {"max": max, "min": min, "mean": lambda v: sum(v) / len(v)}[word](value)
    return float(value["median"] if isinstance(value, dict) else value)


@cache
def _read(stem):
    return next(path for folder in FOLDERS if (path := folder / f"{stem}.json").is_file()).read_text()


def follow(content, place):
    """The entry of a JSON file at a place; behind ``*`` the same place of all values."""
    keys = place.strip().split("/")
    for number, key in enumerate(keys):
        if key == "*":
            values = list(content.values()) if isinstance(content, dict) else content
            rest = "/".join(keys[number + 1 :])
            return [follow(one, rest) if rest else one for one in values]
        if isinstance(content, list) and "=" in key:
            wanted = dict(part.split("=") for part in key.split(","))
            content = next(row for row in content if all(str(row.get(k)) == v for k, v in wanted.items()))
        else:
            content = content[int(key)] if isinstance(content, list) else content[key]
    return content


def texts():
    """README and guides by name."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return {str(path.relative_to(ROOT)): path.read_text() for path in paths}


def runs_table():
    """Of every file of results: commit, date and machine, as a table for the guide."""
    lines = ["<!-- given columns 1-4 -->", "| file | commit | date | processor |", "|---|---|---|---|"]
    paths = [path for folder in FOLDERS[:2] for path in folder.glob("*.json")]
    for path in sorted(paths, key=lambda path: path.stem):
        text = path.read_text()
        content = json.loads(text)
        content = content if isinstance(content, dict) else {}
        run, machine = content.get("run"), content.get("machine")
        filed = content.get("filed", FILED.get(hashlib.sha1(text.encode()).hexdigest()[:8]))
        where = machine.get("processor", "") if isinstance(machine, dict) else ""
        where = f"{content['gpu']}, {where}" if "gpu" in content else where
        commit = f"`{run['commit']}`" if run else f"filed in `{filed['commit']}`" if filed else "not recorded"
        date = (run or filed or {}).get("date", "not recorded")
        where = where or (filed or {}).get("processor", "not recorded")
        lines.append(f"| `{path.stem}` | {commit} | {date} | {where} |")
    return "\n".join(lines) + "\n"


def written(name, text):
    """A text with the numbers of the files in the place of those that differ, and the table of runs."""
    lines = text.splitlines(keepends=True)
    for one in sorted(numbers_in(name, text), key=lambda one: (one.line, -one.start)):
        if one.kind == "wrong" and "the file has" in one.why:
            line = lines[one.line - 1]
            new = like(value_of(one.why.rpartition(": the file has")[0]), one.text)
            lines[one.line - 1] = line[: one.start] + new + line[one.start + len(one.text) :]
    return RUNS.sub(lambda match: match[1] + runs_table() + match[2], "".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="list all numbers, with what they are bound to")
    parser.add_argument("--write", action="store_true", help="put the numbers of the files into the texts")
    options = parser.parse_args()
    if options.write:
        for name, text in texts().items():
            (ROOT / name).write_text(written(name, text))
    counts = {name: Counter() for name in texts()}
    for name, text in texts().items():
        for one in numbers_in(name, text):
            counts[name][one.kind] += 1
            if options.all or one.kind in ("wrong", "unbound"):
                print(f"{one.file}:{one.line}: {one.text} {one.kind} {one.why}")
    print(f"{'file':<28}" + "".join(f"{kind:>9}" for kind in KINDS))
    for name, count in counts.items():
        print(f"{name:<28}" + "".join(f"{count[kind]:>9}" for kind in KINDS))
    if any(count["wrong"] for count in counts.values()) or any(counts[name]["unbound"] for name in COMPLETE):
        sys.exit("some numbers are wrong, or bound to nothing where all must be bound")


if __name__ == "__main__":
    main()
