"""Every numbered claim of the paper as a check of the package's own functions that can fail."""

from gatewise.paper.verify import (
    check_aggregation,
    check_approximation,
    check_classes,
    check_entropy,
    check_geometry,
    check_kernels,
    check_oracle,
    check_projection,
    check_routing,
    check_selection,
    check_shared,
    check_soft_regions,
)
from gatewise.paper.verify.check import Check, CheckOutcome, run_check, run_checks, VerifyRow

# In the order of the paper. A new check needs a line in its file, and one in tools/broken.py that makes it fail.
CHECKS: tuple[Check, ...] = (
    *check_approximation.CHECKS,
    *check_entropy.CHECKS,
    *check_aggregation.CHECKS,
    *check_classes.CHECKS,
    *check_oracle.CHECKS,
    *check_projection.CHECKS,
    *check_routing.CHECKS,
    *check_geometry.CHECKS,
    *check_kernels.CHECKS,
    *check_selection.CHECKS,
    *check_soft_regions.CHECKS,
    *check_shared.CHECKS,
)


def select_checks(only: str | None) -> tuple[Check, ...]:
    """The checks whose label contains ``only``; all of them without it.

    >>> [check.label for check in select_checks("pro:continuity")]
    ['pro:continuity']
    """
    chosen = tuple(check for check in CHECKS if only is None or only in check.label)
    if not chosen:
        labels = ", ".join(sorted({check.label for check in CHECKS}))
        raise ValueError(f"only must be part of a label, not {only!r}; the labels are: {labels}")
    return chosen


__all__ = ["CHECKS", "Check", "CheckOutcome", "VerifyRow", "run_check", "run_checks", "select_checks"]
