"""Rows in blocks and work on a cluster: the results are those of one machine."""

import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import joblib
import numba
import numpy as np
import pandas as pd
import pytest
from joblib.parallel import ThreadingBackend
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

import gatewise as gw
from gatewise import arrays, backends
from gatewise.arrays import RowDraw
from gatewise.estimators import large_rows
from gatewise.experts import ColumnExpert
from gatewise.experts.pool import Pool

distributed = pytest.importorskip("dask.distributed")
import dask.array as da
import dask.dataframe as dd

QUICK = gw.MoESettings(test=False, learners=())
n = 400


def data(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.where(X[:, 0] > 0, X[:, 1], -X[:, 2]) + 0.1 * rng.normal(size=n)


def prefit(X, y, **options):
    experts = [
        ("a", Ridge().fit(X[:100], X[:100, 1])),
        ("b", DecisionTreeRegressor(max_depth=3).fit(X[:100], y[:100])),
    ]
    return gw.MoERegressor(experts, cv="prefit", gates=["linear"], settings=QUICK, random_state=0, **options)


def on_frames(table, y):
    """The model of `prefit`, fitted to a data frame."""
    model = prefit(table.to_numpy(), y)
    model.experts = [(name, _OnFrames(expert)) for name, expert in model.experts]
    return model.fit(table, y)


def same(a, b, tolerance=1e-9):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=0, atol=tolerance)


