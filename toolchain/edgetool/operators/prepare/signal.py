"""TFLM's custom operators of signal processing: what their kernels ask for in Init and Prepare, by custom code.

Sources: signal/micro/kernels/*.cc, signal/src/circular_buffer.cc, signal/src/*rfft_*.cc, kiss_fft.c, kiss_fftr.c.
What Init allocates beyond its OpData is in INIT_RULES. Options are read by position, sorted by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from edgetool.model.types import DType
from edgetool.operators.kernel import Call, PrepareRule, Request, persistent, scratch
from edgetool.operators.prepare.conditions import Condition, counts, looks_at
from edgetool.operators.prepare.inspection import demand, input_rank, input_type, output_rank, output_type
from edgetool.operators.prepare.options import flex_options, flex_size

INT16, INT32, UINT32, UINT64 = DType.INT16, DType.INT32, DType.UINT32, DType.UINT64
# What the operators with an option T work on.
SAMPLE_BYTES = {dtype: dtype.bits // 8 for dtype in (DType.INT16, DType.INT32, DType.FLOAT32)}
BY_CODE = {dtype.code: dtype for dtype in SAMPLE_BYTES}
SAMPLE_TYPE, FFT_LENGTH = "T", 1
# Every row has buffers of its own, of 16 bytes at least.
MOST_ROWS = 2**16
# kiss_fft_state before its twiddle factors: two ints and 32 pairs of factors.
FFT_HEADER_BYTES = 4 * (2 + 2 * 32)


def _inputs(*kinds: tuple[DType, int]) -> tuple[Condition, ...]:
    return tuple(
        condition
        for position, (dtype, rank) in enumerate(kinds)
        for condition in (input_rank(position, rank), input_type(position, dtype))
    )


def _outputs(*kinds: tuple[DType, int]) -> tuple[Condition, ...]:
    return tuple(
        condition
        for position, (dtype, rank) in enumerate(kinds)
        for condition in (output_rank(position, rank), output_type(position, dtype))
    )


def _delay(call: Call) -> Iterator[Request]:
    yield from looks_at((0,), (0,), counts(1), input_type(0, INT16), output_type(0, INT16))(call)
    rows, frame = _rows(call, 1), call.required_input(0).shape[-1]
    yield from _circular_buffers(call, rows, frame + flex_size(call, 0))


def _framer(call: Call) -> Iterator[Request]:
    conditions = (input_type(0, INT16), output_type(0, INT16), output_rank(1, 0), output_type(1, DType.BOOL))
    yield from looks_at((0,), (0, 1), counts(1, 2), *conditions)(call)
    output_rank(0, len(call.required_input(0).shape) + 1)(call)
    size, step = flex_size(call, 0), flex_size(call, 1)
    rows, frame = _rows(call, 1), call.required_input(0).shape[-1]
    demand(call, 0 < step <= frame and frame % step == 0, f"cannot process {frame} samples in steps of {step}")
    # The frame is rounded up to whole steps.
    yield from _circular_buffers(call, rows, -(-size // step) * step)


def _circular_buffers(call: Call, rows: int, capacity: int) -> Iterator[Request]:
    """One buffer per row of the input: pointers to its state and to itself, and the states."""
    for what in ("states' pointers", "buffers' pointers"):
        yield persistent(what, rows * call.platform.abi.pointer_bytes)
    for _ in range(rows):
        yield _circular_buffer(call, capacity)


def _rows(call: Call, inner: int) -> int:
    """How many times the input has its `inner` last dimensions, none of which may be 0 or missing."""
    shape = call.required_input(0).shape
    demand(call, len(shape) >= inner and 0 not in shape[-inner:], f"does not support an input of shape {shape}")
    rows = prod(shape[:-inner])
    demand(call, rows <= MOST_ROWS, f"does not fit in any memory with {rows} buffers")
    return rows


def _circular_buffer(call: Call, capacity: int) -> Request:
    """Every int16 lies twice in it, so that a frame is never cut."""
    # Three sizes, two int32 and a pointer stand in front.
    return persistent("circular buffer", 4 * call.platform.abi.pointer_bytes + 2 * 4 + 2 * 2 * capacity)


def _stacker_init(call: Call) -> Iterator[Request]:
    channels, left, right = (flex_size(call, position) for position in range(3))
    yield _circular_buffer(call, channels * (left + right + 1))


def _filter_bank_init(call: Call) -> Iterator[Request]:
    yield persistent("work area", (flex_size(call, 0) + 1) * 8)


def _spectral_subtraction_init(call: Call) -> Iterator[Request]:
    yield persistent("noise estimate", flex_size(call, 4) * 4)


def _overlap_add(call: Call) -> Iterator[Request]:
    dtype = _sample_type(call)
    demand(call, dtype != INT32, "cannot add int32")
    yield from looks_at((0,), (0,), counts(1), input_type(0, dtype), output_type(0, dtype))(call)
    shape = call.required_input(0).shape
    rows = _rows(call, 2)
    output_rank(0, len(shape) - 1)(call)
    yield persistent("states' pointers", rows * call.platform.abi.pointer_bytes)
    for _ in range(rows):
        yield persistent("overlap", shape[-1] * SAMPLE_BYTES[dtype])


def _sample_type(call: Call) -> DType:
    code = flex_options(call).integer(SAMPLE_TYPE)
    demand(call, code in BY_CODE, f"does not support samples of type {code}")
    return BY_CODE[code]


def _rfft_init(call: Call) -> Iterator[Request]:
    yield persistent("FFT state", _fft_bytes(call, _sample_type(call), flex_size(call, FFT_LENGTH)))


def _rfft(call: Call) -> Iterator[Request]:
    dtype = _sample_type(call)
    yield from _transformed(dtype)(call)
    output_rank(0, len(call.required_input(0).shape))(call)
    yield scratch("FFT input", flex_size(call, FFT_LENGTH) * SAMPLE_BYTES[dtype])


def _irfft_init(call: Call) -> Iterator[Request]:
    dtype = _sample_type(call)
    # The float version keeps the length and a pointer in front.
    own = 2 * call.platform.abi.pointer_bytes if dtype == DType.FLOAT32 else 0
    yield persistent("FFT state", own + _fft_bytes(call, dtype, flex_size(call, FFT_LENGTH)))


def _irfft(call: Call) -> Iterator[Request]:
    yield from _transformed(_sample_type(call))(call)
    output_rank(0, len(call.required_input(0).shape))(call)


def _transformed(dtype: DType) -> PrepareRule:
    return looks_at((0,), (0,), counts(1), input_type(0, dtype), output_type(0, dtype))


def _fft_bytes(call: Call, dtype: DType, length: int) -> int:
    """kiss_fftr_alloc: three pointers, a complex FFT of half the length with its factors, a buffer and more factors.

    For an odd length no state is made.
    """
    if length % 2:
        return 0
    half, complex_bytes = length // 2, 2 * SAMPLE_BYTES[dtype]
    return 3 * call.platform.abi.pointer_bytes + FFT_HEADER_BYTES + complex_bytes * (half + half * 3 // 2)


def _rows_alike(call: Call) -> None:
    """Input and output are rows, of as many dimensions."""
    rank = len(call.required_input(0).shape)
    demand(call, rank > 0, "does not support an input without dimensions")
    output_rank(0, rank)(call)


RULES: dict[str, PrepareRule] = {
    "SignalDelay": _delay,
    "SignalEnergy": looks_at((0,), (0,), counts(1), *_inputs((INT16, 1)), *_outputs((UINT32, 1))),
    "SignalFftAutoScale": looks_at((0,), (0, 1), counts(1, 2), *_inputs((INT16, 1)), *_outputs((INT16, 1), (INT32, 0))),
    "SignalFilterBank": looks_at(
        range(6), (0,), counts(6), *_inputs((UINT32, 1), *[(INT16, 1)] * 5), *_outputs((UINT64, 1))
    ),
    "SignalFilterBankLog": looks_at((0,), (0,), counts(1), *_inputs((UINT32, 1)), *_outputs((INT16, 1))),
    "SignalFilterBankSpectralSubtraction": looks_at(
        (0,), (0, 1), counts(1, 2), *_inputs((UINT32, 1)), *_outputs((UINT32, 1), (UINT32, 1))
    ),
    "SignalFilterBankSquareRoot": looks_at(
        (0, 1), (0,), counts(2), *_inputs((UINT64, 1), (INT32, 0)), *_outputs((UINT32, 1))
    ),
    "SignalFramer": _framer,
    "SignalIrfft": _irfft,
    "SignalOverlapAdd": _overlap_add,
    "SignalPCAN": looks_at(
        (0, 1, 2), (0,), counts(3), *_inputs((UINT32, 1), (UINT32, 1), (INT16, 1)), *_outputs((UINT32, 1))
    ),
    "SignalRfft": _rfft,
    "SignalStacker": looks_at((0,), (0, 1), counts(1, 2), *_inputs((INT16, 1)), *_outputs((INT16, 1), (DType.BOOL, 0))),
    "SignalWindow": looks_at(
        (0, 1),
        (0,),
        counts(2),
        _rows_alike,
        input_rank(1, 1),
        *(input_type(p, INT16) for p in (0, 1)),
        output_type(0, INT16),
    ),
}

INIT_RULES: dict[str, PrepareRule] = {
    "SignalFilterBank": _filter_bank_init,
    "SignalFilterBankSpectralSubtraction": _spectral_subtraction_init,
    "SignalIrfft": _irfft_init,
    "SignalRfft": _rfft_init,
    "SignalStacker": _stacker_init,
}
