"""Small matrix products, with their sums always in the same order: the results depend on no library and no thread."""

from gatewise.arrays import Floats
from gatewise.kernels.compiled import inner_fma, leaf
from gatewise.kernels.simd.lanes import fill, load, load_one, store, WIDTH


@inner_fma
def add_product(
    left: Floats,
    stride: int,
    count: int,
    right: Floats,
    at: int,
    depth: int,
    width: int,
    out: Floats,
    add: bool,
) -> None:
    """out[m, w] = sum_k left[m, k] right[k, w] for m < count, k < depth, w < width; added to ``out`` if ``add``.

    All arrays are flat. The rows of ``left`` are ``stride`` apart, those of ``out`` and of ``right``, which begins at
    the place ``at``, are ``width`` apart, a multiple of eight.
    """
    whole = count - count % 4
    sixes = whole - whole % 12
    for w in range(0, width, WIDTH):
        for m in range(0, sixes, 6):
            _six_rows(left, m * stride, stride, right, at + w, depth, width, out, m * width + w, add)
        for m in range(sixes, whole, 4):
            _four_rows(left, m * stride, stride, right, at + w, depth, width, out, m * width + w, add)
        for m in range(whole, count):
            _one_row(left, m * stride, right, at + w, depth, width, out, m * width + w, add)


@leaf
def _six_rows(
    left: Floats,
    start: int,
    stride: int,
    right: Floats,
    at: int,
    depth: int,
    width: int,
    out: Floats,
    place: int,
    add: bool,
) -> None:
    """As `_four_rows`, with six: more sums that do not wait for one another, as many as the registers hold."""
    a, b, c, d, e, f = fill(0.0), fill(0.0), fill(0.0), fill(0.0), fill(0.0), fill(0.0)
    two, four = start + 2 * stride, start + 4 * stride
    for k in range(depth):
        x = load(right, at + k * width)
        a, b = a + x * load_one(left, start + k), b + x * load_one(left, start + stride + k)
        c, d = c + x * load_one(left, two + k), d + x * load_one(left, two + stride + k)
        e, f = e + x * load_one(left, four + k), f + x * load_one(left, four + stride + k)
    _put(out, place, a, add)
    _put(out, place + width, b, add)
    _put(out, place + 2 * width, c, add)
    _put(out, place + 3 * width, d, add)
    _put(out, place + 4 * width, e, add)
    _put(out, place + 5 * width, f, add)


@leaf
def _four_rows(
    left: Floats,
    start: int,
    stride: int,
    right: Floats,
    at: int,
    depth: int,
    width: int,
    out: Floats,
    place: int,
    add: bool,
) -> None:
    """Eight neighbouring entries in each of four rows: what is loaded of ``right`` serves four products."""
    a, b, c, d = fill(0.0), fill(0.0), fill(0.0), fill(0.0)
    two, three = start + 2 * stride, start + 3 * stride
    for k in range(depth):
        x = load(right, at + k * width)
        a, b = a + x * load_one(left, start + k), b + x * load_one(left, start + stride + k)
        c, d = c + x * load_one(left, two + k), d + x * load_one(left, three + k)
    _put(out, place, a, add)
    _put(out, place + width, b, add)
    _put(out, place + 2 * width, c, add)
    _put(out, place + 3 * width, d, add)


@leaf
def _one_row(
    left: Floats, start: int, right: Floats, at: int, depth: int, width: int, out: Floats, place: int, add: bool
) -> None:
    """Eight neighbouring entries of one row, as four sums, which do not wait for one another."""
    a, b, c, d = fill(0.0), fill(0.0), fill(0.0), fill(0.0)
    whole = depth - depth % 4
    for k in range(0, whole, 4):
        here = at + k * width
        a = a + load(right, here) * load_one(left, start + k)
        b = b + load(right, here + width) * load_one(left, start + k + 1)
        c = c + load(right, here + 2 * width) * load_one(left, start + k + 2)
        d = d + load(right, here + 3 * width) * load_one(left, start + k + 3)
    for k in range(whole, depth):
        a = a + load(right, at + k * width) * load_one(left, start + k)
    _put(out, place, (a + b) + (c + d), add)


@leaf
def _put(out: Floats, place: int, x: Floats, add: bool) -> None:
    if add:
        store(out, place, load(out, place) + x)
    else:
        store(out, place, x)
