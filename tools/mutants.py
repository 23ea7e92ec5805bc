"""Break one line at a time, in a copy of the tree, and see that a test fails.

``mutants.toml`` lists the lines. Each is judged in the working tree and, as ``before``, in the commit that the
redesign of the rooms began from. What is done is kept in ``mutants-results.json``, so a run that was interrupted goes
on where it stopped, and a mutant whose file and tests did not change is not run again.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORKSHOP = ROOT / "build" / "mutants"  # the copies, and compiled code that later runs use again
LIST, RESULTS = ROOT / "tools" / "mutants.toml", ROOT / "tools" / "mutants-results.json"
BEFORE = "e082de5"
SECONDS = 900  # a mutant that makes a test hang is one that was noticed
KILLED, SURVIVED = "killed", "survived"


@dataclass(frozen=True)
class Mutant:
    """One line of a file, what takes its place, and the tests that must notice."""

    what: str
    room: str
    file: str
    line: str
    becomes: str
    tests: tuple[str, ...]

    @property
    def compiled(self):
        """Whether the line is in a kernel, so that compiled code must be made anew."""
        return "/kernels/" in self.file and "/nn/" not in self.file


def read_list(side):
    """The mutants of one side, "before" or "after"."""
    found = []
    for entry in tomllib.loads(LIST.read_text())["mutant"]:
        before = entry.pop("before", {})
        place = {**entry, **before} if side == "before" else entry
        found.append(Mutant(**{**place, "tests": tuple(place["tests"])}))
    return found


def copy_tree(side, target):
    """A copy of the tracked files: of the working tree, or of the commit before."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    if side == "before":
        archive = subprocess.run(["git", "archive", BEFORE], cwd=ROOT, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", str(target)], input=archive, check=True)
        return
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    for name in listed:
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def run_tests(tree, tests, cache, seconds=SECONDS):
    """The exit code of pytest on these tests, and its last lines; code 1 is a test that failed."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tree / "src"), str(tree)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "NUMBA_CACHE_DIR": str(cache),
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return 1, "timeout"
    return done.returncode, "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])


def judge(mutant, tree, cache):
    """Whether the tests notice: put the line in, run them, put the file back as it was."""
    path = tree / mutant.file
    text, stamp = path.read_text(), path.stat()
    if text.count(mutant.line) != 1:
        return f"no mutant: the line stands {text.count(mutant.line)} times in {mutant.file}"
    path.write_text(text.replace(mutant.line, mutant.becomes))
    fresh = cache.with_name("fresh")
    try:
        code, tail = run_tests(tree, mutant.tests, fresh if mutant.compiled else cache)
    finally:
        path.write_text(text)
        os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # compiled code of this file is still good
        shutil.rmtree(fresh, ignore_errors=True)
    return {0: SURVIVED, 1: KILLED}.get(code, f"pytest ended with {code}: {tail}")


def fingerprint(mutant, tree):
    """A number for all that decides about a mutant but the rest of the package."""
    parts = [mutant.line, mutant.becomes, *mutant.tests, (tree / mutant.file).read_text()]
    parts += [(tree / test.split("::")[0]).read_text() for test in mutant.tests]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def run_side(side, results, only):
    """Judge the mutants of one side, and keep every result at once."""
    tree, cache = WORKSHOP / side, WORKSHOP / f"cache-{side}"
    copy_tree(side, tree)
    done = results.setdefault(side, {})
    wanted = [mutant for mutant in read_list(side) if only in mutant.what or only in mutant.file]
    todo = [m for m in wanted if done.get(m.what, {}).get("of") != fingerprint(m, tree)]
    if todo:
        tests = sorted({test for mutant in todo for test in mutant.tests})
        code, tail = run_tests(tree, tests, cache, seconds=None)
        if code:
            raise SystemExit(f"{side}: the tests fail without any mutant, so they can judge none:\n{tail}")
    for number, mutant in enumerate(todo, start=1):
        start = time.perf_counter()
        verdict = judge(mutant, tree, cache)
        done[mutant.what] = {
            "room": mutant.room,
            "file": mutant.file,
            "verdict": verdict,
            "of": fingerprint(mutant, tree),
        }
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        seconds = time.perf_counter() - start
        print(f"{side} {number}/{len(todo)} {verdict}: {mutant.file}: {mutant.what} ({seconds:.0f} s)")
    known = {mutant.what for mutant in read_list(side)}
    results[side] = {what: row for what, row in done.items() if what in known}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def summary(results):
    """Killed and all, by room and file, for both sides."""
    lines = []
    for side, rows in results.items():
        total, killed = Counter(), Counter()
        for row in rows.values():
            total[row["room"], row["file"]] += 1
            killed[row["room"], row["file"]] += row["verdict"] == KILLED
        lines.append(f"{side}: {sum(killed.values())} of {sum(total.values())} killed")
        lines += [f"  {killed[key]}/{count}  {key[0]:<12} {key[1]}" for key, count in sorted(total.items())]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", choices=("before", "after"), help="both unless given")
    parser.add_argument("--only", default="", help="mutants with this in their file or description")
    options = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for side in [options.side] if options.side else ["before", "after"]:
        run_side(side, results, options.only)
    print(summary(results))
    if any(row["verdict"] != KILLED for rows in results.values() for row in rows.values()):
        raise SystemExit("some mutants live")


if __name__ == "__main__":
    main()
