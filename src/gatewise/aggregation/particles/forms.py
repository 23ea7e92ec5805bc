"""The forms of a gate family: how its residuals, and their gradient if it has one, are computed for many candidates.

A form is chosen by the gate: dense softmax, Top-K softmax, kernel, or any other through its weights.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np

from gatewise.arrays import as_rows, as_vector, BLOCK_NUMBERS, Floats
from gatewise.gates import Gate, KernelGate, ScoreGate
from gatewise.kernels.gradient import NO_SLOPES, softmax_residuals, softmax_value_and_grad
from gatewise.kernels.linear_residuals import linear_residuals, linear_value_and_grad
from gatewise.kernels.loss_kinds import GIVEN


class ParticleRows(NamedTuple):
    """Observations: X (n, d), inputs (n, p) as `Form.rows` computes them, responses y (n,), predictions F (n, M).

    The density of observation t counts to the power power[t], which is at most 1.
    """

    X: Floats
    inputs: Floats
    y: Floats
    F: Floats
    power: Floats

    def part(self, start: int, stop: int) -> "ParticleRows":
        """Observations start to stop - 1."""
        return ParticleRows(*(array[start:stop] for array in self))

    def without(self, dropped: tuple[int, ...]) -> "ParticleRows":
        """All observations but those with these numbers."""
        return ParticleRows(*(np.delete(array, dropped, axis=0) for array in self)) if dropped else self


class Form(Protocol):
    """Residuals r_si = y_i - sum_m g_m(x_i; theta_s) F_im, (S, n), of candidates theta (S, r, c) at rows.

    ``smooth`` says whether they have a gradient in theta.
    """

    smooth: bool

    @property
    def gate(self) -> Gate:
        """The gate family."""
        ...

    def rows(self, X: Floats, y: Floats, F: Floats) -> ParticleRows:
        """Bundle X (n, d), y (n,) and F (n, M) with ``inputs`` (n, p), the features that all candidates share.

        They are computed from X (and F) once and not for every candidate: the gate's features, say.
        """
        ...

    def residuals(self, theta: Floats, rows: ParticleRows) -> Floats:
        """r_si, (S, n)."""
        ...

    def value_and_grad(self, theta: Floats, rows: ParticleRows, loss: int) -> tuple[Floats, Floats]:
        """sum_i rho(r_si), (S,), and its gradient in theta_s, (S, r, c), for the loss rho of this code."""
        ...

    def residual_gradient(self, theta: Floats, rows: ParticleRows, slopes: Floats) -> Floats:
        """The gradient of sum_i slopes_si r_si in theta_s at fixed slopes (S, n): sum_i slopes_si dr_si / dtheta_s.

        A gradient in the residuals is carried back to theta by it; (S, r, c).
        """
        ...


class SoftmaxForm:
    """Dense softmax gates of linear scores."""

    smooth = True

    def __init__(self, gate: ScoreGate) -> None:
        self._gate = gate

    @property
    def gate(self) -> ScoreGate:
        return self._gate

    def rows(self, X: Floats, y: Floats, F: Floats) -> ParticleRows:
        features = np.ascontiguousarray(self.gate.features(X), dtype=np.float64)
        return ParticleRows(X, features, y, np.ascontiguousarray(F), np.ones(len(y)))

    def residuals(self, theta: Floats, rows: ParticleRows) -> Floats:
        out = np.empty((len(theta), rows.y.size))
        softmax_residuals(theta, rows.inputs, rows.y, rows.F, self.gate.n_active, out)
        return out

    def value_and_grad(self, theta: Floats, rows: ParticleRows, loss: int) -> tuple[Floats, Floats]:
        return self._sum(theta, rows, loss, NO_SLOPES)

    def residual_gradient(self, theta: Floats, rows: ParticleRows, slopes: Floats) -> Floats:
        return self._sum(theta, rows, GIVEN, slopes)[1]

    def _sum(self, theta: Floats, rows: ParticleRows, loss: int, slopes: Floats) -> tuple[Floats, Floats]:
        value, grad = np.empty(len(theta)), np.empty(theta.shape)
        softmax_value_and_grad(theta, rows.inputs, rows.y, rows.F, loss, slopes, value, grad)
        return value, grad


class TopKForm(SoftmaxForm):
    """Top-K softmax gates: their residuals jump where the selection changes, so no gradient is of use."""

    smooth = False


class KernelForm:
    """Kernel gates: the predictor is linear in theta (M, C), with design F_m phi_c at place (m, c)."""

    smooth = True

    def __init__(self, gate: KernelGate) -> None:
        self._gate = gate

    @property
    def gate(self) -> KernelGate:
        return self._gate

    def rows(self, X: Floats, y: Floats, F: Floats) -> ParticleRows:
        kernels = self.gate.features(X)
        design = F[:, :, None] * kernels[:, None, :]  # (n, M, C)
        return ParticleRows(X, design.reshape(len(F), F.shape[1] * kernels.shape[1]), y, F, np.ones(len(y)))

    def residuals(self, theta: Floats, rows: ParticleRows) -> Floats:
        out = np.empty((len(theta), rows.y.size))
        linear_residuals(theta.reshape(len(theta), 1, -1), rows.inputs, rows.y, out)
        return out

    def value_and_grad(self, theta: Floats, rows: ParticleRows, loss: int) -> tuple[Floats, Floats]:
        return self._sum(theta, rows, loss, NO_SLOPES)

    def residual_gradient(self, theta: Floats, rows: ParticleRows, slopes: Floats) -> Floats:
        return self._sum(theta, rows, GIVEN, slopes)[1]

    def _sum(self, theta: Floats, rows: ParticleRows, loss: int, slopes: Floats) -> tuple[Floats, Floats]:
        value, grad = np.empty(len(theta)), np.empty((len(theta), 1, rows.inputs.shape[1]))
        flat = theta.reshape(len(theta), 1, -1)
        linear_value_and_grad(flat, rows.inputs, rows.y, loss, slopes, value, grad)
        return value, grad.reshape(theta.shape)


class WeightsForm:
    """Any gate, through its weights: for transformations other than the exponential."""

    smooth = False

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    @property
    def gate(self) -> Gate:
        return self._gate

    def rows(self, X: Floats, y: Floats, F: Floats) -> ParticleRows:
        return ParticleRows(X, X, y, F, np.ones(len(y)))

    def residuals(self, theta: Floats, rows: ParticleRows) -> Floats:
        out = np.empty((len(theta), rows.y.size))
        step = max(1, BLOCK_NUMBERS // max(1, rows.F.size))
        for start in range(0, len(theta), step):
            part = slice(start, start + step)
            weights = self.gate.weights(rows.X, theta[part])  # (b, n, M)
            out[part] = rows.y - np.einsum("snm,nm->sn", weights, rows.F)
        return out

    def value_and_grad(self, theta: Floats, rows: ParticleRows, loss: int) -> tuple[Floats, Floats]:
        raise NotImplementedError(f"no gradient for {self.gate!r}")

    def residual_gradient(self, theta: Floats, rows: ParticleRows, slopes: Floats) -> Floats:
        raise NotImplementedError(f"no gradient for {self.gate!r}")


def form_of(gate: Gate) -> Form:
    """The form that computes this gate's residuals fastest."""
    if isinstance(gate, KernelGate):
        return KernelForm(gate)
    if isinstance(gate, ScoreGate) and gate.phi == "exp":
        return SoftmaxForm(gate) if gate.n_active == gate.n_experts else TopKForm(gate)
    return WeightsForm(gate)


def checked_rows(form: Form, X: Any, y: Any, F: Any, power: Floats | None = None) -> ParticleRows:
    """At least one observation, finite and of matching shapes, or an error that names what is wrong.

    power (n,) is 1 unless given.
    """
    inputs = as_rows(X)
    responses, experts = as_vector(y, "y", len(inputs)), as_rows(F, "F")
    if len(inputs) == 0 or experts.shape != (len(inputs), form.gate.n_experts):
        raise ValueError(
            f"F must have shape (n, {form.gate.n_experts}) with n = {len(inputs)} >= 1, not {experts.shape}"
        )
    rows = form.rows(inputs, responses, experts)
    return rows if power is None else rows._replace(power=as_vector(power, "power", len(inputs)))
