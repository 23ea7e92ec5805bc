"""How the GPU benchmarks take time: a CUDA graph replayed after a flush of the caches; and the memory's bandwidth."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import gatewise.nn.fused
from benchmarks import timing
from gatewise.nn.fused import can_fuse
from gatewise.nn.fused.backend import jit, tl, triton

CHUNK = 16_384


def kernel_sources() -> str:
    """The SHA-256 of the sources of the fused layer: figures belong to these kernels and no others."""
    folder = Path(gatewise.nn.fused.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@jit
def read_kernel(source, out, CHUNK: tl.constexpr):  # type: ignore[no-untyped-def]
    """out[p] = sum of the p-th chunk."""
    at = tl.program_id(0).to(tl.int64) * CHUNK + tl.arange(0, CHUNK)
    tl.store(out + tl.program_id(0), tl.sum(tl.load(source + at).to(tl.float32), 0))


def captured(job: Callable[[], Any]) -> torch.cuda.CUDAGraph:
    """The job as a graph, after two calls that compile and allocate."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        job(), job()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        job()
    return graph


@cache
def flush_buffers() -> tuple[Tensor, Tensor]:
    """512 MiB to read and where their sums go, kept from the first call on.

    One that is allocated anew between tensors that come and go makes layers of 0.5 GB and more seem 12 % slower.
    """
    other = torch.randn(2**28, dtype=torch.bfloat16, device="cuda")
    return other, torch.empty(len(other) // CHUNK, device="cuda")


def graph_ms(job: Callable[[], Any], runs: int = 40) -> float:
    """The median time of the job's graph, each run after other 512 MiB were read: nothing of it is in the caches.

    Writing them would flush, too, but leave lines that must be written back while the job is running.
    """
    (other, sums), graph = flush_buffers(), captured(job)
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(runs)]
    for start, end in events:
        read_kernel[(len(sums),)](other, sums, CHUNK, num_warps=8)
        start.record()
        graph.replay()
        end.record()
    torch.cuda.synchronize()
    times = sorted(start.elapsed_time(end) for start, end in events)
    return times[runs // 2]


def bandwidth() -> dict[str, float]:
    """TB/s of reading 4 GiB, and of copying them (bytes read and written), each the best of several ways."""
    source: Tensor = torch.randn(2**31, device="cuda", dtype=torch.bfloat16)
    out, target = torch.empty(len(source) // CHUNK, device="cuda"), torch.empty_like(source)
    reads = [
        graph_ms(lambda w=warps: read_kernel[(len(out),)](source, out, CHUNK, num_warps=w), 15)
        for warps in (4, 8, 16)
    ]
    copy = graph_ms(lambda: target.copy_(source), 15)
    return {"read_tb_s": source.nbytes / min(reads) / 1e9, "copy_tb_s": 2 * source.nbytes / copy / 1e9}


def read_ms(n_bytes: int) -> float:
    """The time of reading as many bytes, in whole chunks, in a graph of one kernel: what no layer can beat."""
    chunks = -(-n_bytes // (2 * CHUNK))
    source = torch.randn(chunks * CHUNK, device="cuda", dtype=torch.bfloat16)
    out = torch.empty(chunks, device="cuda")
    return min(graph_ms(lambda w=w: read_kernel[(chunks,)](source, out, CHUNK, num_warps=w)) for w in (4, 8, 16))


def measured(name: str, run: Callable[[], dict[str, Any]]) -> None:
    """Run a benchmark where there is a GPU for it, and write its JSON file into the folder that ``--out`` names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=timing.RESULTS, help="the folder of the JSON file")
    timing.RESULTS = parser.parse_args().out
    if not torch.cuda.is_available() or not can_fuse(*(torch.ones(16, 16).bfloat16().cuda() for _ in range(2))):
        raise SystemExit(f"{name} needs an NVIDIA GPU of compute capability 9.0 and Triton; there is none here")
    timing.save(name, versions() | {"kernel_sources": kernel_sources()} | run())


def versions() -> dict[str, str]:
    """The GPU, torch and Triton."""
    return {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__}
