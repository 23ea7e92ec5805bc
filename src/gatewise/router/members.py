"""The members of the list that are fitted without trees: constant weights, and softmax gates.

A group of members is fitted at once. Member s of it predicts sum_m g_sm(x) f_m(x) + h_s(x): weights on the simplex,
and a shared part, which is zero for most members.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from scipy.special import softmax

from gatewise import kernels
from gatewise.arrays import Floats, Indices
from gatewise.gates.inputs import Inputs
from gatewise.losses import Loss
from gatewise.router.candidates import Candidate
from gatewise.solvers.softmax_path import gate_paths, GatePath, PathRequest, stack_weights

# The part of the reference that is divided equally: an expert to which the stack gives no weight may win somewhere.
FLOOR = 0.05
GATE_SPREAD = 1.0  # prior standard deviation of the correction's coefficients beside a gate


@dataclass(frozen=True, eq=False)
class ListRows:
    """What the members of the list see of n rows.

    ``inputs`` are the gates' view of the rows, ``features`` the features (n, p) of every softmax gate by its name,
    and ``F`` (n, M) the experts' forecasts.
    """

    inputs: Inputs
    features: Mapping[str, Floats]
    F: Floats

    def __len__(self) -> int:
        return len(self.inputs.inside)

    def part(self, entries: Indices) -> "ListRows":
        """Some of the rows."""
        features = {name: columns[entries] for name, columns in self.features.items()}
        return ListRows(self.inputs[entries], features, self.F[entries])


@dataclass(frozen=True, eq=False)
class CommonFit:
    """What all members of one list share: the convex stack, and the centre and unit of the forecasts.

    The ``reference`` is the weights that a gate has when all its scores are zero: the stack, mixed with a little of
    the mean. The ``unit`` is the scale of the reference's residuals, the loss has that scale.
    """

    stack: Floats  # (M,)
    center: Floats  # (M,)
    unit: float

    @classmethod
    def fit(cls, F: Floats, loss: Loss, sample_weight: Floats) -> tuple[Self, Loss]:
        """From forecasts F (n, M), their loss and weights; also the loss with the scale of the reference."""
        stack = stack_weights(F, loss, sample_weight)
        loss = loss.calibrated(F @ mixed_with_mean(stack), sample_weight)
        return cls(stack, np.average(F, axis=0, weights=sample_weight), float(loss.scale)), loss

    @property
    def reference(self) -> Floats:
        """The weights (M,) that gates start from."""
        return mixed_with_mean(self.stack)

    def linear_columns(self, F: Floats) -> Floats:
        """The columns (n, 1 + M) of a linear correction: a constant, and the forecasts about their means."""
        return np.column_stack([np.full(len(F), self.unit), F - self.center])

    def tree_columns(self, rows: ListRows) -> Floats:
        """The columns that a learner on inputs and forecasts splits: (n, p + M)."""
        return np.column_stack([rows.inputs.for_trees, (rows.F - self.center) / self.unit])


def mixed_with_mean(stack: Floats) -> Floats:
    """The stack's weights (M,) with a little of equal weights mixed in."""
    return np.asarray((1.0 - FLOOR) * stack + FLOOR / len(stack))


