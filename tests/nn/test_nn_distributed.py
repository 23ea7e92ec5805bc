"""Two processes on this machine take the step of one process with all tokens, whatever is split between them."""

import datetime
import os
import socket

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

from gatewise import nn
from tests.nn.nn_zoo import D, LAYERS, M, make

TOKENS, FIRST = 8, 5  # the first process has five of the eight tokens
pytestmark = pytest.mark.pools


def _tokens():
    return torch.randn(TOKENS, D, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def _mine(rank, first=FIRST):
    return _tokens()[:first] if rank == 0 else _tokens()[first:]


def _join(rank, port):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
    wait = datetime.timedelta(seconds=60)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2, timeout=wait)


def _second(job, port, results):
    torch.set_num_threads(1)
    try:
        _join(1, port)
        results.put(job(1))
    finally:
        torch.distributed.destroy_process_group()


def both(job):
    """What job(rank) returns in each of two processes: arrays, numbers, and lists and dicts of them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = torch.multiprocessing.get_context("spawn")
    results = context.Queue()
    other = context.Process(target=_second, args=(job, port, results))
    other.start()
    try:
        _join(0, port)
        first = job(0)
        second = results.get(timeout=120)
    finally:
        torch.distributed.destroy_process_group()
        other.join(timeout=60)
    assert other.exitcode == 0
    return first, second


def _gradients(model):
    return {key: parameter.grad.numpy().copy() for key, parameter in model.named_parameters()}


def _same(found, expected):
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        torch.testing.assert_close(torch.as_tensor(found[key]), torch.as_tensor(value), msg=key)


def _balanced(name):
    layer = make(name).train()
    layer.router.losses = (nn.GlobalBatchLoss(0.3),)
    return layer


def _sum_step(model, x):
    """The gradients of a step on a sum over tokens, and the bias after it."""
    layer = getattr(model, "module", model)
    (model(x).square().sum() + nn.auxiliary_loss(layer)).backward()
    nn.update_biases(layer)
    bias = layer.router.bias.bias.numpy().copy() if layer.router.bias else None
    return _gradients(layer), bias


def _averaged_step(rank):
    # DistributedDataParallel takes the mean over the processes: twice the sum over the tokens gives the sum.
    model = DistributedDataParallel(_balanced("biased group limit"))
    layer = model.module
    (2 * model(_mine(rank)).square().sum() + nn.auxiliary_loss(layer)).backward()
    nn.update_biases(layer)
    return _gradients(layer), layer.router.bias.bias.numpy().copy()


def test_two_processes_take_the_step_of_one_with_their_balance_and_their_bias():
    expected, bias = _sum_step(_balanced("biased group limit"), _tokens())
    for found, moved in both(_averaged_step):
        _same(found, expected)
        torch.testing.assert_close(torch.as_tensor(moved), torch.as_tensor(bias))
    assert not (torch.as_tensor(bias) == make("biased group limit").router.bias.bias).all()


def _idle_steps(rank):
    torch.manual_seed(0)
    model = DistributedDataParallel(make("modules").train())
    gradients = []
    for n in (1, 0, 3):  # one token has three of eight experts; the second process has none in the middle
        model.zero_grad()
        (2 * model(_mine(rank)[: n if rank else 1]).square().sum()).backward()
        gradients.append(_gradients(model.module))
    return gradients


def test_modules_that_are_idle_on_one_process_do_not_stop_the_others():
    first, second = both(_idle_steps)
    for n, one, other in zip((1, 0, 3), first, second, strict=True):
        layer = make("modules").train()
        x = torch.cat([_mine(0)[:1], _mine(1)[:n]])
        layer(x).square().sum().backward()
        _same(one, _gradients(layer))
        _same(other, _gradients(layer))


def _group_update(rank):
    groups = [torch.distributed.new_group([process]) for process in range(2)]
    ends = []
    for group in (groups[rank], None):
        layer = make("biased group limit").train()
        layer(_mine(rank))
        nn.update_biases(layer, group)
        ends.append(layer.router.bias.bias.numpy().copy())
    return ends


def test_loads_are_summed_over_the_group_that_is_given():
    results = both(_group_update)
    for rank, (alone, together) in enumerate(results):
        for x, found in ((_mine(rank), alone), (_tokens(), together)):
            layer = make("biased group limit").train()
            layer(x)
            nn.update_biases(layer)
            torch.testing.assert_close(torch.as_tensor(found), layer.router.bias.bias)
    assert (results[0][0] != results[1][0]).any()
    assert (results[0][1] == results[1][1]).all()


PARALLEL = [
    *("top-3 after", "dense", "mlp", "modules", "clamped swiglu", "null experts", "shared", "expert choice"),
    "input weighted",
]


def _parallel_step(rank, name, first):
    layer = nn.parallelize(make(name).train())
    assert getattr(layer.experts, "inner", layer.experts).local.n_experts == M // 2
    model = DistributedDataParallel(layer)
    x = _mine(rank, first).requires_grad_()
    y = model(x)
    (2 * y.square().sum()).backward()
    return y.detach().numpy(), x.grad.numpy() / 2, _gradients(layer)


def _all_parallel_steps(rank):
    return [_parallel_step(rank, name, first) for name in PARALLEL for first in (FIRST, TOKENS)]


def _one_process(name, first):
    """All tokens in one process; where experts choose, those of each process by themselves."""
    layer, x = make(name).train(), _tokens().requires_grad_()
    halves = [x[:first], x[first:]] if name == "expert choice" else [x]
    y = torch.cat([layer(half) for half in halves])
    y.square().sum().backward()
    return y.detach(), x.grad, _gradients(layer)


def _part_of(key, value, rank):
    """The gradient of a parameter of all experts as process ``rank`` has it, with its name there."""
    own = slice(rank * M // 2, (rank + 1) * M // 2)
    if key.startswith("experts.members."):
        _, _, m, rest = key.split(".", 3)
        return (
            (f"experts.local.members.{int(m) - own.start}.{rest}", value) if own.start <= int(m) < own.stop else None
        )
    if not key.startswith("experts."):
        return key, value
    owner, _, name = key.rpartition(".")
    return f"{owner}.local.{name}", value[own]


def test_experts_on_two_processes_equal_all_on_one_forward_and_backward():
    """With five and three tokens, and with eight and none."""
    results = both(_all_parallel_steps)
    cases = [(name, first) for name in PARALLEL for first in (FIRST, TOKENS)]
    for case, (name, first) in enumerate(cases):
        y, dx, gradients = _one_process(name, first)
        for rank, mine in ((0, slice(0, first)), (1, slice(first, TOKENS))):
            found_y, found_dx, found = results[rank][case]
            torch.testing.assert_close(torch.as_tensor(found_y), y[mine])
            torch.testing.assert_close(torch.as_tensor(found_dx), dx[mine])
            parts = [_part_of(key, value, rank) for key, value in gradients.items()]
            _same(found, dict(part for part in parts if part))


def test_one_process_alone_can_have_all_experts_in_parallel():
    for name in PARALLEL:
        layer, x = make(name), _tokens()
        expected = layer(x)
        torch.testing.assert_close(nn.parallelize(layer)(x), expected)
    with pytest.raises(ValueError, match="model must not be parallel already"):
        nn.parallelize(layer)


def test_every_kind_of_experts_is_among_those_in_parallel():
    kinds = {type(make(name).experts) for name in LAYERS if name != "cartesian"}
    assert kinds == {type(make(name).experts) for name in PARALLEL}
