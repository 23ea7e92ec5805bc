"""Docstrings of the package drawn at random, to be read by someone who has not seen the code.

``python -m tools.docstrings --seed 13 --count 20`` prints docstrings of public functions, methods and classes with
their module and signature. The reader says what each does, then looks at the code and rewrites those that misled.
The draw depends only on the seed and on which public names have a docstring.
"""

import argparse
import ast
import random
import textwrap
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src"
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


def signature(node):
    """The line that a caller reads: name, arguments and the type returned, or name and base classes."""
    if isinstance(node, ast.ClassDef):
        return f"class {node.name}({', '.join(map(ast.unparse, node.bases))})"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"def {node.name}({ast.unparse(node.args)}){returns}"


def documented(body, owner):
    """Triples (qualified name, signature, docstring) of the public definitions in a body and in its classes."""
    for node in body:
        if not isinstance(node, FUNCTION | ast.ClassDef) or node.name.startswith("_"):
            continue
        name = f"{owner}.{node.name}"
        if text := ast.get_docstring(node):
            yield name, signature(node), text
        if isinstance(node, ast.ClassDef):
            yield from documented(node.body, name)


def all_documented():
    """The triples of `documented` for every module of the package, sorted."""
    found = []
    for path in SOURCES.glob("gatewise/**/*.py"):
        module = ".".join(path.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__")
        found += documented(ast.parse(path.read_text()).body, module)
    return sorted(found)


def main():
    parser = argparse.ArgumentParser(description="Print docstrings of the package drawn at random.")
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--count", type=int, default=20)
    settings = parser.parse_args()
    entries = all_documented()
    drawn = random.Random(settings.seed).sample(entries, min(settings.count, len(entries)))
    for number, (name, call, text) in enumerate(drawn, start=1):
        print(f"{number}. {name}\n    {call}\n{textwrap.indent(text, '        ')}\n")


if __name__ == "__main__":
    main()