class FittedMembers(Protocol):
    """A fitted group of members of the list."""

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The members before they were fitted."""
        ...

    def add_weights(self, shares: Floats, rows: ListRows, total: Floats) -> None:
        """Add sum_s share_s g_s to ``total`` (n, M)."""
        ...

    def shared_parts(self, shares: Floats, rows: ListRows) -> dict[str, Floats]:
        """What is added to the mixture, sum_s share_s h_s, by the name of the part, (n,) each."""
        ...

    def forecasts(self, rows: ListRows) -> Floats:
        """The prediction of every member, (n, S)."""
        ...


@dataclass(frozen=True, eq=False)
class PlainMembers:
    """Constant weights (S, M), some with a linear correction (S, 1 + M) that is added."""

    candidates: tuple[Candidate, ...]
    common: CommonFit
    weights: Floats
    correction: Floats

    @classmethod
    def fit(
        cls, candidates: tuple[Candidate, ...], common: CommonFit, rows: ListRows, loss: Loss, sample_weight: Floats
    ) -> Self:
        """Fit the corrections; the weights are those of single experts, of the mean, and of stacks."""
        M = len(common.stack)
        corrected = [s for s, c in enumerate(candidates) if c.corrected]
        still = np.zeros((len(rows), 0))  # a gate without features stays at the reference
        linear = common.linear_columns(rows.F)
        requests = [PathRequest(still, (1.0,), linear, candidates[s].spread) for s in corrected]
        paths = gate_paths(requests, rows.F, loss, common.reference, sample_weight)
        correction = np.zeros((len(candidates), M + 1))
        for s, path in zip(corrected, paths, strict=True):
            correction[s] = path.linear[0]
        singles = iter(np.eye(M))
        constants = {"convex": common.stack, "mean": np.full(M, 1.0 / M)}
        weights = [
            next(singles) if c.kind == "single" else common.reference if c.corrected else constants[c.name]
            for c in candidates
        ]
        return cls(candidates, common, np.stack(weights), correction)

    def add_weights(self, shares: Floats, rows: ListRows, total: Floats) -> None:  # noqa: ARG002 - constant in x
        total += shares @ self.weights

    def shared_parts(self, shares: Floats, rows: ListRows) -> dict[str, Floats]:
        return linear_parts(self.common, shares @ self.correction, rows.F)

    def forecasts(self, rows: ListRows) -> Floats:
        return np.asarray(rows.F @ self.weights.T + self.common.linear_columns(rows.F) @ self.correction.T)


def linear_parts(common: CommonFit, coefficients: Floats, F: Floats) -> dict[str, Floats]:
    """A linear correction with coefficients (1 + M,) as an intercept and a combination of the forecasts F (n, M)."""
    if not coefficients.any():
        return {}
    constant = common.unit * coefficients[0] - coefficients[1:] @ common.center
    return {"intercept": np.full(len(F), constant), "linear correction": F @ coefficients[1:]}


@dataclass(frozen=True, eq=False)
class SoftmaxMembers:
    """Softmax gates, each with a path of spreads; some with a linear correction that is fitted with the gate.

    ``paths`` holds the fitted gates by name and by whether they are corrected, one for every entry of ``spreads``.
    """

    candidates: tuple[Candidate, ...]
    common: CommonFit
    paths: Mapping[tuple[str, bool], GatePath]
    spreads: tuple[float, ...]

    @classmethod
    def fit(
        cls, candidates: tuple[Candidate, ...], common: CommonFit, rows: ListRows, loss: Loss, sample_weight: Floats
    ) -> Self:
        """Fit every gate along its path."""
        spreads = tuple(sorted({c.spread for c in candidates}))
        gates = list({(c.name, c.corrected): None for c in candidates})
        linear = common.linear_columns(rows.F)
        requests = [
            PathRequest(rows.features[name], spreads, linear if corrected else None, GATE_SPREAD)
            for name, corrected in gates
        ]
        found = gate_paths(requests, rows.F, loss, common.reference, sample_weight)
        return cls(candidates, common, dict(zip(gates, found, strict=True)), spreads)

    def __getstate__(self) -> dict[str, Any]:
        """The paths as a list of pairs: a model file holds no mapping whose keys are not text."""
        return {**self.__dict__, "paths": list(self.paths.items())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, paths=dict(state["paths"]))

    def add_weights(self, shares: Floats, rows: ListRows, total: Floats) -> None:
        M = total.shape[1]
        groups: dict[tuple[str, int], tuple[list[float], list[Floats]]] = {}
        offset = np.log(self.common.reference)
        for s in np.flatnonzero(shares):
            c = self.candidates[s]
            whole = np.column_stack([offset, self._theta(c)])
            members = groups.setdefault((c.name, c.k or M), ([], []))
            members[0].append(float(shares[s]))
            members[1].append(whole[:-1] - whole[-1])  # the last expert is the reference of the scores
        columns = {name: np.column_stack([np.ones(len(rows)), rows.features[name]]) for name, _ in groups}
        for (name, k), (weights, thetas) in groups.items():
            kernels.add_linear_softmax(columns[name], np.stack(thetas), k, np.array(weights), total)

    def shared_parts(self, shares: Floats, rows: ListRows) -> dict[str, Floats]:
        total = np.zeros(len(self.common.stack) + 1)
        for s in np.flatnonzero(shares):
            total += shares[s] * self._correction(self.candidates[s])
        return linear_parts(self.common, total, rows.F)

    def forecasts(self, rows: ListRows) -> Floats:
        out = np.empty((len(rows), len(self.candidates)))
        offset, linear = np.log(self.common.reference), self.common.linear_columns(rows.F)
        sparse = np.empty(rows.F.shape)
        for s, c in enumerate(self.candidates):
            scores = offset + rows.features[c.name] @ self._theta(c).T
            if c.k is None:
                weights = softmax(scores, axis=1)
            else:
                kernels.softmax_rows(scores, scores, c.k, sparse)  # ties go to the smaller index
                weights = sparse
            out[:, s] = np.einsum("im,im->i", weights, rows.F)
            if c.corrected:
                out[:, s] += linear @ self._correction(c)
        return out

    def _theta(self, c: Candidate) -> Floats:
        return np.asarray(self.paths[c.name, c.corrected].theta[self.spreads.index(c.spread)])

    def _correction(self, c: Candidate) -> Floats:
        if not c.corrected:
            return np.zeros(len(self.common.stack) + 1)
        return np.asarray(self.paths[c.name, True].linear[self.spreads.index(c.spread)])
