"""How torch uses a layer: compile, autocast, threads and processes, copies, files."""

import copy
import re
import subprocess
import sys
import textwrap
import warnings
from inspect import signature
from pathlib import Path

import pytest
import torch

import gatewise as gw
from gatewise import nn
from gatewise.nn.presets import say_size
from tests.nn.nn_zoo import LAYERS, make
from tests.nn.test_nn_layers import tokens


def _compiled(layer, backend):
    torch._dynamo.reset()
    return torch.compile(layer, fullgraph=True, backend=backend)


# Not among them: sparse experts given as a list of modules, which are called group by group.
COMPILED = [
    "dense",
    "top-3 after",
    "top-3 phi",
    "quadratic scores",
    "noisy scores",
    "biased group limit",
    "threshold",
    "null experts",
    "capacity",
    "expert choice",
    "clamped swiglu",
    "dense mlp",
    "mlp",
    "dense modules",
    "sparse hierarchical",
    "cartesian",
]


@pytest.mark.parametrize("name", COMPILED)
def test_the_graph_does_not_break(name):
    layer, x = make(name).float(), tokens(dtype=torch.float32)
    torch.testing.assert_close(_compiled(layer, "eager")(x), layer(x))


@pytest.mark.parametrize("name", ["dense", "top-3 after", "biased group limit"])
def test_training_does_not_break_the_graph(name):
    layer, x = make(name).float().train(), tokens(dtype=torch.float32)
    layer.router.losses = (nn.SwitchLoss(), nn.ZLoss())
    plain, compiled = copy.deepcopy(layer), layer
    run = _compiled(compiled, "aot_eager")
    for module, call in ((plain, plain), (compiled, run)):
        (call(x).square().sum() + nn.auxiliary_loss(module)).backward()
    for a, b in zip(plain.parameters(), compiled.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)
    if name == "biased group limit":
        assert torch.equal(plain.router.bias.load, compiled.router.bias.load)
        assert plain.router.bias.load.sum() == 3 * len(x)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dense", "top-3 after", "biased group limit", "capacity", "mlp"])
def test_compiled_code_gives_the_same(name):
    layer, x = make(name).float(), tokens(dtype=torch.float32).requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiler's own
        y = _compiled(layer, "inductor")(x)
        (compiled,) = torch.autograd.grad(y.square().sum(), x)
    (plain,) = torch.autograd.grad(layer(x).square().sum(), x)
    torch.testing.assert_close(y, layer(x))
    torch.testing.assert_close(compiled, plain)


def test_scores_that_are_not_finite_are_an_error_in_a_compiled_graph_too():
    layer, x = make("top-3 after").float(), tokens(dtype=torch.float32)
    run = _compiled(layer, "aot_eager")
    run(x)
    x[0, 0] = float("nan")
    with pytest.raises(RuntimeError, match="scores must be finite, but the router got a NaN"):
        run(x)


@pytest.fixture
def plain_half_precision():
    """On some processors oneDNN fails at small bfloat16 products, also those of torch.nn.Linear."""
    before, torch.backends.mkldnn.enabled = torch.backends.mkldnn.enabled, False
    yield
    torch.backends.mkldnn.enabled = before


