"""How many rows the members of a learned list were fitted to, where these are fewer than the list learned from."""

from collections.abc import Mapping
from math import isqrt

from gatewise.gates.feature_maps import FixedFeatures, GateFeatures
from gatewise.kernels.trees import MOST_FOREST_ROWS, MOST_GROWING
from gatewise.router.members import FittedList, MOST_GATE_ROWS, ROWS_PER_COEFFICIENT, SoftmaxMembers
from gatewise.router.training import MOST_TRIED
from gatewise.router.tree_members import MOST_PRODUCT_ROWS


def rows_of_members(fitted: FittedList, n: int) -> dict[str, int]:
    """The rows that members of a list over n rows were fitted to, by what they are, as far as these are fewer.

    Softmax gates take sqrt(n most) of more than ``most`` rows, which grow with their coefficients, in whole blocks,
    so that their number is about right. Trees of boosting are grown on other rows in every round.
    """
    families = {c.family for c in fitted.candidates}
    found: dict[str, int] = {}
    for group in fitted.groups:
        if isinstance(group, SoftmaxMembers):
            found |= _rows_of_gates(group.maps, len(fitted.stack), n)
    if "forest" in families:
        found["forest"] = min(n, MOST_FOREST_ROWS)
    if families & {"tree", "boosted"}:
        found["each tree of boosting"] = min(n, isqrt(MOST_GROWING * n))
    if "products" in families:
        found["products"] = -(-n // max(1, -(-n // MOST_PRODUCT_ROWS)))
    return {name: rows for name, rows in found.items() if rows < n}


def _rows_of_gates(maps: Mapping[str, GateFeatures], n_experts: int, n: int) -> dict[str, int]:
    """The rows of softmax gates with these features: those whose features are fixed are fitted together."""
    found = {}
    for name, own in maps.items():
        kin = [
            one.n_features
            for one in maps.values()
            if isinstance(one, FixedFeatures) == isinstance(own, FixedFeatures)
        ]
        most = max(MOST_GATE_ROWS, ROWS_PER_COEFFICIENT * n_experts * max(kin))
        found[f"{name} gate"] = min(n, isqrt(n * most))
    return found


def rows_of_trial(n_experts: int, n: int) -> int | None:
    """The rows that the list was tried on, to leave members out that are far behind; None where there was no trial.

    >>> rows_of_trial(4, 100_000), rows_of_trial(4, 10_000)
    (6000, None)
    """
    most = isqrt(MOST_TRIED**2 // n_experts)
    return most if n > 2 * most else None
