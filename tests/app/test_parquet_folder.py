"""Folders and patterns of Parquet files on the command line."""

import os
import signal

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("typer")
pytest.importorskip("skops")

from gatewise.app.models import parquet_folder
from gatewise.app.models.table_files import read_table

POOL = """
gates = ["linear"]
[[experts]]
name = "line"
model = "sklearn.linear_model.Ridge"
[[experts]]
name = "old"
column = "old"
"""


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 90)
    frame = pd.DataFrame({"x": x, "old": 0.5 + 0 * x, "y": np.where(x < 0, x, 0.5) + 0.1 * rng.normal(size=90)})
    (tmp_path / "data").mkdir()
    for part in range(3):
        frame.iloc[30 * part : 30 * (part + 1)].to_parquet(tmp_path / "data" / f"{part}.parquet", index=False)
    (tmp_path / "data" / "notes.txt").write_text("not a table")
    (tmp_path / "pool.toml").write_text(POOL)
    frame.to_parquet(tmp_path / "all.parquet", index=False)
    return frame


def test_a_folder_and_a_pattern_are_the_table_of_their_files(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_folder, "BLOCK", 7)
    for path in (tmp_path / "data", tmp_path / "data" / "*.parquet"):
        table = read_table(path)
        pd.testing.assert_frame_equal(table.frame, folder)
        assert table.notes == ("read 3 files with 90 rows",)
    monkeypatch.setattr(parquet_folder, "MOST_NUMBERS", 120)
    parts = [read_table(path) for path in (tmp_path / "data", tmp_path / "data" / "?.parquet")]
    pd.testing.assert_frame_equal(parts[0].frame, parts[1].frame)
    assert 20 <= len(parts[0].frame) <= 60
    assert "were drawn at random" in parts[0].notes[0]


def test_what_cannot_be_read_is_named(folder, tmp_path):
    with pytest.raises(ValueError, match="no such file"):
        read_table(tmp_path / "none" / "*.parquet")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="a folder without Parquet files"):
        read_table(tmp_path / "empty")
    folder.drop(columns="x").to_parquet(tmp_path / "data" / "4.parquet", index=False)
    with pytest.raises(ValueError, match=r"4.parquet and 0.parquet must have the same columns; 'x' is in one only"):
        read_table(tmp_path / "data")


@pytest.mark.slow
def test_predictions_block_by_block_are_those_of_one_file(gatewise, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_folder, "BLOCK", 7)
    code, _, err = gatewise("fit", "data/*.parquet", "--target", "y", "--pool", "pool.toml", "--out", "m.skops")
    assert code == 0, err
    for ending in ("csv", "parquet"):
        code, out, err = gatewise("predict", "m.skops", "data/*.parquet", "--out", f"blocks.{ending}")
        assert code == 0, err
        assert "90 predictions" in out
        assert gatewise("predict", "m.skops", "all.parquet", "--out", f"whole.{ending}")[0] == 0
        read = pd.read_csv if ending == "csv" else pd.read_parquet
        pd.testing.assert_frame_equal(read(f"blocks.{ending}"), read(f"whole.{ending}"), rtol=1e-9)
    assert "leave out --json" in gatewise("predict", "m.skops", "data", "--out", "b.csv", "--json", "p.json")[2]


def losing_a_worker(cluster, blocks):
    """The blocks; before the fifth one, when others are on their way, a worker is killed."""
    for number, block in enumerate(blocks):
        if number == 4:
            os.kill(cluster.workers[0].pid, signal.SIGKILL)
        yield block


@pytest.mark.pools
@pytest.mark.filterwarnings("ignore")
def test_the_workers_of_a_scheduler_fit_the_experts_and_predict_blocks(gatewise, folder, monkeypatch):
    distributed = pytest.importorskip("dask.distributed")
    options = {"host": "127.0.0.1", "dashboard_address": None, "processes": True}
    arguments = ("--target", "y", "--pool", "pool.toml", "--test", "0")
    assert gatewise("fit", "data", *arguments, "--out", "here.skops")[0] == 0
    blocks_of_rows = parquet_folder.blocks_of_rows
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster:
        there = ("--scheduler", cluster.scheduler_address)
        code, _, err = gatewise("fit", "data/*.parquet", *arguments, "--out", "there.skops", *there)
        assert code == 0, err
        monkeypatch.setattr(parquet_folder, "BLOCK", 7)
        answers = {
            "workers": blocks_of_rows,
            "killed": lambda files: losing_a_worker(cluster, blocks_of_rows(files)),
        }
        for name, read in answers.items():
            monkeypatch.setattr(parquet_folder, "blocks_of_rows", read)
            code, out, err = gatewise("predict", "here.skops", "data", "--std", "--out", f"{name}.csv", *there)
            assert code == 0, err
            assert "90 predictions" in out
    for name in ("here", "there"):
        assert gatewise("predict", f"{name}.skops", "all.parquet", "--std", "--out", f"{name}.csv")[0] == 0
    for name in ("there", "workers", "killed"):
        pd.testing.assert_frame_equal(pd.read_csv("here.csv"), pd.read_csv(f"{name}.csv"), rtol=0, atol=1e-9)


def test_a_scheduler_takes_folders(gatewise, folder):
    code, _, err = gatewise("predict", "m.skops", "all.parquet", "--out", "p.csv", "--scheduler", "tcp://nowhere:1")
    assert code == 2
    assert "takes a folder or a pattern of Parquet files" in err
