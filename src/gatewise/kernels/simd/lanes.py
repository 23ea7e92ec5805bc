"""Eight numbers taken together: arithmetic that always becomes the processor's vector instructions.

Whether the compiler turns a plain loop into vector instructions depends on details, and a small change can lose them.
The loops that matter are therefore written with lanes: `load` reads eight neighbours of an array, + - * / and the
functions below act on all eight, and `store` writes them back. A processor with shorter vectors takes two or four
steps for each.

Lanes exist in compiled code only. The compiler may fuse a product with a sum, but it reorders nothing, so the same
numbers give the same bits.
"""

import operator
from collections.abc import Callable
from typing import Any, TypeAlias

from llvmlite import ir
from numba import types
from numba.extending import lower_builtin, models, register_model, type_callable

WIDTH = 8
ROUND = 6755399441055744.0  # 1.5 * 2^52: x + ROUND holds the integer nearest to x in its lowest bits
ROUND_BITS = 0x4338000000000000  # ROUND as an integer: adding k to it gives the bits of ROUND + k
SQRT_HALF_BITS = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
Lanes: TypeAlias = Any  # eight floats
COMPILED_ONLY = "lanes exist in compiled code only: call this from a function that numba compiles"

_DOUBLES = ir.VectorType(ir.DoubleType(), WIDTH)
_LONGS = ir.VectorType(ir.IntType(64), WIDTH)
_MASK = ir.IntType(WIDTH)


class _LanesType(types.Type):
    def __init__(self) -> None:
        super().__init__("Lanes")


@register_model(_LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _DOUBLES)  # type: ignore[no-untyped-call, unused-ignore]


_lanes = _LanesType()
_integer, _number, _array = types.int64, types.float64, types.Array


def fill(x: float) -> Lanes:
    """The same number in every lane."""
    raise NotImplementedError(COMPILED_ONLY)


def load(array: Any, at: int) -> Lanes:
    """The eight numbers from place ``at`` on of a contiguous array of any dimension; bounds are not checked."""
    raise NotImplementedError(COMPILED_ONLY)


def load_one(array: Any, at: int) -> Lanes:
    """The number at place ``at`` of such an array, in every lane; bounds are not checked.

    As fill(array[at]), but without the instructions that count a negative place from the end.
    """
    raise NotImplementedError(COMPILED_ONLY)


def store(array: Any, at: int, x: Lanes) -> None:
    """Write eight numbers to the places that `load` reads."""
    raise NotImplementedError(COMPILED_ONLY)


def larger(x: Lanes, y: Lanes) -> Lanes:
    """The larger of x and y in each lane; y where one of them is a NaN."""
    raise NotImplementedError(COMPILED_ONLY)


def smaller(x: Lanes, y: Lanes) -> Lanes:
    """The smaller of x and y in each lane; y where one of them is a NaN."""
    raise NotImplementedError(COMPILED_ONLY)


def choose(x: Lanes, bar: Lanes | float, yes: Lanes, no: Lanes | float) -> Lanes:
    """yes where x > bar, else no."""
    raise NotImplementedError(COMPILED_ONLY)


def any_above(x: Lanes, bar: float) -> bool:
    """Whether x > bar in some lane."""
    raise NotImplementedError(COMPILED_ONLY)


def times_power(x: Lanes, shifted: Lanes) -> Lanes:
    """x times 2^k, where ``shifted`` is ROUND + k."""
    raise NotImplementedError(COMPILED_ONLY)


def exponent(x: Lanes) -> Lanes:
    """k in x = 2^k m with sqrt(1/2) <= m < sqrt(2), for normal x > 0."""
    raise NotImplementedError(COMPILED_ONLY)


def mantissa(x: Lanes) -> Lanes:
    """m in x = 2^k m with sqrt(1/2) <= m < sqrt(2), for normal x > 0."""
    raise NotImplementedError(COMPILED_ONLY)


def largest(x: Lanes) -> float:
    """The largest of the eight."""
    raise NotImplementedError(COMPILED_ONLY)


Generate: TypeAlias = Callable[..., Any]

# Numba reads the number of arguments from a function's signature, so there is one function for each number.
_TYPERS: dict[int, Callable[[Any], Any]] = {
    1: lambda check: lambda x: check((x,)),
    2: lambda check: lambda x, y: check((x, y)),
    3: lambda check: lambda x, y, z: check((x, y, z)),
    4: lambda check: lambda x, y, z, w: check((x, y, z, w)),
}


def _fits(given: Any, kind: Any) -> bool:
    """Whether an argument of the type ``given`` can be passed for a parameter of type ``kind``."""
    if kind is not types.Array:
        return bool(given == kind)
    return isinstance(given, types.Array) and given.dtype == types.float64 and given.layout == "C"


