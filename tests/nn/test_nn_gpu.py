"""Layers on a GPU: fused and plain paths give one result; skipped where there is no GPU."""

import pytest

torch = pytest.importorskip("torch")

from gatewise import nn as gnn
from gatewise.nn.functional import grouped_swiglu
from gatewise.nn.fused import can_fuse

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def case(dtype, M=8, d=64, h=96, T=300, K=3):
    torch.manual_seed(0)
    experts = gnn.SwiGLUExperts(M, d, h).to("cuda", dtype)
    x = torch.randn(T, d, device="cuda", dtype=dtype, requires_grad=True)
    scores = torch.randn(T, M, device="cuda")
    scores[:, 5] = -9.0  # an expert that nobody chooses
    weights, indices = scores.softmax(dim=1).topk(K, dim=1)
    indices[::7, 1] = -1  # dropped assignments
    return experts, x, indices, weights.to(dtype)


def naive(experts, x, indices, weights):
    gate_up, down = experts.gate_up.double(), experts.down.double()
    gate, up = torch.einsum("td,mhd->tmh", x.double(), gate_up).chunk(2, dim=-1)
    out = torch.einsum("tmh,mdh->tmd", torch.nn.functional.silu(gate) * up, down)
    full = torch.zeros(len(x), len(gate_up), device=x.device, dtype=torch.float64)
    full.scatter_add_(1, indices.clamp(min=0), torch.where(indices < 0, 0.0, weights.double()))
    return torch.einsum("tm,tmd->td", full, out)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.bfloat16, 2e-2), (torch.float16, 4e-3), (torch.float32, 1e-4)]
)
def test_experts_equal_the_dense_sum(dtype, tolerance):
    experts, x, indices, weights = case(dtype)
    expected = naive(experts, x, indices, weights)
    paths = {"layer": experts.sparse(x, indices, weights)}
    paths["plain"] = grouped_swiglu(x, indices, weights, experts.gate_up, experts.down)
    inputs = [x, experts.gate_up, experts.down]
    wanted = torch.autograd.grad(expected.square().sum(), inputs)
    for name, y in paths.items():
        assert (y.double() - expected).norm() <= tolerance * expected.norm(), name
        for own, other in zip(torch.autograd.grad(y.double().square().sum(), inputs), wanted, strict=True):
            assert (own.double() - other.double()).norm() <= tolerance * other.double().norm(), name


def test_autocast_reaches_the_fused_path():
    experts, x, indices, weights = case(torch.float32)
    expected = naive(experts, x, indices, weights)
    with torch.autocast("cuda", torch.bfloat16):
        y = experts.sparse(x, indices, weights)
    assert y.dtype == torch.float32
    assert (y.double() - expected).norm() <= 2e-2 * expected.norm()


def test_the_fused_path_is_taken_on_hopper():
    experts, x, _, _ = case(torch.bfloat16)
    assert can_fuse(x, experts.gate_up) == (torch.cuda.get_device_capability() == (9, 0))


def test_a_layer_of_a_preset_trains():
    torch.manual_seed(0)
    layer = gnn.preset("mixtral", d=64, hidden=128).to("cuda", torch.bfloat16)
    optimizer = torch.optim.Adam(layer.parameters(), lr=1e-2)
    x = torch.randn(256, 64, device="cuda", dtype=torch.bfloat16)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        y = layer(x)
        loss = (y - x).float().square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]
