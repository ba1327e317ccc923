"""Products of one vector and a matrix, as in CMSIS-NN's dense and recurrent layers: units over a depth.

Sources: arm_nn_vec_mat_mult_t_s8.c and its variants _per_ch_s8, _s16, _s16_s16, _s4, _svdf_s8, and
arm_nn_vec_mat_mul_result_acc_s8_s16.c.
"""

from __future__ import annotations

from edgetool.operators.work.loops import Loops, nested, repeated, together
from edgetool.target.platform import Platform

LANES = 16  # int8 elements of a vector of MVE
COMPILER_UNROLL = 8  # turns of a loop that GCC puts in one, where the kernel asks for it
NARROW_SUMS = 512  # MAX_COL_COUNT: products of int16 and int8 that an int32 can hold


def units_at_once(units: int, together_: int, inner: Loops) -> Loops:
    """Units in groups, the rest one by one; each over the same inner loops."""
    group, last = f"{together_} units", "last unit"
    many, rest = divmod(units, together_)
    return together(
        {f"any {group}": int(many > 0), "any last unit": int(rest > 0)},
        repeated(many, nested(group, inner)),
        repeated(rest, nested(last, inner)),
    )


def vector_product_s8(units: int, depth: int, platform: Platform, *, unrolled: bool = True) -> Loops:
    """int8 times int8; the loops over quads of elements unrolled by the compiler in dense layers only."""
    if platform.mve:
        return units_at_once(units, 4, {"by 16": -(-depth // LANES)})
    if not platform.dsp:
        return units_at_once(units, 3, {"by 1": depth})
    quads = depth // 4
    many = quads // COMPILER_UNROLL if unrolled else 0
    few = quads - many * COMPILER_UNROLL
    product = units_at_once(units, 2, {"by 32": many, "by 4": few, "by 1": depth % 4})
    # With nothing left over, the compiler's loop is entered another way.
    whole = int(many > 0 and not few)
    return together(product, {"2 units whole": units // 2 * whole, "last unit whole": units % 2 * whole})


def vector_product_s16(units: int, depth: int, platform: Platform) -> Loops:
    """int16 times int8, the first 512 of them summed in 32 bits where the core can do several at once."""
    narrow = min(depth, NARROW_SUMS)
    if platform.mve:
        return units_at_once(units, 4, {"by 8": -(-narrow // 8), "by 1": depth - narrow})
    if not platform.dsp:
        return {"unit": units, "unit by 1": units * depth}
    return units_at_once(units, 2, {"by 4": narrow // 4, "by 1": depth - narrow // 4 * 4})


def vector_product_s4(units: int, depth: int, platform: Platform) -> Loops:
    """int8 times int4: two elements in a byte, rows of odd depth sharing one."""
    if platform.mve:
        return _packed_units(units, depth)
    if platform.dsp:
        inner = {"by 4": depth // 4, "by 2": depth % 4 // 2, "odd": depth % 2}
    else:
        inner = {"by 2": depth // 2, "odd": depth % 2}
    return units_at_once(units, 4, inner)


def _packed_units(units: int, depth: int) -> Loops:
    """Four units as two pairs, of which the second may begin in the middle of a byte; the last ones not by vectors."""
    first, second = packed_rows(depth, wide=True)
    fours, rest = divmod(units, 4)
    one = {"by 32": depth // 32, "by 16": depth % 32 // 16, "by 4": depth % 16 // 4, "by 2": depth % 4 // 2}
    return together(
        {"any 4 units": int(fours > 0), "any last unit": int(rest > 0)},
        repeated(fours, nested("2 units", first)),
        repeated(fours, nested("2 more units", second)),
        repeated(rest, nested("last unit", one)),
        {"last unit odd": (rest + 1) // 2 * (depth % 2)},
    )


def packed_rows(depth: int, *, wide: bool) -> tuple[Loops, Loops]:
    """What vectors do for a row of int4 that begins with a byte, and for one that begins in its middle if any does."""
    blocks = {"by 32": depth // 32, "by 16": depth % 32 // 16} if wide else {"by 16": depth // 16}
    rest = depth % LANES
    first = blocks | {"rest": int(rest > 0)}
    return first, blocks | {"rest": int(rest > 1), "odd": 1} if depth % 2 else first


def vector_product_svdf(units: int, depth: int, platform: Platform) -> Loops:
    """int8 times int8 into a state of int16."""
    if platform.mve:
        return units_at_once(units, 3, {"by 16": -(-depth // LANES)})
    if not platform.dsp:
        return units_at_once(units, 3, {"by 1": depth})
    quads, rest = {"by 16": depth // 16, "by 4": depth % 16 // 4}, {"by 1": depth % 4}
    return together(
        {"any 2 units": int(units > 1)},
        repeated(units // 2, nested("2 units", quads | rest)),
        repeated(units % 2, nested("last unit", {"by 4": depth // 4} | rest)),
    )
