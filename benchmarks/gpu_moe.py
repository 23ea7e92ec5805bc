"""The fused SwiGLU experts on one GPU in bfloat16, 16,384 tokens, forward and backward, against plain torch.

Useful work of a forward pass is 2 T K 3 d h floating-point operations (three products of T K rows), of a backward
pass twice that; the rates are useful work over the median time between device events, each run after a flush of the
cache. Routings: uniform at random, and skewed (expert m is drawn with odds 1 / m). Needs a GPU of compute capability
9.0 and Triton: ``python -m benchmarks.gpu_moe``. It is not part of ``make bench``.
"""

import subprocess
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.gpu_clock import measured
from benchmarks.gpu_rivals import dense_products, one_by_one, plain
from gatewise.nn.functional import grouped_swiglu
from gatewise.nn.fused import fused_swiglu

TOKENS = 16_384
SHAPES = {  # d, h, M, K
    "mixtral": (4096, 14336, 8, 2),
    "deepseek_moe": (2048, 1408, 64, 6),
    "fine_grained": (2048, 512, 256, 8),
}
PATHS: dict[str, Callable[..., Tensor]] = {
    "fused": fused_swiglu,
    "fallback": grouped_swiglu,
    "plain": plain,
    "one_by_one": one_by_one,
}


def route(n_experts: int, k: int, skewed: bool, device: str) -> Tensor:
    """indices (T, K): K experts without repetition, uniform or with odds 1 / m, by the Gumbel trick."""
    odds = 1 / torch.arange(1, n_experts + 1, device=device)
    noise = -torch.empty(TOKENS, n_experts, device=device).exponential_().log()
    return (noise + (odds.log() if skewed else 0)).topk(k, dim=1).indices


def problem(d: int, h: int, n_experts: int, k: int, skewed: bool, device: str = "cuda") -> tuple[Tensor, ...]:
    """x, indices, weights, gate_up, down of the layer, with values of the size of a trained layer's."""
    torch.manual_seed(0)
    indices = route(n_experts, k, skewed, device)
    x, weights = torch.randn(TOKENS, d, device=device), torch.rand(TOKENS, k, device=device)
    gate_up = torch.randn(n_experts, 2 * h, d, device=device, dtype=torch.bfloat16) * d**-0.5
    down = torch.randn(n_experts, d, h, device=device, dtype=torch.bfloat16) * h**-0.5
    return x.bfloat16(), indices, (weights / weights.sum(1, keepdim=True)).bfloat16(), gate_up, down


def median_ms(job: Callable[[], Any], rep: int = 300) -> float:
    from triton.testing import do_bench  # noqa: PLC0415

    return float(do_bench(job, warmup=100, rep=rep, return_mode="median"))


def sustained(job: Callable[[], Any], ms: float) -> dict[str, Any]:
    """Mean time over two seconds without a pause, and what the driver says of clock and power meanwhile."""
    runs = int(2000 / ms) + 1
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for i in range(runs):
        job()
        if i == runs // 2:
            query = "--query-gpu=clocks.sm,power.draw,clocks_event_reasons.active"
            state = subprocess.run(
                ["nvidia-smi", query, "--format=csv,noheader"], capture_output=True, text=True, check=False
            )
    end.record()
    torch.cuda.synchronize()
    return {"ms": start.elapsed_time(end) / runs, "clock_power_reasons": state.stdout.strip()}


