"""The instrument: hooks on a model's experts, a text to run it on, and the questions that one asks of it."""

from contextlib import ExitStack
from types import TracebackType
from typing import Any, overload, TypeVar

import numpy as np
import torch
from torch import nn

from gatewise.arrays import as_count, Floats, Indices
from gatewise.geometry import Alignment, Specialization
from gatewise.geometry.grouped_rows import halves
from gatewise.nn.xray.ablation import ablated_losses, Ablation, adjusted_ablations, Mode, risen
from gatewise.nn.xray.doubled import alone, forced_losses, swapped
from gatewise.nn.xray.expert_calls import ExpertCall
from gatewise.nn.xray.gate_regret import adjusted_regrets, GateRegret, measured_regret
from gatewise.nn.xray.layer_tests import tested_alignments, tested_specializations
from gatewise.nn.xray.layer_trace import LayerTrace
from gatewise.nn.xray.probed_model import evaluating, probe
from gatewise.nn.xray.pruning import (
    certified,
    check_budget,
    kept_by_score,
    pruned_losses,
    Pruning,
    PruningRule,
    weighted_norms,
)
from gatewise.nn.xray.redundancy import (
    adjusted_substitutes,
    CANDIDATES,
    chosen_substitutes,
    nearest_experts,
    replaced,
    Substitute,
    tested_substitutes,
)
from gatewise.nn.xray.token_batches import as_tokens
from gatewise.nn.xray.trace import Trace
from gatewise.nn.xray.tracing import MEMORY, traced

Found = TypeVar("Found", Ablation, Substitute, GateRegret)


