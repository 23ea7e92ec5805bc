"""The fused GPU layer: its plan everywhere; its kernels where there is a GPU, or Triton's interpreter.

``make interpreter`` runs the kernels without a GPU, in an environment of their own: NumPy must be old enough for
Triton's interpreter (2.2 for 3.6).
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from benchmarks.gpu_clock import kernel_sources
from benchmarks.gpu_report import layer_table, read, token_table
from gatewise.nn.fused import can_fuse, fused_swiglu
from gatewise.nn.fused.backend import INTERPRETED, triton
from gatewise.nn.fused.row_plan import BLOCK, capacity
from tests.nn.nn_naive import sorted_plan

ROOT = Path(__file__).parents[2]
WITH_TRITON = ROOT / ".venv-triton" / "bin" / "python"
ON_GPU = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
DEVICE = "cuda" if ON_GPU else "cpu"
kernels = pytest.mark.skipif(
    triton is None or not (ON_GPU or INTERPRETED),
    reason="the kernels need Triton and a Hopper GPU, or its interpreter",
)
gpu_only = pytest.mark.skipif(triton is None or not ON_GPU, reason="needs Triton and a Hopper GPU")
TOLERANCE = {torch.bfloat16: 1e-2, torch.float16: 2e-3}  # relative to the norm of the float64 result
DTYPES = (torch.float16,) if INTERPRETED else (torch.bfloat16, torch.float16)  # the interpreter's bfloat16 is broken


def uniform(T, M, K):
    return torch.rand(T, M).topk(K, dim=1).indices


def dropped(T, M, K):
    return torch.where(torch.rand(T, K) < 0.4, -1, uniform(T, M, K))


def one_expert(T, M, K):
    return torch.full((T, K), M - 1)


def idle_experts(T, M, K):
    return uniform(T, M, K) // 2 * 2


def nobody(T, M, K):
    return torch.full((T, K), -1)


def unknown_experts(T, M, K):
    return torch.where(torch.rand(T, K) < 0.4, M + 3, uniform(T, M, K))


ROUTINGS = (uniform, dropped, one_expert, idle_experts, nobody)
SIZES = ((1, 1, 1), (5, 4, 2), (300, 3, 2), (1000, 16, 4), (129, 300, 1))  # T, M, K
SMALL = SIZES[:3] if INTERPRETED else SIZES  # the interpreter takes seconds for the others


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize(("T", "M", "K"), SIZES)
def test_the_plan_sorts_every_assignment_into_tiles_of_its_own_expert(routing, T, M, K):
    torch.manual_seed(T)
    indices = routing(T, M, K)
    plan = sorted_plan(indices, M)
    flat, positions = indices.flatten(), plan.positions.flatten().long()
    kept = flat >= 0
    assert torch.equal(positions >= 0, kept)
    assert torch.equal(plan.rows[positions[kept]].long(), torch.nonzero(kept).flatten())
    assert int((plan.rows >= 0).sum()) == int(kept.sum())  # the other rows are padding
    assert torch.equal(plan.experts[positions[kept] // BLOCK].long(), flat[kept])
    assert torch.equal(plan.counts.long(), torch.bincount(flat[kept], minlength=M))
    assert bool((plan.starts % BLOCK == 0).all())
    assert int(plan.tiles) == int(((plan.counts + BLOCK - 1) // BLOCK).sum()) <= capacity(T * K, M) // BLOCK
    for e in range(M):  # stable: an expert's rows keep the order of the tokens
        mine = positions[flat == e]
        assert torch.equal(mine, int(plan.starts[e]) + torch.arange(len(mine)))


def test_an_index_beyond_the_experts_is_dropped():
    plan = sorted_plan(torch.tensor([[0, 2], [7, 1]]), 2)
    assert plan.positions.tolist() == [[0, -1], [-1, BLOCK]]


def test_what_cannot_be_fused_is_named():
    x, gate_up, down = torch.ones(2, 8), torch.ones(4, 16, 8), torch.ones(4, 8, 8)
    assert not can_fuse(x, gate_up)
    with pytest.raises(ValueError, match=r"x of \(2, 8\) torch.float32 on cpu .* cannot be fused"):
        fused_swiglu(x, torch.zeros(2, 1, dtype=torch.int64), torch.ones(2, 1), gate_up, down)


@kernels
def test_sizes_that_the_copy_engine_cannot_move_are_refused():
    x = torch.ones(2, 16, dtype=torch.float16, device=DEVICE)
    assert can_fuse(x, x.new_ones(4, 16, 16))
    assert not can_fuse(x[:, :12], x.new_ones(4, 16, 12))
    assert not can_fuse(x, x.new_ones(4, 24, 16))
    assert not can_fuse(x, x.new_ones(4, 16, 16).float())


@kernels
@pytest.mark.parametrize("routing", [*ROUTINGS, unknown_experts])
@pytest.mark.parametrize(("T", "M", "K"), SMALL)
def test_the_counting_sort_gives_the_same_plan(routing, T, M, K):
    from gatewise.nn.fused.sorting import counted_plan

    torch.manual_seed(T)
    indices = routing(T, M, K).to(DEVICE)
    for name, a, b in zip(
        sorted_plan(indices, M)._fields, sorted_plan(indices, M), counted_plan(indices, M), strict=True
    ):
        assert torch.equal(a, b), name


def naive(x, indices, weights, gate_up, down):
    """One expert after the other, in the precision of its arguments."""
    y, h = torch.zeros_like(x), down.shape[2]
    for e in range(len(gate_up)):
        token, k = torch.nonzero(indices == e, as_tuple=True)
        rows = x[token] @ gate_up[e].T
        rows = (torch.nn.functional.silu(rows[:, :h]) * rows[:, h:]) @ down[e].T
        y = y.index_add(0, token, rows * weights[token, k].unsqueeze(1))
    return y


def layer(T, d, h, M, K, dtype, weights_dtype=None):
    x, gate_up, down = torch.randn(T, d), torch.randn(M, 2 * h, d) * d**-0.5, torch.randn(M, d, h) * h**-0.5
    weights = torch.rand(T, K).to(DEVICE, weights_dtype or dtype)
    x, gate_up, down = (t.to(DEVICE, dtype) for t in (x, gate_up, down))
    return [t.requires_grad_() for t in (x, weights, gate_up, down)]


@kernels
@pytest.mark.parametrize("routing", [*ROUTINGS, unknown_experts])
@pytest.mark.parametrize(("T", "M", "K"), [(2, 1, 1), (5, 4, 2), (60, 3, 2), (129, 300, 1), (256, 16, 8)])
def test_few_assignments_are_ranked_by_expert(routing, T, M, K):
    from gatewise.nn.fused.few_tokens import ordered

    torch.manual_seed(T)
    indices = routing(T, M, K)
    order = ordered(indices.to(DEVICE), M)
    flat = indices.flatten().tolist()
    expected = sorted((e, i) for i, e in enumerate(flat) if 0 <= e < M)
    assert order.rows[: len(expected)].tolist() == [i for _, i in expected]
    place = {i: row for row, (_, i) in enumerate(expected)}
    assert order.positions.flatten().tolist() == [place.get(i, -1) for i in range(T * K)]
    assert order.starts.tolist() == [sum(e < m for e, _ in expected) for m in range(M + 1)]


@kernels
@pytest.mark.parametrize("weights_dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("routing", [*ROUTINGS, unknown_experts])
@pytest.mark.parametrize(
    ("T", "d", "h", "M", "K"),
    [
        *((1, 72, 40, 4, 2), (1, 40, 24, 12, 10)),
        *((2, 64, 136, 3, 2), (3, 16, 8, 5, 5), (40, 72, 40, 4, 2), (150, 64, 136, 3, 1)),
    ],
)
def test_few_tokens_without_a_gradient_equal_the_naive_loop(routing, weights_dtype, T, d, h, M, K):
    torch.manual_seed(T)
    indices = routing(T, M, K).to(DEVICE)
    for dtype in DTYPES:
        leaves = [t.detach() for t in layer(T, d, h, M, K, dtype, weights_dtype)]
        y = fused_swiglu(leaves[0], indices, *leaves[1:])
        exact = [t.double() for t in leaves]
        assert y.dtype == dtype
        assert off(y, naive(exact[0], indices, *exact[1:])) < TOLERANCE[dtype]


@kernels
@pytest.mark.parametrize(("d", "h", "M", "K"), [(2056, 8, 2, 1), (8, 600, 12, 10)])
def test_one_token_wider_than_what_is_read_at_once_equals_the_naive_loop(d, h, M, K):
    """More columns than a block of the first product has, and than the second holds before it may start."""
    torch.manual_seed(0)
    indices = uniform(1, M, K).to(DEVICE)
    leaves = [t.detach() for t in layer(1, d, h, M, K, torch.float16)]
    exact = [t.double() for t in leaves]
    y = fused_swiglu(leaves[0], indices, *leaves[1:])
    assert off(y, naive(exact[0], indices, *exact[1:])) < TOLERANCE[torch.float16]


@pytest.mark.slow
@pytest.mark.skipif(INTERPRETED or not WITH_TRITON.exists(), reason="needs the environment of `make interpreter`")
def test_the_kernels_run_in_the_interpreter():
    """The tests of the kernels in a process of their own, as Triton decides at import whether to interpret."""
    options = ("-q", "--noconftest", "-p", "no:cacheprovider", "-W", "ignore")
    command = [str(WITH_TRITON), "-m", "pytest", *options, __file__]
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": paths}
    done = subprocess.run(command, check=False, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
    counts = {word: int(count) for count, word in re.findall(r"(\d+) (passed|skipped|failed)", done.stdout)}
    assert counts["passed"] > 150, done.stdout[-2000:]


def test_the_results_of_the_gpu_are_those_of_these_kernels():
    """Their files hold the hash of the sources that they were measured on: run both benchmarks again on a GPU."""
    for name in ("gpu_moe", "gpu_tokens"):
        assert read(name)["kernel_sources"] == kernel_sources(), name


def test_the_guide_shows_the_results_that_are_filed():
    guide = (ROOT / "docs" / "neural-gpu.md").read_text().splitlines()
    lines = [*layer_table(), *token_table()]
    assert [line for line in guide if line in lines] == lines


@gpu_only
@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("T", [1, 2, 3, 8, 64, 255, 256])
@pytest.mark.parametrize(("d", "h", "M", "K"), [(512, 1408, 64, 6), (1032, 776, 8, 2), (2048, 768, 128, 8)])
def test_few_tokens_of_larger_layers_equal_the_naive_loop(routing, T, d, h, M, K):
    torch.manual_seed(T)
    indices = routing(T, M, K).to(DEVICE)
    leaves = [t.detach() for t in layer(T, d, h, M, K, torch.bfloat16)]
    exact = [t.double() for t in leaves]
    y = fused_swiglu(leaves[0], indices, *leaves[1:])
    assert off(y, naive(exact[0], indices, *exact[1:])) < 1e-2
    assert torch.equal(y, fused_swiglu(leaves[0], indices, *leaves[1:]))  # the same bits


def off(a, b):
    return float((a.detach().double() - b.detach()).norm() / b.detach().norm().clamp(min=1e-30))


@kernels
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize(("T", "d", "h", "M", "K"), [(9, 8, 8, 2, 1), (70, 72, 40, 4, 2), (200, 64, 136, 3, 2)])
def test_outputs_and_all_gradients_equal_the_naive_loop(routing, dtype, T, d, h, M, K):
    torch.manual_seed(T)
    check(layer(T, d, h, M, K, dtype), routing(T, M, K).to(DEVICE), TOLERANCE[dtype])


@gpu_only
@pytest.mark.parametrize("weights_dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize(
    ("T", "d", "h", "M", "K"), [(1000, 512, 1408, 64, 6), (777, 1024, 512, 96, 8), (2049, 1032, 776, 8, 2)]
)
def test_larger_layers_equal_the_naive_loop(routing, weights_dtype, T, d, h, M, K):
    torch.manual_seed(T)
    check(layer(T, d, h, M, K, torch.bfloat16, weights_dtype), routing(T, M, K).to(DEVICE), 1e-2)


def check(leaves, indices, tolerance):
    exact = [t.detach().double().requires_grad_() for t in leaves]
    y, g = fused_swiglu(leaves[0], indices, *leaves[1:]), torch.randn_like(leaves[0])
    reference = naive(exact[0], indices, *exact[1:])
    assert y.dtype == leaves[0].dtype
    assert off(y, reference) < tolerance
    grads = torch.autograd.grad(y, leaves, g)
    wanted = torch.autograd.grad(reference, exact, g.double())
    for name, grad, leaf, want in zip(("x", "weights", "gate_up", "down"), grads, leaves, wanted, strict=True):
        assert grad.dtype == leaf.dtype
        assert off(grad, want) < tolerance, name


@kernels
def test_no_tokens_give_no_rows_and_gradients_of_zero():
    leaves = layer(0, 16, 8, 3, 2, torch.float16)
    y = fused_swiglu(leaves[0], torch.zeros(0, 2, dtype=torch.int64, device=DEVICE), *leaves[1:])
    assert y.shape == (0, 16)
    assert all(bool((grad == 0).all()) for grad in torch.autograd.grad(y.sum(), leaves))


@kernels
def test_the_weight_of_a_dropped_assignment_does_not_matter():
    torch.manual_seed(0)
    x, weights, gate_up, down = (t.detach() for t in layer(20, 16, 8, 3, 2, torch.float16))
    indices = dropped(20, 3, 2).to(DEVICE)
    poisoned = torch.where(indices < 0, torch.nan, weights)
    assert torch.equal(
        fused_swiglu(x, indices, poisoned, gate_up, down), fused_swiglu(x, indices, weights, gate_up, down)
    )


@kernels
def test_a_token_does_not_depend_on_the_others():
    torch.manual_seed(0)
    x, weights, gate_up, down = (t.detach() for t in layer(150, 64, 136, 3, 2, torch.float16))
    indices = dropped(150, 3, 2).to(DEVICE)
    y = fused_swiglu(x, indices, weights, gate_up, down)
    for some in (slice(3, 60), slice(20, 140, 2)):  # tiles of the same size: others may add in another order
        assert torch.equal(fused_swiglu(x[some], indices[some], weights[some], gate_up, down), y[some])


@kernels
def test_gradients_that_nobody_wants_are_not_computed():
    torch.manual_seed(0)
    x, weights, gate_up, down = layer(20, 16, 8, 3, 2, torch.float16)
    indices = uniform(20, 3, 2).to(DEVICE)
    whole = fused_swiglu(x, indices, weights, gate_up, down).sum()
    frozen = fused_swiglu(x, indices, weights, gate_up.detach(), down.detach()).sum()
    for a, b in zip(torch.autograd.grad(whole, (x, weights)), torch.autograd.grad(frozen, (x, weights)), strict=True):
        assert torch.equal(a, b)


@gpu_only
def test_the_same_input_gives_the_same_bits():
    torch.manual_seed(0)
    leaves, indices = layer(3000, 512, 256, 16, 4, torch.bfloat16), uniform(3000, 16, 4).to(DEVICE)
    g = torch.randn_like(leaves[0])

    def once():
        y = fused_swiglu(leaves[0], indices, *leaves[1:])
        return y, *torch.autograd.grad(y, leaves, g)

    for a, b in zip(once(), once(), strict=True):
        assert torch.equal(a, b)


@gpu_only
@pytest.mark.parametrize("T", [1, 60, 500])
def test_a_graph_captured_once_serves_other_routings(T):
    """Nothing waits for the device: the launch does not depend on the routing."""
    torch.manual_seed(0)
    x, weights, gate_up, down = (t.detach() for t in layer(T, 256, 128, 8, 2, torch.bfloat16))
    indices = uniform(T, 8, 2).to(DEVICE)
    fused_swiglu(x, indices, weights, gate_up, down)  # compiles
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = fused_swiglu(x, indices, weights, gate_up, down)
    for routing in ROUTINGS:
        indices.copy_(routing(T, 8, 2))
        graph.replay()
        assert torch.equal(y, fused_swiglu(x, indices, weights, gate_up, down))


@gpu_only
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
def test_torch_compile_takes_the_layer_whole():
    torch.manual_seed(0)
    leaves, indices = layer(500, 256, 128, 8, 2, torch.bfloat16), uniform(500, 8, 2).to(DEVICE)
    compiled = torch.compile(fused_swiglu, fullgraph=True)
    a, b = compiled(leaves[0], indices, *leaves[1:]), fused_swiglu(leaves[0], indices, *leaves[1:])
    assert torch.equal(a, b)
    for one, other in zip(torch.autograd.grad(a.sum(), leaves), torch.autograd.grad(b.sum(), leaves), strict=True):
        assert torch.equal(one, other)
