"""Every numbered claim of the paper as a check that can fail."""

from gatewise.paper.verify import check_aggregation as aggregation
from gatewise.paper.verify import check_approximation as approximation
from gatewise.paper.verify import check_entropy as entropy
from gatewise.paper.verify import check_geometry as geometry
from gatewise.paper.verify import check_kernels as kernels
from gatewise.paper.verify import check_oracle as oracle
from gatewise.paper.verify import check_routing as routing
from gatewise.paper.verify import check_selection as selection
from gatewise.paper.verify import check_shared as shared
from gatewise.paper.verify.check import Check, CheckOutcome, run_check, run_checks, VerifyRow

# In the order of the paper. A new check needs a line in its file and a broken version in tests/paper/test_verify.py.
CHECKS: tuple[Check, ...] = (
    *approximation.CHECKS,
    *entropy.CHECKS,
    *aggregation.CHECKS,
    *oracle.CHECKS,
    *routing.CHECKS,
    *geometry.CHECKS,
    *kernels.CHECKS,
    *selection.CHECKS,
    *shared.CHECKS,
)


def select_checks(only: str | None) -> tuple[Check, ...]:
    """The checks whose label contains ``only``; all of them without it.

    >>> [check.label for check in select_checks("thm:top-k")]
    ['thm:top-k']
    """
    chosen = tuple(check for check in CHECKS if only is None or only in check.label)
    if not chosen:
        labels = ", ".join(sorted({check.label for check in CHECKS}))
        raise ValueError(f"only must be part of a label, not {only!r}; the labels are: {labels}")
    return chosen


__all__ = ["CHECKS", "Check", "CheckOutcome", "VerifyRow", "run_check", "run_checks", "select_checks"]
