"""A choice among candidates averaged over several random orders of the rows: steps (b) to (d) of `alg:selection`."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gatewise.aggregation.blocks import BlockCounts, Blocks
from gatewise.aggregation.selection import nearest, scales, weigh, Weighing
from gatewise.arrays import Floats, Indices
from gatewise.noise import Noise


class Selection(NamedTuple):
    """The result of the aggregation of L candidates over several random orders of the rows.

    ``candidate`` is the number of the one nearest to the aggregate, ``squared_distances`` (L,) the mean squared
    distance of each to it, ``weights`` (L,) the weights averaged over time and orders. For every order there is one
    of ``sigmas`` (L,), the noise scales, and one of ``weighings``, the weights over time.
    """

    candidate: int
    squared_distances: Floats
    weights: Floats
    sigmas: list[Floats]
    weighings: list[Weighing]

    def spread_out(self, among: Indices, L: int) -> "Selection":
        """The same among L candidates, where these have the numbers ``among``; the others have weight 0."""

        def spread(values: Floats, rest: float) -> Floats:
            out = np.full((*values.shape[:-1], L), rest)
            out[..., among] = values
            return out

        return Selection(
            int(among[self.candidate]),
            spread(self.squared_distances, np.inf),
            spread(self.weights, 0.0),
            [spread(sigma, np.inf) for sigma in self.sigmas],
            [Weighing(spread(path, 0.0), spread(mean, 0.0), online) for path, mean, online in self.weighings],
        )


def orders_with_one_first_block(
    n: int, n_first: int, n_orders: int, rng: np.random.Generator, labels: NDArray[Any] | None = None
) -> list[Indices]:
    """Random orders of n rows that all begin with the same ``n_first`` rows: the candidates are fitted there once.

    Where these rows are all of one class by their labels (n,), the last of them changes places with the next row of
    another class: most classifiers cannot be fitted to one class.

    >>> orders = orders_with_one_first_block(6, 2, 3, np.random.default_rng(0))
    >>> len({tuple(order[:2]) for order in orders}), len({tuple(order) for order in orders})
    (1, 3)
    """
    first = rng.permutation(n)
    if labels is not None and n_first and (labels[first[:n_first]] == labels[first[0]]).all():
        other = int(np.argmax(labels[first] != labels[first[0]]))  # 0 where there is one class in all
        first[[n_first - 1, other]] = first[[other, n_first - 1]]
    others = [np.concatenate([first[:n_first], rng.permutation(first[n_first:])]) for _ in range(n_orders - 1)]
    return [first, *others]


def block_orders(
    blocks: Blocks, n: int, n_first: int, rng: np.random.Generator, labels: NDArray[Any] | None = None
) -> list[Indices]:
    """The orders of n rows that ``blocks`` asks for, all with the same ``n_first`` rows at the beginning."""
    if blocks.order == "given":
        return blocks.orders(n, rng)
    return orders_with_one_first_block(n, n_first, blocks.n_orders, rng, labels)


def select(
    F: Floats,
    y: Floats,
    orders: Sequence[Indices],
    counts: BlockCounts,
    blocks: Blocks,
    noise: Noise,
    compared: Floats | None = None,
    copies: Floats | None = None,
    weight: Floats | None = None,
) -> Selection:
    """Weigh the candidates along every order, average the weights, and take the candidate nearest to the aggregate.

    F (n, L) are the predictions of the candidates and y (n,) the responses. The first ``counts.burn_in`` rows of an
    order, on which the candidates were fitted, are not used; the next ``counts.calibration`` give the noise scales,
    unless ``blocks.sigma`` is given, and the rest the weights. Distances to the aggregate are means over the rows of
    ``compared`` (Q, L), which are the predictions outside of the first block unless given. A row of weight w (n,) has
    the noise scale sigma / sqrt(w). copies (n,) says how many copies of it a row counts as; then ``compared`` has as
    many rows, one after the other, for each row outside of the first block.
    """
    sigmas, weighings, root = [], [], np.ones(len(y)) if weight is None else np.sqrt(weight)
    for order in orders:
        second, third = np.split(order[counts.burn_in :], [counts.calibration])
        if blocks.sigma is not None:
            sigma = np.full(F.shape[1], float(blocks.sigma))
        else:
            response = root[second] * y[second]
            sigma = scales(root[second, None] * F[second], response, blocks.scale_bounds(response))
        sigmas.append(sigma)
        often = None if copies is None else copies[third]
        weighings.append(weigh(F[third], y[third], sigma / root[third, None], noise, often))
    weights = np.mean([weighing.weights for weighing in weighings], axis=0)
    rest = orders[0][counts.burn_in :]
    compared = F[rest] if compared is None else compared
    area = None if copies is None else np.repeat(copies[rest], len(compared) // len(rest))
    candidate, distances = nearest(compared, weights, area)
    return Selection(candidate, distances, weights, sigmas, weighings)


def one_or_stacked(arrays: Sequence[NDArray[np.generic]]) -> NDArray[np.generic]:
    """The array itself if there is one, else all of them along a new first axis."""
    return arrays[0] if len(arrays) == 1 else np.stack(arrays)
