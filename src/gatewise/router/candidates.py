"""The list of candidates: every single expert, global stacks, and gates of every class along a path of penalties."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from gatewise import kernels
from gatewise.aggregation import convex_stack
from gatewise.arrays import Floats
from gatewise.gates.inputs import Inputs
from gatewise.solvers.softmax_path import gate_path, Path

Kind = Literal["single", "stack", "gate"]
FLOOR = 0.05  # of the reference that is shared out evenly: an expert that the stack drops may still win somewhere
STACK_SPREADS = (0.3, 1.0, 3.0)  # of the correction's coefficients, where there is no gate
GATE_SPREAD = 1.0  # the same, beside a gate
MOST_ROWS = 6000  # that a gate is fitted to: it has some hundred coefficients
SPARSE_SHARE = 0.1  # of the gates' prior weight, for the Top-K ones


@dataclass(frozen=True)
class Candidate:
    """One entry of the list, before it is fitted.

    A single expert by its number; a stack, which is "convex" or the plain "mean" of the experts; or a gate by its
    class, the spread of its coefficients and k, None for a dense one. A corrected candidate has a linear
    combination of the experts added that is always on.
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
    classes: Sequence[str],
    spreads: Sequence[float],
    ks: Sequence[int | None],
    corrected: bool,
) -> tuple[Candidate, ...]:
    """The list for experts of these names; Top-K gates are never corrected, as that needs every expert.

    >>> [str(c) for c in candidate_list(["a", "b"], ["linear"], [1.0], [None, 1], corrected=False)]
    ['a', 'b', 'convex stack', 'mean stack', 'linear gate, spread 1', 'linear gate, spread 1, top 1']
    """
    plain = [
        *(Candidate("single", name) for name in experts),
        Candidate("stack", "convex"),
        Candidate("stack", "mean"),
    ]
    dense = [None] if None in ks else []
    gates = [Candidate("gate", *gate) for gate in product(classes, spreads, dense)]
    if corrected:
        plain += [Candidate("stack", "convex", spread, corrected=True) for spread in STACK_SPREADS]
        gates += [Candidate("gate", *gate, corrected=True) for gate in product(classes, spreads, dense)]
    narrow = [name for name in classes if name != "forecast"]
    gates += [Candidate("gate", *gate) for gate in product(narrow, spreads, [k for k in ks if k is not None])]
    return (*plain, *gates)


def log_prior(candidates: Sequence[Candidate]) -> Floats:
    """Half of the weight on the plain answers, the rest on gates, most of it on dense ones; (S,)."""
    groups = [0 if c.kind != "gate" else 1 if c.k is None else 2 for c in candidates]
    counts = np.bincount(groups, minlength=3)
    shares = np.array([0.5, 0.5 * (1 - SPARSE_SHARE), 0.5 * SPARSE_SHARE])
    return np.asarray(np.log(shares / np.maximum(counts, 1))[groups])


