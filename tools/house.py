"""The measures of the house that can be counted: one meaning a name, one place a concept, one definition an alias.

Each check returns the places that break it; the command prints them all and fails if there are any.
"""

import ast
import re
import sys
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "gatewise"


@dataclass(frozen=True)
class Concept:
    """What is written once: its file, the names that a second one would have, and lines that give a second one away.

    Names and lines are regular expressions: names of functions and classes in full, lines anywhere in the code.
    """

    name: str
    file: str
    names: str
    signs: str = "(?!)"


CONCEPTS = (
    Concept("AFTER in NumPy", "aggregation/weights.py", r"after|reweight|AfterState", r"cumsum\(.*log_densit"),
    Concept("AFTER, compiled", "kernels/net/sweep.py", r"weight_units"),
    Concept("clipped scale", "aggregation/scales.py", r"clipped_scales?", r"np\.clip\(np\.sqrt\("),
    Concept("Top-K, the reference and the compiled one", "kernels/top_k.py", r"top_k(_rows)?|_?keep_best"),
    Concept("simplex least squares", "solvers/simplex_least_squares.py", r"simplex_least_squares|convex_stack"),
    Concept("pool of experts", "experts/pool.py", r"\w*Pool"),
)


@cache
def modules():
    """Every module of the package: its path below it, its text and its tree."""
    texts = {path: path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}
    return [(path.relative_to(PACKAGE).as_posix(), text, ast.parse(text)) for path, text in texts.items()]


def repeated(pairs):
    """Names that occur in more than one place, from pairs (name, place)."""
    places = defaultdict(list)
    for name, place in pairs:
        places[name].append(place)
    return [f"{name}: {', '.join(found)}" for name, found in sorted(places.items()) if len(found) > 1]


def file_names():
    """File names that occur twice."""
    return repeated((Path(place).name, place) for place, _, _ in modules() if Path(place).name != "__init__.py")


def class_names():
    """Public class names that occur twice."""
    return repeated(
        (node.name, place)
        for place, _, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )


def aliases():
    """Names for a type of arrays that are defined outside of arrays.py."""
    return [
        f"{ast.unparse(node)}: {place}:{node.lineno}"
        for place, _, tree in modules()
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and place != "arrays.py"
        and re.match(r"(np\.)?(typing\.)?NDArray\[", ast.unparse(node.value) if node.value else "")
    ]


def concepts():
    """Concepts whose file is not there, or that another module seems to write again."""
    found = []
    for concept in CONCEPTS:
        if not (PACKAGE / concept.file).exists():
            found.append(f"{concept.name}: {concept.file} does not exist")
        for place, text, tree in modules():
            if place == concept.file:
                continue
            found += [
                f"{concept.name}: {place}:{node.lineno} defines {node.name}"
                for node in tree.body
                if isinstance(node, ast.FunctionDef | ast.ClassDef) and re.fullmatch(concept.names, node.name)
            ]
            found += [
                f"{concept.name}: {place}:{number} {line.strip()}"
                for number, line in enumerate(text.splitlines(), start=1)
                if re.search(concept.signs, line)
            ]
    return found


CHECKS = (file_names, class_names, aliases, concepts)


def main():
    broken = 0
    for check in CHECKS:
        places = check()
        broken += len(places)
        print(f"{check.__doc__} {len(places) or 'none'}")
        for place in places:
            print(f"  {place}")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
