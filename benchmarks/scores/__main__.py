"""``python -m benchmarks.scores``: every trial of `ScoreRouter`; it goes on where it stopped.

Each trial is kept in the folder of --out; --part runs some of them. The figures go to benchmarks/results/scores.json.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.command import start
from benchmarks.scores import summary, trials
from benchmarks.scores.answers import read_answers, read_features
from gatewise import ScoreRouter
from gatewise.scores.linear_folds import LinearFolds
from gatewise.scores.routability import answer_chances

PARTS = ("time", "accuracy", "pools", "level", "power", "promises", "bandit")
N_SPLITS, N_NULLS, N_PROMISES, N_STREAMS = 20, 200, 40, 10
RESULT = Path(__file__).parents[1] / "results" / "scores.json"


class Store:
    """Results of trials in one JSON file a part, by key; a trial that is there is not run again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def read(self, part: str) -> dict[str, Any]:
        """All results of a part."""
        path = self.folder / f"{part}.json"
        return dict(json.loads(path.read_text())) if path.is_file() else {}

    def fill(self, part: str, jobs: dict[str, Callable[[], Any]], most: int) -> None:
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
    store, wanted = Store(out), part or list(PARTS)
    reader, queries = read_features(answers)
    rows, n = (reader, queries, answers), len(queries)
    if "time" in wanted:
        store.fill("time", {"fit": lambda: _timed(answers)}, most)
    if "accuracy" in wanted:
        jobs = {str(s): lambda s=s: trials.accuracy_trial(*rows, s) for s in range(N_SPLITS)}
        store.fill("accuracy", jobs, most)
    if "pools" in wanted:
        pools = trials.named_pools(answers.names)
        jobs = {name: lambda m=m: trials.pool_trial(*rows, m, 0) for name, m in pools.items()}
        store.fill("pools", jobs, most)
    if "level" in wanted:
        folds = np.array_split(np.random.default_rng(0).permutation(n), 5)
        linear, chances = LinearFolds.prepare(queries, folds, 0), answer_chances(answers.right)
        nulls = [(null, s) for s in range(N_NULLS) for null in ("permuted", "drawn")]
        jobs = {
            f"{null} {s}": lambda null=null, s=s: trials.level_trial(linear, answers, chances, null, s)
            for null, s in nulls
        }
        store.fill("level", jobs, most)
    if "power" in wanted:
        sizes = [(m, s) for m in (250, 500, 1000, 2000) for s in range(20)]
        jobs = {f"{m} {s}": lambda m=m, s=s: trials.power_trial(queries, answers, m, s) for m, s in sizes}
        store.fill("power", jobs, most)
    if "promises" in wanted:
        jobs = {str(s): lambda s=s: trials.promise_trial(*rows, 1500, 500 + s) for s in range(N_PROMISES)}
        store.fill("promises", jobs, most)
    if "bandit" in wanted:
        jobs = {str(s): lambda s=s: trials.bandit_trial(*rows, 0.1, 900 + s) for s in range(N_STREAMS)}
        store.fill("bandit", jobs, most)
    figures = summary.figures({name: store.read(name) for name in PARTS})
    RESULT.write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures, indent=2))


def _timed(answers: Any) -> dict[str, float]:
    """Seconds of a fit to all questions with text, and milliseconds of one decision from its features."""
    begin, cpu = time.perf_counter(), time.process_time()
    router = ScoreRouter(n_jobs=2, random_state=0).fit(answers.X, answers.right, answers.costs)
    wall, spent = time.perf_counter() - begin, time.process_time() - cpu
    one = router.features(answers.X.iloc[:1])
    router.decide(one)
    begin = time.perf_counter()
    for _ in range(200):
        router.decide(one)
    return {"fit_seconds": wall, "fit_cpu_seconds": spent, "decision_ms": 5.0 * (time.perf_counter() - begin)}


if __name__ == "__main__":
    start(main)
