"""Score transformations phi: the weights of a gate are phi(score), normalised (`ass:regular gating`).

A transformation is given by its logarithm, t -> log phi(t), so that large scores do not overflow.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import log_expit

from gatewise.arrays import Floats

LogPhi = Callable[[Floats], Floats]
Phi = Literal["exp", "sigmoid"] | LogPhi


def _identity(t: Floats) -> Floats:
    return t


LOG_PHI: dict[str, LogPhi] = {"exp": _identity, "sigmoid": log_expit}


class PhiRegularity(NamedTuple):
    """sup phi'/phi, and the Lipschitz constant of the normalised weights, half of it; infinite when unbounded."""

    relative_derivative: float
    lipschitz: float

    @property
    def bounded(self) -> bool:
        """Whether phi is a regular score transformation by ``lem:supp-relative-derivative``."""
        return bool(np.isfinite(self.relative_derivative))


def check_phi(phi: Any) -> Phi:
    """phi itself, if it names a transformation or is a callable.

    >>> check_phi("softplus")
    Traceback (most recent call last):
        ...
    ValueError: phi must be one of 'exp', 'sigmoid' or a callable t -> log phi(t), not 'softplus'
    """
    if callable(phi) or phi in LOG_PHI:
        return phi  # type: ignore[no-any-return]
    names = ", ".join(map(repr, LOG_PHI))
    raise ValueError(f"phi must be one of {names} or a callable t -> log phi(t), not {phi!r}")


def log_phi(phi: Phi, scores: Floats) -> Floats:
    """log phi at every score; a user's own phi is checked for shape and finiteness."""
    if isinstance(phi, str):
        return LOG_PHI[phi](scores)
    values = np.asarray(phi(scores), dtype=np.float64)
    if values.shape != scores.shape:
        raise ValueError(f"phi must keep the shape of its argument: {scores.shape} became {values.shape}")
    if not np.isfinite(values).all():
        t = scores[~np.isfinite(values)][0]
        raise ValueError(f"phi must give a finite log phi(t) at every score, but not so at t = {t:g}")
    return values


def phi_regularity(phi: Phi, reach: float = 1e6) -> PhiRegularity:
    """The regularity constants of phi: B = sup |d log phi / dt| and the Lipschitz constant B / 2.

    The weights phi(z_m) / sum phi(z_j) over any active set then change by at most B / 2 times the change of the
    scores (`lem:supp-relative-derivative`). phi must be strictly increasing (`ass:regular gating`): a callable that
    is not so on |t| <= 20 is refused. For a callable the supremum is taken over difference quotients on
    |t| <= reach, refined where they are largest; a quotient that keeps growing, far out or under refinement,
    is reported as unbounded (infinity).

    >>> phi_regularity("sigmoid")
    PhiRegularity(relative_derivative=1.0, lipschitz=0.5)
    >>> phi_regularity(np.exp).bounded  # phi(t) = exp(exp(t))
    False
    """
    check_phi(phi)
    if isinstance(phi, str):
        return PhiRegularity(1.0, 0.5)
    _check_strict(phi)
    # Even steps near zero, then steps that grow with |t|: a hundred to the doubling.
    positive = np.concatenate([np.linspace(0.0, 1.0, 201), np.geomspace(1.0, reach, 2001)[1:]])
    t = np.concatenate([-positive[:0:-1], positive])
    slopes = _slopes(phi, t)
    outer = np.abs(t[:-1] + t[1:]) / 2 > reach / 10
    peak = int(np.argmax(slopes))
    if not np.isfinite(slopes[peak]) or (outer[peak] and slopes[peak] > 1.01 * slopes[~outer].max()):
        return PhiRegularity(np.inf, np.inf)
    steepest = [float(slopes[peak])]
    low, high = t[max(peak - 1, 0)], t[min(peak + 2, t.size - 1)]
    for _ in range(12):
        fine = np.linspace(low, high, 33)
        slopes = _slopes(phi, fine)
        peak = int(np.argmax(slopes))
        steepest.append(float(slopes[peak]))
        low, high = fine[max(peak - 1, 0)], fine[min(peak + 2, 32)]
        if high - low < 1e-6 * max(1.0, abs(low)):
            break
    if steepest[-1] > 1.5 * steepest[-2] and steepest[-1] > 10 * steepest[0]:
        return PhiRegularity(np.inf, np.inf)
    bound = max(steepest)
    return PhiRegularity(bound, bound / 2)


def _slopes(phi: LogPhi, t: Floats) -> Floats:
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.asarray(phi(t), dtype=np.float64)
        steps = np.diff(values)
        # Two infinite neighbours have no quotient: growth beyond the range of floats counts as unbounded.
        slopes = np.where(np.isnan(steps), np.inf, steps) / np.diff(t)
    if values.shape != t.shape or np.isnan(values).any():
        raise ValueError("phi must give log phi(t), one number for every t")
    if (steps < -1e-12 * np.maximum(1.0, np.abs(values[:-1]))).any():
        worst = int(np.nanargmin(steps))
        raise ValueError(f"phi must be increasing, but log phi falls between t = {t[worst]:g} and {t[worst + 1]:g}")
    return slopes


def _check_strict(phi: LogPhi) -> None:
    """An error if phi is constant somewhere on |t| <= 20; farther out log phi may be flat by rounding alone."""
    t = np.linspace(-20.0, 20.0, 401)
    with np.errstate(over="ignore", invalid="ignore"):
        flat = np.flatnonzero(np.diff(np.asarray(phi(t), dtype=np.float64)) == 0.0)
    if flat.size:
        raise ValueError(
            "phi must be strictly increasing, but log phi is constant between "
            f"t = {t[flat[0]]:g} and {t[flat[0] + 1]:g}"
        )
