"""Train one small model for a given time: next tokens, AdamW, bfloat16 products."""

import math
import time

import numpy as np
import torch
from torch import nn, Tensor

from benchmarks.xray_study.corpus import LENGTH
from benchmarks.xray_study.small_models import biases
from gatewise.arrays import Indices

BATCH, RATE, BIAS_STEP = 64, 3e-3, 1e-3


def trained(model: nn.Module, tokens: Indices, steps: int, seed: int) -> dict[str, float]:
    """Train in place; the rate falls as a cosine over the steps. The mean of the last losses comes back."""
    device = next(model.parameters()).device
    stream = torch.from_numpy(tokens.astype(np.int64)).to(device)
    generator = torch.Generator().manual_seed(seed)
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=RATE, betas=(0.9, 0.95), weight_decay=0.05, fused=device.type == "cuda")
    moves = _bias_moves(model)
    losses, start = [], time.monotonic()
    model.train()
    for step in range(steps):
        rise, fall = min(1.0, (step + 1) / 100), 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * step / steps))
        for group in optimizer.param_groups:
            group["lr"] = RATE * rise * fall
        starts = torch.randint(len(stream) - LENGTH, (BATCH,), generator=generator)
        ids = stream[starts[:, None].to(device) + torch.arange(LENGTH, device=device)]
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss: Tensor = model(input_ids=ids, labels=ids, use_cache=False).loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(learned, 1.0)
        optimizer.step()
        for move in moves:
            move()
        losses.append(loss.detach())
    model.eval()
    last = torch.stack(losses[-200:]).float().mean().item()
    return {"steps": len(losses), "train_loss": last, "seconds": time.monotonic() - start}


def _bias_moves(model: nn.Module) -> list:
    """For every router with a bias a function that moves it towards balance after a step."""
    moves = []
    for block, bias in biases(model):
        seen: list[Tensor] = []

        def keep(_module, args, seen=seen):
            seen[:] = [args[1]]

        def move(bias=bias, seen=seen):
            load = seen[0].flatten().bincount(minlength=len(bias)).float()
            bias += BIAS_STEP * torch.sign(load.mean() - load)

        block.experts.register_forward_pre_hook(keep)
        moves.append(move)
    return moves
