"""A truncated Newton method for penalised softmax gates: conjugate gradients within a trust region.

Every step minimises the quadratic model of the objective, with its exact curvature, by preconditioned conjugate
gradients that stop early: at the edge of the trust region, at a direction of negative curvature, or when what is left
of the model's decrease is small. The step is then shortened until the objective falls enough. Lengths are measured in
the norm of the preconditioner, so that the square of a length is a change of the objective, in nats; units of the
response, and of the features, do not matter.

Every parameter that is tried is rounded to its first `BITS` binary digits. Sums taken in another order, as on a GPU,
differ in their last bits; far from a minimum each step would multiply that difference, until two fits end at
different minima. Rounded, the parameters are the same again after almost every step. The objective loses nothing that
could be seen.

The method stops when the next Newton step, not cut short by the trust region, is predicted to lower the objective by
at most ``tolerance``; that step is still taken, and about a tenth of the tolerance is left.
"""

from math import frexp, isfinite, ldexp, sqrt
from typing import NamedTuple

import numpy as np

from gatewise.arrays import Floats
from gatewise.kernels.compiled import inner_fma, leaf, sum_leaf
from gatewise.kernels.path.packed_rows import (
    FOREIGN,
    GatePoint,
    gradient,
    hessian_product,
    mix,
    PackedRows,
    penalty_of,
    row_losses,
)
from gatewise.kernels.path.preconditioner import precondition, Preconditioner, prepare_linear, prepare_scores

MOST_STEPS = 200
MOST_PRODUCTS = 250  # products with the Hessian for one step
ARMIJO = 1e-4  # a step must lower the objective by this part of what the slope promises
SHORTEST = 1e-8  # the smallest part of a step that is tried
LEFT = 0.1  # conjugate gradients stop when this part of the first predicted decrease is left, or of the tolerance
STALE = 8  # products after which the preconditioner is prepared anew
BITS = 32  # of a parameter: its relative accuracy is 1e-10
ROUNDING = 1e-14  # of the objective: no decrease below it can be seen

# The places of single numbers in `NewtonState.numbers`.
JUDGED, LOSS, VALUE, RADIUS, LENGTH, FRACTION, SLOPE, PREDICTED, INSIDE, STEPS, PRODUCTS, PREPARED, PLACE = range(13)


class Setting(NamedTuple):
    """offset (M,): the scores where all coefficients are zero; kind: which loss; the penalties; the tolerance."""

    offset: Floats
    kind: int
    penalty: float
    linear_penalty: float
    tolerance: float


class NewtonState(NamedTuple):
    """The parameter x, the one to be tried, the step between them, and vectors of the conjugate gradients.

    numbers: see the list of their places above; STEPS and PRODUCTS count, PREPARED is the number of products at
    which the preconditioner was prepared, and PLACE how many gates of a path are found.
    """

    numbers: Floats
    x: Floats
    trial: Floats
    step: Floats
    gradient: Floats
    residual: Floats
    solved: Floats
    direction: Floats
    product: Floats


@inner_fma
def minimise(rows: PackedRows, setting: Setting, point: GatePoint, pre: Preconditioner, state: NewtonState) -> bool:
    """Run until the minimum is reached, True, or until the caller has to judge the mixture, False.

    The latter happens if the loss is FOREIGN only: the caller then puts the sum of the losses at ``point.mixture``
    into numbers[LOSS] and weighted slopes and curvatures into ``point``, sets numbers[JUDGED] to 1, and calls again.
    """
    numbers, penalty, linear_penalty = state.numbers, setting.penalty, setting.linear_penalty
    while True:
        if numbers[JUDGED] == 0.0:
            mix(rows, setting.offset, state.trial, point)
            if setting.kind == FOREIGN:
                return False
            numbers[LOSS] = row_losses(setting.kind, rows, point)
        numbers[JUDGED] = 0.0
        shrinkage = penalty_of(state.trial, rows.n_experts * rows.width, penalty, linear_penalty)
        if _move(numbers[LOSS] + shrinkage, state, setting.tolerance):
            continue  # the step was too long and has been shortened
        if numbers[FRACTION] == 0.0 or numbers[STEPS] == MOST_STEPS:
            return True
        gradient(rows, point, state.x, penalty, linear_penalty, state.gradient)
        if numbers[STEPS] == 0.0:
            prepare_linear(pre, rows, point, linear_penalty)
        if numbers[STEPS] == 0.0 or numbers[PRODUCTS] >= numbers[PREPARED] + STALE:
            prepare_scores(pre, rows, point, penalty)
            numbers[PREPARED] = numbers[PRODUCTS]
        if not _conjugate_gradients(rows, setting, point, pre, state):
            return True  # the gradient is within the tolerance
        _try_step(state)


