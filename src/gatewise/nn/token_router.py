"""A router: hidden states to experts, weights and auxiliary losses."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import nn, Tensor

from gatewise.nn.balancing import AuxiliaryLoss, BiasBalancing, Choice
from gatewise.nn.capacity import Capacity
from gatewise.nn.choice import Dense, Selection, Threshold
from gatewise.nn.functional import dense_weights, masked
from gatewise.nn.score_noise import ScoreModule
from gatewise.nn.thinning import RandomSecond
from gatewise.nn.weighting import Normalized, Weighting


class Routing(NamedTuple):
    """Who serves every token, and how much: indices (T, K), weights (T, K), losses by name, scores (T, M + null).

    An index of -1 is no expert; its weight is zero.
    """

    indices: Tensor
    weights: Tensor
    losses: dict[str, Tensor]
    scores: Tensor

    def dense(self, n_experts: int) -> Tensor:
        """The weights of all experts, (T, M): the gate with its zeros."""
        return dense_weights(self.indices, self.weights, n_experts)


class AbstractRouter(nn.Module, ABC):
    """Anything that turns hidden states (T, d) into a `Routing` over ``n_experts`` experts."""

    n_experts: int
    d: int

    @abstractmethod
    def forward(self, x: Tensor) -> Routing:
        """x (T, d) -> Routing."""


class Router(AbstractRouter):
    """scores -> choice -> weights -> random second choices -> capacity, with losses on the side.

    The choice ranks the scores themselves, or with ``bias`` the biased affinities, whose ranking is another.
    ``losses`` are computed in training mode only and see the choice before anything is dropped.

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
        _check(self)

    def forward(self, x: Tensor) -> Routing:
        return self.assign(self.scores(x))

    def assign(self, scores: Tensor) -> Routing:
        """Scores (T, M + null) -> Routing."""
        check_finite(scores)
        indices = self.selection(self.preference(scores.detach()))
        weights = self.weighting(scores, indices)
        losses = self._losses(scores, indices) if self.training else {}
        if self.bias is not None and self.training:
            self.bias.count(indices)
        if self.thinning is not None and self.training:
            indices = self.thinning(indices, weights.detach())
        if self.capacity is not None:
            indices = self.capacity(indices, self.n_experts)
        return Routing(indices, masked(weights, indices), losses, scores)

    def preference(self, scores: Tensor) -> Tensor:
        """What the choice compares, (T, M + null)."""
        if self.bias is None:
            return scores
        preference: Tensor = self.bias(self.weighting.affinity(scores))
        return preference

    def _losses(self, scores: Tensor, indices: Tensor) -> dict[str, Tensor]:
        if not self.losses:
            return {}
        affinity = self.weighting.affinity(scores)
        choice = Choice(scores, affinity / affinity.sum(-1, keepdim=True), indices, self.n_experts)
        return {loss.name: loss(choice) for loss in self.losses}

    def extra_repr(self) -> str:
        parts = [self.selection, self.weighting, *self.losses, self.thinning, self.capacity]
        return ", ".join(repr(part) for part in parts if part is not None)


def check_finite(scores: Tensor) -> None:
    """An error unless every score is finite.

    Where the graph is compiled, or the scores are on a device that nobody should wait for, the test is an assertion
    within the graph; else it is a ValueError at once.
    """
    message = (
        "scores must be finite, but the router got a NaN or an infinity: check the hidden states and its weights"
    )
    finite = torch.isfinite(scores).all()
    if torch.compiler.is_compiling() or scores.device.type != "cpu":
        torch._assert_async(finite, message)
    elif not finite:
        raise ValueError(message)


def _check(router: Router) -> None:
    names = [loss.name for loss in router.losses]
    if len(set(names)) < len(names):
        raise ValueError(f"losses must have different names, not {names}")
    if router.bias is None:
        return
    n_scores = router.scores.n_scores
    if isinstance(router.selection, Threshold):
        raise ValueError("bias must be None with a Threshold, which reads probabilities off plain scores")
    if router.selection.n_null or len(router.bias.bias) != n_scores:
        raise ValueError(
            f"bias must have one entry for each of {n_scores} experts, none of them null, not {len(router.bias.bias)}"
        )
