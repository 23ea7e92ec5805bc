"""Break one line at a time, in copies of the tree, and see that a test fails.

``mutants.toml`` lists the lines. Every mutant is one process, forked from one that has imported what is not mutated
(NumPy, numba, pytest and the like), in a copy of the tree of its own; there are as many copies as cores. What is done
is kept in ``mutants-results.json``: a run that was interrupted goes on where it stopped, and without ``--again`` a
mutant whose file and tests did not change is not run again.
"""

import argparse
import compileall
import contextlib
import hashlib
import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import traceback
from collections import Counter, deque
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
WORKSHOP = ROOT / "build" / "mutants"
LIST, RESULTS = ROOT / "tools" / "mutants.toml", ROOT / "tools" / "mutants-results.json"
MACHINE_CODE = "src/gatewise/kernels/__pycache__/machine_code"
SECONDS = 900  # a mutant that makes a test hang is one that was noticed
OPTIONS, QUICK = "-x -q --no-header -p no:cacheprovider -p no:xdist", "not slow and not pools and not statistics"
KILLED, SURVIVED, ARGUED = "killed", "survived", "survived, argued"
BAR = 0.95
PRELOADED = (
    "pytest", "hypothesis", "numpy", "scipy.stats", "scipy.optimize", "scipy.special", "sklearn.ensemble", "numba",
    "sklearn.utils.estimator_checks", "sklearn.linear_model", "sklearn.neighbors", "sklearn.tree", "sklearn.pipeline",
    "joblib", "threadpoolctl", "pandas", "torch",
)  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One line of a file, what takes its place, and the tests that must notice.

    ``argued`` says why no test can notice, for a mutant that changes nothing a user could see.
    """

    what: str
    room: str
    file: str
    line: str
    becomes: str
    tests: tuple[str, ...]
    argued: str = ""

    @property
    def compiled(self):
        """Whether the line is in a kernel, so that compiled code must be made anew."""
        return "/kernels/" in self.file and "/nn/" not in self.file


class Running(NamedTuple):
    """A mutant in its copy of the tree, and what the file was."""

    mutant: Mutant
    slot: int
    text: str
    stamp: os.stat_result
    since: float


def read_list():
    """The mutants of the table."""
    entries = tomllib.loads(LIST.read_text())["mutant"]
    return [Mutant(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


def copy_tree(target):
    """A copy of the files that git knows of, with the compiled code of the kernels as they are."""
    shutil.rmtree(target, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.splitlines()  # fmt: skip
    for name in listed:
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    if (ROOT / MACHINE_CODE).is_dir():
        shutil.copytree(ROOT / MACHINE_CODE, target / MACHINE_CODE)
    compileall.compile_dir(target / "src", quiet=1)  # what is not mutated is not compiled again by every mutant


def start(tests, tree, log, cache=None, seconds=0):
    """Run pytest on these tests in a forked process, which ends with pytest's exit code: its number."""
    number = os.fork()
    if number:
        return number
    code = 70
    try:
        signal.alarm(seconds)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(tree)
        sys.path[:0] = [str(tree / "src"), str(tree)]
        sys.dont_write_bytecode = cache is not None
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:2])  # for what a test starts
        if cache is not None:
            sys.modules["numba"].config.CACHE_DIR = str(cache)
        warnings_off = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # pytest was imported before the fork
        code = int(sys.modules["pytest"].main([*OPTIONS.split(), *warnings_off, "-m", QUICK, *tests]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def fingerprint(mutant):
    """A number for the file of a mutant and the text of its tests, which decide about it beside the rest."""
    parts = [
        mutant.line,
        mutant.becomes,
        *mutant.tests,
        (ROOT / mutant.file).read_text(),
        *map(text_of, mutant.tests),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def text_of(test):
    """The text of a test function, or of a whole file."""
    path, *names = test.split("::")
    text = (ROOT / path).read_text()
    if not names:
        return text
    name = re.escape(names[-1].partition("[")[0])
    found = re.search(rf"^( *)(?:def|class) {name}\b.*?(?=^\1(?:def|class|@)|^\S|\Z)", text, re.DOTALL | re.MULTILINE)
    return found[0] if found else text


def place(mutant, slot):
    """Put the line into the copy."""
    path = WORKSHOP / str(slot) / mutant.file
    text, stamp = path.read_text(), path.stat()
    if text.count(mutant.line) != 1:
        raise SystemExit(f"{mutant.what}: the line stands {text.count(mutant.line)} times in {mutant.file}")
    path.write_text(text.replace(mutant.line, mutant.becomes))
    return Running(mutant, slot, text, stamp, time.perf_counter())


def put_back(running):
    """The file as it was, with its time, so that bytecode of it is still good."""
    path = WORKSHOP / str(running.slot) / running.mutant.file
    path.write_text(running.text)
    os.utime(path, ns=(running.stamp.st_atime_ns, running.stamp.st_mtime_ns))
    shutil.rmtree(WORKSHOP / f"code-{running.slot}", ignore_errors=True)


def verdict_of(status, mutant, log):
    """What the end of pytest says about a mutant: code 1 is a test that failed, an alarm one that hung."""
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGALRM:
        return KILLED  # a crash is noticed, too
    code = 1 if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    if code == 0:
        return ARGUED if mutant.argued else SURVIVED
    return KILLED if code == 1 else f"pytest ended with {code}: {_tail(log)}"


def _tail(log):
    return "\n".join(Path(log).read_text(errors="replace").strip().splitlines()[-15:])


def run_whole(todo, slots):
    """The tests of all mutants without any of them, divided by file among the copies: they must pass."""
    tests = sorted({test for mutant in todo for test in mutant.tests})
    files = sorted({test.split("::")[0] for test in tests})
    begun = {}
    for slot in range(slots):
        mine = [test for test in tests if files.index(test.split("::")[0]) % slots == slot]
        if mine:
            log = WORKSHOP / f"whole-{slot}.log"
            begun[start(mine, WORKSHOP / str(slot), log)] = log
    for _ in range(len(begun)):
        number, status = os.wait()
        if status:
            raise SystemExit(f"tests fail without any mutant, so they can judge none:\n{_tail(begun[number])}")


def run(todo, slots, done):
    """Judge the mutants, one in every copy at a time, and keep every result at once."""
    waiting, free, begun, count = deque(todo), list(range(slots)), {}, 0
    while waiting or begun:
        while waiting and free:
            running = place(waiting.popleft(), free.pop())
            tree, log = WORKSHOP / str(running.slot), WORKSHOP / f"mutant-{running.slot}.log"
            cache = WORKSHOP / f"code-{running.slot}" if running.mutant.compiled else tree / MACHINE_CODE
            begun[start(running.mutant.tests, tree, log, cache, SECONDS)] = running
        number, status, used = os.wait4(-1, 0)
        running = begun.pop(number)
        mutant = running.mutant
        verdict = verdict_of(status, mutant, WORKSHOP / f"mutant-{running.slot}.log")
        put_back(running)
        free.append(running.slot)
        seconds = round(used.ru_utime + used.ru_stime, 1)
        row = {"room": mutant.room, "file": mutant.file, "verdict": verdict, "seconds": seconds}
        done[mutant.what] = {**row, "of": fingerprint(mutant)}
        RESULTS.write_text(json.dumps(done, indent=1) + "\n")
        count += 1
        print(f"{count}/{len(todo)} {verdict}: {mutant.file}: {mutant.what} ({seconds} s)", flush=True)


def summary(done):
    """Killed and all, by room."""
    total, killed, seconds = Counter(), Counter(), Counter()
    for row in done.values():
        total[row["room"]] += 1
        killed[row["room"]] += row["verdict"] == KILLED
        seconds[row["room"]] += row.get("seconds", 0.0)
    lines = [f"{'room':<14}{'mutants':>8}{'killed':>8}{'CPU s':>8}"]
    lines += [f"{room:<14}{total[room]:>8}{killed[room]:>8}{seconds[room]:>8.0f}" for room in sorted(total)]
    lines.append(f"{'all':<14}{total.total():>8}{killed.total():>8}{seconds.total():>8.0f}")
    living = [f"{row['verdict']}: {row['file']}: {what}" for what, row in done.items() if row["verdict"] != KILLED]
    return "\n".join([*lines, f"{killed.total() / max(total.total(), 1):.1%} killed", *living])


def _is_judged(mutant, row):
    """Whether a result is there, it is no error, and what it is of has not changed."""
    return row is not None and row["verdict"] in (KILLED, SURVIVED, ARGUED) and row["of"] == fingerprint(mutant)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="mutants with this in their room, file or description")
    parser.add_argument("--again", action="store_true", help="those that were judged before, too")
    parser.add_argument("--trust", action="store_true", help="do not run the tests without a mutant first")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    done = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    known = {mutant.what: mutant for mutant in read_list()}
    done = {what: row for what, row in done.items() if what in known}
    wanted = [m for m in known.values() if options.only in f"{m.room}/{m.file}/{m.what}"]
    todo = [m for m in wanted if options.again or not _is_judged(m, done.get(m.what))]
    if todo:
        os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
        for name in PRELOADED:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        for slot in range(options.cores):
            copy_tree(WORKSHOP / str(slot))
        if not options.trust:
            run_whole(todo, options.cores)
        run(todo, options.cores, done)
    print(summary(done))
    dead = sum(row["verdict"] == KILLED for row in done.values())
    if any(row["verdict"] not in (KILLED, ARGUED) for row in done.values()) or dead < BAR * len(done):
        raise SystemExit("some mutants live")


if __name__ == "__main__":
    main()