def _define(function: Any, kinds: tuple[Any, ...], result: Any, generate: Generate) -> None:
    """Make a function known to numba: its parameter types, its result type, and what generates its instructions.

    generate(context, builder, signature, *args) returns the value of the function.
    """

    def check(given: tuple[Any, ...]) -> Any:
        return result(*given) if all(map(_fits, given, kinds)) else None

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return generate(context, builder, signature, *args)

    typed: Any = type_callable
    lowered: Any = lower_builtin
    typed(function)(lambda _context: _TYPERS[len(kinds)](check))
    lowered(function, *kinds)(lower)


def _broadcast(builder: Any, x: Any) -> Any:
    """Lanes as they are; a single number in all eight lanes."""
    if x.type == _DOUBLES:
        return x
    first = builder.insert_element(ir.Constant(_DOUBLES, ir.Undefined), x, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH))


def _address(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), _DOUBLES.as_pointer())


def _load(context: Any, builder: Any, signature: Any, array: Any, at: Any) -> Any:
    return builder.load(_address(context, builder, signature.args[0], array, at), align=8)


def _load_one(context: Any, builder: Any, signature: Any, array: Any, at: Any) -> Any:
    data = context.make_array(signature.args[0])(context, builder, array).data
    return _broadcast(builder, builder.load(builder.gep(data, [at])))


def _store(context: Any, builder: Any, signature: Any, array: Any, at: Any, x: Any) -> Any:
    builder.store(x, _address(context, builder, signature.args[0], array, at), align=8)
    return context.get_dummy_value()


def _compare(sign: str) -> Generate:
    return lambda _c, builder, _s, x, y: builder.select(builder.fcmp_ordered(sign, x, y), x, y)


def _choose(_context: Any, builder: Any, _signature: Any, x: Any, bar: Any, yes: Any, no: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", x, _broadcast(builder, bar)), yes, _broadcast(builder, no))


def _any_above(_context: Any, builder: Any, _signature: Any, x: Any, bar: Any) -> Any:
    mask = builder.bitcast(builder.fcmp_ordered(">", x, _broadcast(builder, bar)), _MASK)
    return builder.icmp_unsigned("!=", mask, ir.Constant(_MASK, 0))


def _times_power(_context: Any, builder: Any, _signature: Any, x: Any, shifted: Any) -> Any:
    power = builder.shl(builder.bitcast(shifted, _LONGS), _all(52))
    return builder.bitcast(builder.add(builder.bitcast(x, _LONGS), power), _DOUBLES)


def _largest(_context: Any, builder: Any, _signature: Any, x: Any) -> Any:
    top, *others = (builder.extract_element(x, ir.Constant(ir.IntType(32), i)) for i in range(WIDTH))
    for other in others:
        top = builder.select(builder.fcmp_ordered(">", other, top), other, top)
    return top


def _all(integer: int) -> Any:
    """The same integer in all eight lanes."""
    return ir.Constant(_LONGS, [integer] * WIDTH)


def _exponent_bits(builder: Any, x: Any) -> Any:
    """k in x = 2^k m, as integers."""
    return builder.ashr(builder.sub(builder.bitcast(x, _LONGS), _all(SQRT_HALF_BITS)), _all(52))


def _exponent(_context: Any, builder: Any, _signature: Any, x: Any) -> Any:
    number = builder.bitcast(builder.add(_exponent_bits(builder, x), _all(ROUND_BITS)), _DOUBLES)
    return builder.fsub(number, ir.Constant(_DOUBLES, [ROUND] * WIDTH))


def _mantissa(_context: Any, builder: Any, _signature: Any, x: Any) -> Any:
    power = builder.shl(_exponent_bits(builder, x), _all(52))
    return builder.bitcast(builder.sub(builder.bitcast(x, _LONGS), power), _DOUBLES)


def _binary(name: str) -> Generate:
    def generate(_context: Any, builder: Any, _signature: Any, x: Any, y: Any) -> Any:
        return getattr(builder, name)(_broadcast(builder, x), _broadcast(builder, y), flags=["contract"])

    return generate


_define(fill, (_number,), _lanes, lambda _c, builder, _s, x: _broadcast(builder, x))
_define(load, (_array, _integer), _lanes, _load)
_define(load_one, (_array, _integer), _lanes, _load_one)
_define(store, (_array, _integer, _lanes), types.none, _store)
_define(larger, (_lanes, _lanes), _lanes, _compare(">"))
_define(smaller, (_lanes, _lanes), _lanes, _compare("<"))
for _bar, _no in ((_number, _number), (_number, _lanes), (_lanes, _number), (_lanes, _lanes)):
    _define(choose, (_lanes, _bar, _lanes, _no), _lanes, _choose)
_define(any_above, (_lanes, _number), types.boolean, _any_above)
_define(times_power, (_lanes, _lanes), _lanes, _times_power)
_define(exponent, (_lanes,), _lanes, _exponent)
_define(mantissa, (_lanes,), _lanes, _mantissa)
_define(largest, (_lanes,), _number, _largest)
for _operation, _name in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    for _pair in ((_lanes, _lanes), (_lanes, _number), (_number, _lanes)):
        _define(_operation, _pair, _lanes, _binary(_name))