class TestBlocks:
    def test_a_draw_depends_on_the_number_of_a_row_alone(self, monkeypatch):
        monkeypatch.setattr(arrays, "STRETCH", 16)
        draw = RowDraw(0.3, seed=1)
        cuts = [0, 5, 40, 41, 200]
        parts = [start + draw(start, stop) for start, stop in pairwise(cuts)]
        np.testing.assert_array_equal(np.concatenate(parts), draw(0, 200))
        assert 30 <= len(draw(0, 200)) <= 90
        assert not np.array_equal(RowDraw(0.3, seed=2)(0, 200), draw(0, 200))

    def test_dask_arrays_and_frames_give_what_rows_in_memory_give(self):
        X, y = data()
        here = prefit(X, y).fit(X, y)
        blocks, target = da.from_array(X, chunks=(90, 2)), da.from_array(y, chunks=90)
        there = prefit(X, y).fit(blocks, target)
        answer, sd = there.predict(blocks, return_std=True)
        assert answer.chunks == ((90, 90, 90, 90, 40),)
        same(answer.compute(), here.predict(X))
        same(sd.compute(), here.predict(X, return_std=True)[1])
        frame = pd.DataFrame(X, columns=list("abc"))
        lazy = dd.from_pandas(frame, npartitions=3)
        plain = prefit(X, y)
        plain.experts = [(name, _OnFrames(expert)) for name, expert in plain.experts]
        there = plain.fit(lazy, dd.from_pandas(pd.Series(y), npartitions=3))
        same(there.predict(lazy).compute(), here.predict(X))

    @pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame.reset_index")  # dask uses it
    @pytest.mark.parametrize("index", [True, False])
    def test_frames_of_two_tables_belong_together_by_their_place(self, tmp_path, index):
        X, y = data()
        table, known = pd.DataFrame(X, columns=list("abc")), pd.DataFrame({"y": y, "other": 0.0})
        for part in range(4):
            rows = slice(100 * part, 100 * part + 100)
            for name, frame in (("X", table), ("y", known)):
                (tmp_path / name).mkdir(exist_ok=True)
                frame[rows].reset_index(drop=True).to_parquet(tmp_path / name / f"{part}.parquet", index=index)
        rows, answers = (dd.read_parquet(tmp_path / name) for name in ("X", "y"))
        plain = prefit(X, y)
        plain.experts = [(name, _OnFrames(expert)) for name, expert in plain.experts]
        expected = plain.fit(table, y).predict(table)
        for response in (answers["y"], answers[["y"]], da.from_array(y, chunks=100)):
            found = plain.fit(rows, response)
            np.testing.assert_allclose(found.predict(table), expected, atol=1e-12)
            np.testing.assert_array_equal(found.out_of_fold_.y, y[found.out_of_fold_.rows])
        few = prefit(X, y).fit(da.from_array(X, chunks=(100, 3)), answers["y"])  # an array, and a column of files
        np.testing.assert_allclose(few.predict(X), expected, atol=1e-12)
        short = answers[answers["y"] > y.min()]["y"]
        with pytest.raises(ValueError, match="a block of X has 100 rows, and of y 99; divide them alike"):
            plain.fit(rows, short)
        with pytest.raises(ValueError, match="y must be divided into 4 blocks, as X is; repartition it"):
            plain.fit(rows, answers["y"].repartition(npartitions=2))

    def test_numbers_of_four_bytes_stay_so_and_give_what_those_of_eight_give(self):
        X, y = data()
        small, seen = X.astype(np.float32), []
        model = prefit(small, y)
        model.experts = [(name, _Asked(expert, seen)) for name, expert in model.experts]
        model.fit(da.from_array(small, chunks=(90, 3)), y)
        assert set(seen) == {np.dtype(np.float32)}
        whole = prefit(small, y).fit(small.astype(np.float64), y)
        same(model.predict(small), whole.predict(small.astype(np.float64)), 1e-5)

    def test_of_too_many_rows_a_part_is_used_and_the_same_one_everywhere(self, monkeypatch):
        X, y = data()
        everything = prefit(X, y).fit(X, y)
        monkeypatch.setattr(large_rows, "MOST_NUMBERS", 600)
        here = prefit(X, y).fit(X, y, sample_weight=np.ones(n))
        there = prefit(X, y).fit(da.from_array(X, chunks=(70, 3)), da.from_array(y, chunks=70))
        assert 150 <= len(here.out_of_fold_.y) <= 250  # 600 / 3 on average
        same(here.predict(X), there.predict(X))
        assert np.abs(here.predict(X) - everything.predict(X)).max() > 1e-9
        monkeypatch.setattr(large_rows, "MOST_NUMBERS", 10**6)
        monkeypatch.setattr(large_rows, "MOST_ROWS", 200)
        same(prefit(X, y).fit(X, y).predict(X), here.predict(X))

    def test_groups_and_numbers_of_rows_follow_the_part_that_is_used(self, monkeypatch):
        X, y = data()
        X, y = np.tile(X, (2, 1)), np.tile(y, 2)
        groups = np.tile(np.arange(n), 2)
        monkeypatch.setattr(large_rows, "MOST_ROWS", n)
        here = prefit(X, y).fit(X, y, groups=groups)
        blocks = da.from_array(X, chunks=(150, 3))
        there = prefit(X, y).fit(blocks, y, groups=da.from_array(groups, chunks=150))
        rows = here.out_of_fold_.rows
        assert rows.max() > 3 * n / 2
        for model in (here, there):
            np.testing.assert_array_equal(model.out_of_fold_.rows, rows)
            np.testing.assert_array_equal(model.out_of_fold_.y, y[rows])
        same(here.predict(X), there.predict(X))
        wild = prefit(X, y)
        X[rows[-1], 0] = 100.0
        wild.experts = [("a", _Wild(wild.experts[0][1])), *wild.experts[1:]]
        with pytest.raises(ValueError, match=f"at row {rows[-1]}"):
            wild.fit(X, y)

    @pytest.mark.parametrize("name", ["y", "sample_weight", "groups"])
    def test_of_too_many_rows_all_that_is_given_must_have_as_many(self, monkeypatch, name):
        X, y = data()
        monkeypatch.setattr(large_rows, "MOST_ROWS", 200)
        for count in (n - 5, 2 * n):
            given = {"y": y, name: np.resize(y if name == "y" else np.arange(n), count)}
            with pytest.raises(ValueError, match=f"^{name} must have 400 rows, as X has, not {count}"):
                prefit(X, y).fit(X, **given)

    def test_a_large_block_is_predicted_in_pieces(self, monkeypatch):
        X, y = data()
        model, blocks = prefit(X, y).fit(X, y), da.from_array(X, chunks=(300, 3))
        monkeypatch.setattr(backends, "ANSWERED", 70)
        mean, sd = model.predict(blocks, return_std=True)
        assert mean.chunks == ((300, 100),)
        same(np.stack([mean, sd]), np.stack(model.predict(X, return_std=True)))

    @pytest.mark.parametrize("cuts", [(100, 0, 250, 50, 0), (0, 400), (400, 0)])
    def test_blocks_without_rows_stay_blocks(self, cuts):
        X, y = data()
        model, here = prefit(X, y).fit(X, y), prefit(X, y).fit(X, y).predict(X)
        blocks = da.from_array(X, chunks=(cuts, 3))
        for answer in (model.predict(blocks), *model.predict(blocks, return_std=True)[:1]):
            assert answer.chunks == (cuts,)
            assert [len(block.compute()) for block in answer.blocks] == list(cuts)
            same(answer.compute(), here)
        same(prefit(X, y).fit(blocks, da.from_array(y, chunks=(cuts,))).predict(X), here)
        assert model.predict(blocks[:0]).compute().shape == (0,)

    def test_blocks_that_a_choice_of_rows_left_empty_answer_nothing(self):
        X, y = data()
        chosen = X[:, 0] > 2.0
        model, blocks = prefit(X, y).fit(X, y), da.from_array(X, chunks=(40, 3))
        answer = model.predict(blocks[blocks[:, 0] > 2.0])
        assert 0 in [len(block.compute()) for block in answer.blocks]
        same(answer.compute(), model.predict(X[chosen]))
        table = pd.DataFrame(X, columns=list("abc"))
        frame, model = dd.from_pandas(table, npartitions=10), on_frames(table, y)
        lazy = model.predict(frame[frame["a"] > 2.0], return_std=True)
        assert lazy[0].numblocks == (10,)
        for found, expected in zip(lazy, model.predict(table[chosen], return_std=True), strict=True):
            same(found.compute(), expected)

    @pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame.reset_index")  # dask uses it
    def test_a_few_columns_of_many_have_the_partitions_of_the_frame(self, tmp_path):
        X, y = data()
        table = pd.DataFrame(np.tile(X, 12)).rename(columns=lambda j: f"x{j}")
        for part in range(4):
            table[100 * part : 100 * part + 100].to_parquet(tmp_path / f"{part}.parquet", index=False)
        model = on_frames(table[["x0", "x1", "x2"]], y)
        rows = dd.read_parquet(tmp_path)[["x0", "x1", "x2"]] * 2.0
        answer = model.predict(rows)
        assert answer.numblocks == (rows.npartitions,) == (4,)
        expected = model.predict(table[["x0", "x1", "x2"]] * 2.0)
        same(answer.compute(), expected)
        same(answer.blocks[2].compute(), expected[200:300])

    def test_held_out_columns_do_not_keep_their_rows_in_memory(self):
        X, y = data()
        frame = pd.DataFrame(X, columns=list("abc"))
        pool = Pool.of([("a", ColumnExpert("a"))])
        ((_, kept),) = pool._fit_splits(frame, y, [(np.arange(300), np.arange(300, n))], "experts")[0]
        assert kept.base is None
        same(kept, X[300:, 0], 0.0)

    def test_where_no_thread_can_be_started_an_error_says_so(self, monkeypatch):
        X, y = data()
        started = []

        def start(thread):
            started.append(thread)
            if len(started) > 1:  # joblib then fails to end the first
                raise RuntimeError("can't start new thread")

        monkeypatch.setattr(threading.Thread, "start", start)
        monkeypatch.setattr(threading.Thread, "join", lambda *_: None)
        monkeypatch.setattr(numba, "get_num_threads", lambda: 2)
        model = prefit(X, y)
        model.gates = ["linear", "quadratic"]
        with pytest.raises(MemoryError, match="for one more thread: free some, fit to fewer rows"):
            model.fit(X, y)
        assert not hasattr(model, "verdict_")

    def test_errors_name_the_remedy(self):
        X, y = data()
        blocks = da.from_array(X, chunks=(90, 3))
        with pytest.raises(ValueError, match="set cv='prefit'"):
            gw.MoERegressor([Ridge(), Ridge(2.0)]).fit(blocks, y)
        with pytest.raises(ValueError, match="y must be divided into 5 blocks, as X is"):
            prefit(X, y).fit(blocks, da.from_array(y, chunks=200))
        with pytest.raises(ValueError, match="y has 399 rows, but X has 400"):
            prefit(X, y).fit(blocks, y[:-1])

    @pytest.mark.slow
    def test_classes(self):
        from sklearn.linear_model import LogisticRegression
        from sklearn.naive_bayes import GaussianNB

        X, y = data()
        labels = np.where(y > 0, "up", "down")
        experts = [("line", LogisticRegression().fit(X[:150], labels[:150])), ("bayes", GaussianNB().fit(X, labels))]
        model = gw.MoEClassifier(experts, cv="prefit", gates=["linear"], settings=QUICK, random_state=0)
        here = model.fit(X, labels).predict_proba(X)
        blocks = da.from_array(X, chunks=(150, 3))
        there = model.fit(blocks, da.from_array(labels, chunks=150))
        same(there.predict_proba(blocks).compute(), here)
        assert (there.predict(blocks).compute() == there.predict(X)).all()


