"""What the drivers ask of a set of candidates, whatever its kind.

Candidates come in units of at most TILE. A driver makes a work space once, then for each unit asks where it lies,
prepares it, and takes its residuals a few observations at a time. A new kind of candidates adds one entry to KINDS.
"""

from typing import Any, TypeAlias

from numba.extending import overload

from gatewise.kernels.explicit import (
    explicit_locate,
    explicit_prepare,
    explicit_residuals,
    explicit_work,
    ExplicitTables,
)
from gatewise.kernels.product import (
    product_locate,
    product_prepare,
    product_residuals,
    product_work,
    ProductTables,
)
from gatewise.kernels.tile import Floats

Tables: TypeAlias = ProductTables | ExplicitTables

KINDS: dict[type, tuple[Any, Any, Any, Any]] = {
    ProductTables: (product_work, product_locate, product_prepare, product_residuals),
    ExplicitTables: (explicit_work, explicit_locate, explicit_prepare, explicit_residuals),
}


def make_work(tables: Tables) -> Any:
    """Room for one unit."""
    return KINDS[type(tables)][0](tables)


def locate(tables: Tables, unit: int) -> tuple[int, int]:
    """First candidate and number of candidates of a unit."""
    place: tuple[int, int] = KINDS[type(tables)][1](tables, unit)
    return place


def prepare(tables: Tables, work: Any, unit: int) -> None:
    """Bring a unit into the work space."""
    KINDS[type(tables)][2](tables, work, unit)


def residuals(tables: Tables, work: Any, start: int, stop: int, out: Floats) -> None:
    """Residuals of the prepared unit at observations start to stop, at most SPAN; out (SPAN, TILE)."""
    KINDS[type(tables)][3](tables, work, start, stop, out)


# In compiled code the type of the tables decides; the bodies name the arguments because the compiler matches them.
@overload(make_work, strict=False)
def _make_work(tables: Any) -> Any:
    chosen = KINDS[tables.instance_class][0]

    def call(tables: Any) -> Any:
        return chosen(tables)

    return call


@overload(locate, strict=False)
def _locate(tables: Any, unit: Any) -> Any:  # noqa: ARG001
    chosen = KINDS[tables.instance_class][1]

    def call(tables: Any, unit: Any) -> Any:
        return chosen(tables, unit)

    return call


@overload(prepare, strict=False)
def _prepare(tables: Any, work: Any, unit: Any) -> Any:  # noqa: ARG001
    chosen = KINDS[tables.instance_class][2]

    def call(tables: Any, work: Any, unit: Any) -> Any:
        return chosen(tables, work, unit)

    return call


@overload(residuals, strict=False)
def _residuals(tables: Any, work: Any, start: Any, stop: Any, out: Any) -> Any:  # noqa: ARG001
    chosen = KINDS[tables.instance_class][3]

    def call(tables: Any, work: Any, start: Any, stop: Any, out: Any) -> Any:
        return chosen(tables, work, start, stop, out)

    return call
