"""Exact nets on a device: torch on the CPU equals compiled code, the kernels equal torch, and a GPU is near to both.

The kernels run where there is a GPU, or in Triton's interpreter (``make interpreter``).
"""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gatewise.nn.exact import pair_blocks, pair_sums
from gatewise.nn.exact.pair_tables import best_cut, PairTables
from gatewise.nn.exact.weight_law import weight_law
from gatewise.nn.fused.backend import INTERPRETED, triton
from gatewise.noise import DoubleExponential, Gaussian, StudentT

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
kernels = pytest.mark.skipif(
    triton is None or not (ON_GPU or INTERPRETED), reason="the kernels need Triton and a GPU, or its interpreter"
)
gpu_only = pytest.mark.skipif(not ON_GPU, reason="needs a GPU")
NOISES = (Gaussian(), DoubleExponential(), StudentT(6.0))
SIZES = (7, 37, 150)  # rows and combinations on either side, none of them a multiple of a tile


def tables(n=SIZES[0], left=SIZES[1], right=SIZES[2], seed=0):
    rng = np.random.default_rng(seed)
    da, db = (np.exp(rng.normal(size=(n, size))) for size in (left, right))
    na, nb = (e * rng.normal(size=e.shape) for e in (da, db))
    return PairTables(*(torch.as_tensor(t, dtype=torch.float32, device=DEVICE) for t in (na, da, nb, db)))


def law(table, noise, one=False, prior=False):
    _, left, right = table.shape
    generator = torch.Generator().manual_seed(1)
    sigma = (0.5 + torch.rand(left, right, generator=generator)).to(DEVICE)
    log_prior = torch.where(torch.rand(left, right, generator=generator) < 0.2, -torch.inf, 0.0).to(DEVICE)
    return weight_law(noise, sigma.flatten()[:1] if one else sigma, log_prior if prior else None, 0.5)


def close(found, wanted, tolerance=2e-5):
    found, wanted = found.double(), wanted.double()
    assert found.shape == wanted.shape
    assert float((found - wanted).abs().max()) <= tolerance * float(wanted.abs().max())


@kernels
class TestKernels:
    def test_mean_squares(self):
        close(pair_sums.mean_square(tables()), pair_blocks.mean_square(tables()))

    @pytest.mark.parametrize("noise", NOISES, ids=lambda noise: type(noise).__name__)
    @pytest.mark.parametrize(("one", "prior"), [(False, False), (True, True)])
    def test_sweep_and_mean_weights(self, noise, one, prior):
        table = tables()
        rule = law(table, noise, one, prior)
        rise = torch.linspace(-2.0, 1.0, SIZES[0], device=DEVICE)
        found, wanted = pair_sums.sweep(table, rule, rise), pair_blocks.sweep(table, rule, rise)
        close(found[0] / wanted[0], torch.ones_like(found[0]))
        close(found[1], wanted[1])
        pair = [part.mean_weights(table, rule, rise, -12.0) for part in (pair_sums, pair_blocks)]
        close(*pair)

    @pytest.mark.parametrize("power", [0, 1, 2])
    def test_weighted_sums(self, power):
        table = tables()
        weights = torch.rand(table.shape[1:], generator=torch.Generator().manual_seed(0)).to(DEVICE)
        close(pair_sums.weighted(table, weights, power), pair_blocks.weighted(table, weights, power))


def test_the_cut_leaves_the_fewest_combinations():
    assert best_cut([7, 7]) == 1
    assert best_cut([2, 2, 2, 50]) == 3


def fitted(device, **options):
    from gatewise import Blocks, LinearGate, RouterAggregator
    from gatewise.nets import MaskedNet
    from gatewise.paper import DESIGNS

    design, gate = DESIGNS["linear"], LinearGate(3, intercept=False)
    X, y = design.sample(160, np.random.default_rng(0))
    net = options.pop("net", gate.net(np.arange(0.0, 3.0, 0.75), d=2))
    if options.pop("masked", False):
        net = MaskedNet(net, np.random.default_rng(0).random(net.size) < 0.5)
    blocks = Blocks(sigma=options.pop("sigma", None), n_orders=options.pop("n_orders", 1))
    experts = options.pop("experts", design.experts)
    router = RouterAggregator(experts, gate, net, blocks=blocks, random_state=0, device=device, **options)
    return router.fit(X, y), X[:30], float(y.std())


CASES = {
    "calibrated": {},
    "one scale": {"sigma": 0.5, "noise": "double_exponential", "masked": True},
    "masked": {"masked": True},
    "student": {"noise": StudentT(6.0), "n_orders": 2},
}


def compared(device, case, prediction, weights):
    (a, X, sd), (b, _, _) = fitted(None, **CASES[case]), fitted(device, **CASES[case])
    for there, here in zip(b.predict(X, return_std=True), a.predict(X, return_std=True), strict=True):
        assert np.abs(there - here).max() <= prediction * sd
    assert np.abs(a.online_predictions_ - b.online_predictions_).max() <= prediction * sd
    assert np.abs(a.gate_weights(X) - b.gate_weights(X)).max() <= weights
    assert np.abs(a.weights_path_ - b.weights_path_).max() <= weights
    assert a.projection_.candidate == b.projection_.candidate
    np.testing.assert_array_equal(a.leading_[:3], b.leading_[:3])
    np.testing.assert_allclose([b.effective_candidates_], [a.effective_candidates_], rtol=weights)
    np.testing.assert_allclose(b.sigma_, a.sigma_, rtol=prediction)


@pytest.mark.parametrize(
    "case", ["calibrated", *(pytest.param(case, marks=pytest.mark.slow) for case in list(CASES)[1:])]
)
def test_torch_on_the_cpu_equals_compiled_code(case):
    compared("cpu", case, 1e-10, 1e-10)


@gpu_only
@pytest.mark.parametrize("case", CASES)
def test_the_gpu_is_near_to_compiled_code(case):
    compared("cuda", case, 1e-5, 1e-4)


def test_what_a_device_does_not_take():
    from gatewise import LinearGate, Particles

    gate = LinearGate(3, intercept=False)
    with pytest.raises(ValueError, match="takes product nets"):
        fitted("cpu", net=gate.net(np.arange(0.0, 3.0, 0.75), d=2).theta(np.arange(20)))
    with pytest.raises(ValueError, match="takes nets, and experts that are not updated"):
        fitted("cpu", net=Particles(100))
    with pytest.raises(ValueError, match="device must be None"):
        fitted("abacus")
    if not ON_GPU:
        with pytest.raises(ValueError, match="PyTorch sees no such GPU; leave device=None"):
            fitted("cuda")


def test_the_filed_figures_belong_to_this_code():
    import json

    from benchmarks import exact_net, gpu_fits
    from benchmarks.timing import RESULTS

    for benchmark in (exact_net, gpu_fits):
        filed = json.loads((RESULTS / f"{benchmark.__name__.split('.')[-1]}.json").read_text())
        assert filed["sources"] == benchmark.sources()
