"""A router: hidden states to experts, weights and auxiliary losses."""

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import nn, Tensor

from gatewise.nn.balancing import AuxiliaryLoss, Choice, LoadLoss
from gatewise.nn.bias_balancing import BiasBalancing
from gatewise.nn.capacity import Capacity
from gatewise.nn.choice import Dense, GroupLimitedTopK, Selection, Threshold
from gatewise.nn.finite_scores import FiniteWatch, place_of
from gatewise.nn.functional import dense_weights, masked, recomputing
from gatewise.nn.score_noise import NoisyDraw, NoisyScores, ScoreModule
from gatewise.nn.thinning import RandomSecond
from gatewise.nn.transport import TransportScores
from gatewise.nn.weighting import Normalized, Weighting


class Routing(NamedTuple):
    """Who serves every token, and how much: indices (T, K), weights (T, K), losses by name, scores (T, M + null).

    An index of -1 is no expert; its weight is zero. Where experts choose tokens, a row of indices and weights is one
    of their choices, and ``tokens`` says whose it is; elsewhere it is None, and row t is token t.
    """

    indices: Tensor
    weights: Tensor
    losses: dict[str, Tensor]
    scores: Tensor
    tokens: Tensor | None = None

    def dense(self, n_experts: int) -> Tensor:
        """The weights of all experts, (T, M): the gate with its zeros."""
        if self.tokens is None:
            return dense_weights(self.indices, self.weights, n_experts)
        table = dense_weights(self.indices, self.weights, n_experts)
        return table.new_zeros(len(self.scores), n_experts).index_add(0, self.tokens, table)

    def by_token(self, n_experts: int) -> "Routing":
        """The same with one row a token: where experts choose, every token has M places, its experts first."""
        if self.tokens is None:
            return self
        chosen = dense_weights(self.indices, torch.ones_like(self.weights), n_experts)
        chosen = chosen.new_zeros(len(self.scores), n_experts).index_add(0, self.tokens, chosen) > 0
        weights = self.dense(n_experts).masked_fill(~chosen, -math.inf)
        order = weights.sort(dim=1, descending=True, stable=True).indices
        indices = torch.where(chosen.gather(1, order), order, -1)
        return Routing(indices, masked(weights.gather(1, order), indices), self.losses, self.scores)


class AbstractRouter(nn.Module, ABC):
    """Anything that turns hidden states (..., d) into a `Routing` over ``n_experts`` experts."""

    n_experts: int
    d: int

    @abstractmethod
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Routing:
        """x (..., d), whose leading axes are T tokens, and mask (...), False at padding -> Routing."""


class Batch(NamedTuple):
    """Tokens (T, d), which of them count (T,) or None for all, and how many sequences they are."""

    tokens: Tensor
    mask: Tensor | None
    n_sequences: int


def as_batch(x: Tensor, mask: Tensor | None) -> Batch:
    """x (..., L, d) as tokens of sequences of length L; x (T, d) is one sequence."""
    if mask is not None:
        if mask.shape != x.shape[:-1]:
            raise ValueError(
                f"mask must have the shape of x without its last axis, {tuple(x.shape[:-1])}, not {tuple(mask.shape)}"
            )
        mask = mask.bool().reshape(-1)
    return Batch(x.reshape(-1, x.shape[-1]), mask, max(math.prod(x.shape[:-2]), 1))


