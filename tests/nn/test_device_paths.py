"""Softmax gates fitted in PyTorch: on the CPU as compiled code fits them, on a GPU near to that."""

import numpy as np
import pytest
from scipy.special import softmax

torch = pytest.importorskip("torch")

from gatewise.backends import DEVICE
from gatewise.losses import Gaussian, LogLoss, ResidualLoss, ScoreLoss, StudentT
from gatewise.nn.device_paths import device_paths
from gatewise.solvers.softmax_path import PathRequest, RowSample, sample_paths

gpu_only = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def problem(loss, n=1600, M=4, p=3, linear=True):  # so many rows that the preconditioner takes some tiles only
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, p)) @ rng.normal(size=(p, p))
    F = rng.normal(size=(n, M))
    g = softmax(x @ rng.normal(size=(p, M)), axis=1)
    z = (g * F).sum(axis=1)
    if loss == "log":
        F = rng.uniform(0.01, 1.0, size=(n, M))
        chosen = LogLoss()
    elif loss == "score":
        chosen = ScoreLoss()
    else:
        noise = Gaussian() if loss == "gaussian" else StudentT(5.0)
        chosen = ResidualLoss(z + 0.5 * rng.normal(size=n), noise, variance=0.25)
    columns = rng.normal(size=(n, 2)) if linear and loss in ("gaussian", "student") else None
    request = PathRequest(x, [2.0, 0.1, 0.5], columns, 0.3, ks=(1, 3))
    weight = rng.uniform(0.5, 1.5, size=n)
    folds = np.arange(n) % 3
    samples = [
        RowSample(np.full(M, 1.0 / M), weight * (folds != fold), 0.5, np.flatnonzero(folds == fold), 0.1, 2.0)
        for fold in range(2)
    ]
    samples.append(RowSample(np.full(M, 1.0 / M), weight, 0.5, np.arange(0, n, 7), 0.1, 2.0, follows=True))
    return [request, PathRequest(x[:, :1], [1.0])], F, chosen, samples


def differences(loss, device):
    """Differences between the device and compiled code: root mean square of mixtures, the largest one of weights.

    Each is the largest over the fits. Compiled code itself is within 1e-4 noise standard deviations of its minima, in
    the root mean square over the rows.
    """
    requests, F, chosen, samples = problem(loss)
    here = sample_paths(requests, F, chosen, samples)
    there = device_paths(requests, F, chosen, samples, device)
    mixed, gates = [], []
    for a, b, sample in zip(here, there, samples, strict=True):
        for one, other, request in zip(a, b, requests, strict=True):
            assert one.mixtures.shape == other.mixtures.shape
            gap = one.mixtures[:, 0] - other.mixtures[:, 0]
            mixed.append(np.sqrt((gap**2).mean(axis=1)).max())
            scores = [
                np.log(sample.reference)[None, :, None] + t.path.theta @ request.features.T for t in (one, other)
            ]
            gates.append(np.abs(softmax(scores[0], axis=1) - softmax(scores[1], axis=1)).max())
            if one.mixtures.shape[1] > 1:  # a row whose k-th gates are equal may go either way
                gaps = np.abs(one.mixtures[:, 1:] - other.mixtures[:, 1:])
                assert np.quantile(gaps, 0.98) <= 1e-3
    return max(mixed), max(gates)


@pytest.mark.parametrize(
    "loss", ["gaussian", *(pytest.param(loss, marks=pytest.mark.slow) for loss in ("log", "score", "student"))]
)
def test_torch_on_the_cpu_fits_as_compiled_code_does(loss):
    mixed, gates = differences(loss, "cpu")
    assert mixed <= 1e-9
    assert gates <= 1e-9  # as a rule they are the same bits


@gpu_only
@pytest.mark.parametrize("loss", ["gaussian", "log", "score", "student"])
def test_the_gpu_is_near_to_compiled_code(loss):
    mixed, gates = differences(loss, "cuda")
    assert mixed <= 1e-4  # the standard deviation of y is about 1
    assert gates <= 1e-3


def test_the_estimator_hands_its_device_on():
    import gatewise as gw
    from gatewise.experts import ConstantExpert

    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 1))
    y = np.where(X[:, 0] > 0, 1.0, -1.0) + 0.1 * rng.normal(size=120)
    experts = [ConstantExpert(1.0), ConstantExpert(-1.0)]
    quick = gw.MoESettings(test=False, learners=())
    options = {"cv": "prefit", "gates": ["linear"], "settings": quick, "random_state": 0}
    a = gw.MoERegressor(experts, **options).fit(X, y)
    b = gw.MoERegressor(experts, device="cpu", **options).fit(X, y)
    assert np.abs(a.predict(X) - b.predict(X)).max() <= 1e-4
    assert DEVICE.get() is None
    for unknown in ("abacus", "mps"):
        with pytest.raises(ValueError, match=f"device must be None, 'cpu', 'cuda' or 'cuda:0', not '{unknown}'"):
            gw.MoERegressor(experts, device=unknown, **options).fit(X, y)
