"""A small character-level language model: one attention block and one mixture block."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

from examples.neural.variants import active_parameters, build, Variant
from gatewise import nn

D, HEADS, CONTEXT, ACTIVE, BATCH = 48, 4, 48, 96, 16


@dataclass(frozen=True)
class Corpus:
    """The text as numbers: its characters, the first nine tenths to train on, the rest to test on."""

    characters: str
    train: torch.Tensor
    test: torch.Tensor


def corpus() -> Corpus:
    """The text that comes with the example."""
    text = Path(__file__).with_name("text.txt").read_text()
    characters = "".join(sorted(set(text)))
    codes = torch.tensor([characters.index(c) for c in text])
    cut = int(0.9 * len(codes))
    return Corpus(characters, codes[:cut], codes[cut:])


class LanguageModel(torch.nn.Module):
    """Embedding, attention and mixture, each around a residual connection, and scores of the next character."""

    def __init__(self, variant: Variant, n_characters: int) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(n_characters, D)
        self.place = torch.nn.Parameter(0.1 * torch.randn(CONTEXT, D))
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(D) for _ in range(3))
        self.mix, self.out = torch.nn.Linear(D, 3 * D), torch.nn.Linear(D, D)
        self.layer = build(
            variant, D, ACTIVE, lambda m, width: nn.SwiGLUExperts(m, D, width), lambda width: nn.SwiGLU(D, width)
        )
        self.head = torch.nn.Linear(D, n_characters)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Codes (B, L) -> scores of the next character (B, L, n_characters)."""
        x = self.embedding(codes) + self.place[: codes.shape[1]]
        x = x + self._attend(self.norms[0](x))
        x = x + self.layer(self.norms[1](x))
        scores: torch.Tensor = self.head(self.norms[2](x))
        return scores

    def _attend(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.mix(x).view(*x.shape[:2], 3, HEADS, D // HEADS).permute(2, 0, 3, 1, 4)  # (3, B, H, L, D / H)
        mixed = scaled_dot_product_attention(*parts, is_causal=True)
        attended: torch.Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return attended


@dataclass
class Run:
    """One training: its figures, and the share of each expert among each character's tokens, by step."""

    figures: dict[str, Any]
    maps: dict[int, np.ndarray] = field(default_factory=dict)


def train(variant: Variant, seed: int, steps: int, snapshots: tuple[int, ...] = ()) -> Run:
    """Train on random pieces of the text; report bits per character on its last tenth."""
    data = corpus()
    torch.manual_seed(seed)
    model = LanguageModel(variant, len(data.characters))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    run = Run({"variant": variant.name, "seed": seed})
    for step in range(steps + 1):
        if step in snapshots:
            run.maps[step] = character_map(model, data)
        if step == steps:
            break
        starts = torch.randint(0, len(data.train) - CONTEXT, (BATCH,))
        pieces = data.train[starts[:, None] + torch.arange(CONTEXT + 1)]
        optimizer.zero_grad()
        loss = cross_entropy(model(pieces[:, :-1]).flatten(0, 1), pieces[:, 1:].flatten())
        (loss + nn.auxiliary_loss(model)).backward()
        optimizer.step()
        schedule.step()
    run.figures |= {
        "bits_per_character": _bits(model, data.test),
        "bits_per_character_train": _bits(model, data.train),
        "active_parameters": active_parameters(model.layer, variant),
        "parameters": sum(p.numel() for p in model.layer.parameters()),
    }
    return run


@torch.no_grad()
def _bits(model: LanguageModel, codes: torch.Tensor) -> float:
    """Mean bits per character over pieces of the context's length."""
    n = (len(codes) - 1) // CONTEXT
    inputs = codes[: n * CONTEXT].view(n, CONTEXT)
    targets = codes[1 : n * CONTEXT + 1].view(n, CONTEXT)
    loss = cross_entropy(model.eval()(inputs).flatten(0, 1), targets.flatten())
    model.train()
    return float(loss / np.log(2.0))


@torch.no_grad()
def character_map(model: LanguageModel, data: Corpus) -> np.ndarray:
    """The share of each expert in the weights of each character's tokens in the training text, (characters, M)."""
    n = len(data.train) // CONTEXT
    codes = data.train[: n * CONTEXT].view(n, CONTEXT)
    with nn.record(model.layer) as recording:
        model.eval()(codes)
    model.train()
    table = np.zeros((len(data.characters), recording.n_experts))
    np.add.at(table, codes.flatten().numpy(), recording.shares)
    seen = table.sum(axis=1, keepdims=True)
    shares: np.ndarray = np.divide(table, seen, out=np.zeros_like(table), where=seen > 0)
    return shares
