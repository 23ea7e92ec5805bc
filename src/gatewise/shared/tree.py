"""Trees of regions: nested tuples with the regions as leaves, as ((0, 1), (2, 3))."""

from collections.abc import Iterable, Iterator
from typing import Any

Tree = Any  # a whole number, or a tuple of trees


def leaves(tree: Tree) -> tuple[int, ...]:
    """The regions below a node, in order.

    >>> leaves(((0, 1), 2))
    (0, 1, 2)
    """
    if isinstance(tree, tuple | list):
        return tuple(leaf for child in tree for leaf in leaves(child))
    return (int(tree),)


def branchings(tree: Tree) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Every inner node as the leaves of its children, from the root down.

    >>> list(branchings(((0, 1), 2)))
    [((0, 1), (2,)), ((0,), (1,))]
    """
    if isinstance(tree, tuple | list):
        yield tuple(leaves(child) for child in tree)
        for child in tree:
            yield from branchings(child)


def check_tree(tree: Tree) -> int:
    """The number of regions; an error unless every region 0..J-1 is a leaf once and every inner node branches."""
    found = leaves(tree)
    if sorted(found) != list(range(len(found))) or len(found) < 2:
        raise ValueError(f"tree must hold every region 0, 1, ... once, at least two of them, not {found}")
    if any(len(children) < 2 for children in branchings(tree)):
        raise ValueError(f"tree must have at least two branches at every inner node, not {tree}")
    return len(found)


def sharing_sets(tree: Tree, active: Iterable[tuple[tuple[int, ...], ...]]) -> tuple[tuple[int, ...], ...]:
    """The sets of regions that share a component whose branches differ at the ``active`` nodes only.

    Two regions share it unless an active node puts them in different branches, or holds just one of them.

    >>> sharing_sets(((0, 1), (2, 3)), [((0, 1), (2, 3))])
    ((0, 1), (2, 3))
    >>> sharing_sets(((0, 1), (2, 3)), [((0,), (1,))])
    ((0,), (1,), (2, 3))
    """
    nodes = list(active)
    sets: dict[tuple[int, ...], list[int]] = {}
    for leaf in leaves(tree):
        branch = tuple(next((i for i, child in enumerate(node) if leaf in child), -1) for node in nodes)
        sets.setdefault(branch, []).append(leaf)
    return tuple(tuple(regions) for regions in sets.values())


def scale_name(sets: tuple[tuple[int, ...], ...]) -> str:
    """The scale of sharing of a component: "all" regions share it, a "group" does, "local", or "absent" (no sets)."""
    if not sets:
        return "absent"
    if len(sets) == 1:
        return "all"
    return "local" if all(len(regions) == 1 for regions in sets) else "group"
