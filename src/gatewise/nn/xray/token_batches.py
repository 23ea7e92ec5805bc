"""Batches of token sequences, with the document of every token: what a model is run on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gatewise.arrays import Floats, Indices


@dataclass(frozen=True, eq=False)
class TokenBatch:
    """Token ids (B, T), which of them are no padding (B, T), and the document of each (B, T); all on the CPU."""

    ids: Tensor
    mask: Tensor
    documents: Tensor

    @property
    def scored(self) -> Tensor:
        """The tokens whose next token is there and of the same document, (B, T): those that have a loss."""
        both = self.mask[:, :-1] & self.mask[:, 1:] & (self.documents[:, :-1] == self.documents[:, 1:])
        return torch.cat([both, torch.zeros_like(self.mask[:, :1])], dim=1)


@dataclass(frozen=True, eq=False)
class Tokens:
    """All tokens that are no padding, in the order of the batches, and the names of the documents, (G,)."""

    batches: tuple[TokenBatch, ...]
    names: tuple[Any, ...]

    @property
    def ids(self) -> Indices:
        """The token ids, (n,)."""
        return np.concatenate([batch.ids[batch.mask].numpy() for batch in self.batches]).astype(np.intp)

    @property
    def documents(self) -> Indices:
        """The number of the document of every token, (n,)."""
        return np.concatenate([batch.documents[batch.mask].numpy() for batch in self.batches]).astype(np.intp)

    @property
    def sequences(self) -> Indices:
        """The number of the sequence of every token, (n,)."""
        counts = np.concatenate([batch.mask.sum(1).numpy() for batch in self.batches])
        return np.repeat(np.arange(len(counts)), counts)

    def joined(self, parts: Sequence[Tensor]) -> Floats:
        """One array over all tokens, (n, ...), from one tensor (B, T, ...) a batch."""
        kept = [part[batch.mask] for part, batch in zip(parts, self.batches, strict=True)]
        return torch.cat(kept).double().numpy()


def as_tokens(batches: Any, documents: Any = None, mask: Any = None, batch_size: int = 16) -> Tokens:
    """Token ids (N, T), cut into batches, or a list of such batches, as `Tokens`.

    ``documents`` are labels of the sequences (N,) or of the tokens (N, T), and ``mask`` (N, T) is zero at padding;
    each is a list where ``batches`` is one. Without ``documents`` every sequence is a document.

    >>> as_tokens([[5, 6, 7], [8, 9, 0]], mask=[[1, 1, 1], [1, 1, 0]]).ids
    array([5, 6, 7, 8, 9])
    """
    if not isinstance(batches, Tensor | np.ndarray) and len(batches) and np.ndim(batches[0]) == 2:
        parts = [_rows(batch, f"batches[{place}]") for place, batch in enumerate(batches)]
        labels = _matching(documents, "documents", len(parts))
        masks = _matching(mask, "mask", len(parts))
    else:
        whole = _rows(batches, "batches")
        cuts = range(0, len(whole), batch_size)
        parts = [whole[start : start + batch_size] for start in cuts]
        labels = _cut(documents, "documents", len(whole), cuts, batch_size)
        masks = _cut(mask, "mask", len(whole), cuts, batch_size)
    padding = [_mask(one, part) for one, part in zip(masks, parts, strict=True)]
    tables = _labels(labels, parts)
    used = np.concatenate([table[kept.numpy()] for table, kept in zip(tables, padding, strict=True)])
    names = np.unique(used)
    codes = [torch.from_numpy(np.searchsorted(names, table).clip(max=len(names) - 1)) for table in tables]
    made = (TokenBatch(part, kept, code) for part, kept, code in zip(parts, padding, codes, strict=True))
    return Tokens(tuple(made), tuple(names.tolist()))


def _rows(batch: Any, name: str) -> Tensor:
    ids = torch.as_tensor(batch).cpu()
    if ids.ndim != 2 or ids.is_floating_point() or ids.shape[1] < 2 or not len(ids):
        raise ValueError(
            f"{name} must hold token ids of shape (N, T), whole numbers, T >= 2, not {ids.dtype} of shape "
            f"{tuple(ids.shape)}"
        )
    return ids.long()


def _matching(given: Any, name: str, count: int) -> list[Any]:
    if given is None:
        return [None] * count
    if len(given) != count:
        raise ValueError(f"{name} must hold one entry for each of the {count} batches, not {len(given)}")
    return list(given)


def _cut(given: Any, name: str, n: int, cuts: range, size: int) -> list[Any]:
    if given is None:
        return [None] * len(cuts)
    if len(given) != n:
        raise ValueError(f"{name} must have one row for each of the {n} sequences, not {len(given)}")
    return [given[start : start + size] for start in cuts]


def _mask(given: Any, ids: Tensor) -> Tensor:
    if given is None:
        return torch.ones_like(ids, dtype=torch.bool)
    mask = torch.as_tensor(given).cpu() != 0
    if mask.shape != ids.shape:
        raise ValueError(f"mask must have the shape of its batch, {tuple(ids.shape)}, not {tuple(mask.shape)}")
    return mask


def _labels(given: list[Any], parts: list[Tensor]) -> list[Any]:
    """The label of every token, (B, T) a batch."""
    tables, start = [], 0
    for labels, ids in zip(given, parts, strict=True):
        array = np.arange(start, start + len(ids)) if labels is None else np.asarray(labels)
        start += len(ids)
        if array.shape not in ((len(ids),), tuple(ids.shape)):
            raise ValueError(
                f"documents must label the {len(ids)} sequences of a batch or all of its tokens, {tuple(ids.shape)}, "
                f"not {array.shape}"
            )
        tables.append(array if array.ndim == 2 else np.repeat(array[:, None], ids.shape[1], axis=1))
    return tables
