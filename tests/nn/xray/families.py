"""``python -m tests.nn.xray.families``: what the X-ray can ask of every family, seen on a tiny model of each.

The table is in docs/xray.md, and a test compares it with what is found.
"""

import sys
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import torch

from gatewise import nn
from gatewise.nn.xray.expert_calls import expert_calls
from gatewise.nn.xray.pruning import pruned_losses
from gatewise.nn.xray.removal import without
from tests.nn.xray.tiny_models import auto_classes, FAMILIES, K, M, text, tiny

BUDGET, PLACES = 6, ((0, 0, 3), (1, 5, 0), (3, 9, 7))
HEAD = ("family", "routing and loss", "exact counterfactuals", "next best expert", "pruned folder")


class Found(NamedTuple):
    """What a family allows: counterfactuals and pruning by their error, or the words in which they are refused."""

    traced: bool
    counterfactuals: float | str
    next_best: bool
    pruned: float | str


def found(name, folder):
    """Ask a tiny model of a family everything whose answer depends on how the family is written."""
    return Found(traced(name), counterfactual_error(name), takes_next_best(name), pruning_error(name, folder))


def plain_losses(model, ids):
    with torch.no_grad():
        logits = model(input_ids=ids).logits[:, :-1].float()
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none").numpy()


def traced(name):
    """The layers have M experts, K a token, and the losses are the model's own."""
    model, ids = tiny(name), text()
    with nn.xray(model) as x:
        trace = x.run(ids)
    shapes = all(layer.indices.shape == (ids.numel(), K) and layer.n_experts == M for layer in trace.layers)
    known = all((layer.indices < M).all() for layer in trace.layers)
    losses = trace.loss.reshape(ids.shape)[:, :-1].ravel()
    return bool(shapes and known and np.allclose(losses, plain_losses(model, ids), atol=1e-5))


def counterfactual_error(name):
    """The largest difference to brute force, alone and with one of the K swapped, in float32."""
    model, ids = tiny(name), text()
    with nn.xray(model) as x:
        x.run(ids)
        try:
            alone, swapped = (x.counterfactual(0, slot=slot).reshape(*ids.shape, M) for slot in (None, 1))
        except ValueError as error:
            return str(error)
    errors = []
    for row, place, m in PLACES:
        errors.append(abs(alone[row, place, m] - forced(model, ids[row], place, m, None)))
        errors.append(abs(swapped[row, place, m] - forced(model, ids[row], place, m, 1)))
    return max(errors)


def forced(model, ids, place, expert, slot):
    """Brute force: the loss of one token of one sequence in a run of its own, its routing alone changed."""
    call = expert_calls(model)[0]

    def change(module, args, kwargs):
        hidden, indices, weights = (*args, *kwargs.values())
        indices, weights = indices.clone().view(len(ids), -1), weights.clone().view(len(ids), -1)
        if slot is None:
            total = weights[place].sum()
            indices[place], weights[place] = expert, 0.0
            weights[place, 0] = total
        else:
            indices[place, weights[place].argsort(descending=True)[slot]] = expert
        return (hidden, indices, weights), {}

    handle = call.experts.register_forward_pre_hook(change, with_kwargs=True)
    with torch.no_grad():
        logits = model(input_ids=ids[None]).logits[0, place].float()
    handle.remove()
    return -logits.log_softmax(0)[ids[place + 1]].item()


def takes_next_best(name):
    """Without an expert the router takes K others, and tokens that did not use it keep theirs.

    The latter does not hold where another group becomes the better one. It holds for Ernie without its bias only,
    which is added after a softmax: without an expert the softmax of the others is larger, and the bias weighs less.
    """
    model, ids = tiny(name), text()
    if name == "ernie4_5_moe":
        for block in model.model.layers:
            block.mlp.gate.moe_statics.e_score_correction_bias.data.zero_()
    call = expert_calls(model)[0]
    with nn.xray(model) as x:
        before = x.run(ids).layers[0]
        gone = torch.zeros(M, dtype=torch.bool)
        gone[before.indices[0, 0]] = True
        with without({call: gone}):
            after = x.run(ids).layers[0]
    same = ~before.chosen[:, gone.numpy()].any(axis=1)
    kept = FAMILIES[name].get("n_group", 1) > 1 or np.array_equal(after.chosen[same], before.chosen[same])
    others = not after.chosen[:, gone.numpy()].any() and (after.chosen.sum(axis=1) == K).all()
    return bool(kept and others)


def pruning_error(name, folder):
    """The difference of the losses of the folder and of the model whose routers do not know the experts that went."""
    model, ids = tiny(name), text(24, 10)
    with nn.xray(model) as x:
        x.run(ids)
        try:
            made = x.prune(BUDGET)
            made.save(folder)
        except ValueError as error:
            return str(error)
        expected = np.nanmean(pruned_losses(x._probed, x.trace.tokens, made.kept))
    small = auto_classes()[0].from_pretrained(folder).eval()
    return float(abs(plain_losses(small, ids).mean() - expected))


def row(name, answer):
    """A line of the table."""
    cells = (
        "yes" if answer.traced else "no",
        "refused" if isinstance(answer.counterfactuals, str) else "yes",
        "yes" if answer.next_best else "no",
        "refused" if isinstance(answer.pruned, str) else "yes",
    )
    return f"| {name} | {' | '.join(cells)} |"


def main():
    sys.stdout.write(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}\n")
    for name in FAMILIES:
        with TemporaryDirectory() as folder:
            answer = found(name, folder)
        sys.stdout.write(row(name, answer) + "\n")


if __name__ == "__main__":
    main()
