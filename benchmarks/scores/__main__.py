"""``python -m benchmarks.scores``: every trial of `ScoreRouter`; it goes on where it stopped.

Each trial is kept in the folder of --out; --part runs some of them. The figures go to benchmarks/results/scores.json.
"""

import ast
import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import gatewise.scores
from benchmarks.command import start
from benchmarks.scores import summary, trials
from benchmarks.scores.answers import Answers, read_answers, read_features
from gatewise import ScoreRouter
from gatewise.scores.answer_model import fit_answers
from gatewise.scores.prepared_folds import PreparedFolds
from gatewise.scores.queries import Queries, QueryReader

PARTS = ("time", "accuracy", "pools", "level", "power", "promises", "bandit")
N_SPLITS, N_NULLS, N_SAMPLES, N_PROMISES, N_STREAMS = 20, 200, 20, 100, 20
PROMISED = 1000  # questions behind a promise, and fresh ones that it is held to
HERE = Path(__file__).parent
RESULT = HERE.parent / "results" / "scores.json"
SOURCES = [  # all that the figures depend on: route_regions.py is for display
    *sorted(path for path in Path(gatewise.scores.__file__).parent.glob("*.py") if path.name != "route_regions.py"),
    *(HERE / name for name in ("answers.py", "rivals.py", "trials.py")),
]


class Store:
    """Results of trials in one JSON file a part, by key; a trial that is there is not run again.

    The files of one version of the code lie in a folder of their own, named by a hash of it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / code_hash(SOURCES)
        self.folder.mkdir(parents=True, exist_ok=True)

    def read(self, part: str) -> dict[str, Any]:
        """All results of a part."""
        path = self.folder / f"{part}.json"
        return dict(json.loads(path.read_text())) if path.is_file() else {}

    def fill(self, part: str, jobs: Mapping[str, Callable[[], Any]], most: int) -> None:
        """Run trials that are not there until there are ``most``."""
        found = self.read(part)
        for key, job in jobs.items():
            if key in found:
                continue
            if len(found) >= most:
                print(f"{part}: stopped at {len(found)} of {len(jobs)}")
                break
            found[key] = job()
            (self.folder / f"{part}.json").write_text(json.dumps(found))


def code_hash(paths: Sequence[Path]) -> str:
    """A hash of Python files that comments, docstrings and line breaks do not change."""
    parts = []
    for path in paths:
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            first = getattr(node, "body", None)
            if isinstance(first, list) and first and ast.get_docstring(_documented(node), clean=False) is not None:
                first[0] = ast.Pass()
        parts.append(f"{path.name}: {ast.dump(tree)}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _documented(node: ast.AST) -> Any:
    """The node, or an empty module where it can have no docstring."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return node if isinstance(node, kinds) else ast.Module([], [])


Jobs = dict[str, Callable[[], Any]]


def jobs_of(answers: Answers, reader: QueryReader, queries: Queries) -> dict[str, Callable[[], Jobs]]:
    """For every part a function that lists its trials by key."""
    rows = (reader, queries, answers)
    sizes = [(n, s) for n in (250, 500, 1000, 2000) for s in range(N_SAMPLES)]
    pools = trials.named_pools(answers.names)
    return {
        "time": lambda: {"fit": partial(_timed, answers)},
        "accuracy": lambda: {str(s): partial(trials.accuracy_trial, *rows, s) for s in range(N_SPLITS)},
        "pools": lambda: {name: partial(trials.pool_trial, *rows, models, 0) for name, models in pools.items()},
        "level": lambda: _level_jobs(answers, queries),
        "power": lambda: {f"{n} {s}": partial(trials.power_trial, queries, answers, n, s) for n, s in sizes},
        "promises": lambda: {
            str(s): partial(trials.promise_trial, *rows, PROMISED, 500 + s) for s in range(N_PROMISES)
        },
        "bandit": lambda: {str(s): partial(trials.bandit_trial, *rows, 0.1, 900 + s) for s in range(N_STREAMS)},
    }


def _level_jobs(answers: Answers, queries: Queries) -> Jobs:
    folds = np.array_split(np.random.default_rng(0).permutation(len(queries)), 5)
    prepared = PreparedFolds.prepare(queries, folds, 0)
    chances = fit_answers(answers.right).chances(answers.right)
    nulls = [(null, s) for s in range(N_NULLS) for null in ("permuted", "drawn")]
    return {f"{null} {s}": partial(trials.level_trial, prepared, answers, chances, null, s) for null, s in nulls}


def main(
    data: Annotated[Path | None, typer.Option(help="The table of answers.")] = None,
    part: Annotated[list[str] | None, typer.Option(help=f"Some of {', '.join(PARTS)}.")] = None,
    out: Annotated[Path, typer.Option(help="Where the trials are kept.")] = Path("out/scores"),
    most: Annotated[int, typer.Option(help="Trials of a part; all unless given.")] = 10**6,
) -> None:
    """Run the trials and print what they found."""
    answers = read_answers(data)
    if answers is None:
        return
    store = Store(out)
    jobs = jobs_of(answers, *read_features(answers))
    for name in part or PARTS:
        store.fill(name, jobs[name](), most)
    figures = summary.figures({name: store.read(name) for name in PARTS})
    RESULT.write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures, indent=2))


def _timed(answers: Answers) -> dict[str, float]:
    """Seconds of a fit to all questions with text, and milliseconds of one decision from its features.

    A decision is the best of 50 means over ten, as other work on the machine only adds to it.
    """
    begin, cpu = time.perf_counter(), time.process_time()
    router = ScoreRouter(n_jobs=2, random_state=0).fit(answers.X, answers.right, answers.costs)
    wall, spent = time.perf_counter() - begin, time.process_time() - cpu
    row = answers.X.iloc[:1]
    one = router.features(row)
    return {
        "fit_seconds": wall,
        "fit_cpu_seconds": spent,
        "decision_ms": _best_ms(lambda: router.decide(one)),
        "decision_from_text_ms": _best_ms(lambda: router.decide(row)),
    }


def _best_ms(call: Callable[[], Any]) -> float:
    call()
    found = []
    for _ in range(50):
        begin = time.perf_counter()
        for _ in range(10):
            call()
        found.append(100.0 * (time.perf_counter() - begin))
    return min(found)


if __name__ == "__main__":
    start(main)