@leaf
def _move(value: float, state: NewtonState, tolerance: float) -> bool:
    """Take the step to the trial if the objective falls enough; else shorten it and return True.

    A FRACTION of zero says that the method has ended: the last step was within the tolerance, or no decrease is seen.
    """
    numbers = state.numbers
    if numbers[STEPS] > 0.0:
        fraction, change = numbers[FRACTION], value - numbers[VALUE]
        if not change <= ARMIJO * fraction * numbers[SLOPE]:
            if fraction < SHORTEST or numbers[PREDICTED] < ROUNDING * abs(numbers[VALUE]):
                numbers[FRACTION] = 0.0
                return False
            best = 0.5 * fraction  # the minimum of the parabola through what is known, or a half
            if isfinite(change):
                best = -0.5 * fraction * fraction * numbers[SLOPE] / (change - fraction * numbers[SLOPE])
            numbers[FRACTION] = min(max(best, 0.1 * fraction), 0.5 * fraction)
            for k in range(state.x.size):
                state.trial[k] = coarse(state.x[k] + numbers[FRACTION] * state.step[k])
            return True
        _update_radius(change, numbers)
        if numbers[INSIDE] != 0.0 and numbers[PREDICTED] <= tolerance:
            numbers[FRACTION] = 0.0
    else:
        numbers[FRACTION] = 1.0
    numbers[VALUE] = value
    for k in range(state.x.size):
        state.x[k] = state.trial[k]
    return False


@leaf
def _update_radius(change: float, numbers: Floats) -> None:
    """The trust region shrinks where the model was wrong, and grows where it was right up to the edge."""
    ratio = -change / numbers[PREDICTED]
    if numbers[FRACTION] < 1.0:
        numbers[RADIUS] = numbers[FRACTION] * numbers[LENGTH]
    elif ratio < 0.25:
        numbers[RADIUS] = 0.5 * numbers[LENGTH]
    elif ratio > 0.75 and numbers[INSIDE] == 0.0:
        numbers[RADIUS] *= 2.0


@leaf
def _try_step(state: NewtonState) -> None:
    """Put the whole step into the trial."""
    state.numbers[STEPS] += 1.0
    state.numbers[FRACTION] = 1.0
    state.numbers[SLOPE] = _dot(state.gradient, state.step)
    for k in range(state.x.size):
        state.trial[k] = coarse(state.x[k] + state.step[k])


@leaf
def coarse(value: float) -> float:
    """The value to its first BITS binary digits."""
    digits, exponent = frexp(value)
    return ldexp(np.rint(digits * 2.0**BITS), exponent - BITS)


@inner_fma
def _conjugate_gradients(
    rows: PackedRows, setting: Setting, point: GatePoint, pre: Preconditioner, state: NewtonState
) -> bool:
    """The step from zero along conjugate directions; False if the predicted decrease is negligible from the start.

    ``long``, ``across`` and ``wide`` are P-norms: of the step squared, of the step with the direction, of the
    direction squared; they follow from one another without products with P.
    """
    numbers, size = state.numbers, state.x.size
    for k in range(size):
        state.residual[k] = -state.gradient[k]
        state.step[k] = 0.0
    precondition(pre, rows, state.residual, state.solved)
    power = _dot(state.residual, state.solved)
    numbers[PREDICTED], numbers[INSIDE] = 0.0, 1.0
    if not 0.5 * power > LEFT * setting.tolerance:
        return False
    for k in range(size):
        state.direction[k] = state.solved[k]
    bar = LEFT * max(power, 2.0 * setting.tolerance)
    long, across, wide, square = 0.0, 0.0, power, numbers[RADIUS] ** 2
    for _ in range(MOST_PRODUCTS):
        hessian_product(rows, point, state.direction, setting.penalty, setting.linear_penalty, state.product)
        numbers[PRODUCTS] += 1.0
        bend = _dot(state.direction, state.product)
        length = power / bend if bend > 0.0 else np.inf
        if not long + length * (2.0 * across + length * wide) < square:
            length = (sqrt(across * across + wide * (square - long)) - across) / wide
            numbers[INSIDE] = 0.0
        _advance(state, length)
        numbers[PREDICTED] += length * (power - 0.5 * length * bend)
        long += length * (2.0 * across + length * wide)
        if numbers[INSIDE] == 0.0:
            break
        precondition(pre, rows, state.residual, state.solved)
        before, power = power, _dot(state.residual, state.solved)
        if power <= bar:
            break
        ratio = power / before
        across, wide = ratio * (across + length * wide), power + ratio * ratio * wide
        for k in range(size):
            state.direction[k] = state.solved[k] + ratio * state.direction[k]
    numbers[LENGTH] = sqrt(long)
    return True


@leaf
def _advance(state: NewtonState, length: float) -> None:
    for k in range(state.x.size):
        state.step[k] += length * state.direction[k]
        state.residual[k] -= length * state.product[k]


@sum_leaf
def _dot(a: Floats, b: Floats) -> float:
    total = 0.0
    for k in range(a.size):
        total += a[k] * b[k]
    return total
