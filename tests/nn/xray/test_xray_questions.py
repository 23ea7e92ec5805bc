"""What the X-ray says of tiny models: ablations by brute force, copies are redundant, a pruned folder loads."""

import copy

import numpy as np
import pytest
import torch

from gatewise import nn
from gatewise.nn.xray.expert_calls import expert_calls
from gatewise.nn.xray.pruning import pruned_losses
from gatewise.nn.xray.verdicts import verdicts
from tests.nn.xray.tiny_models import auto_classes, M, text, tiny

DOCUMENTS, LENGTH = 40, 10


@pytest.fixture(scope="module")
def seen():
    model = tiny("olmoe")
    with nn.xray(model) as x:
        x.run(text(DOCUMENTS, LENGTH))
        yield x


def mean_loss(model, ids):
    with torch.no_grad():
        logits = model(input_ids=ids).logits[:, :-1].flatten(0, 1)
    return torch.nn.functional.cross_entropy(logits.float(), ids[:, 1:].flatten()).item()


def test_an_expert_of_zeros_is_an_expert_that_is_dropped(seen):
    found = seen.ablate(0, 3, "zero")[0]
    call = expert_calls(seen._probed.model)[0]
    kept = call.experts.down_proj.data[3].clone()
    call.experts.down_proj.data[3] = 0.0
    after = mean_loss(seen._probed.model, text(DOCUMENTS, LENGTH))
    call.experts.down_proj.data[3] = kept
    assert found.rise.value == pytest.approx(after - np.nanmean(seen.trace.loss), abs=1e-5)
    other = seen.ablate(0, 3, "renormalize")[0]
    assert other.rise != found.rise
    assert found.rise.low <= found.rise.value <= found.rise.high


def test_loads_and_entropies(seen):
    load = seen.trace.load()[0]
    assert sum(one.value for one in load.experts) == pytest.approx(1.0)
    entropy = seen.trace.entropy()[0]
    assert 0 < entropy.weights.value <= 1.0 + 1e-9  # two experts a token
    assert 0 < entropy.load.value <= 3.0
    assert len(entropy.experts) == M


def test_usage_of_a_class_that_the_router_knows_is_beyond_chance(seen):
    first = seen.trace.layers[0].indices[:, 0]
    known = seen.trace.usage(first % 2, "chance", n_draws=39)
    assert known.null == "shift"
    assert known.layers[0].total_p == pytest.approx(1 / 40)
    assert known.layers[0].total_excess.low > 0
    topics = seen.trace.usage(seen.trace.documents % 2, "chance", n_draws=39)
    assert topics.null == "documents"
    np.testing.assert_allclose(topics.layers[0].table.sum(axis=1), 1.0)
    for initial, learned in ((None, True), (seen.trace, False)):  # what a model knew at first was not learned
        seen.trace.usage(first == 2, n_draws=39, initial=initial)
        assert any(one.verdict == "learned" for one in verdicts(seen.trace)) is learned


def test_a_router_is_compared_with_random_ones(seen):
    found = seen.trace.usage(seen.trace.ids % 3, n_draws=19, initial=seen.trace)
    assert found.null == "router"
    for layer in found.layers:
        assert layer.total_excess.value == pytest.approx(layer.total - layer.total_null)
        assert layer.initial.layer.value == pytest.approx(0.0)
        assert (layer.initial.p_values > 0.05).all()
        assert (layer.p_values >= 1 / 20).all()
        np.testing.assert_allclose(layer.beyond[0], layer.table - layer.expected)


def test_pairs_have_the_sums_of_the_loads(seen):
    found = seen.trace.coactivation()[0]
    load = seen.trace.layers[0].chosen.mean(axis=0)
    np.testing.assert_allclose(found.together.sum(axis=1), load)
    np.testing.assert_allclose(found.expected.sum(axis=1), load, atol=1e-6)


def test_a_copy_of_an_expert_is_its_substitute_and_redundant():
    model = tiny("olmoe", norm_topk_prob=True)
    call = expert_calls(model)[0]
    for parameter in call.experts.parameters():
        parameter.data[5] = parameter.data[2]
    with nn.xray(model) as x:
        x.run(text(120, LENGTH))
        found = {one.expert: one for one in x.redundancy(0)}
    assert found[5].substitute == 2
    assert found[2].substitute == 5
    assert found[5].redundant
    assert found[5].rise.value == pytest.approx(0.0, abs=1e-5)


def test_pruning_chooses_on_one_half_and_the_folder_has_the_same_loss(seen, tmp_path):
    found = seen.prune(5)
    assert {rule.rule for rule in found.rules} == {"ablation", "load", "norm"}
    assert all(len(stay) == 5 for stay in found.kept)
    assert found.bound >= found.rise.value
    found.save(tmp_path)
    models, _ = auto_classes()
    small = models.from_pretrained(tmp_path).eval()
    expected = np.nanmean(pruned_losses(seen._probed, seen.trace.tokens, found.kept))
    assert mean_loss(small, text(DOCUMENTS, LENGTH)) == pytest.approx(expected, abs=1e-5)


