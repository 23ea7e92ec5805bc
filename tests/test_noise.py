"""Noise families: standardized, and what is wrong about a density is said."""

import numpy as np
import pytest
from scipy import integrate, stats

from gatewise.noise import as_noise, Custom, FAMILIES, Gaussian, kl_condition, kl_divergence, StudentT

NOISES = [family() for family in FAMILIES.values()] + [StudentT(4.5), StudentT(30.0)]


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_total_one_mean_zero_variance_one(noise):
    Custom(noise.log_density)  # raises otherwise


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_samples_follow_the_density(noise):
    rng = np.random.default_rng(0)
    draws = noise.sample(rng, (50, 100))
    assert draws.shape == (50, 100)
    grid = np.linspace(-40.0, 40.0, 80_001)
    cumulative = integrate.cumulative_trapezoid(np.exp(noise.log_density(grid)), grid, initial=0.0)
    assert stats.kstest(draws.ravel(), lambda z: np.interp(z, grid, cumulative)).pvalue > 0.001


def test_names_instances_and_functions():
    assert as_noise("student_t") == StudentT(5.0)
    assert as_noise(StudentT(7.0)) == StudentT(7.0)
    logistic = np.pi / np.sqrt(3.0)
    noise = as_noise(lambda z: stats.logistic.logpdf(z, scale=1.0 / logistic))
    assert noise.log_density(0.0) == pytest.approx(np.log(logistic / 4.0))


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("cauchy", ValueError, "gaussian, double_exponential, student_t"),
        (3, TypeError, "noise must be a name"),
        (StudentT, TypeError, "must be an instance"),
        (lambda z: -0.5 * z**2, ValueError, "integrates to 2.50663"),
        (lambda z: stats.norm.logpdf(z, scale=2.0), ValueError, "variance 4"),
        (lambda z: stats.norm.logpdf(z, loc=1.0), ValueError, "mean is 1"),
    ],
)
def test_errors_say_what_is_wrong(spec, error, message):
    with pytest.raises(error, match=message):
        as_noise(spec)


@pytest.mark.parametrize("df", [4.0, 1.0, np.nan, np.inf])
def test_student_needs_a_fourth_moment(df):
    with pytest.raises(ValueError, match="df must be finite and above 4"):
        StudentT(df)


@pytest.mark.parametrize(("shift", "scale"), [(0.0, 0.5), (1.0, 1.0), (-0.3, 1.7)])
def test_divergence_of_the_gaussian_in_closed_form(shift, scale):
    exact = np.log(scale) + (1.0 + shift**2) / (2.0 * scale**2) - 0.5
    assert kl_divergence(Gaussian(), shift, scale) == pytest.approx(exact, rel=1e-8)


def test_condition_of_the_gaussian_in_closed_form():
    scales, shifts = np.exp(np.linspace(np.log(0.5), np.log(2.0), 9)), np.linspace(-1.0, 1.0, 9)
    s, u = (grid.ravel() for grid in np.meshgrid(scales, shifts))
    distance = (1.0 - s) ** 2 + u**2
    s, u, distance = (a[distance > 1e-12] for a in (s, u, distance))
    exact = ((np.log(s) + (1.0 + u**2) / (2.0 * s**2) - 0.5) / distance).max()
    assert kl_condition("gaussian") == pytest.approx(exact, rel=1e-8)


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_condition_holds_for_the_families(noise):
    assert 0.0 < kl_condition(noise, n_grid=5) < 10.0


def test_condition_fails_on_bounded_support():
    half = np.sqrt(3.0)
    assert kl_condition(_uniform(half), n_grid=3) == np.inf


def _uniform(half):
    class Uniform:
        def log_density(self, z):
            return np.where(np.abs(z) <= half, -np.log(2.0 * half), -np.inf)

    return Uniform()


@pytest.mark.parametrize("arguments", [{"least_scale": 1.0}, {"largest_shift": 0.0}])
def test_condition_checks_its_range(arguments):
    with pytest.raises(ValueError, match=next(iter(arguments))):
        kl_condition("gaussian", **arguments)
