"""A neural ensembler (after Arango and others, 2024): a network turns forecasts and inputs into experts' weights.

Whole experts are dropped at random in training, so that the network cannot lean on one of them. All networks of a
fit, every setting on every fold, are trained side by side as one stack of arrays.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.model_selection import KFold

from benchmarks.real.weighted import simplex
from gatewise.arrays import Floats

SETTINGS = tuple((dropped, inputs) for dropped in (0.2, 0.5) for inputs in (0.0, 1.0))  # share dropped, inputs seen
FOLDS, WIDTH, BATCH = 5, 32, 256
EPOCHS, PATIENCE = 120, 12
STEP, DECAY = 5e-3, 1e-3
MOST_INPUTS = 30  # principal components stand for more columns than these
FARTHEST = 3.0  # inputs stop here, in standard deviations


class Layers(NamedTuple):
    """B networks with one hidden layer: p inputs, h hidden units, M scores."""

    hidden: Floats  # (B, p, h)
    hidden_bias: Floats  # (B, 1, h)
    out: Floats  # (B, h, M)
    out_bias: Floats  # (B, 1, M)


def gate(layers: Layers, V: Floats, kept: Floats) -> tuple[Floats, Floats]:
    """Hidden units (B, b, h) and weights (B, b, M) of inputs V (B, b, p); experts with ``kept`` zero get none."""
    H = np.maximum(V @ layers.hidden + layers.hidden_bias, 0.0)
    scores = np.where(kept > 0.0, H @ layers.out + layers.out_bias, -np.inf)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    return H, weights / weights.sum(axis=2, keepdims=True)


def gradients(layers: Layers, V: Floats, F: Floats, y: Floats, kept: Floats) -> Layers:
    """Of each network's mean squared error of the mixture: F (B, b, M), y (B, b)."""
    H, weights = gate(layers, V, kept)
    mixture = (weights * F).sum(axis=2, keepdims=True)
    slope = 2.0 * (mixture - y[:, :, None]) / y.shape[1]  # of the loss in the mixture, (B, b, 1)
    scores = slope * weights * (F - mixture)  # in the scores, (B, b, M)
    units = (scores @ layers.out.transpose(0, 2, 1)) * (H > 0.0)
    return Layers(
        V.transpose(0, 2, 1) @ units,
        units.sum(axis=1, keepdims=True),
        H.transpose(0, 2, 1) @ scores,
        scores.sum(axis=1, keepdims=True),
    )


def drop_experts(rng: np.random.Generator, shape: tuple[int, int, int], dropped: Floats) -> Floats:
    """Ones and zeros (B, b, M): network i drops an expert of a row with chance ``dropped[i]``, but never all."""
    draws = rng.uniform(size=shape)
    kept = draws >= dropped[:, None, None]
    kept |= draws == draws.max(axis=2, keepdims=True)
    return kept.astype(float)


class Adam:
    """Steps of Adam with decoupled weight decay on `Layers`."""

    def __init__(self, layers: Layers) -> None:
        self.mean = [np.zeros_like(one) for one in layers]
        self.square = [np.zeros_like(one) for one in layers]
        self.count = 0

    def step(self, layers: Layers, slopes: Layers) -> Layers:
        """The layers after one step."""
        self.count += 1
        moved = []
        for i, (value, slope) in enumerate(zip(layers, slopes, strict=True)):
            self.mean[i] = 0.9 * self.mean[i] + 0.1 * slope
            self.square[i] = 0.999 * self.square[i] + 0.001 * slope**2
            mean = self.mean[i] / (1.0 - 0.9**self.count)
            square = self.square[i] / (1.0 - 0.999**self.count)
            decay = DECAY if i % 2 == 0 else 0.0  # biases do not decay
            moved.append(value - STEP * (mean / (np.sqrt(square) + 1e-8) + decay * value))
        return Layers(*moved)


