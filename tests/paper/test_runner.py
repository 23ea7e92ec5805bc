"""Replications: every backend, every number of processes and every interruption gives the same bits."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from gatewise.backends import dask_cluster, in_turn, processes
from gatewise.paper.runner import Runner
from gatewise.paper.store import Store
from gatewise.paper.table1 import replicate

KINDS = (("linear", "halves"), ("kernel", "all rows"))
TASKS = [("quadratic", gate, 200, setting, r, 3) for r in range(2) for gate, setting in KINDS]


def work(x, y):
    """Something with a long mantissa; arrays must come back as lists."""
    return {"sum": np.sqrt(np.array([x, y])), "x": x}


def blas_threads():
    return max(pool["num_threads"] for pool in threadpool_info())


class StopError(Exception):
    pass


def dying_after(count):
    def backend(work, tasks):
        for done, numbered in enumerate(in_turn(work, tasks)):
            if done == count:
                raise StopError
            yield numbered

    return backend


@pytest.mark.pools
def test_processes_give_the_bits_of_one_process():
    one = Runner().run("table1/1", replicate, TASKS)
    assert one == Runner(processes(2)).run("table1/1", replicate, TASKS)


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path):
    tasks = [(i, 2) for i in range(10)]
    store = Store(tmp_path / "runs.sqlite")
    with pytest.raises(StopError):
        Runner(dying_after(4), store).run("work/1", work, tasks)
    seen = []

    def counting(items, done, total):
        seen.append((done, total))
        return items

    resumed = Runner(in_turn, store, counting).run("work/1", work, tasks)
    assert resumed == Runner().run("work/1", work, tasks)
    assert seen == [(4, 10)]
    assert Runner(dying_after(0), store).run("work/1", work, tasks) == resumed  # all of it is in the store


def test_another_version_and_another_task_are_not_taken_from_the_store(tmp_path):
    store = Store(tmp_path / "runs.sqlite")
    Runner(in_turn, store).run("work/1", work, [(1, 2)])
    for name, tasks in (("work/2", [(1, 2)]), ("work/1", [(1, 3)]), ("other/1", [(1, 2)])):
        with pytest.raises(StopError):
            Runner(dying_after(0), store).run(name, work, tasks)


def test_the_store_keeps_every_bit(tmp_path):
    store = Store(tmp_path / "runs.sqlite")
    fresh = Runner(in_turn, store).run("work/1", work, [(2, 3)])
    assert Runner(in_turn, store).run("work/1", work, [(2, 3)]) == fresh == [{"sum": [2**0.5, 3**0.5], "x": 2}]


@pytest.mark.parametrize("backend", [in_turn, pytest.param(processes(2), marks=pytest.mark.pools)])
def test_linear_algebra_has_one_thread_in_a_replication(backend):
    assert Runner(backend).run("threads/1", blas_threads, [()]) == [1]


def test_the_number_of_processes_is_checked():
    with pytest.raises(ValueError, match="jobs must be"):
        processes(0)


@pytest.fixture(scope="module")
def address():
    distributed = pytest.importorskip("dask.distributed")
    options = {"host": "127.0.0.1", "dashboard_address": None, "processes": True}
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster:
        yield cluster.scheduler_address


class TestDask:
    @pytest.mark.pools
    def test_a_cluster_gives_the_bits_of_one_process(self, address):
        there = Runner(dask_cluster(address)).run("table1/1", replicate, TASKS)
        assert there == Runner().run("table1/1", replicate, TASKS)

    @pytest.mark.pools
    def test_the_command(self, address, reproduce):
        code, _, _ = reproduce("scales", "--reps", "2", "--json", "here.json", "--out", "here", "--jobs", "1")
        assert code == 0
        arguments = ("--backend", "dask", "--scheduler", address, "--json", "there.json", "--out", "there")
        code, _, err = reproduce("scales", "--reps", "2", *arguments)
        assert (code, err.count("Traceback")) == (0, 0)
        assert reproduce.read("here.json") == reproduce.read("there.json")

    def test_nobody_answers(self, reproduce, monkeypatch):
        pytest.importorskip("dask.distributed")
        monkeypatch.setattr("gatewise.backends.SECONDS_TO_ANSWER", 0.5)
        code, _, err = reproduce("scales", "--backend", "dask", "--scheduler", "tcp://127.0.0.1:9")
        assert (code, last(err)) == (
            2,
            "gatewise: no dask scheduler answers at 'tcp://127.0.0.1:9'; start one, or name its address",
        )

    def test_dask_is_not_installed(self, reproduce, monkeypatch):
        monkeypatch.setitem(sys.modules, "dask.distributed", None)
        code, _, err = reproduce("scales", "--backend", "dask", "--scheduler", "tcp://127.0.0.1:9")
        assert (code, last(err)) == (2, "gatewise: the dask backend needs: pip install 'gatewise[dask]'")

    def test_what_is_missing_is_named(self, reproduce):
        assert "needs --scheduler" in last(reproduce("scales", "--backend", "dask")[2])
        assert "must be 'joblib' or 'dask'" in last(reproduce("scales", "--backend", "slurm")[2])


def last(text):
    return text.strip().splitlines()[-1]


@pytest.mark.pools
def test_a_killed_command_is_resumed_to_the_same_bits(reproduce, tmp_path):
    arguments = ["shared", "--reps", "8", "--jobs", "1"]
    command = [sys.executable, "-m", "gatewise", "reproduce", *arguments, "--out", "killed"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL, start_new_session=True)
    store = tmp_path / "killed" / "replications.sqlite"
    deadline = time.monotonic() + 120
    while stored(store) < 5 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert 5 <= stored(store) < 64
    assert reproduce(*arguments, "--out", "killed", "--json", "killed.json")[0] == 0
    assert reproduce(*arguments[:-1], "2", "--out", "whole", "--json", "whole.json")[0] == 0
    assert reproduce.read("killed.json") == reproduce.read("whole.json")


def stored(path):
    try:
        with closing(sqlite3.connect(path)) as database:
            return database.execute("SELECT count(*) FROM records").fetchone()[0]
    except sqlite3.OperationalError:  # not there yet
        return 0


@pytest.fixture
def reproduce(gatewise, tmp_path):
    """Run ``gatewise reproduce ARGS`` in an empty folder: (exit code, standard output, standard error)."""

    def command(*args):
        return gatewise("reproduce", *args)

    command.read = lambda name: json.loads((tmp_path / name).read_text())
    return command
