"""Break shipped functions one at a time, and see that a claim of ``gatewise verify`` then fails.

``broken.py`` lists the functions, what is done to each and the claim that must fail. A function is replaced while the
program runs, wherever a module of the package refers to it; compiled functions are replaced where Python calls them.
"""

import argparse
import importlib
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from gatewise.paper.verify import CHECKS, run_check
from tools.broken import BREAKS

BY_NAME = {check.run.__name__: check for check in CHECKS}
ERRORS = (ValueError, ArithmeticError, IndexError, TypeError)


def resolve(name):
    """The module or class that holds a function, and the function's name in it, from its dotted name."""
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        try:
            owner = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:-1]:
            owner = getattr(owner, part)
        return owner, parts[-1]
    raise ValueError(f"{name} is no function of the package")


def places(original) -> Iterator[tuple[dict, object]]:
    """Every dictionary of a module of the package, and every one in such a module, that refers to a function."""
    for name, module in list(sys.modules.items()):
        if not name.startswith("gatewise") or module is None:
            continue
        tables = [vars(module), *(value for value in list(vars(module).values()) if isinstance(value, dict))]
        for table in tables:
            for key, value in list(table.items()):
                if value is original:
                    yield table, key


@contextmanager
def replaced(name, change):
    """The package with one function changed: ``change`` takes the function and returns another one."""
    owner, attribute = resolve(name)
    original = vars(owner)[attribute]
    if isinstance(owner, type):
        setattr(owner, attribute, change(original))
        try:
            yield
        finally:
            setattr(owner, attribute, original)
        return
    found, changed = list(places(original)), change(original)
    for table, key in found:
        table[key] = changed
    try:
        yield
    finally:
        for table, key in found:
            table[key] = original


def outcome(check, seed=0):
    """Whether a check fails in its quick form, and its figure; an error of a broken function is a failure, too."""
    try:
        row = run_check(check, seed, quick=True)
    except ERRORS as error:
        return True, f"{type(error).__name__}: {error}"
    return not row.passed, row.figure


def judge(entry, names=None):
    """The claims that fail when the function is broken: the one that must, or all of ``names`` that do."""
    with replaced(entry.function, entry.change):
        failed = [(name, *outcome(BY_NAME[name])) for name in names or (entry.claim,)]
    return [(name, figure) for name, fails, figure in failed if fails]


def main():
    """Run the table; exit code 1 if a broken function is not noticed."""
    parser = argparse.ArgumentParser(prog="python -m tools.claims", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="functions or claims whose name contains this")
    parser.add_argument("--all", action="store_true", help="try every claim on every broken function (hours)")
    args = parser.parse_args()
    chosen = [entry for entry in BREAKS if args.only in f"{entry.function} {entry.claim}"]
    missed, start = 0, time.perf_counter()
    for entry in chosen:
        failed = judge(entry, list(BY_NAME) if args.all else None)
        missed += not failed
        names = ", ".join(BY_NAME[name].label for name, _ in failed) or "NOTHING"
        print(f"{entry.function}: {entry.how}\n    fails: {names}")
        for _, figure in failed[:1]:
            print(f"    {figure}")
    functions = len({entry.function for entry in chosen})
    seconds = time.perf_counter() - start
    print(f"{len(chosen) - missed} of {len(chosen)} breaks of {functions} functions noticed, {seconds:.0f} seconds")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