NAMES = [f"x{j}" for j in range(20)]
IN_A_PROCESS = """
import sys
from pathlib import Path
import dask.dataframe as dd
import numpy as np
from tests.estimators.test_large_rows import NAMES, of_columns
table = dd.read_parquet(sys.argv[1] + "/*.parquet")
model = of_columns().fit(table[NAMES], table["y"])
answers = model.predict(table[NAMES])
total, first = answers.sum().compute(), answers.blocks[0].compute()
status = Path("/proc/self/status").read_text().splitlines()
largest = next(float(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
np.savez(sys.argv[2], first=first, total=total, largest=largest, rows=model.out_of_fold_.rows)
"""


def of_columns():
    experts = [(f"e{m}", ColumnExpert(f"x{16 + m}")) for m in range(4)]
    return gw.MoERegressor(experts, cv="prefit", gates=["linear"], settings=QUICK, random_state=0)


def write_files(folder, count, size):
    """Files of a table that has 16 inputs, four forecasts and a response."""
    for number in range(count):
        rng = np.random.default_rng([3, number])
        X = rng.normal(size=(size, 16))
        truth = np.sin(2 * X[:, 0]) + X[:, 1]
        F = truth[:, None] + rng.normal(size=(size, 4)) * (0.2 + (X[:, :4] > 0))
        frame = pd.DataFrame(np.column_stack([X, F]), columns=NAMES).assign(y=truth + 0.3 * rng.normal(size=size))
        frame.to_parquet(folder / f"{number:03}.parquet", compression=None, index=False)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory of a process is read from /proc")
