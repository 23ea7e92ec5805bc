"""The list fitted on one set of rows, as groups of members."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from gatewise.arrays import Floats
from gatewise.losses import Loss, ResidualLoss
from gatewise.router.candidates import Candidate, Family
from gatewise.router.members import CommonFit, FittedMembers, ListRows, PlainMembers, SoftmaxMembers
from gatewise.router.tree_members import SharedLearners, TreeGates


@dataclass(frozen=True, eq=False)
class FittedList:
    """All candidates fitted on one set of rows.

    Candidate s predicts sum_m g_sm(x) f_m(x) + h_s(x), with weights on the simplex and a shared part. The candidates
    are those of the ``groups``, one after the other.
    """

    candidates: tuple[Candidate, ...]
    common: CommonFit
    groups: tuple[FittedMembers, ...]

    @classmethod
    def fit(
        cls, candidates: tuple[Candidate, ...], rows: ListRows, loss: Loss, sample_weight: Floats, seed: int
    ) -> Self:
        """Fit all candidates to the rows of positive sample weight; candidates of one family stand together."""
        common, loss = CommonFit.fit(rows.F, loss, sample_weight)
        groups: list[FittedMembers] = []
        for family, members in by_family(candidates).items():
            task = members, common, rows, loss, sample_weight
            if family == "plain":
                groups.append(PlainMembers.fit(*task))
            elif family == "tree":
                groups.append(TreeGates.fit(*task, seed))
            elif family == "shared":
                assert isinstance(loss, ResidualLoss)  # other losses have no shared parts in their lists
                groups.append(SharedLearners.fit(members, common, rows, loss, sample_weight, seed))
            else:
                groups.append(SoftmaxMembers.fit(*task))
        return cls(candidates, common, tuple(groups))

    @property
    def stack(self) -> Floats:
        """The weights of the convex stack, (M,)."""
        return self.common.stack

    def mean_weights(self, shares: Floats, rows: ListRows) -> Floats:
        """The gate sum_s share_s g_s at n rows, (n, M), without an array of all gates."""
        total = np.zeros((len(rows), len(self.stack)))
        for group, part in self._with_parts(shares):
            group.add_weights(part, rows, total)
        return total

    def shared_parts(self, shares: Floats, rows: ListRows) -> dict[str, Floats]:
        """What is added to the mixture by these shares, by the name of the part, (n,) each."""
        total: dict[str, Floats] = {}
        for group, part in self._with_parts(shares):
            for name, values in group.shared_parts(part, rows).items():
                total[name] = total[name] + values if name in total else values
        return total

    def forecasts(self, rows: ListRows) -> Floats:
        """The prediction of every candidate, (n, S)."""
        return np.concatenate([group.forecasts(rows) for group in self.groups], axis=1)

    def _with_parts(self, shares: Floats) -> list[tuple[FittedMembers, Floats]]:
        """The groups that have a share, each with the shares of its candidates."""
        sizes = np.cumsum([len(group.candidates) for group in self.groups])[:-1]
        parts = np.split(shares, sizes)
        return [(group, part) for group, part in zip(self.groups, parts, strict=True) if part.any()]


def by_family(candidates: Sequence[Candidate]) -> dict[Family, tuple[Candidate, ...]]:
    """The candidates of every family, in their order."""
    families: dict[Family, list[Candidate]] = {}
    for c in candidates:
        families.setdefault("softmax" if c.family == "top-k" else c.family, []).append(c)
    return {family: tuple(members) for family, members in families.items()}