@pytest.mark.usefixtures("plain_half_precision")
@pytest.mark.parametrize("name", LAYERS)
def test_autocast_computes_experts_in_half_precision_and_routes_in_full(name):
    layer, x = make(name).float(), tokens(dtype=torch.float32)
    full = layer(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = layer(x)
        if name != "cartesian":
            assert layer.router(x).weights.dtype == torch.float32
    if name != "cartesian":  # there the second router sees what the first half rounded
        torch.testing.assert_close(half.float(), full, rtol=0.1, atol=0.1)
        assert not torch.equal(half.float(), full)
    half.float().sum().backward()
    assert all(p.grad is None or p.grad.dtype == torch.float32 for p in layer.parameters())


@pytest.mark.usefixtures("plain_half_precision")
def test_a_layer_in_bfloat16_routes_as_its_rounded_weights_say():
    layer, x = make("top-3 after").to(torch.bfloat16), tokens(64).to(torch.bfloat16)
    routing = layer.router(x)
    assert routing.scores.dtype == torch.float32
    assert layer(x).dtype == torch.bfloat16
    torch.testing.assert_close(layer(x).float(), layer.float()(x.float()), rtol=0.1, atol=0.1)


@pytest.mark.filterwarnings("ignore:.*chooses one expert a token")
@pytest.mark.parametrize("name", ["top-3 after", "mlp", "sparse hierarchical", "capacity"])
def test_a_seed_fixes_everything_whatever_the_number_of_threads(name):
    results = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 2):
            torch.set_num_threads(threads)
            layer = make(name, seed=5).float().train()
            x = tokens(3000, dtype=torch.float32).requires_grad_()
            y = layer(x)
            results.append([y, *torch.autograd.grad(y.square().sum(), [x, *layer.parameters()])])
    finally:
        torch.set_num_threads(before)
    for a, b, c in zip(*results, strict=True):
        assert torch.equal(b, c)
        torch.testing.assert_close(a, b)


def test_a_layer_can_be_copied_after_a_training_step():
    layer = make("top-3 after").train()
    layer.router.losses = (nn.SwitchLoss(),)
    y = layer(tokens())
    twin = copy.deepcopy(layer)
    assert twin.losses == {}
    assert set(layer.losses) == {"balance"}
    assert torch.equal(twin(tokens()), y)


STATE = {
    "switch": ["experts.down", "experts.up", "router.scores.scores.weight"],
    "gshard": ["experts.down", "experts.up", "router.scores.weight"],
    "glam": ["experts.down", "experts.up", "router.scores.weight"],
    "mixtral": ["experts.down", "experts.gate_up", "router.scores.weight"],
    "deepseek-moe": [
        "experts.down",
        "experts.gate_up",
        "router.scores.weight",
        "shared.0.down",
        "shared.0.gate_up",
    ],
    "deepseek-v3": [
        "experts.down",
        "experts.gate_up",
        "router.bias.bias",
        "router.scores.weight",
        "shared.0.down",
        "shared.0.gate_up",
    ],
    "hierarchical": [
        "experts.down",
        "experts.down_bias",
        "experts.up",
        "experts.up_bias",
        "router.inner.scores.bias",
        "router.inner.scores.weight",
        "router.outer.scores.bias",
        "router.outer.scores.weight",
    ],
    "cartesian": [
        *(
            f"{half}.{key}"
            for half in ("first", "second")
            for key in (
                "experts.down",
                "experts.gate_up",
                "router.scores.weight",
                "shared.0.down",
                "shared.0.gate_up",
            )
        ),
        "norm.weight",
    ],
    "adamoe": ["experts.down", "experts.gate_up", "router.scores.weight"],
}
SIZES = {"d": 8, "hidden": 12}


def small_preset(name):
    """A preset at a size for tests: published numbers of experts only where they are small."""
    extra = {"switch": {"n_experts": 8}, "gshard": {"n_experts": 8}, "deepseek-v3": {"n_experts": 32}}
    return nn.preset(name, **SIZES, **extra.get(name, {}))


@pytest.mark.parametrize("name", nn.PRESETS)
def test_the_names_of_the_state_are_fixed(name):
    """They are the file format: a change here breaks files that people have."""
    assert sorted(small_preset(name).state_dict()) == sorted(STATE[name])


@pytest.mark.parametrize("name", nn.PRESETS)
def test_every_preset_trains(name):
    torch.manual_seed(0)
    layer = small_preset(name).train()
    x = torch.randn(40, 8)
    loss = (layer(x) - torch.tanh(x)).square().mean() + nn.auxiliary_loss(layer)
    loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in layer.parameters() if p.grad is not None)
    routers = [m for m in layer.modules() if isinstance(m, nn.Scores)]
    assert all(router.weight.grad.abs().sum() > 0 for router in routers)
    nn.update_biases(layer)


