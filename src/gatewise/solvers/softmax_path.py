"""Softmax gates that are shrunk towards a reference, fitted along a path of penalties; and constant weights."""

from collections.abc import Sequence

import numba
import numpy as np
from joblib import delayed, Parallel
from scipy.special import softmax
from threadpoolctl import threadpool_limits

from gatewise.arrays import BLOCK_NUMBERS, Floats
from gatewise.backends import DEVICE, device_paths
from gatewise.losses import Loss, ResidualLoss
from gatewise.solvers.sample_fit import Columns, fit_samples, FittedPath, GatePath, PathRequest, RowSample
from gatewise.solvers.simplex_least_squares import convex_stacks

WIDE = 30.0  # standard deviation of the scores of constant weights: almost no shrinkage


def gate_paths(
    requests: Sequence[PathRequest], F: Floats, loss: Loss, reference: Floats, sample_weight: Floats | None = None
) -> list[GatePath]:
    """For every request, one gate for every spread; each fit starts at the solution for the next smaller spread.

    A gate is softmax(log reference + features . theta_m), so theta = 0 gives the ``reference`` (M,), a simplex vector
    with positive entries. With the experts' F (n, M), the loss phi at these rows and the columns of the linear part,
    each solution minimises

        sum_i phi_i(sum_m g_m(x_i; theta) F_im + linear_i . b)
            + |theta|^2 / (2 spread^2) + |b|^2 / (2 linear_spread^2),

    the posterior mode under Gaussian coefficients. Sample weights multiply phi_i. The objective has several minima in
    general; the one that is found lies downhill of the solution before it. A fit stops when the next Newton step is
    predicted to lower the objective, in nats, by at most n accuracy^2 / 2, and takes that step. At a minimum the
    mixtures are then within about ``accuracy`` noise standard deviations of the exact ones, in the root mean square.
    With many experts and a wide spread the fit may end at a flat saddle. Neither the units of the response nor the
    order of the experts matter: fits see the rows in a frame of their own (`FitFrame`).

    >>> x = np.linspace(-1, 1, 200)
    >>> F = np.column_stack([np.ones(200), -np.ones(200)])
    >>> loss = ResidualLoss(np.tanh(3 * x) + 0.1 * np.cos(400 * x), variance=0.5)
    >>> path, = gate_paths([PathRequest(x[:, None], [10.0])], F, loss, np.array([0.5, 0.5]))
    >>> float((path.theta[0, 0] - path.theta[0, 1]).round(1)[0])
    6.0
    """
    weight = np.ones(len(F)) if sample_weight is None else sample_weight
    (found,) = sample_paths(requests, F, loss, [RowSample(reference, weight, float(loss.scale))])
    return [one.path for one in found]


def sample_paths(
    requests: Sequence[PathRequest],
    F: Floats,
    loss: Loss,
    samples: Sequence[RowSample],
    n_threads: int | None = None,
) -> list[list[FittedPath]]:
    """The paths of every request for every sample, (sample, request), spread over threads.

    ``n_threads`` is numba's number of threads unless given; it does not change a bit of the results. Rows are taken
    in tiles of 64, and a tile without weight costs nothing: folds are cheap where their rows stand together. Features
    are asked for where they are needed, so no array of all of them has to be there. Within
    `gatewise.backends.on_device` they are fitted there.

    >>> x = np.linspace(-1, 1, 200)
    >>> F, halves = np.column_stack([x, -x]), np.array([x < 0, x >= 0]) * 1.0
    >>> samples = [RowSample(np.array([0.5, 0.5]), half, scale=0.1) for half in halves]
    >>> found = sample_paths([PathRequest(np.ones((200, 1)), [1.0])], F, ResidualLoss(np.abs(x)), samples)
    >>> [bool(one.path.theta[0, 0, 0] > 0) for (one,) in found]  # the first expert is right on the second half
    [False, True]
    """
    if (device := DEVICE.get()) is not None:
        there: list[list[FittedPath]] | None = device_paths(requests, F, loss, samples, device)
        if there is not None:
            return there
    with threadpool_limits(1, "blas"):  # another number of threads takes sums in another order
        axes = {id(request.features): principal_axes(request.features) for request in requests}
        costs = [(1 + request.features.shape[1]) * len(request.spreads) for request in requests]
        order = np.argsort(costs, kind="stable")[::-1].tolist()  # the longest first, so that no thread ends late
        threads = Parallel(n_jobs=n_threads or numba.get_num_threads(), require="sharedmem", batch_size=1)
        found = threads(
            delayed(fit_samples)(requests[j], axes[id(requests[j].features)], F, loss, samples) for j in order
        )
    place = np.argsort(order)
    return [[found[j][number] for j in place] for number in range(len(samples))]


def stack_weights(F: Floats, loss: Loss, sample_weights: Floats) -> Floats:
    """The convex combinations of the experts with the least loss, (S, M), one for each row of sample_weights (S, n).

    A loss of residuals is taken as squared error, whatever its noise: least squares over the simplex, solved exactly.
    Any other loss is minimised by a constant softmax gate with almost no shrinkage.

    >>> from gatewise.losses import LogLoss
    >>> stack_weights(np.tile([[0.9, 0.5], [0.3, 0.5]], (500, 1)), LogLoss(), np.ones((1, 1000))).round(1)
    array([[0.6, 0.4]])
    """
    if isinstance(loss, ResidualLoss):
        return convex_stacks(F, loss.y, sample_weights)
    equal = np.full(F.shape[1], 1.0 / F.shape[1])
    samples = [RowSample(equal, weight) for weight in sample_weights]
    found = sample_paths([PathRequest(np.ones((len(F), 1)), [WIDE])], F, loss, samples)
    return np.asarray(softmax([one.path.theta[0, :, 0] for (one,) in found], axis=1))


def principal_axes(features: Columns) -> Floats:
    """An orthogonal matrix (p, p): features times it are uncorrelated, which the preconditioner counts on."""
    n, p = features.shape
    gram, step = np.zeros((p, p)), max(1, BLOCK_NUMBERS // max(1, p))
    for start in range(0, n, step):
        block = features[start : start + step]
        gram += block.T @ block
    axes = np.linalg.eigh(gram)[1]
    return np.asarray(axes * np.where((axes**3).sum(axis=0) < 0.0, -1.0, 1.0))  # one sign in any order of columns