def test_layers_of_the_parts_choose_the_next_best_too(seen):
    ours = copy.deepcopy(seen._probed.model)
    for block in ours.model.layers:
        block.mlp = nn.from_transformers(block.mlp)
    with nn.xray(ours) as x:
        x.run(text(DOCUMENTS, LENGTH))
        assert x.ablate(0, 3)[0].rise.value == pytest.approx(seen.ablate(0, 3)[0].rise.value, abs=1e-5)


def test_groups_of_experts_keep_one_size(tmp_path):
    ids = text(24, LENGTH)
    with nn.xray(tiny("deepseek_v3")) as x:  # two groups of four, ranked by the sum of their two best
        x.run(ids)
        found = x.prune(6)
        assert all(sum(m < 4 for m in stay) == 3 for one in found.rules for stay in one.kept)
        with pytest.raises(ValueError, match=r"multiple of the 2 groups of experts .*, 4 or more, not 5"):
            x.prune(5)
        with pytest.raises(ValueError, match="4 or more, not 2"):
            x.prune(2)


def test_the_page_has_every_expert_and_a_verdict(seen, tmp_path):
    for layer in range(2):
        seen.gate_regret(layer)  # answers about one layer stay when another one is asked about
    assert [one.layer for one in seen.trace.findings["gate regret"]] == [0, 1]
    seen.specialization()
    seen.alignment(1)
    seen.trace.coactivation()
    seen.trace.report(tmp_path / "xray.html")
    page = (tmp_path / "xray.html").read_text()
    said = verdicts(seen.trace)
    assert "pairs more / less often" in page
    assert "best expert chosen" in page
    assert len(said) == 2 * M
    assert page.count("<tr>") >= 2 * M
    assert "What this cannot tell" in page
    assert all(one.verdict in page for one in said)


def test_questions_that_cannot_be_asked_are_named(seen):
    with pytest.raises(ValueError, match="budget must be from K = 2 to M - 1 = 7 experts a layer, not 8"):
        seen.prune(8)
    with pytest.raises(ValueError, match="mode must be 'zero', 'renormalize' or 'next'"):
        seen.ablate(0, 0, "half")
    with pytest.raises(ValueError, match="classes must have one label for each of the 400 tokens"):
        seen.trace.usage([1, 2])
    with pytest.raises(ValueError, match="null must be 'router' or 'chance'"):
        seen.trace.usage(seen.trace.ids, "nothing")
    with nn.xray(tiny("mixtral", num_experts_per_tok=1)) as x:
        trace = x.run(text(20, 4))
        with pytest.raises(ValueError, match="must not be 'renormalize' where a token has one expert"):
            x.ablate(0, 0, "renormalize")
        with pytest.raises(ValueError, match="must have two active experts a token or more"):
            trace.coactivation()
        with pytest.raises(ValueError, match="initial must be a trace on the same tokens"):
            seen.trace.usage(seen.trace.ids, initial=trace)
    with nn.xray(tiny("mixtral")) as x, pytest.raises(ValueError, match="documents must hold at least 20"):
        x.run(text(19, 4)).load()


@pytest.mark.slow
def test_the_command_writes_a_page(gatewise, tmp_path):
    from tokenizers import models, pre_tokenizers, Tokenizer, trainers

    files = tmp_path / "texts"
    files.mkdir()
    words = ["the", "expert", "of", "a", "token", "is", "chosen", "42", "(", "others", ")", "are", "not"]
    rng = np.random.default_rng(0)
    for place in range(24):
        (files / f"{place}.txt").write_text(" ".join(rng.choice(words, 30)))
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator([" ".join(words)], trainers.WordLevelTrainer(special_tokens=["<pad>", "<unk>"]))
    auto_classes()
    from transformers import PreTrainedTokenizerFast

    folder = tmp_path / "model"
    tiny("olmoe").save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>").save_pretrained(folder)
    every = sorted(files.iterdir())
    code, out, err = gatewise("xray", folder, "--text", *every, "--out", "x.html", "--keep", 6, "--initial", folder)
    assert code == 0, err
    assert "24 documents" in out
    page = (tmp_path / "x.html").read_text()
    assert "Fewer experts: 6" in page
    assert "beyond the initial checkpoint" in page
    few = gatewise("xray", folder, "--text", files / "0.txt", "--out", "y.html")
    assert few[0] == 2
    assert "--text must name at least 20 files" in few[2]
    missing = gatewise("xray", folder, "--text", "nothing.txt", "--out", "y.html")
    assert "nothing.txt does not" in missing[2]
    empty = gatewise("xray", files, "--text", files, "--out", "y.html")
    assert "config.json" in empty[2]
