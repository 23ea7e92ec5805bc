"""The trials of `ScoreRouter`: pools, rivals on a small table, summaries, and the skip without the table."""

import numpy as np
import pytest

from benchmarks.scores import summary, trials
from benchmarks.scores.__main__ import code_hash
from benchmarks.scores.answers import Answers, PRICES, read_answers
from benchmarks.scores.rivals import RIVALS
from gatewise.scores.queries import QueryReader
from tests.scores.designs import small_table

NAMES = ("gemini-1.5-pro-002", "Meta-Llama-3-8B", "Yi-6B")


@pytest.fixture(scope="module")
def rows():
    X, _, right, costs = small_table(400)
    reader, queries = QueryReader.fit(X, ["question"], "auto", 3, 0)
    return reader, queries, Answers(X, NAMES, right, np.tile(costs, (400, 1)))


def test_without_the_table_it_says_that_it_skips(tmp_path, capsys):
    assert read_answers(tmp_path / "nothing.parquet") is None
    assert "skipped" in capsys.readouterr().out


def test_every_name_has_a_price():
    assert PRICES[-1][0] == ""


def test_there_are_twenty_pools_of_several_models():
    names = ["gemini-1.5-pro", "gemini-flash", "Llama-3-8B", "Llama-3-70B", "Mistral-7B", "Mixtral-8x7B-Instruct",
             "Qwen-7B-Chat", "Yi-6B"]  # fmt: skip
    pools = trials.named_pools(names)
    assert len(pools) == 20
    assert all(len(models) >= 2 for models in pools.values())


def test_rivals_forecast_every_model(rows):
    _, queries, answers = rows
    for name, rival in RIVALS.items():
        found = rival(queries[:300], answers.right[:300], queries[300:])
        assert found.shape == (100, 3), name
        assert np.isfinite(found).all(), name


@pytest.mark.slow
def test_a_trial_counts_right_answers(rows, monkeypatch):
    monkeypatch.setattr(trials, "N_TRAIN", 300)
    found = trials.accuracy_trial(*rows, seed=0)
    assert {len(marks) for marks in found["marks"].values()} == {100}
    assert np.mean(found["marks"]["ScoreRouter"]) > np.mean(found["marks"]["best single"])
    assert 0 < found["relative_cost"] <= 2.0
    figures = summary.accuracy({"0": found, "1": found})
    assert figures["splits"] == 2
    assert figures["router_beyond"]["best single"]["mean"] > 0
    kept = trials.promise_trial(*rows, 150, 0)
    assert {len(kept[kind]) for kind in ("score", "cost", "saving")} == {5}


def test_the_store_knows_code_by_what_it_does(tmp_path):
    path = tmp_path / "code.py"
    path.write_text('"""One."""\n\n\ndef f(x):\n    """Two."""\n    return x  # three\n')
    first = code_hash([path])
    path.write_text('"""Other."""\ndef f(x):\n    """Words."""\n    return x\n')
    assert code_hash([path]) == first
    path.write_text('"""Other."""\ndef f(x):\n    """Words."""\n    return -x\n')
    assert code_hash([path]) != first


def test_summaries_count():
    found = {
        "permuted 0": {"score": 0.01, "cost": 0.01},
        "permuted 1": {"score": 0.5, "cost": 0.02},
        "drawn 0": {"score": 0.9, "cost": 1.0},
    }
    assert summary.level(found) == {
        "permuted": {"tables": 2, "route": 1, "route for cost only": 1},
        "drawn": {"tables": 1, "route": 0, "route for cost only": 0},
    }
    assert summary.power({"250 0": found["permuted 0"], "250 1": found["drawn 0"]})["250"]["route"] == 0.5
    promised = summary.promises({"0": {"score": [True, False]}, "1": {"score": [True, True]}})
    assert promised["score"]["held"] == 0.75
    found = summary.pools(
        {"a": {"router": 0.7, "best per category": 0.6}, "b": {"router": 0.5, "best per category": 0.6}}
    )
    assert found["least"] == -0.1