def test_a_folder_larger_than_the_memory_of_the_process_that_fits_and_predicts_it(tmp_path, monkeypatch):
    count, size = 120, 2**17
    write_files(tmp_path, count, size)
    command = [sys.executable, "-c", IN_A_PROCESS, str(tmp_path), str(tmp_path / "found.npz")]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[2])
    found = np.load(tmp_path / "found.npz")
    assert count * size * 21 * 8 > 1.2 * found["largest"]
    draw = RowDraw(arrays.MOST_ROWS / (count * size), seed=0)
    parts = [
        pd.read_parquet(tmp_path / f"{number:03}.parquet").iloc[draw(size * number, size * (number + 1))]
        for number in range(count)
    ]
    rows = pd.concat(parts)
    monkeypatch.setattr(large_rows, "MOST_ROWS", 2 * len(rows))  # they are those already that a fit would draw
    here = of_columns().fit(rows[NAMES], rows["y"])
    places = [size * number + draw(size * number, size * (number + 1)) for number in range(count)]
    np.testing.assert_array_equal(np.concatenate(places)[here.out_of_fold_.rows], found["rows"])
    same(here.predict(pd.read_parquet(tmp_path / "000.parquet")[NAMES]), found["first"])
    truths = (here.predict(pd.read_parquet(file)[NAMES]).sum() for file in sorted(tmp_path.glob("*.parquet")))
    np.testing.assert_allclose(sum(truths), found["total"], rtol=0, atol=1e-9 * count * size)


class _Asked:
    """A regressor that notes the type of the numbers that it is asked for."""

    def __init__(self, model, seen):
        self.model, self.seen = model, seen

    def predict(self, X):
        self.seen.append(X.dtype)
        return self.model.predict(X)


class _Wild:
    """A regressor that answers infinity where the first input is above 99."""

    def __init__(self, model):
        self.model = model

    def predict(self, X):
        return np.where(X[:, 0] > 99.0, np.inf, self.model.predict(X))


class _OnFrames:
    """A regressor of arrays that takes data frames."""

    def __init__(self, model):
        self.model = model

    def predict(self, X):
        return self.model.predict(np.asarray(X))


@contextmanager
def cluster(processes):
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "memory_limit": 0}
    place = {"host": "127.0.0.1"} if processes else {}
    with (
        distributed.LocalCluster(processes=processes, **place, **options) as workers,
        distributed.Client(workers) as client,
    ):
        yield client


