"""Tiny models that are trained here: hidden states alone make a router look specialized; one that is taught is."""

import numpy as np
import pytest
import torch

from gatewise import nn
from gatewise.nn.xray.verdicts import verdicts
from tests.nn.xray.tiny_models import M, tiny

LANGUAGES, WORDS, LENGTH = 4, 11, 24


def speech(n, seed):
    """Sequences (n, T) that change between languages; in each of them a word has one word that mostly follows it."""
    rng = np.random.default_rng(seed)
    follows = np.stack([np.random.default_rng(k).permutation(WORDS) for k in range(LANGUAGES)])
    language = np.repeat(rng.integers(LANGUAGES, size=(n, LENGTH // 6)), 6, axis=1)
    word = rng.integers(WORDS, size=(n, LENGTH))
    for t in range(1, LENGTH):
        stays = (language[:, t] == language[:, t - 1]) & (rng.uniform(size=n) < 0.9)
        word[:, t] = np.where(stays, follows[language[:, t], word[:, t - 1]], word[:, t])
    return torch.from_numpy(3 + language * WORDS + word), language


def trained(taught, steps=200):
    """A tiny OLMoE; a taught one is also told that two experts of its first layer are those of each language."""
    model = tiny("olmoe", norm_topk_prob=True).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for step in range(steps):
        ids, language = speech(16, 100 + step)
        output = model(input_ids=ids, labels=ids, output_router_logits=True)
        scores = output.router_logits[0].view(-1, LANGUAGES, M // LANGUAGES)
        told = torch.nn.functional.cross_entropy(scores.logsumexp(2), torch.from_numpy(language.ravel()))
        optimizer.zero_grad()
        (output.loss + float(taught) * told).backward()
        optimizer.step()
    return model.eval()


@pytest.mark.slow
def test_learned_is_what_random_routers_on_the_same_states_do_not_have():
    ids, language = speech(80, 0)
    with nn.xray(tiny("olmoe", norm_topk_prob=True)) as x:
        first = x.run(ids)
    said = {}
    for taught in (False, True):
        with nn.xray(trained(taught)) as x:
            trace = x.run(ids)
            assert np.nanmean(trace.loss) < 2.0 < np.nanmean(first.loss)
            chance = trace.usage(language.ravel(), "chance", n_draws=99)
            assert max(layer.total_p for layer in chance.layers) == pytest.approx(0.01)  # counting calls both learned
            found = trace.usage(language.ravel(), n_draws=99, initial=first)
            assert found.layers[0].initial.layer.low > 0
            said[taught] = sum(one.verdict == "learned" for one in verdicts(trace) if one.layer == 0)
            assert (found.layers[0].total_p <= 0.05) is taught
    assert said[False] == 0
    assert said[True] >= M // 2
