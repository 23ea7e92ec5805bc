"""The neural example runs, its rivals have equal active width, and its figures are what it says."""

import json

import numpy as np
import pytest
import torch

from examples.neural import language, regression
from examples.neural.__main__ import run, table
from examples.neural.variants import active_parameters, VARIANTS


def test_it_runs_and_writes_what_it_promises(tmp_path):
    result = run(1, 4, 2, tmp_path)
    assert json.loads((tmp_path / "results.json").read_text()) == result
    assert (tmp_path / "regions.png").stat().st_size > 10_000
    assert [row["variant"] for row in result["summary"]["regression"]] == [variant.name for variant in VARIANTS]
    assert len(table(result).splitlines()) == 1 + len(VARIANTS)


def test_active_parameters_are_equal_up_to_the_router():
    for make, d in (
        (regression.Regressor, regression.FEATURES),
        (lambda v: language.LanguageModel(v, 9), language.D),
    ):
        counts = []
        for variant in VARIANTS:
            layer = make(variant).layer
            router = sum(p.numel() for p in layer.router.parameters())
            assert router == (d + 1) * variant.n_experts
            counts.append(active_parameters(layer, variant) - router)
        assert max(counts) - min(counts) <= 7  # the biases of scalar outputs


@pytest.mark.slow
def test_training_lowers_the_loss_and_a_seed_fixes_it():
    top_1 = VARIANTS[2]
    first, again = (regression.train(top_1, 0, 60) for _ in range(2))
    assert first.figures == again.figures
    assert first.figures["rmse"] < 0.8 * regression.train(top_1, 0, 1).figures["rmse"]


def test_the_text_is_a_few_kilobytes_of_plain_characters():
    data = language.corpus()
    assert data.characters.isascii()
    assert 4000 < len(data.train) + len(data.test) < 10_000


def test_character_shares_have_sum_one():
    torch.manual_seed(0)
    data = language.corpus()
    shares = language.character_map(language.LanguageModel(VARIANTS[3], len(data.characters)), data)
    assert shares.shape == (len(data.characters), 8)
    total = shares.sum(axis=1)
    np.testing.assert_allclose(total[total > 0], 1.0)
    assert (total > 0).mean() > 0.9