def fitted(X, y, last):
    experts = [("ridge", Ridge()), ("tree", DecisionTreeRegressor(max_depth=4, random_state=0)), ("last", last)]
    return gw.MoERegressor(experts, gates=["linear"], settings=QUICK, random_state=0).fit(
        X, y, np.linspace(0.5, 1.5, n)
    )


class _Shipments:
    """What a client sends: arrays that are scattered, and the bytes of every task without them."""

    def __init__(self, client, monkeypatch):
        import cloudpickle

        self.scattered, self.tasks = [], []
        scatter, submit = client.scatter, client.submit

        def scattering(data, **options):
            self.scattered += [id(one) for one in data] if isinstance(data, list) else [id(data)]
            return scatter(data, **options)

        def submitting(work, *args, tasks=(), **options):
            bare = [
                [None if isinstance(a, distributed.Future) else a for a in (*args, *kwargs.values())]
                for _, args, kwargs in tasks
            ]
            self.tasks.append(len(cloudpickle.dumps(bare)))
            return submit(work, *args, tasks=tasks, **options)

        monkeypatch.setattr(client, "scatter", scattering)
        monkeypatch.setattr(client, "submit", submitting)


@pytest.mark.filterwarnings("ignore")
def test_on_a_cluster_arrays_travel_once_and_results_are_the_same(monkeypatch):
    X, y = data()
    here = fitted(X, y, Ridge(100.0))
    with cluster(processes=False) as client:
        seen = _Shipments(client, monkeypatch)
        with joblib.parallel_config(backend="dask"):
            there = fitted(X, y, Ridge(100.0))
    same(there.predict(X), here.predict(X))
    assert len(seen.scattered) == len(set(seen.scattered))
    assert len(seen.scattered) <= 34  # X, targets, weights, and the rows of five folds, of their pairs and of all
    assert max(seen.tasks) < 10_000 < X.nbytes + y.nbytes  # an expert, and references


class _AllAtOnce(ThreadingBackend):
    """A backend that, as ray's, hands out results at the end only."""

    supports_return_generator = False


def test_a_backend_may_hand_out_results_at_the_end_only():
    X, y = data()
    here = fitted(X, y, Ridge(100.0))
    with joblib.parallel_config(backend=_AllAtOnce(), n_jobs=2):
        there = fitted(X, y, Ridge(100.0))
    same(there.predict(X), here.predict(X), 0.0)


class _KillsItsWorker(RegressorMixin, BaseEstimator):
    """A ridge whose first fit on a cluster ends the process that it runs in."""

    def __init__(self, flag=""):
        self.flag = flag

    def fit(self, X, y, sample_weight=None):
        if not Path(self.flag).exists():
            Path(self.flag).touch()
            os._exit(1)
        self.model_ = Ridge(100.0).fit(X, y, sample_weight)
        return self

    def predict(self, X):
        return self.model_.predict(X)


@pytest.mark.pools
@pytest.mark.filterwarnings("ignore")
def test_a_fit_ends_right_when_a_worker_is_killed_in_its_middle(tmp_path):
    X, y = data()
    here = fitted(X, y, Ridge(100.0))
    flag = tmp_path / "killed"
    with cluster(processes=True), joblib.parallel_config(backend="dask"):
        there = fitted(X, y, _KillsItsWorker(str(flag)))
    assert flag.exists()
    same(there.predict(X), here.predict(X))


@pytest.mark.pools
@pytest.mark.filterwarnings("ignore")
def test_blocks_are_read_and_predicted_by_the_workers(tmp_path):
    X, y = data()
    frame = pd.DataFrame(X, columns=list("abc"))
    for part in range(4):
        frame.iloc[100 * part : 100 * (part + 1)].assign(y=y[100 * part : 100 * (part + 1)]).to_parquet(
            tmp_path / f"{part}.parquet"
        )
    model = prefit(X, y)
    model.experts = [(name, _OnFrames(expert)) for name, expert in model.experts]
    here = model.fit(frame, y).predict(frame)
    with cluster(processes=True):
        lazy = dd.read_parquet(tmp_path / "*.parquet")
        there = model.fit(lazy[list("abc")], lazy["y"])
        same(there.predict(lazy[list("abc")]).compute(), here)
