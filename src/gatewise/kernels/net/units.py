"""What the drivers ask of a set of candidates, whatever its kind.

Candidates come in units of up to MEMBERS members, each at most a TILE. A driver makes a work space once, then for
each unit prepares it, asks where its members lie, and takes their residuals a few observations at a time. A new kind
of candidates adds one entry to KINDS.
"""

from typing import Any, TypeAlias

from numba.extending import overload

from gatewise.arrays import Floats
from gatewise.kernels.net.explicit import (
    explicit_locate,
    explicit_prepare,
    explicit_residuals,
    explicit_work,
    ExplicitTables,
)
from gatewise.kernels.net.product_units import (
    product_locate,
    product_prepare,
    product_residuals,
    product_work,
    ProductTables,
)

Tables: TypeAlias = ProductTables | ExplicitTables

KINDS: dict[type, tuple[Any, Any, Any, Any]] = {
    ProductTables: (product_work, product_locate, product_prepare, product_residuals),
    ExplicitTables: (explicit_work, explicit_locate, explicit_prepare, explicit_residuals),
}


def make_work(tables: Tables) -> Any:
    """Room for one unit."""
    return KINDS[type(tables)][0](tables)


def locate(tables: Tables, unit: int, member: int) -> tuple[int, int]:
    """First candidate and number of candidates of a member of a unit."""
    place: tuple[int, int] = KINDS[type(tables)][1](tables, unit, member)
    return place


def prepare(tables: Tables, work: Any, unit: int) -> int:
    """Bring a unit into the work space; the number of its members."""
    n_members: int = KINDS[type(tables)][2](tables, work, unit)
    return n_members


def residuals(tables: Tables, work: Any, member: int, start: int, stop: int, out: Floats) -> None:
    """Residuals of a member of the prepared unit at observations start to stop, at most SPAN; out (SPAN, TILE)."""
    KINDS[type(tables)][3](tables, work, member, start, stop, out)


# In compiled code the type of the tables decides; the bodies name the arguments because the compiler matches them.
@overload(make_work, strict=False)
def _make_work(tables: Any) -> Any:
    chosen = KINDS[tables.instance_class][0]

    def call(tables: Any) -> Any:
        return chosen(tables)

    return call


@overload(locate, strict=False)
def _locate(tables: Any, unit: Any, member: Any) -> Any:  # noqa: ARG001
    chosen = KINDS[tables.instance_class][1]

    def call(tables: Any, unit: Any, member: Any) -> Any:
        return chosen(tables, unit, member)

    return call


@overload(prepare, strict=False)
def _prepare(tables: Any, work: Any, unit: Any) -> Any:  # noqa: ARG001
    chosen = KINDS[tables.instance_class][2]

    def call(tables: Any, work: Any, unit: Any) -> Any:
        return chosen(tables, work, unit)

    return call


@overload(residuals, strict=False)
def _residuals(tables: Any, work: Any, member: Any, start: Any, stop: Any, out: Any) -> Any:  # noqa: ARG001
    chosen = KINDS[tables.instance_class][3]

    def call(tables: Any, work: Any, member: Any, start: Any, stop: Any, out: Any) -> Any:
        return chosen(tables, work, member, start, stop, out)

    return call