class Xray:
    """A model under inspection; make it with `xray`, use it in a ``with`` block, and `run` it on a text first.

    Layers are numbered from 0 among those that have experts; ``layers`` has their names. Within the block the model
    is in evaluation mode; afterwards it is as it was. Questions may be asked after the block, too: hooks and
    evaluation mode are there whenever the model is run for one.
    """

    def __init__(self, model: nn.Module) -> None:
        self._probed = probe(model)
        self._trace: Trace | None = None
        self._block = ExitStack()
        self._kept: dict[tuple[int, int | None], Floats] = {}
        self._ablated: dict[tuple[int, int, str], Floats] = {}

    @property
    def layers(self) -> tuple[str, ...]:
        """The paths of the experts in the model, layer by layer."""
        return tuple(call.name for call in self._probed.calls)

    @property
    def trace(self) -> Trace:
        """The trace of the last run."""
        if self._trace is None:
            raise ValueError("there is no text yet: call run(batches, documents=...) first")
        return self._trace

    def __enter__(self) -> "Xray":
        self._block.enter_context(evaluating(self._probed.model))
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _where: TracebackType | None
    ) -> None:
        self._block.close()

    def run(
        self,
        batches: Any,
        documents: Any = None,
        mask: Any = None,
        *,
        batch_size: int = 16,
        memory: int = MEMORY,
        progress: bool = False,
    ) -> Trace:
        """Run the model on token ids (N, T), or a list of such batches, and keep the routing of every token.

        ``documents`` label the sequences (N,) or the tokens (N, T): they are the units of all statistics. ``mask``
        (N, T) is zero at padding. Both are lists where ``batches`` is one. Without ``documents`` every sequence is
        one. Hidden states stay in memory, at most ``memory`` bytes.
        """
        tokens = as_tokens(batches, documents, mask, as_count(batch_size, "batch_size"))
        self._trace = traced(self._probed, tokens, _shown("run") if progress else iter, memory)
        self._kept.clear()
        self._ablated.clear()
        return self._trace

    def counterfactual(self, layer: int, slot: int | None = None, *, tolerance: float = 1e-5) -> Floats:
        """The exact loss of every token under every expert of a layer, (n, M); NaN where no token follows.

        Each token's routing is changed by itself, with all tokens before it as they were. Expert m serves the token
        alone, with the sum of the weights; with ``slot`` it takes the place of the chosen expert of that rank by
        weight, 0 for the first, and the others stay. Both copies of the sequence with nothing changed must have the
        model's own logits, to ``tolerance``; a model for which they have not is refused.
        """
        call, key = self._probed.call(layer), (layer, slot)
        if key not in self._kept:
            active = self.trace.layers[layer].indices.shape[1]
            if slot is not None:
                as_count(slot, "slot", low=0, high=active - 1)
            experts = range(call.n_experts)
            changes = [alone(m) if slot is None else swapped(m, slot) for m in experts]
            self._kept[key] = forced_losses(self._probed, self.trace.tokens, call, changes, tolerance)[1]
        return self._kept[key]

    def ablate(
        self, layer: int | None = None, expert: int | None = None, mode: Mode = "next"
    ) -> tuple[Ablation, ...]:
        """The rise of the loss without an expert, for all tokens at once; all experts, or layers, if none is given.

        "next" lets the router choose as if the expert were not there, "zero" drops its part of the sum, and
        "renormalize" gives its weight to the token's other experts. p-values are adjusted for all that are asked for.
        """
        found = []
        for number in self._numbers(layer):
            call, traced_layer = self._probed.call(number), self.trace.layers[number]
            for m in range(call.n_experts) if expert is None else (expert,):
                after = ablated_losses(self._probed, self.trace.tokens, call, m, mode)
                used = (traced_layer.indices == m).any(axis=1)
                found.append(Ablation(number, m, mode, *risen(self.trace.loss, after, used, self.trace.units)))
                self._ablated[number, m, mode] = after
        return self._kept_findings("ablation", adjusted_ablations(found))

    def redundancy(self, layer: int | None = None, margin: float = 0.01, seed: int = 0) -> tuple[Substitute, ...]:
        """Is every expert served by another one to within ``margin`` nats a token? A test of equivalence.

        Half of the documents choose the substitute, of the three whose outputs are nearest on the expert's tokens:
        each takes the expert's place in single tokens, exactly. The other half tests it. p-values are adjusted for
        all experts of the layers that are asked for, all if none is given.
        """
        trace, found = self.trace, []
        first, second = halves(trace.units, np.random.default_rng(seed))
        for number in self._numbers(layer):
            call, one = self._probed.call(number), trace.layers[number]
            near = nearest_experts(call, one, first, self._probed.device)[:, :CANDIDATES]
            rises = self._replaced_rises(call, near, one.indices.shape[1])
            scored = ~np.isnan(trace.loss)
            substitutes, rise = chosen_substitutes(one, rises, near, first[scored[first]])
            rows = second[scored[second]]
            found += tested_substitutes(number, one.at(rows), substitutes, rise[rows], trace.units[rows], margin)
        return self._kept_findings("redundancy", adjusted_substitutes(found))

    def gate_regret(self, layer: int | None = None, seed: int = 0) -> tuple[GateRegret, ...]:
        """What a better linear router would gain in a layer: fitted on half of the documents, judged on the others.

        It chooses the last of a token's experts, with exact counterfactual losses; the others stay.
        """
        found = []
        for number in self._numbers(layer):
            one, rows = self.trace.layers[number], self.trace.scored
            last = one.indices.shape[1] - 1
            rises = self.counterfactual(number, slot=last)[rows] - self.trace.loss[rows, None]
            others = one.at(rows).without_last()
            hidden, units = one.hidden[rows].astype(np.float64), self.trace.units[rows]
            rng = np.random.default_rng(seed)
            found.append(measured_regret(number, hidden, rises, others, units, rng))
        return self._kept_findings("gate regret", adjusted_regrets(found))

    @overload
    def specialization(self, layer: int, seed: int = 0) -> Specialization: ...

    @overload
    def specialization(self, layer: None = None, seed: int = 0) -> tuple[Specialization, ...]: ...

    def specialization(self, layer: int | None = None, seed: int = 0) -> Specialization | tuple[Specialization, ...]:
        """The test of `geometry.specialization` on the exact losses of every expert alone, documents as units.

        Without ``layer`` all layers are tested, and p-values are adjusted for all of their experts.
        """
        numbers, given = self._numbers(layer), self._losses_alone(layer)
        found = tested_specializations(*given, self.trace.units[self.trace.scored], seed)
        self.trace.findings.setdefault("specialization", {}).update(zip(numbers, found, strict=True))
        return found if layer is None else found[0]

    @overload
    def alignment(self, layer: int, seed: int = 0) -> Alignment: ...

    @overload
    def alignment(self, layer: None = None, seed: int = 0) -> tuple[Alignment, ...]: ...

    def alignment(self, layer: int | None = None, seed: int = 0) -> Alignment | tuple[Alignment, ...]:
        """Does a layer choose the best expert of each token more often than chance? Documents are units.

        Without ``layer`` all layers are tested, and p-values are adjusted for them.
        """
        numbers, given = self._numbers(layer), self._losses_alone(layer)
        found = tested_alignments(*given, self.trace.units[self.trace.scored], seed)
        self.trace.findings.setdefault("alignment", {}).update(zip(numbers, found, strict=True))
        return found if layer is None else found[0]

    def _losses_alone(self, layer: int | None) -> tuple[list[LayerTrace], list[Floats]]:
        """Layers, and the exact losses of their experts alone, (n, M) each, at the tokens that have a loss."""
        numbers, rows = self._numbers(layer), self.trace.scored
        losses = [self.counterfactual(number)[rows] for number in numbers]
        return [self.trace.layers[number].at(rows) for number in numbers], losses

    def prune(self, budget: int, seed: int = 0) -> Pruning:
        """Keep ``budget`` experts in every layer: chosen on half of the documents, certified on the others.

        Three rules choose: the rise of the loss without each expert, its load, and the mean of weight times norm of
        its output. The one of least loss on the first half is taken; the rise on the second half has a 95 % upper
        bound that this choice does not spoil.
        """
        trace, probed = self.trace, self._probed
        groups = check_budget(probed, trace.layers, budget)
        first, second = (
            rows[~np.isnan(trace.loss[rows])] for rows in halves(trace.units, np.random.default_rng(seed))
        )
        rules = []
        for rule, scores in self._scores(first).items():
            kept = tuple(kept_by_score(one, budget, groups) for one in scores)
            after = pruned_losses(probed, trace.tokens, kept)
            rise, bound = certified(after[second] - trace.loss[second], trace.units[second])
            rules.append(PruningRule(rule, kept, float(after[first].mean()), rise, bound))
        found = Pruning(tuple(rules), probed)
        trace.findings["pruning"] = found
        return found

    def _scores(self, rows: Indices) -> dict[str, list[Floats]]:
        """What each rule knows of the experts of every layer, from some of the tokens."""
        trace, probed = self.trace, self._probed
        scores: dict[str, list[Floats]] = {"ablation": [], "load": [], "norm": []}
        for number, (call, one) in enumerate(zip(probed.calls, trace.layers, strict=True)):
            missing = [m for m in range(call.n_experts) if (number, m, "next") not in self._ablated]
            for m in missing:
                self._ablated[number, m, "next"] = ablated_losses(probed, trace.tokens, call, m, "next")
            rises = [self._ablated[number, m, "next"][rows] - trace.loss[rows] for m in range(call.n_experts)]
            scores["ablation"].append(np.array([rise.mean() for rise in rises]))
            scores["load"].append(one.chosen[rows].mean(axis=0))
            scores["norm"].append(weighted_norms(call, one, rows, probed.device))
        return scores

    def _replaced_rises(self, call: ExpertCall, near: Indices, active: int) -> Floats:
        """The rise of every token's loss when a place goes to a candidate of its expert, (n, K, C)."""
        tables = [torch.from_numpy(near[:, c].copy()) for c in range(near.shape[1])]
        changes = [replaced(table, slot) for slot in range(active) for table in tables]
        before, after = forced_losses(self._probed, self.trace.tokens, call, changes)
        return (after - before[:, None]).reshape(len(before), active, len(tables))

    def _kept_findings(self, question: str, found: tuple[Found, ...]) -> tuple[Found, ...]:
        """Keep answers for the page, beside earlier ones about other layers and experts."""
        every = (*self.trace.findings.get(question, ()), *found)
        merged = {(one.layer, getattr(one, "expert", None)): one for one in every}
        self.trace.findings[question] = tuple(merged.values())
        return found

    def _numbers(self, layer: int | None) -> range:
        if layer is None:
            return range(len(self._probed.calls))
        as_count(layer, "layer", low=0, high=len(self._probed.calls) - 1)
        return range(layer, layer + 1)


def _shown(what: str) -> Any:
    """Wraps a list of batches such that the place in it is written to the standard error."""
    import sys  # noqa: PLC0415

    def watch(batches: Any) -> Any:
        for place, batch in enumerate(batches, start=1):
            sys.stderr.write(f"\r{what}: batch {place} of {len(batches)}")
            yield batch
        sys.stderr.write("\n")

    return watch


def xray(model: nn.Module) -> Xray:
    """Look into a mixture-of-experts model of the transformers library, or one with `gatewise.nn.MoELayer`.

    Nothing is converted: hooks stand before the calls of the experts while the model runs. A compiled model runs
    eagerly meanwhile.
    """
    return Xray(model)
