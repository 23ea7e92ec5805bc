"""exp(x) for x <= 0, written so that the compiler can take four or eight of them at a time.

``math.exp`` calls a library, and the compiler does not turn a loop around such a call into vector instructions. The
function here consists of arithmetic alone: x = k log 2 + r with |r| <= log(2) / 2, a polynomial in r, and 2^k put
into the exponent's bits.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from gatewise.kernels.compiled import leaf
from gatewise.kernels.simd.lanes import ROUND

LOG2_E = 1.4426950408889634
LN2_HIGH = 6.93147180369123816490e-01  # the leading bits of log 2: k * LN2_HIGH is exact
LN2_LOW = 1.90821492927058770002e-10
SMALLEST = -708.0  # below it the result would not be a normal number and is set to 0

# (exp(r) - 1 - r) / r^2 on |r| <= log(2) / 2, Chebyshev fit, error 1.1e-16.
P2, P3, P4, P5, P6 = (
    0.5000000000000001,
    0.16666666666666669,
    0.04166666666662413,
    0.008333333333330062,
    0.0013888888917213717,
)
P7, P8, P9, P10, P11 = (
    0.00019841269863053618,
    2.4801521295954376e-05,
    2.7557268459997064e-06,
    2.7620088445409746e-07,
    2.510038549551032e-08,
)


def _bits_of(_context: Any, _x: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), generate


def _number_of(_context: Any, _bits: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), generate


# The same 64 bits, read as an integer or as a float.
_bits: Any = intrinsic(_bits_of)
_number: Any = intrinsic(_number_of)


@leaf
def exp_near_zero(r: Any) -> Any:
    """exp(r) for |r| <= log(2) / 2, of one number or of lanes."""
    p = P11 * r + P10
    p = p * r + P9
    p = p * r + P8
    p = p * r + P7
    p = p * r + P6
    p = p * r + P5
    p = p * r + P4
    p = p * r + P3
    p = p * r + P2
    p = p * r + 1.0
    return p * r + 1.0


@leaf
def exp_nonpositive(x: float) -> float:
    """exp(x) for x <= 0 to one unit in the last place; 0 below -708. A NaN gives a NaN."""
    y = max(x, SMALLEST)
    shifted = y * LOG2_E + ROUND
    k = shifted - ROUND
    r = y - k * LN2_HIGH
    r = r - k * LN2_LOW
    p = exp_near_zero(r)
    value: float = _number(_bits(p) + (_bits(shifted) << 52))
    if x < SMALLEST:
        value = 0.0
    return value if x <= 0.0 else x  # only a NaN is left
