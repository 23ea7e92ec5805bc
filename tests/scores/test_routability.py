"""How much of a perfect router is luck."""

import numpy as np
from scipy.special import expit

from gatewise.scores.answer_model import fit_answers
from gatewise.scores.routability import measure_routability


def rasch(n, seed, ability=(-1.0, 0.0, 0.5, 1.0), spread=1.5):
    rng = np.random.default_rng(seed)
    chance = expit(np.array(ability) + spread * rng.normal(size=(n, 1)))
    return chance, (rng.random(chance.shape) < chance).astype(float)


def test_abilities_and_the_spread_of_difficulty_are_found():
    ability, spread = fit_answers(rasch(20_000, 0)[1])
    np.testing.assert_allclose(ability, [-1.0, 0.0, 0.5, 1.0], atol=0.08)
    assert abs(spread - 1.5) < 0.08


def test_all_is_luck_where_nothing_can_be_routed():
    _, answers = rasch(5000, 1)
    found = measure_routability(answers, answers[:, 3].mean())
    model = fit_answers(answers)
    assert abs(model.best_of_all() - answers.max(axis=1).mean()) < 0.01
    assert found.luck_share > 0.9
    chances = model.chances(answers)
    np.testing.assert_allclose(chances.mean(axis=0), answers.mean(axis=0), atol=0.05)
    assert (chances.argmax(axis=1) == 3).all()


def test_repeats_tell_luck_from_what_can_be_routed():
    rng = np.random.default_rng(2)
    sure = np.eye(2)[rng.integers(0, 2, 3000)] * 0.8 + 0.1  # one model is right with 0.9, the other with 0.1
    repeats = (rng.random((3000, 2, 6)) < sure[:, :, None]).astype(float)
    found = measure_routability(repeats.mean(axis=2), 0.5, repeats)
    assert found.low <= 0.9 + 0.01
    assert found.low > 0.87  # the best of five repeats is asked a sixth time
    assert found.high >= found.low
    assert abs(found.high - 0.9) < 0.01
    assert abs(found.perfect - (1 - 0.1 * 0.9)) < 0.01
    coins = (rng.random((3000, 2, 6)) < 0.5).astype(float)
    luck = measure_routability(coins.mean(axis=2), 0.5, coins)
    assert luck.luck_share > 0.93


def test_scores_of_any_range_have_bounds():
    rng = np.random.default_rng(4)
    scores = rng.uniform(size=(500, 3)) + np.array([0.0, 1.0, 2.0])
    found = measure_routability(scores, 2.5)
    assert found.best_single <= found.by_luck <= found.perfect
    assert "exchangeable" in str(found)
