"""What a net is: S parameters of one shape, handed out block by block."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from math import log10

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gatewise.arrays import as_count, BLOCK_NUMBERS, Floats

MAX_SIZE = 10**10  # a day of work for one core; beyond it a net cannot be enumerated


class Net(ABC):
    """A finite set of S parameters theta^(1), ..., theta^(S), each of shape ``theta_shape``."""

    theta_shape: tuple[int, int]

    @property
    @abstractmethod
    def size(self) -> int:
        """S, the number of candidates."""

    @abstractmethod
    def theta(self, indices: ArrayLike) -> Floats:
        """The candidates with these numbers from 0 to S-1, (..., *theta_shape)."""

    def allowed(self) -> NDArray[np.bool_] | None:
        """Which candidates count, (S,); None when all do."""
        return None

    def __len__(self) -> int:
        return self.size

    def blocks(self, block_size: int | None = None) -> Iterator[Floats]:
        """All candidates in order, as arrays (b, *theta_shape) with b at most block_size."""
        if block_size is None:
            block_size = max(1, BLOCK_NUMBERS // (self.theta_shape[0] * self.theta_shape[1]))
        block_size = as_count(block_size, "block_size")
        for start in range(0, self.size, block_size):
            yield self.theta(np.arange(start, min(start + block_size, self.size)))

    def _check_indices(self, indices: ArrayLike) -> NDArray[np.intp]:
        numbers = np.asarray(indices)
        if numbers.dtype.kind not in "iu":
            raise ValueError(f"indices must be whole numbers, not of type {numbers.dtype}")
        if numbers.size and (numbers.min() < 0 or numbers.max() >= self.size):
            raise IndexError(f"indices must be from 0 to {self.size - 1}, the net's size being {self.size}")
        return numbers.astype(np.intp)


def check_size(size: int, remedy: str) -> int:
    """size, or an error that states it when a net of that size cannot be enumerated."""
    if size > MAX_SIZE:
        exact = f"{size:,}" if size < 10**15 else f"about 1e{log10(size):.0f}"
        raise ValueError(
            f"the net would have S = {exact} candidates, and at most {MAX_SIZE:,} can be enumerated; {remedy}"
        )
    return size
