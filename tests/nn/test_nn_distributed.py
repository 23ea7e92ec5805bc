"""DistributedDataParallel with two processes on this machine: the same step as one process with all tokens."""

import os
import socket

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

from gatewise import nn
from tests.nn.nn_zoo import make

TOKENS = 8


def _tokens():
    return torch.randn(TOKENS, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def _step(model, x):
    """The gradients of one step, and the bias after it."""
    model(x).square().mean().backward()
    nn.update_biases(model)
    layer = getattr(model, "module", model)
    return {
        key: parameter.grad.clone() for key, parameter in layer.named_parameters()
    }, layer.router.bias.bias.clone()


def _one_of_two(rank, port):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    try:
        half = _tokens()[rank * TOKENS // 2 : (rank + 1) * TOKENS // 2]
        return _step(DistributedDataParallel(make("biased group limit").train()), half)
    finally:
        torch.distributed.destroy_process_group()


def _second(port, results):
    torch.set_num_threads(1)
    gradients, bias = _one_of_two(1, port)
    results.put(({key: value.numpy() for key, value in gradients.items()}, bias.numpy()))


@pytest.mark.pools
def test_two_processes_take_the_step_of_one():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = torch.multiprocessing.get_context("spawn")
    results = context.Queue()
    other = context.Process(target=_second, args=(port, results))
    other.start()
    first = _one_of_two(0, port)
    second = results.get(timeout=120)
    other.join(timeout=60)
    assert other.exitcode == 0
    gradients, bias = _step(make("biased group limit").train(), _tokens())
    for found, moved in (first, second):
        for key, expected in gradients.items():
            torch.testing.assert_close(torch.as_tensor(found[key]), expected)
        torch.testing.assert_close(torch.as_tensor(moved), bias)
    assert not torch.equal(bias, make("biased group limit").router.bias.bias)
