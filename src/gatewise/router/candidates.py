"""The list of candidates: every single expert, global stacks, and gates of every class along a path of penalties."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from gatewise import kernels
from gatewise.arrays import Floats
from gatewise.gates.feature_maps import GateFeatures
from gatewise.gates.inputs import Inputs
from gatewise.losses import Loss
from gatewise.solvers.softmax_path import gate_paths, GatePath, PathRequest, stack_weights

Kind = Literal["single", "stack", "gate"]
Features: TypeAlias = Mapping[str, Floats]  # the features (n, p) of every gate by its name
# The part of the reference that is divided equally: an expert to which the stack gives no weight may win somewhere.
FLOOR = 0.05
STACK_SPREADS = (0.3, 1.0, 3.0)  # prior standard deviations of the correction's coefficients, beside a stack
GATE_SPREAD = 1.0  # the same, beside a gate
MOST_ROWS = 6000  # rows that a gate is fitted to, at most: it has a few hundred coefficients
SPARSE_SHARE = 0.1  # the part of the gates' prior weight that Top-K gates have


@dataclass(frozen=True)
class Candidate:
    """One entry of the list, before it is fitted.

    ``kind`` "single" is one expert, by its name. "stack" is the "convex" combination of the experts or their "mean".
    "gate" is a gate by its name, with the ``spread`` (prior standard deviation) of its coefficients and the number
    ``k`` of active experts, None for all. A ``corrected`` candidate adds a linear combination of the experts, the
    same for all rows.
    """

    kind: Kind
    name: str
    spread: float = 0.0
    k: int | None = None
    corrected: bool = False

    def __str__(self) -> str:
        words = [self.name if self.kind == "single" else f"{self.name} {self.kind}"]
        if self.kind == "gate":
            words += [f"spread {self.spread:g}"] + ([f"top {self.k}"] if self.k else [])
        if self.corrected:
            words += ["corrected" if self.kind == "gate" else f"corrected by {self.spread:g}"]
        return ", ".join(words)


def candidate_list(
    experts: Sequence[str],
    gates: Mapping[str, Sequence[int | None]],
    spreads: Sequence[float],
    corrected: bool,
) -> tuple[Candidate, ...]:
    """The list: every expert, the stacks, and every gate with every spread and every number of active experts.

    ``gates`` gives the numbers of active experts to try by the gate's name, None for all. Top-K gates are never
    corrected, because a correction needs the forecasts of all experts.

    >>> [str(c) for c in candidate_list(["a", "b"], {"linear": [None, 1]}, [1.0], corrected=False)]
    ['a', 'b', 'convex stack', 'mean stack', 'linear gate, spread 1', 'linear gate, spread 1, top 1']
    """
    plain = [
        *(Candidate("single", name) for name in experts),
        Candidate("stack", "convex"),
        Candidate("stack", "mean"),
    ]
    dense = list(product([name for name, ks in gates.items() if None in ks], spreads))
    listed = [Candidate("gate", *gate) for gate in dense]
    if corrected:
        plain += [Candidate("stack", "convex", spread, corrected=True) for spread in STACK_SPREADS]
        listed += [Candidate("gate", *gate, corrected=True) for gate in dense]
    listed += [
        Candidate("gate", name, spread, k)
        for name, ks in gates.items()
        for spread, k in product(spreads, [k for k in ks if k is not None])
    ]
    return (*plain, *listed)


def log_prior(candidates: Sequence[Candidate]) -> Floats:
    """The log prior of every candidate, (S,).

    Single experts and stacks have weight 0.5 together, dense gates 0.45 and Top-K gates 0.05, divided equally within
    each of these three groups.
    """
    groups = [0 if c.kind != "gate" else 1 if c.k is None else 2 for c in candidates]
    counts = np.bincount(groups, minlength=3)
    shares = np.array([0.5, 0.5 * (1 - SPARSE_SHARE), 0.5 * SPARSE_SHARE])
    return np.asarray(np.log(shares / np.maximum(counts, 1))[groups])


def gate_features(maps: Mapping[str, GateFeatures], inputs: Inputs, F: Floats | None) -> dict[str, Floats]:
    """The features (n, p) of every gate by its name, from the inputs of n rows and the forecasts F (n, M)."""
    return {name: one.features(inputs, F) for name, one in maps.items()}


@dataclass(frozen=True, eq=False)
class FittedList:
    """All candidates fitted on one set of rows.

    Candidate s predicts sum_m g_ms(x) f_m(x) + unit * b_s0 + sum_m b_sm (f_m(x) - center_m). For single experts and
    stacks the weights g_s do not depend on x. The correction b_s is zero unless the candidate is corrected.
    ``paths`` holds the fitted gates by name and by whether they are corrected, one for every entry of ``spreads``.
    """

    candidates: tuple[Candidate, ...]
    stack: Floats  # (M,)
    paths: Mapping[tuple[str, bool], GatePath]
    correction: Floats  # (S, 1 + M)
    unit: float
    center: Floats  # (M,)
    spreads: tuple[float, ...]

    @classmethod
    def fit(
        cls,
        candidates: tuple[Candidate, ...],
        features: Features,
        F: Floats,
        loss: Loss,
        sample_weight: Floats,
    ) -> Self:
        """Fit all candidates to n rows: features (n, p) of every gate, forecasts F (n, M), and the rows' loss."""
        stack = stack_weights(F, loss, sample_weight)
        base = reference(stack)
        center = np.average(F, axis=0, weights=sample_weight)
        loss = loss.calibrated(F @ base, sample_weight)
        unit = float(loss.scale)
        linear = _linear_columns(F, unit, center)
        spreads = tuple(sorted({c.spread for c in candidates if c.kind == "gate"}))
        part = _some_rows(sample_weight)
        linear = linear[part]
        gates = list({(c.name, c.corrected): None for c in candidates if c.kind == "gate"})
        stacks = [s for s, c in enumerate(candidates) if c.corrected and c.kind == "stack"]
        still = np.zeros((len(part), 0))  # a gate without features stays at the reference
        requests = [
            *(PathRequest(features[name][part], spreads, linear if on else None, GATE_SPREAD) for name, on in gates),
            *(PathRequest(still, (1.0,), linear, candidates[s].spread) for s in stacks),
        ]
        found = gate_paths(requests, F[part], loss.part(part), base, sample_weight[part])
        paths = dict(zip(gates, found[: len(gates)], strict=True))
        correction = np.zeros((len(candidates), len(center) + 1))
        for s, path in zip(stacks, found[len(gates) :], strict=True):
            correction[s] = path.linear[0]
        for s, c in enumerate(candidates):
            if c.corrected and c.kind == "gate":
                correction[s] = paths[c.name, True].linear[spreads.index(c.spread)]
        return cls(candidates, stack, paths, correction, unit, center, spreads)

    def __getstate__(self) -> dict[str, Any]:
        """The paths as a list of pairs: a model file holds no mapping whose keys are not text."""
        return {**self.__dict__, "paths": list(self.paths.items())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, paths=dict(state["paths"]))

    def gates_in_use(self, shares: Floats) -> set[str]:
        """The names of the gates whose candidates have a share (S,) above zero."""
        return {c.name for share, c in zip(shares, self.candidates, strict=True) if share and c.kind == "gate"}

    def mean_weights(self, shares: Floats, features: Features, n: int) -> Floats:
        """The gate sum_s share_s g_s at n rows, (n, M), without an array of all gates."""
        constant = np.zeros(len(self.stack))
        groups: dict[tuple[str, int], tuple[list[float], list[Floats]]] = {}
        offset = np.log(reference(self.stack))
        for s, (share, c) in enumerate(zip(shares.tolist(), self.candidates, strict=True)):
            if c.kind != "gate":
                constant += share * self._constant(s)
            elif share:
                theta = self.paths[c.name, c.corrected].theta[self.spreads.index(c.spread)]
                whole = np.column_stack([offset, theta])
                members = groups.setdefault((c.name, c.k or len(self.stack)), ([], []))
                members[0].append(share)
                members[1].append(whole[:-1] - whole[-1])  # the last expert is the reference of the scores
        total = np.tile(constant, (n, 1))
        columns = {name: np.column_stack([np.ones(n), features[name]]) for name, _ in groups}
        for (name, k), (weights, thetas) in groups.items():
            kernels.add_linear_softmax(columns[name], np.stack(thetas), k, np.array(weights), total)
        return total

    def corrections(self, shares: Floats, F: Floats) -> Floats:
        """The mean of the candidates' corrections by these shares, (n,), for forecasts F (n, M)."""
        return np.asarray(_linear_columns(F, self.unit, self.center) @ (shares @ self.correction))

    def forecasts(self, features: Features, F: Floats) -> Floats:
        """The prediction of every candidate, (n, S)."""
        out: Floats = _linear_columns(F, self.unit, self.center) @ self.correction.T
        offset = np.log(reference(self.stack))
        sparse = np.empty(F.shape)
        for s, c in enumerate(self.candidates):
            if c.kind != "gate":
                out[:, s] += F @ self._constant(s)
                continue
            theta = self.paths[c.name, c.corrected].theta[self.spreads.index(c.spread)]
            scores = offset + features[c.name] @ theta.T
            if c.k is None:
                weights = softmax(scores, axis=1)
            else:
                kernels.softmax_rows(scores, scores, c.k, sparse)  # ties go to the smaller index
                weights = sparse
            out[:, s] += np.einsum("im,im->i", weights, F)
        return out

    def _constant(self, s: int) -> Floats:
        """The weights (M,) of a plain candidate; the single experts stand first in the list."""
        c, M = self.candidates[s], len(self.stack)
        if c.kind == "single":
            return np.asarray(np.eye(M)[s])
        if c.corrected:
            return reference(self.stack)
        return self.stack if c.name == "convex" else np.full(M, 1.0 / M)


def reference(stack: Floats) -> Floats:
    """The weights that a gate has when all its coefficients are zero: the stack, mixed with a little of the mean."""
    return np.asarray((1.0 - FLOOR) * stack + FLOOR / len(stack))


def _some_rows(sample_weight: Floats) -> NDArray[np.intp]:
    """The rows of positive sample weight; where there are more than MOST_ROWS, a random choice with a fixed seed."""
    counted = np.flatnonzero(sample_weight)
    if len(counted) <= MOST_ROWS:
        return counted
    return np.sort(np.random.default_rng(0).choice(counted, MOST_ROWS, replace=False))


def _linear_columns(F: Floats, unit: float, center: Floats) -> Floats:
    return np.column_stack([np.full(len(F), unit), F - center])