def test_an_unknown_preset_or_size_is_an_error():
    with pytest.raises(ValueError, match=r"name must be one of 'switch', .* not 'gpt'"):
        nn.preset("gpt")
    with pytest.raises(ValueError, match="sizes of 'mixtral' must be among d, hidden, n_experts, k, not 'width'"):
        nn.preset("mixtral", width=3)


def test_published_sizes_are_the_defaults():
    with torch.device("meta"):
        sizes = {name: sum(p.numel() for p in nn.preset(name).parameters()) for name in ("mixtral", "deepseek-v3")}
    assert sizes["mixtral"] == 8 * 3 * 4096 * 14336 + 8 * 4096
    assert sizes["deepseek-v3"] == 257 * 3 * 7168 * 2048 + 256 * 7168


def test_a_preset_says_its_size_before_it_allocates():
    with pytest.raises(ValueError, match=r"'glam' at these sizes take 128.0 GiB on cpu, which has .* device='meta'"):
        nn.preset("glam")
    with pytest.warns(UserWarning, match=r"'mixtral' at these sizes take 1.5 GiB on cpu; smaller sizes"):
        say_size("mixtral", 3 * 2**29, torch.device("cpu"))
    assert nn.preset("glam", device="meta").experts.up.device.type == "meta"


def test_a_preset_without_memory_takes_over_a_file(tmp_path):
    layer, bare = small_preset("deepseek-v3").eval(), nn.preset("deepseek-v3", **SIZES, n_experts=32, device="meta")
    nn.save(layer, tmp_path / "layer.safetensors")
    nn.load(bare, tmp_path / "layer.safetensors")
    x = torch.randn(10, 8)
    assert torch.equal(bare.eval()(x), layer(x))
    bare.train()(x).sum().backward()
    nn.update_biases(bare)


@pytest.mark.parametrize("name", nn.PRESETS)
def test_safetensors_there_and_back(name, tmp_path):
    layer, twin = small_preset(name).eval(), small_preset(name).eval()
    for buffer in layer.buffers():
        buffer.uniform_()
    nn.save(layer, tmp_path / "layer.safetensors")
    nn.load(twin, tmp_path / "layer.safetensors")
    x = torch.randn(10, 8)
    assert torch.equal(twin(x), layer(x))


def test_a_file_of_another_make_is_an_error(tmp_path):
    nn.save(small_preset("mixtral"), tmp_path / "layer.safetensors")
    with pytest.raises(ValueError, match="path must hold the state of a MoELayer of this make"):
        nn.load(small_preset("deepseek-moe"), tmp_path / "layer.safetensors")


def test_torch_is_imported_on_request_only_and_an_error_names_the_extra():
    program = """
        import sys, gatewise
        assert "torch" not in sys.modules
        sys.modules["torch"] = None  # as if it were not installed
        try:
            gatewise.nn
        except ModuleNotFoundError as error:
            print(error)
        del sys.modules["torch"]
        assert gatewise.nn.MoELayer.__module__ == "gatewise.nn.layer"
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "gatewise.nn needs torch: pip install 'gatewise[nn]'"
    with pytest.raises(AttributeError, match="module 'gatewise' has no attribute 'mm'"):
        gw.mm  # noqa: B018


def test_the_guide_lists_every_preset_with_its_sizes():
    guide = (Path(__file__).parents[2] / "docs" / "neural.md").read_text()
    for name, build in nn.PRESETS.items():
        (row,) = re.findall(rf"^\| `{name}` \|.*$", guide, flags=re.MULTILINE)
        sizes = ", ".join(f"{p.name}={p.default}" for p in signature(build).parameters.values())
        assert row.endswith(f"| {sizes} |"), (name, sizes)
