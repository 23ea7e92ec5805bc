"""What a sweep asks of a set of candidates, whether it is a product net or a list.

Candidates are divided into units, a unit has up to MEMBERS members, and a member is a tile of up to TILE neighbouring
candidates. A sweep makes a work space once. For each unit it then prepares the work space, asks which candidates its
members hold, and takes their residuals a few observations at a time. A new kind of set adds one entry to KINDS.
"""

from typing import Any, NamedTuple, TypeAlias

from numba.extending import overload

from gatewise.arrays import Floats
from gatewise.kernels.inner_code import INNER
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

ALL = -1  # in place of a member: all members of the unit


class UnitFunctions(NamedTuple):
    """The compiled functions of one kind of tables; the functions of this module say what each does."""

    make_work: Any
    locate: Any
    prepare: Any
    residuals: Any


KINDS: dict[type, UnitFunctions] = {
    ProductTables: UnitFunctions(product_work, product_locate, product_prepare, product_residuals),
    ExplicitTables: UnitFunctions(explicit_work, explicit_locate, explicit_prepare, explicit_residuals),
}


def make_work(tables: Tables) -> Any:
    """Arrays for the intermediate results of one unit; they are used again for the next unit."""
    return KINDS[type(tables)].make_work(tables)


def locate(tables: Tables, unit: int, member: int) -> tuple[int, int]:
    """(first, count): a member of a unit holds the candidates first, ..., first + count - 1."""
    place: tuple[int, int] = KINDS[type(tables)].locate(tables, unit, member)
    return place


def prepare(tables: Tables, work: Any, unit: int) -> int:
    """Compute what all members of a unit need, into the work space; returns the number of its members."""
    n_members: int = KINDS[type(tables)].prepare(tables, work, unit)
    return n_members


def residuals(tables: Tables, work: Any, member: int, start: int, stop: int, out: Floats) -> None:
    """out[t - start, i] = residual y_t - (prediction of candidate i) at observation t, for start <= t < stop.

    The candidates are those of one member (a tile of up to TILE candidates) of the unit that `prepare` brought into
    the work space. out has shape (SPAN, TILE), so stop - start is at most SPAN.
    """
    KINDS[type(tables)].residuals(tables, work, member, start, stop, out)


INLINED: Any = {**INNER, "forceinline": True}


# In compiled code the type of the tables decides when the caller is compiled. The parameters must have the same names
# as above, because numba compares them.
@overload(make_work, jit_options=INLINED, strict=False)
def _make_work(tables: Any) -> Any:
    chosen = KINDS[tables.instance_class].make_work

    def call(tables: Any) -> Any:
        return chosen(tables)

    return call


@overload(locate, jit_options=INLINED, strict=False)
def _locate(tables: Any, unit: Any, member: Any) -> Any:  # noqa: ARG001
    chosen = KINDS[tables.instance_class].locate

    def call(tables: Any, unit: Any, member: Any) -> Any:
        return chosen(tables, unit, member)

    return call


@overload(prepare, jit_options=INLINED, strict=False)
def _prepare(tables: Any, work: Any, unit: Any) -> Any:  # noqa: ARG001
    chosen = KINDS[tables.instance_class].prepare

    def call(tables: Any, work: Any, unit: Any) -> Any:
        return chosen(tables, work, unit)

    return call


@overload(residuals, jit_options=INLINED, strict=False)
def _residuals(tables: Any, work: Any, member: Any, start: Any, stop: Any, out: Any) -> Any:  # noqa: ARG001
    chosen = KINDS[tables.instance_class].residuals

    def call(tables: Any, work: Any, member: Any, start: Any, stop: Any, out: Any) -> Any:
        return chosen(tables, work, member, start, stop, out)

    return call