def measure(path: Callable[..., Tensor], tensors: tuple[Tensor, ...], work: float) -> dict[str, float]:
    """Milliseconds and TFLOP/s of forward alone, of forward that keeps what backward needs, and of backward."""
    x, indices, *others = tensors
    with torch.no_grad():
        forward = median_ms(lambda: path(*tensors))
    leaves = [t.detach().requires_grad_() for t in (x, *others)]
    training = median_ms(lambda: path(leaves[0], indices, *leaves[1:]))
    before, g = torch.cuda.memory_allocated(), torch.randn_like(x)
    torch.cuda.reset_peak_memory_stats()
    y = path(leaves[0], indices, *leaves[1:])
    torch.autograd.grad(y, leaves, g, retain_graph=True)
    peak = (torch.cuda.max_memory_allocated() - before) / 1e9
    backward = median_ms(lambda: torch.autograd.grad(y, leaves, g, retain_graph=True))
    times = {"forward": (forward, work), "training_forward": (training, work), "backward": (backward, 2 * work)}
    rates = {f"{name}_tflops": flops / ms / 1e9 for name, (ms, flops) in times.items()}
    return {f"{name}_ms": ms for name, (ms, _) in times.items()} | rates | {"peak_gb": peak}


def errors(tensors: tuple[Tensor, ...], tokens: int = 500) -> dict[str, dict[str, float]]:
    """|result - exact| / |exact| of output and gradients on the first tokens; exact is the loop in float64."""
    x, indices, weights, gate_up, down = tensors
    some, g = indices[:tokens], torch.randn_like(x[:tokens])
    start = (x[:tokens], weights[:tokens], gate_up, down)

    def results(path: Callable[..., Tensor], dtype: torch.dtype) -> list[Tensor]:
        leaves = [t.detach().to(dtype).requires_grad_() for t in start]
        y = path(leaves[0], some, *leaves[1:])
        return [y.detach(), *torch.autograd.grad(y, leaves, g.to(dtype))]

    exact, names = results(one_by_one, torch.float64), ("y", "dx", "dweights", "dgate_up", "ddown")
    return {
        path: {
            name: float((a.double() - b).norm() / b.norm())
            for name, a, b in zip(names, results(PATHS[path], torch.bfloat16), exact, strict=True)
        }
        for path in ("fused", "plain")
    }


def kernel_times(tensors: tuple[Tensor, ...]) -> dict[str, float]:
    """Milliseconds of each kernel of one forward and one backward pass."""
    from torch.profiler import profile, ProfilerActivity  # noqa: PLC0415

    x, indices, *others = tensors
    leaves = [t.detach().requires_grad_() for t in (x, *others)]
    g = torch.randn_like(x)
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as found:
        torch.autograd.grad(fused_swiglu(leaves[0], indices, *leaves[1:]), leaves, g)
        torch.cuda.synchronize()
    total: dict[str, float] = {}
    for event in found.key_averages():
        name = event.key if event.key.endswith("_kernel") and "::" not in event.key else "other"
        total[name] = total.get(name, 0.0) + event.self_device_time_total / 1000
    return total


def run() -> dict[str, Any]:
    rows = []
    for name, (d, h, n_experts, k) in SHAPES.items():
        work = 2.0 * TOKENS * k * 3 * d * h
        for skewed in (False, True):
            tensors = problem(d, h, n_experts, k, skewed)
            row: dict[str, Any] = {"shape": name, "d": d, "h": h, "M": n_experts, "K": k, "skewed": skewed}
            row["largest_share"] = float(torch.bincount(tensors[1].flatten()).max() / tensors[1].numel())
            row["errors"] = errors(tensors)
            torch.cuda.empty_cache()
            row |= {path: measure(function, tensors, work) for path, function in PATHS.items()}
            with torch.no_grad():
                ms = median_ms(dense_products(TOKENS * k, *tensors[3:]))
                row["dense"] = {"forward_ms": ms, "forward_tflops": work / ms / 1e9}
                row["sustained"] = sustained(lambda t=tensors: fused_swiglu(*t), row["fused"]["forward_ms"])
            row["sustained"]["tflops"] = work / row["sustained"]["ms"] / 1e9
            row["kernels_ms"] = kernel_times(tensors)
            rows.append(row)
            torch.cuda.empty_cache()
    return {"tokens": TOKENS, "dtype": "bfloat16", "rows": rows}


def main() -> None:
    measured("gpu_moe", run)


if __name__ == "__main__":
    main()