class Router(AbstractRouter):
    """scores -> choice -> weights -> random second choices -> capacity, with losses on the side.

    The choice ranks the scores themselves, or with ``bias`` the biased affinities, whose ranking is another.
    ``losses`` are computed in training mode only and see the choice before anything is dropped. Padding, where a mask
    is False, has no expert and counts nowhere.

    >>> from gatewise.nn import LinearScores, TopK
    >>> routing = Router(LinearScores(8, 4), TopK(2))(torch.zeros(3, 8))
    >>> routing.indices[0], routing.weights[0].detach()  # all scores tie at zero
    (tensor([0, 1]), tensor([0.5000, 0.5000]))
    """

    def __init__(
        self,
        scores: ScoreModule,
        selection: Selection = Dense(),  # noqa: B008
        weighting: Weighting = Normalized(),  # noqa: B008
        *,
        losses: Sequence[AuxiliaryLoss] = (),
        bias: BiasBalancing | None = None,
        thinning: RandomSecond | None = None,
        capacity: Capacity | None = None,
    ) -> None:
        super().__init__()
        self.scores, self.bias = scores, bias
        self.selection, self.weighting = selection, weighting
        self.losses, self.thinning, self.capacity = tuple(losses), thinning, capacity
        self.n_active = selection.n_active(scores.n_scores)
        self.n_experts, self.d = scores.n_scores - selection.n_null, scores.d
        self.watch = FiniteWatch()
        _check(self)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Routing:
        batch = as_batch(x, mask)
        if isinstance(self.scores, NoisyScores) and self.training:
            draw = self.scores.draw(batch.tokens)
            return self.assign(draw.noisy, batch.mask, batch.n_sequences, draw)
        rest = (batch.mask,) if isinstance(self.scores, TransportScores) else ()
        return self.assign(self.scores(batch.tokens, *rest), batch.mask, batch.n_sequences)

    def assign(
        self, scores: Tensor, mask: Tensor | None = None, n_sequences: int = 1, draw: NoisyDraw | None = None
    ) -> Routing:
        """Scores (T, M + null) and which tokens count (T,) -> Routing."""
        if mask is not None:
            scores = scores.masked_fill(~mask.unsqueeze(1), 0.0)  # padding may hold anything
        self.watch.check(scores, self)
        indices = self.selection(self.preference(scores.detach()))
        if mask is not None:
            indices = torch.where(mask.unsqueeze(1), indices, -1)
        weights = self.weighting(scores, indices)
        losses: dict[str, Tensor] = {}
        if self.training:
            self._warn_if_constant(scores)
            losses = self._losses(scores, indices, weights, (mask, n_sequences, draw))
            if self.bias is not None and not recomputing():
                self.bias.count(indices)
            if self.thinning is not None:
                indices = self.thinning(indices, weights.detach())
        if self.capacity is not None:
            indices = self.capacity(indices, self.n_experts, mask, self.training)
        return Routing(indices, masked(weights, indices), losses, scores)

    def preference(self, scores: Tensor) -> Tensor:
        """What the choice compares, (T, M + null): groups are ranked by sums, which must be of affinities."""
        if self.bias is not None:
            preference: Tensor = self.bias(self.weighting.affinity(scores))
            return preference
        return self.weighting.affinity(scores) if isinstance(self.selection, GroupLimitedTopK) else scores

    def _losses(
        self, scores: Tensor, indices: Tensor, weights: Tensor, rest: tuple[Tensor | None, int, NoisyDraw | None]
    ) -> dict[str, Tensor]:
        if not self.losses:
            return {}
        affinity = self.weighting.affinity(scores)
        probabilities = affinity / affinity.sum(-1, keepdim=True)
        choice = Choice(scores, probabilities, indices, self.n_experts, weights, *rest)
        return {loss.name: loss(choice) for loss in self.losses}

    def _warn_if_constant(self, scores: Tensor) -> None:
        if self.n_active == 1 and isinstance(self.weighting, Normalized) and scores.requires_grad:
            warnings.warn(
                f"{place_of(self)} chooses one expert a token and normalises its weight, which is then the constant "
                f"{self.weighting.scale}: the task's loss gives the scores no gradient, and the router does not "
                "learn. SoftmaxBefore() as its weighting lets it learn",
                stacklevel=2,
            )

    def extra_repr(self) -> str:
        parts = [self.selection, self.weighting, *self.losses, self.thinning, self.capacity]
        return ", ".join(repr(part) for part in parts if part is not None)


def _check(router: Router) -> None:
    names = [loss.name for loss in router.losses]
    if len(set(names)) < len(names):
        raise ValueError(f"losses must have different names, not {names}")
    if any(isinstance(loss, LoadLoss) for loss in router.losses) and not isinstance(router.scores, NoisyScores):
        raise ValueError("scores must be NoisyScores with a LoadLoss: without noise a load has no gradient")
    if router.bias is None:
        return
    n_scores = router.scores.n_scores
    if isinstance(router.selection, Threshold):
        raise ValueError("bias must be None with a Threshold, which reads probabilities off plain scores")
    if router.selection.n_null or len(router.bias.bias) != n_scores:
        raise ValueError(
            f"bias must have one entry for each of {n_scores} experts, none of them null, not {len(router.bias.bias)}"
        )
