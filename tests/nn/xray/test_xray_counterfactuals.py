"""Hooks read what is used, in every family; counterfactuals equal brute force; what cannot be read is refused."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

from gatewise import nn
from gatewise.nn.xray.doubled import doubled_mask
from gatewise.nn.xray.expert_calls import expert_calls
from tests.nn.xray.families import found, row
from tests.nn.xray.tiny_models import FAMILIES, K, M, text, tiny

GUIDE = Path(__file__).parents[3] / "docs" / "xray.md"
REFUSED = {"jamba", "minimax", "qwen3_next", "qwen3_5_moe_text"}  # a recurrence or linear attention
QUICK = ("olmoe",)
families = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in FAMILIES]


@pytest.mark.parametrize("name", families)
def test_every_family_does_what_the_table_of_the_guide_says(name, tmp_path):
    answer = found(name, tmp_path)
    assert answer.traced
    assert answer.next_best
    assert answer.pruned <= 1e-5
    if name in REFUSED:
        assert "linear attention, a recurrence" in answer.counterfactuals
    else:
        assert answer.counterfactuals <= 1e-5
    assert row(name, answer) in GUIDE.read_text().splitlines()


def test_what_is_recorded_is_what_was_used_where_a_bias_and_groups_choose():
    model, ids = tiny("deepseek_v3"), text()
    seen = []
    gate = model.model.layers[0].mlp.gate
    gate.register_forward_hook(lambda module, args, output: seen.append(output))
    with nn.xray(model) as x:
        layer = x.run(ids).layers[0]
    logits, weights, indices = (part.numpy() for part in seen[0])
    table = np.zeros((ids.numel(), M))
    np.put_along_axis(table, indices, weights, axis=1)
    np.testing.assert_allclose(layer.dense, table, atol=1e-6)
    by_logits = np.argsort(-logits, axis=1)[:, :K]
    assert (np.sort(by_logits, axis=1) != np.sort(layer.indices, axis=1)).any()


def test_padding_and_packed_documents():
    model, ids = tiny("mixtral"), text(3, 10)
    mask = torch.ones_like(ids)
    mask[1, 7:] = 0
    documents = torch.zeros_like(ids) + torch.arange(3)[:, None]
    documents[0, 6:] = 9
    with nn.xray(model) as x:
        trace = x.run(ids, documents, mask)
        losses = x.counterfactual(1)
        with torch.no_grad():
            logits = model(input_ids=ids[1:2, :7]).logits[0]
        expected = torch.nn.functional.cross_entropy(logits[:-1], ids[1, 1:7], reduction="none")
    assert trace.n_documents == 4
    row = trace.tokens.sequences == 1
    assert row.sum() == 7
    np.testing.assert_allclose(trace.loss[row][:-1], expected.numpy(), atol=1e-5)
    assert np.isnan(trace.loss[row][-1])
    assert np.isnan(trace.loss[5])  # the next token is of another document
    assert (np.isnan(losses).all(axis=1) == np.isnan(trace.loss)).all()
    assert not np.isnan(losses[~np.isnan(trace.loss)]).any()


def test_where_the_chosen_expert_is_forced_nothing_changes():
    model = tiny("mixtral", num_experts_per_tok=1)
    with nn.xray(model) as x:
        trace = x.run(text(6))
        for layer in range(2):
            own = np.take_along_axis(x.counterfactual(layer), trace.layers[layer].indices, axis=1)[:, 0]
            np.testing.assert_allclose(own, trace.loss, atol=1e-5)


def test_layers_of_the_parts_are_read_as_those_of_transformers():
    theirs = tiny("olmoe")
    ours = copy.deepcopy(theirs)
    for block in ours.model.layers:
        block.mlp = nn.from_transformers(block.mlp)
    results = []
    for model in (theirs, ours):
        with nn.xray(model) as x:
            trace = x.run(text())
            results.append((trace.layers[1].dense, x.counterfactual(0)))
    np.testing.assert_allclose(results[1][0], results[0][0], atol=1e-5)
    np.testing.assert_allclose(results[1][1], results[0][1], atol=1e-4)


@pytest.mark.slow
def test_a_compiled_model_is_read_as_the_plain_one():
    model, ids = tiny("mixtral"), text()
    with nn.xray(model) as x:
        expected, losses = x.run(ids), x.counterfactual(0)
    model.compile(backend="eager")
    model(input_ids=ids)  # compiled before the hooks come
    for compiled in (model, torch.compile(tiny("mixtral"), backend="eager")):
        compiled(input_ids=ids)
        with nn.xray(compiled) as x:
            found = x.run(ids)
            np.testing.assert_array_equal(found.layers[0].indices, expected.layers[0].indices)
            np.testing.assert_allclose(x.counterfactual(0), losses, atol=1e-5)


@pytest.mark.slow
def test_recordings_of_a_compiled_layer_are_not_empty():
    layer = nn.preset("mixtral", d=8, hidden=4).eval()
    compiled = torch.compile(torch.nn.Sequential(layer), backend="eager")
    x = torch.randn(5, 8)
    plain = compiled(x)
    with nn.record(layer) as recording:
        compiled(x)
    assert recording.indices.shape == (5, 2)
    with nn.only_expert(layer, 0):
        assert not torch.equal(compiled(x), plain)


def test_the_model_is_as_it_was_afterwards():
    model, ids = tiny("mixtral", attention_dropout=0.5).train(), text()
    model.model.layers[1].eval()
    with nn.xray(model) as x:
        assert not model.training
        x.run(ids)
        expected = x.counterfactual(0)
    x._kept.clear()
    np.testing.assert_array_equal(x.counterfactual(0), expected)  # after the block, without dropout
    assert model.training
    assert not model.model.layers[1].training
    assert not any(call.experts._forward_pre_hooks for call in expert_calls(model))


def test_the_second_copy_sees_the_first_strictly_before_itself():
    mask = doubled_mask(torch.ones(1, 5, 5).tril().bool(), torch.float32)[0, 0].isfinite()
    for query in range(5):
        assert mask[5 + query].nonzero().ravel().tolist() == [*range(query), 5 + query]
        assert mask[query].nonzero().ravel().tolist() == list(range(query + 1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.xray(torch.nn.Linear(2, 2)), "model must hold experts .* none are found in a Linear"),
        (lambda: asked(lambda x: x.trace), r"call run\(batches, documents=...\) first"),
        (lambda: asked(lambda x: x.run([[1.0, 2.0]])), r"batches must hold token ids of shape \(N, T\)"),
        (lambda: asked(lambda x: x.run(text(), [1, 2])), "documents must have one row for each of the 4 sequences"),
        (lambda: asked(lambda x: x.run(text(), mask=torch.ones(4, 3))), "mask must have the shape of its batch"),
        (lambda: asked(lambda x: x.run([text()], [[0], [1]])), "documents must hold one entry for each of the 1"),
        (lambda: asked(lambda x: x.counterfactual(9)), "layer must be a whole number from 0 to 1"),
        (lambda: asked(lambda x: (x.run(text()), x.counterfactual(0, slot=2))), "slot must be a whole number from 0"),
        (
            lambda: asked(lambda x: (x.run(text()), x.counterfactual(0)), torch.bfloat16),
            r"call model\.float\(\) first",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def asked(question, dtype=torch.float32):
    with nn.xray(tiny("mixtral").to(dtype)) as x:
        question(x)


def test_hidden_states_beyond_the_memory_are_refused():
    with nn.xray(tiny("mixtral")) as x, pytest.raises(MemoryError, match="give fewer tokens, or more memory"):
        x.run(text(), memory=1000)