class NeuralEnsembler:
    """Networks on five folds; share of experts dropped and use of inputs by held-out error; weights averaged.

    Every network starts at the convex stack and stops at the epoch with the least error on its held-out fold.
    """

    def __init__(self, encoder: Any, seed: int = 0) -> None:
        self.encoder = encoder
        self.seed = seed

    def fit(self, F: Floats, X: Any, y: Floats) -> "NeuralEnsembler":
        """Learn from out-of-fold forecasts F (n, M)."""
        self.encoder_ = clone(self.encoder).fit(X)
        Z = np.asarray(self.encoder_.transform(X), dtype=float)
        self.reduce_ = PCA(MOST_INPUTS, random_state=0).fit(Z) if min(Z.shape) > MOST_INPUTS else None
        self.centre_, self.scale_ = float(y.mean()), float(y.std()) or 1.0
        V, G, target = self._inputs(F, X), self._scaled(F), self._scaled(y)
        folds = KFold(FOLDS, shuffle=True, random_state=self.seed % 2**32)
        held = [test for _ in SETTINGS for _, test in folds.split(V)]
        layers, errors = train(V, G, target, held, np.random.default_rng(self.seed))
        best = int(errors.reshape(len(SETTINGS), FOLDS).mean(axis=1).argmin())
        chosen = slice(best * FOLDS, (best + 1) * FOLDS)
        self.setting_, self.layers_ = SETTINGS[best], Layers(*(one[chosen] for one in layers))
        return self

    def weights(self, F: Floats, X: Any) -> Floats:
        """The experts' weights at X, averaged over the networks, (n, M)."""
        V = self._inputs(F, X)
        V = V * shown(F.shape[1], V.shape[1] - F.shape[1], self.setting_[1])
        _, found = gate(self.layers_, np.broadcast_to(V, (FOLDS, *V.shape)), np.ones((FOLDS, *F.shape)))
        return np.asarray(found.mean(axis=0))

    def predict(self, F: Floats, X: Any) -> Floats:
        """The mixture of the experts' forecasts F (n, M) at X, (n,)."""
        return np.asarray((self.weights(F, X) * F).sum(axis=1))

    def _scaled(self, values: Floats) -> Floats:
        return np.asarray((values - self.centre_) / self.scale_)

    def _inputs(self, F: Floats, X: Any) -> Floats:
        """Forecasts, then encoded columns or their principal components, (n, M + k)."""
        Z = np.asarray(self.encoder_.transform(X), dtype=float)
        if self.reduce_ is not None:
            Z = self.reduce_.transform(Z) / np.sqrt(self.reduce_.explained_variance_ + 1e-12)
        return np.column_stack([self._scaled(F), np.clip(Z, -FARTHEST, FARTHEST)])


def shown(M: int, k: int, inputs: float) -> Floats:
    """Ones for the M forecasts, and ``inputs`` for the k columns beside them."""
    return np.concatenate([np.ones(M), np.full(k, inputs)])


def train(
    V: Floats, F: Floats, y: Floats, held: list[NDArray[np.intp]], rng: np.random.Generator
) -> tuple[Layers, Floats]:
    """A network for every entry of ``held``, rows it is judged on: the best epochs' layers, and their errors (B,)."""
    B, M, p = len(held), F.shape[1], V.shape[1]
    dropped = np.repeat([share for share, _ in SETTINGS], FOLDS)
    seen = np.repeat([shown(M, p - M, inputs) for _, inputs in SETTINGS], FOLDS, axis=0)[:, None, :]  # (B, 1, p)
    rest = [np.setdiff1d(np.arange(len(y)), rows) for rows in held]
    layers = _start(B, p, F, y, rng)
    best, errors = layers, _errors(layers, V, F, y, held, seen)
    adam, waited, size = Adam(layers), np.zeros(B, dtype=int), min(len(rows) for rows in rest)
    for _ in range(EPOCHS):
        order = np.stack([rng.permutation(rows)[:size] for rows in rest])  # (B, size)
        for begin in range(0, size, BATCH):
            index = order[:, begin : begin + BATCH]
            kept = drop_experts(rng, (*index.shape, M), dropped)
            inputs = V[index] * seen
            inputs[:, :, :M] *= kept
            layers = adam.step(layers, gradients(layers, inputs, F[index], y[index], kept))
        new = _errors(layers, V, F, y, held, seen)
        better = new < errors
        best = Layers(*(np.where(better[:, None, None], a, b) for a, b in zip(layers, best, strict=True)))
        errors, waited = np.minimum(new, errors), np.where(better, 0, waited + 1)
        if (waited >= PATIENCE).all():
            break
    return best, errors


def _start(B: int, p: int, F: Floats, y: Floats, rng: np.random.Generator) -> Layers:
    """Random hidden units, and scores that give the convex stack with a floor under its weights."""
    M = F.shape[1]
    stack = 0.95 * simplex(F, y) + 0.05 / M
    return Layers(
        rng.normal(size=(B, p, WIDTH)) * np.sqrt(2.0 / p),
        np.zeros((B, 1, WIDTH)),
        np.zeros((B, WIDTH, M)),
        np.tile(np.log(stack), (B, 1, 1)),
    )


def _errors(layers: Layers, V: Floats, F: Floats, y: Floats, held: list[NDArray[np.intp]], seen: Floats) -> Floats:
    """Each network's mean squared error on its held-out rows, (B,)."""
    found = []
    for i, rows in enumerate(held):
        one = Layers(*(value[i : i + 1] for value in layers))
        _, weights = gate(one, V[rows][None] * seen[i], np.ones((1, len(rows), F.shape[1])))
        found.append(float(np.mean(((weights[0] * F[rows]).sum(axis=1) - y[rows]) ** 2)))
    return np.array(found)
