"""Runs that are kept beside the results of their benchmark."""

import pytest

pytest.importorskip("typer")

from benchmarks import archive, timing
from gatewise.paper.store import record_key, Store


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(timing, "RESULTS", tmp_path / "results")
    timing.RESULTS.mkdir()


def test_runs_that_are_kept_come_back_on_another_machine(tmp_path):
    store = Store(tmp_path / "here.sqlite")
    for seed in (2, 1):
        store.put(record_key(seed=seed, design="noise"), {"gain": 0.1 * seed})
    assert archive.keep("verdict", store.path) == 2
    there = archive.restore("verdict", tmp_path / "there.sqlite")
    assert there.get(record_key(design="noise", seed=2)) == {"gain": 0.2}
    assert there.get(record_key(design="noise", seed=1)) == {"gain": 0.1}


def test_a_run_of_the_store_is_not_replaced(tmp_path):
    store = Store(tmp_path / "here.sqlite")
    store.put(record_key(seed=0), {"gain": 1.0})
    archive.keep("verdict", store.path)
    store.put(record_key(seed=0), {"gain": 2.0})
    assert archive.restore("verdict", store.path).get(record_key(seed=0)) == {"gain": 2.0}


def test_without_kept_runs_the_store_is_as_it_was(tmp_path):
    assert archive.restore("verdict", tmp_path / "new" / "runs.sqlite").get(record_key(seed=0)) is None


def test_a_store_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match="must be a store of finished runs"):
        archive.keep("verdict", tmp_path / "nothing.sqlite")
    assert not (tmp_path / "nothing.sqlite").exists()