@dataclass(frozen=True, eq=False)
class FittedList:
    """All candidates fitted on one set of rows.

    Every candidate s predicts sum_m g_ms(x) f_m(x) + unit * b_s0 + sum_m b_sm (f_m(x) - center_m), its gate g_s being
    constant for the plain ones; b_s is zero unless it is corrected.
    """

    candidates: tuple[Candidate, ...]
    maps: Mapping[str, Any]
    stack: Floats  # (M,)
    paths: Mapping[tuple[str, bool], Path]
    correction: Floats  # (S, 1 + M)
    unit: float
    center: Floats  # (M,)
    spreads: tuple[float, ...]

    @classmethod
    def fit(
        cls,
        candidates: tuple[Candidate, ...],
        maps: Mapping[str, Any],
        inputs: Inputs,
        F: Floats,
        y: Floats,
        sample_weight: Floats,
    ) -> Self:
        """Fit them to the forecasts F (n, M) and responses y (n,) of these rows."""
        stack = convex_stack(F, y, sample_weight).theta.ravel()
        base = reference(stack)
        unit = float(np.sqrt(np.average((y - F @ base) ** 2, weights=sample_weight)))
        center = np.average(F, axis=0, weights=sample_weight)
        linear = _linear_columns(F, unit, center)
        spreads = tuple(sorted({c.spread for c in candidates if c.kind == "gate"}))
        part = _some_rows(sample_weight)
        inputs, F, y, sample_weight, linear = inputs[part], F[part], y[part], sample_weight[part], linear[part]
        paths: dict[tuple[str, bool], Path] = {}
        for name, corrected in {(c.name, c.corrected): None for c in candidates if c.kind == "gate"}:
            paths[name, corrected] = gate_path(
                maps[name].features(inputs, F),
                F,
                y,
                base,
                spreads,
                linear=linear if corrected else None,
                linear_spread=GATE_SPREAD,
                sample_weight=sample_weight,
            )
        still = np.zeros((len(y), 0))  # the stack alone: a gate that cannot move
        correction = np.zeros((len(candidates), len(center) + 1))
        for s, c in enumerate(candidates):
            if c.corrected and c.kind == "gate":
                correction[s] = paths[c.name, True].linear[spreads.index(c.spread)]
            elif c.corrected:
                path = gate_path(
                    still, F, y, base, (1.0,), linear=linear, linear_spread=c.spread, sample_weight=sample_weight
                )
                correction[s] = path.linear[0]
        return cls(candidates, maps, stack, paths, correction, unit, center, spreads)

    def __getstate__(self) -> dict[str, Any]:
        """Pairs in the place of keys that are no text: model files hold no others."""
        return {**self.__dict__, "paths": list(self.paths.items())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, paths=dict(state["paths"]))

    def needs_experts(self, shares: Floats) -> bool:
        """Whether the weights of the candidates with a share depend on the experts' forecasts."""
        return any(
            share and c.kind == "gate" and self.maps[c.name].needs_experts for share, c in self._shared(shares)
        )

    def mean_weights(self, shares: Floats, inputs: Inputs, F: Floats | None = None) -> Floats:
        """The gate sum_s share_s g_s, (n, M), without an array of all gates."""
        total = np.zeros((len(inputs.Z), len(self.stack)))
        singles = iter(np.eye(len(self.stack)))
        groups: dict[tuple[str, int], list[tuple[float, Floats]]] = {}
        for share, c in self._shared(shares):
            constant = next(singles) if c.kind == "single" else self._constant(c)
            if constant is not None:
                total += share * constant
            elif share:
                groups.setdefault((c.name, c.k or len(self.stack)), []).append((share, self._scores(c)))
        features: dict[str, Floats] = {}
        for (name, k), members in groups.items():
            if name not in features:
                columns = self.maps[name].features(inputs, F)
                features[name] = np.ascontiguousarray(np.column_stack([np.ones(len(columns)), columns]))
            weights = np.array([share for share, _ in members])
            kernels.add_linear_softmax(features[name], np.stack([theta for _, theta in members]), k, weights, total)
        return total

    def corrections(self, shares: Floats, F: Floats) -> Floats:
        """What is always on, (n,): the mean correction by these shares."""
        return np.asarray(_linear_columns(F, self.unit, self.center) @ (shares @ self.correction))

    def forecasts(self, inputs: Inputs, F: Floats) -> Floats:
        """The prediction of every candidate, (n, S)."""
        out = _linear_columns(F, self.unit, self.center) @ self.correction.T
        for s, weights in self._weights(inputs, F, np.ones(len(self.candidates))):
            out[:, s] += np.einsum("im,im->i", np.broadcast_to(weights, F.shape), F)
        return np.asarray(out)

    def _shared(self, shares: Floats) -> Iterator[tuple[float, Candidate]]:
        return zip(shares.tolist(), self.candidates, strict=True)

    def _weights(self, inputs: Inputs, F: Floats | None, shares: Floats) -> Iterator[tuple[int, Floats]]:
        """(s, its weights) for every candidate with a share: (M,) for a constant gate, else (n, M)."""
        offset = np.log(reference(self.stack))
        singles = iter(np.eye(len(self.stack)))
        features: dict[str, Floats] = {}
        for s, (share, c) in enumerate(self._shared(shares)):
            constant = next(singles) if c.kind == "single" else self._constant(c)
            if not share:
                continue
            if constant is not None:
                yield s, constant
                continue
            if c.name not in features:
                features[c.name] = self.maps[c.name].features(inputs, F)
            theta = self.paths[c.name, c.corrected].theta[self.spreads.index(c.spread)]
            yield s, _softmax(offset + features[c.name] @ theta.T, c.k)

    def _scores(self, c: Candidate) -> Floats:
        """The coefficients of 1 and the features with the last expert for reference, (M - 1, 1 + p)."""
        theta = self.paths[c.name, c.corrected].theta[self.spreads.index(c.spread)]
        whole = np.column_stack([np.log(reference(self.stack)), theta])
        return np.asarray(whole[:-1] - whole[-1])

    def _constant(self, c: Candidate) -> Floats | None:
        if c.kind == "gate":
            return None
        if c.corrected:
            return reference(self.stack)
        return self.stack if c.name == "convex" else np.full(len(self.stack), 1.0 / len(self.stack))


def _some_rows(sample_weight: Floats) -> NDArray[np.intp]:
    """Rows that count, at most MOST_ROWS of them, drawn at random with a fixed seed."""
    counted = np.flatnonzero(sample_weight)
    if len(counted) <= MOST_ROWS:
        return counted
    return np.sort(np.random.default_rng(0).choice(counted, MOST_ROWS, replace=False))


def reference(stack: Floats) -> Floats:
    """The stack with a floor below every weight: what a gate's scores are measured from."""
    return np.asarray((1.0 - FLOOR) * stack + FLOOR / len(stack))


def _linear_columns(F: Floats, unit: float, center: Floats) -> Floats:
    return np.column_stack([np.full(len(F), unit), F - center])


def _softmax(scores: Floats, k: int | None) -> Floats:
    if k is None:
        weights: Floats = softmax(scores, axis=1)
        return weights
    out = np.empty_like(scores)
    kernels.softmax_rows(scores, scores, k, out)  # ties go to the smaller index
    return out
