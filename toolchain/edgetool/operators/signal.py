"""TFLM's custom signal-processing operators, by custom code: Prepare, Init, loop counts and bounds.

Options are read by position, in the order of their names. What Init allocates beyond its OpData is in INIT. Kernels
check only ranks and types; the bounds keep them within their tensors. Sources: signal/micro/kernels/*.cc,
signal/src/*.cc, signal/src/circular_buffer.cc, signal/src/*rfft_*.cc, kiss_fft.c, kiss_fftr.c.

The loop counts of square roots, logarithms and gains depend on the numbers: the mean over spectra of noise is counted.
Framers, stackers and delays are counted for their first run, with buffers that were prefilled.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt, prod

from edgetool.model.types import DType, Tensor
from edgetool.operators.call import (
    Call,
    Condition,
    PrepareRule,
    Request,
    constant_input,
    flex_options,
    flex_size,
    input_rank,
    input_type,
    integers,
    operand_counts,
    output_rank,
    output_type,
    persistent,
    prepare_rule,
    require,
    scratch,
)
from edgetool.operators.entry import entries
from edgetool.operators.loops import (
    LoopCounts,
    LoopRule,
    Loops,
    alignment_period,
    combined,
    memcpy_loops,
    memmove_loops,
    memset_loops,
    repeated,
    strided_memcpy_loops,
)

INT16, INT32, UINT32, UINT64 = DType.INT16, DType.INT32, DType.UINT32, DType.UINT64
# The sample types of operators with an option T.
SAMPLE_BYTES = {dtype: dtype.bits // 8 for dtype in (DType.INT16, DType.INT32, DType.FLOAT32)}
SAMPLE_TYPE_BY_CODE = {dtype.code: dtype for dtype in SAMPLE_BYTES}
SAMPLE_TYPE, FFT_LENGTH = "T", 1
# Every row has its own buffers, of at least 16 bytes.
MAX_ROWS = 2**16
# kiss_fft_state before its twiddle factors: two ints and 32 pairs of factors.
FFT_HEADER_BYTES = 4 * (2 + 2 * 32)


def _input_conditions(*kinds: tuple[DType, int]) -> tuple[Condition, ...]:
    return tuple(
        condition
        for position, (dtype, rank) in enumerate(kinds)
        for condition in (input_rank(position, rank), input_type(position, dtype))
    )


def _output_conditions(*kinds: tuple[DType, int]) -> tuple[Condition, ...]:
    return tuple(
        condition
        for position, (dtype, rank) in enumerate(kinds)
        for condition in (output_rank(position, rank), output_type(position, dtype))
    )


def _prepare_delay(call: Call) -> Iterator[Request]:
    yield from prepare_rule((0,), (0,), operand_counts(1), input_type(0, INT16), output_type(0, INT16))(call)
    rows, frame = _row_count(call, 1), call.required_input(0).shape[-1]
    yield from _circular_buffers(call, rows, frame + flex_size(call, 0))


def _prepare_framer(call: Call) -> Iterator[Request]:
    conditions = (input_type(0, INT16), output_type(0, INT16), output_rank(1, 0), output_type(1, DType.BOOL))
    yield from prepare_rule((0,), (0, 1), operand_counts(1, 2), *conditions)(call)
    output_rank(0, len(call.required_input(0).shape) + 1)(call)
    size, step = flex_size(call, 0), flex_size(call, 1)
    rows, frame = _row_count(call, 1), call.required_input(0).shape[-1]
    require(call, 0 < step <= frame and frame % step == 0, f"cannot process {frame} samples in steps of {step}")
    # The frame is rounded up to whole steps.
    yield from _circular_buffers(call, rows, -(-size // step) * step)


def _circular_buffers(call: Call, rows: int, capacity: int) -> Iterator[Request]:
    """Yield the requests of one buffer per row of the input: pointers to its state and to itself, and the states."""
    for what in ("states' pointers", "buffers' pointers"):
        yield persistent(what, rows * call.platform.abi.pointer_bytes)
    for _ in range(rows):
        yield _circular_buffer(call, capacity)


def _row_count(call: Call, inner: int) -> int:
    """Return how many times the input contains its `inner` last dimensions.

    Raises KernelRefusal if one of these is 0 or missing, or if there are more than MAX_ROWS rows.
    """
    shape = call.required_input(0).shape
    require(call, len(shape) >= inner and 0 not in shape[-inner:], f"does not support an input of shape {shape}")
    rows = prod(shape[:-inner])
    require(call, rows <= MAX_ROWS, f"does not fit in any memory with {rows} buffers")
    return rows


def _circular_buffer(call: Call, capacity: int) -> Request:
    """Return the request for a buffer that contains every int16 twice, so that every frame is contiguous."""
    # It begins with three sizes, two int32 and a pointer.
    return persistent("circular buffer", 4 * call.platform.abi.pointer_bytes + 2 * 4 + 2 * 2 * capacity)


def _stacker_init(call: Call) -> Iterator[Request]:
    channels, left, right = (flex_size(call, position) for position in range(3))
    yield _circular_buffer(call, channels * (left + right + 1))


def _filter_bank_init(call: Call) -> Iterator[Request]:
    yield persistent("work area", (flex_size(call, 0) + 1) * 8)


def _spectral_subtraction_init(call: Call) -> Iterator[Request]:
    yield persistent("noise estimate", flex_size(call, 4) * 4)


def _prepare_overlap_add(call: Call) -> Iterator[Request]:
    dtype = _sample_type(call)
    require(call, dtype != INT32, "cannot add int32")
    yield from prepare_rule((0,), (0,), operand_counts(1), input_type(0, dtype), output_type(0, dtype))(call)
    shape = call.required_input(0).shape
    rows = _row_count(call, 2)
    output_rank(0, len(shape) - 1)(call)
    yield persistent("states' pointers", rows * call.platform.abi.pointer_bytes)
    for _ in range(rows):
        yield persistent("overlap", shape[-1] * SAMPLE_BYTES[dtype])


def _sample_type(call: Call) -> DType:
    code = flex_options(call).integer(SAMPLE_TYPE)
    require(call, code in SAMPLE_TYPE_BY_CODE, f"does not support samples of type {code}")
    return SAMPLE_TYPE_BY_CODE[code]


def _rfft_init(call: Call) -> Iterator[Request]:
    yield persistent("FFT state", _fft_bytes(call, _sample_type(call), flex_size(call, FFT_LENGTH)))


def _prepare_rfft(call: Call) -> Iterator[Request]:
    dtype = _sample_type(call)
    yield from _fft_rule(dtype)(call)
    output_rank(0, len(call.required_input(0).shape))(call)
    request = scratch if call.platform.has("rfft-scratch") else persistent
    yield request("FFT input", flex_size(call, FFT_LENGTH) * SAMPLE_BYTES[dtype])


def _irfft_init(call: Call) -> Iterator[Request]:
    dtype = _sample_type(call)
    # The float version begins with the length and a pointer.
    header_bytes = 2 * call.platform.abi.pointer_bytes if dtype == DType.FLOAT32 else 0
    yield persistent("FFT state", header_bytes + _fft_bytes(call, dtype, flex_size(call, FFT_LENGTH)))


def _prepare_irfft(call: Call) -> Iterator[Request]:
    yield from _fft_rule(_sample_type(call))(call)
    output_rank(0, len(call.required_input(0).shape))(call)


def _fft_rule(dtype: DType) -> PrepareRule:
    return prepare_rule((0,), (0,), operand_counts(1), input_type(0, dtype), output_type(0, dtype))


def _fft_bytes(call: Call, dtype: DType, length: int) -> int:
    """Return the bytes of kiss_fftr_alloc.

    It allocates three pointers, a complex FFT of half the length with its factors, a buffer and more factors. For an
    odd length it makes no state.
    """
    if length % 2:
        return 0
    half, complex_bytes = length // 2, 2 * SAMPLE_BYTES[dtype]
    return 3 * call.platform.abi.pointer_bytes + FFT_HEADER_BYTES + complex_bytes * (half + half * 3 // 2)


def _check_row_ranks(call: Call) -> None:
    """Require the input to have dimensions, and the output to have as many."""
    rank = len(call.required_input(0).shape)
    require(call, rank > 0, "does not support an input without dimensions")
    output_rank(0, rank)(call)


PREPARE: dict[str, PrepareRule] = {
    "SignalDelay": _prepare_delay,
    "SignalEnergy": prepare_rule(
        (0,), (0,), operand_counts(1), *_input_conditions((INT16, 1)), *_output_conditions((UINT32, 1))
    ),
    "SignalFftAutoScale": prepare_rule(
        (0,), (0, 1), operand_counts(1, 2), *_input_conditions((INT16, 1)), *_output_conditions((INT16, 1), (INT32, 0))
    ),
    "SignalFilterBank": prepare_rule(
        range(6),
        (0,),
        operand_counts(6),
        *_input_conditions((UINT32, 1), *[(INT16, 1)] * 5),
        *_output_conditions((UINT64, 1)),
    ),
    "SignalFilterBankLog": prepare_rule(
        (0,), (0,), operand_counts(1), *_input_conditions((UINT32, 1)), *_output_conditions((INT16, 1))
    ),
    "SignalFilterBankSpectralSubtraction": prepare_rule(
        (0,),
        (0, 1),
        operand_counts(1, 2),
        *_input_conditions((UINT32, 1)),
        *_output_conditions((UINT32, 1), (UINT32, 1)),
    ),
    "SignalFilterBankSquareRoot": prepare_rule(
        (0, 1), (0,), operand_counts(2), *_input_conditions((UINT64, 1), (INT32, 0)), *_output_conditions((UINT32, 1))
    ),
    "SignalFramer": _prepare_framer,
    "SignalIrfft": _prepare_irfft,
    "SignalOverlapAdd": _prepare_overlap_add,
    "SignalPCAN": prepare_rule(
        (0, 1, 2),
        (0,),
        operand_counts(3),
        *_input_conditions((UINT32, 1), (UINT32, 1), (INT16, 1)),
        *_output_conditions((UINT32, 1)),
    ),
    "SignalRfft": _prepare_rfft,
    "SignalStacker": prepare_rule(
        (0,),
        (0, 1),
        operand_counts(1, 2),
        *_input_conditions((INT16, 1)),
        *_output_conditions((INT16, 1), (DType.BOOL, 0)),
    ),
    "SignalWindow": prepare_rule(
        (0, 1),
        (0,),
        operand_counts(2),
        _check_row_ranks,
        input_rank(1, 1),
        *(input_type(p, INT16) for p in (0, 1)),
        output_type(0, INT16),
    ),
}

INIT: dict[str, PrepareRule] = {
    "SignalFilterBank": _filter_bank_init,
    "SignalFilterBankSpectralSubtraction": _spectral_subtraction_init,
    "SignalIrfft": _irfft_init,
    "SignalRfft": _rfft_init,
    "SignalStacker": _stacker_init,
}


INT32_LIMIT = 2**31
GAIN_TABLE_ELEMENTS = 125  # the elements that WideDynamicFunction (pcan_argc_fixed.cc) may look up for 32 bits
FRAME_STEP = 1
PREFILL = 2
CHANNELS, NOISE_CHANNELS = 0, 4


def _option(call: Call, position: int) -> int:
    value = flex_size(call, position)
    require(call, value < INT32_LIMIT, f"does not support {value} as option {position}")
    return value


def _check_capacity(call: Call, what: str, tensor: Tensor, elements: int) -> None:
    capacity = tensor.element_count
    require(call, capacity >= elements, f"requires {elements} elements as {what}, not {capacity}")


def _check_output_size(call: Call) -> None:
    """Require the output to have as many elements as the input."""
    input_elements, output_elements = call.required_input(0).element_count, call.required_output().element_count
    require(call, input_elements == output_elements, f"produces {input_elements} elements, not {output_elements}")


def _window_bounds(call: Call) -> None:
    source, weights = call.required_input(0).element_count, call.required_input(1).element_count
    require(call, weights > 0 and source % weights == 0, f"cannot process {source} samples in windows of {weights}")
    _check_output_size(call)


def _framer_bounds(call: Call) -> None:
    size, step = _option(call, 0), _option(call, FRAME_STEP)
    raw = flex_options(call).raw
    prefilled = any(raw[PREFILL : PREFILL + 1])
    require(call, size > 0 and (size >= step or not prefilled), f"cannot process frames of {size} in steps of {step}")
    _check_capacity(call, "output 0", call.required_output(), call.required_input(0).element_count // step * size)


def _overlap_add_bounds(call: Call) -> None:
    shape, step = call.required_input(0).shape, _option(call, FRAME_STEP)
    require(call, step <= shape[-1], f"cannot process frames of {shape[-1]} in steps of {step}")
    _check_capacity(call, "output 0", call.required_output(), prod(shape[:-1]) * step)


def _fft_bounds(*, inverse: bool) -> Condition:
    """Return the bounds of an FFT: an even length, and room for complex numbers as pairs of elements."""

    def condition(call: Call) -> None:
        length = _option(call, FFT_LENGTH)
        source, result = call.required_input(0).shape, call.required_output().shape
        require(call, bool(source), "does not support an input without dimensions")
        require(call, length > 0 and length % 2 == 0, f"does not support a transform of {length} samples")
        pairs = length + 2
        if inverse:
            require(
                call,
                source[-1] >= pairs and result[-1] >= length,
                f"cannot transform {source} to {result} with a length of {length}",
            )
        else:
            require(
                call,
                source[-1] <= length and result[-1] >= pairs,
                f"cannot transform {source} to {result} with a length of {length}",
            )
        rows, output_rows = prod(source[:-1]), prod(result[:-1])
        require(call, output_rows >= rows, f"produces {rows} rows, not {output_rows}")

    return condition


def _energy_bounds(call: Call) -> None:
    end, start = _option(call, 0), _option(call, 1)
    require(call, start <= end, f"cannot compute energies from {start} to {end}")
    _check_capacity(call, "input 0", call.required_input(0), 2 * end)
    _check_capacity(call, "output 0", call.required_output(), end)


def _filter_bank_bounds(call: Call) -> None:
    """Require room for all channels, each of which weights the frequencies from its start."""
    channels = _option(call, CHANNELS)
    for position, what in ((3, "starts"), (4, "weight start indices"), (5, "widths")):
        constant_input(position, what)(call)
        _check_capacity(call, f"input {position}", call.required_input(position), channels + 1)
    output_elements = call.required_output().element_count
    require(call, output_elements <= channels, f"produces {channels} channels, not {output_elements}")
    source, weights = call.required_input(0), min(call.required_input(p).element_count for p in (1, 2))
    starts, first_weights, widths = (integers(call.required_input(p)) for p in (3, 4, 5))
    for start, first, width in zip(starts[: channels + 1], first_weights, widths, strict=False):
        fits = width <= 0 or (0 <= start <= source.element_count - width and 0 <= first <= weights - width)
        require(call, fits, f"reads {width} frequencies from {start} with weights from {first}")


def _spectral_subtraction_bounds(call: Call) -> None:
    channels = _option(call, NOISE_CHANNELS)
    _check_capacity(call, "input 0", call.required_input(0), channels)
    _check_capacity(call, "output 0", call.required_output(), channels)
    noise = call.required_output(1).element_count
    require(call, noise <= channels, f"produces {channels} noise estimates, not {noise}")


def _pcan_bounds(call: Call) -> None:
    _check_output_size(call)
    _check_capacity(call, "input 1", call.required_input(1), call.required_input(0).element_count)
    _check_capacity(call, "input 2", call.required_input(2), GAIN_TABLE_ELEMENTS)


def _stacker_bounds(call: Call) -> None:
    channels, left, right, step = (_option(call, position) for position in range(4))
    rows = left + right + 1
    require(call, 0 < step <= rows, f"cannot process {rows} rows in steps of {step}")
    require(call, 0 < channels * rows < INT32_LIMIT, f"does not support {channels} channels")
    _check_capacity(call, "input 0", call.required_input(0), channels)
    _check_capacity(call, "output 0", call.required_output(), channels * rows)


BOUNDS: dict[str, Condition] = {
    "SignalDelay": _check_output_size,
    "SignalEnergy": _energy_bounds,
    "SignalFftAutoScale": _check_output_size,
    "SignalFilterBank": _filter_bank_bounds,
    "SignalFilterBankLog": _check_output_size,
    "SignalFilterBankSpectralSubtraction": _spectral_subtraction_bounds,
    "SignalFilterBankSquareRoot": _check_output_size,
    "SignalFramer": _framer_bounds,
    "SignalIrfft": _fft_bounds(inverse=True),
    "SignalOverlapAdd": _overlap_add_bounds,
    "SignalPCAN": _pcan_bounds,
    "SignalRfft": _fft_bounds(inverse=False),
    "SignalStacker": _stacker_bounds,
    "SignalWindow": _window_bounds,
}


INT16_BYTES = 2
RADICES = (2, 3, 4, 5)  # kiss_fft has separate code for these; others allocate from the heap, and have not been counted


def _sample_loops(call: Call) -> LoopCounts:
    source = call.required_input(0)
    rows = prod(source.shape[:-1])
    return LoopCounts(source.dtype.name.lower(), {"row": rows, "sample": source.element_count})


def _channel_loops(call: Call) -> LoopCounts:
    source = call.required_input(0)
    return LoopCounts(source.dtype.name.lower(), {"channel": source.element_count})


def _energy_loops(call: Call) -> LoopCounts:
    """Return the loops over the bins from start_index to end_index, whose options are in the order of their names."""
    return LoopCounts("int16", {"bin": max(flex_size(call, 0) - flex_size(call, 1), 0)})


def _filter_bank_loops(call: Call) -> LoopCounts:
    """Return the loops of SignalFilterBank: each channel sums its bins, and one additional channel is summed."""
    widths, result = call.required_input(5), call.required_output()
    weights = sum(integers(widths)) if widths.is_constant else 0
    loops = {"channel": widths.element_count, "weight": weights, "axis": len(result.shape)}
    return LoopCounts("uint64", combined(loops, strided_memcpy_loops(result.size_bytes, 1)))


def _fft_stages(length: int) -> list[tuple[int, int]]:
    """Return the radix of each stage of a complex FFT, and the remaining length (kf_factor)."""
    stages, radix, remaining, max_radix = [], 4, length, isqrt(length)
    while remaining > 1:
        while remaining % radix:
            radix = {4: 2, 2: 3}.get(radix, radix + 2)
            if radix > max_radix:
                radix = remaining
        remaining //= radix
        stages.append((radix, remaining))
    return stages


def _complex_fft_loops(length: int) -> Loops:
    """Return the loops of a complex FFT (kf_work).

    A stage is one call for each part into which the previous stages have divided the signal.
    """
    parts, stages = 1, []
    for radix, rest in _fft_stages(length):
        stages.append({f"stage of {radix}": parts, f"butterfly of {radix}": parts * rest})
        if rest == 1:
            stages.append({"point copied": parts * radix})
        parts *= radix
    return combined(*stages)


def _path(dtype: DType, length: int) -> str:
    counted = all(radix in RADICES for radix, _ in _fft_stages(length // 2))
    return dtype.name.lower() if counted else f"{dtype.name.lower()} other factors"


def _real_fft_loops(length: int) -> Loops:
    """Return the loops of a complex FFT of half the length, and of the pass that splits or merges its halves."""
    half = length // 2
    return combined({"row": 1, "bin": half // 2}, _complex_fft_loops(half))


def _rfft_loops(call: Call) -> LoopCounts:
    """Return the loops of SignalRfft, which copies each row and extends it with zeros."""
    require(call, len(call.required_input(0).shape) > 0, "does not support an input without dimensions")
    source, length = call.required_input(0), flex_options(call).integer("fft_length")
    size = source.shape[-1] * SAMPLE_BYTES[source.dtype]
    padding = memset_loops(length * SAMPLE_BYTES[source.dtype] - size, size)
    row = combined(strided_memcpy_loops(size, 1), padding, _real_fft_loops(length))
    return LoopCounts(_path(source.dtype, length), repeated(prod(source.shape[:-1]), row))


def _irfft_loops(call: Call) -> LoopCounts:
    """Return the loops of SignalIrfft, which divides floats by the length at the end."""
    source, length = call.required_input(0), flex_options(call).integer("fft_length")
    row = combined(_real_fft_loops(length), {"sample": length if source.dtype == DType.FLOAT32 else 0})
    return LoopCounts(_path(source.dtype, length), repeated(prod(source.shape[:-1]), row))


def _sample_copy_loops(samples: int, target: int, source: int) -> Loops:
    """Return the loops of a copy of int16 samples, with offsets in samples; no loops without samples."""
    return memcpy_loops(samples * INT16_BYTES, [(target * INT16_BYTES, source * INT16_BYTES)]) if samples > 0 else {}


def _buffer_write_loops(samples: int, position: int, capacity: int, source: int) -> Loops:
    """Return the loops of writing samples into a circular buffer.

    The buffer contains every sample twice; the second copy wraps around at its end.
    """
    contiguous = min(samples, capacity - position)
    return combined(
        _sample_copy_loops(samples, position, source),
        _sample_copy_loops(contiguous, capacity + position, source),
        _sample_copy_loops(samples - contiguous, 0, source + contiguous),
        {"step over the end": int(contiguous < samples)},
    )


def _delay_loops(call: Call) -> LoopCounts:
    """Return the loops of SignalDelay.

    A frame is written after the zeros of the delay, and an equally long one is read from the front.
    """
    source, delay = call.required_input(0), flex_size(call, 0)
    frame = source.shape[-1]
    rows = (
        repeated(
            count,
            combined(
                {"row": 1},
                _buffer_write_loops(frame, delay, delay + frame, row * frame),
                _sample_copy_loops(frame, row * frame, 0),
            ),
        )
        for row, count in alignment_period(prod(source.shape[:-1]))
    )
    return LoopCounts("int16", combined(*rows))


def _framer_loops(call: Call) -> LoopCounts:
    """Return the loops of SignalFramer, which writes each step of samples and reads a frame.

    A frame that extends beyond the end of the buffer is read in two parts.
    """
    source, size, step = call.required_input(0), flex_size(call, 0), flex_size(call, 1)
    capacity, frames = -(-size // step) * step, source.shape[-1] // step
    parts: list[Loops] = []
    for row, count in alignment_period(prod(source.shape[:-1])):
        parts.append({"row": count})
        for frame in range(frames):
            position, read, frame_index = (
                (size - step + frame * step) % capacity,
                frame * step % capacity,
                row * frames + frame,
            )
            contiguous = min(size, capacity - read)
            loops = combined(
                {"frame": 1, "frame over the end": int(contiguous < size)},
                _buffer_write_loops(step, position, capacity, frame_index * step),
                _sample_copy_loops(contiguous, frame_index * size, read),
                _sample_copy_loops(size - contiguous, frame_index * size + contiguous, 0),
            )
            parts.append(repeated(count, loops))
    return LoopCounts("int16", combined(*parts))


def _overlap_add_loops(call: Call) -> LoopCounts:
    """Return the loops of SignalOverlapAdd.

    A frame is added to the rest of the previous ones; completed samples are copied out, and the rest is moved forward.
    """
    source, step = call.required_input(0), flex_options(call).integer("frame_step")
    size, element = source.shape[-1], SAMPLE_BYTES[source.dtype]
    frames = source.shape[-2]
    frame = combined(
        {"frame": 1, "sample": size},
        strided_memcpy_loops(step * element, 1),
        memmove_loops((size - step) * element, 0, step * element),
        memset_loops(step * element, (size - step) * element),
    )
    rows = prod(source.shape[:-2])
    # The first frame is added to zeros only, which takes software fewer steps.
    overlap = {"row": rows, "sample on another": rows * (frames - 1) * (size - step)}
    return LoopCounts(source.dtype.name.lower(), combined(overlap, repeated(rows * frames, frame)))


def _stacker_loops(call: Call) -> LoopCounts:
    """Return the loops of SignalStacker.

    The first frame's channels are written once more for each frame to its left; a complete output is read.
    """
    channels, left, right = (flex_size(call, position) for position in range(3))
    capacity = channels * (left + right + 1)
    written = [_buffer_write_loops(channels, at * channels, capacity, 0) for at in range(1 + left)]
    read = combined({"read": 1}, _sample_copy_loops(capacity, 0, 0)) if right == 0 else {}
    return LoopCounts("int16", combined({"frame": 1 + left, "extended": int(left > 0)}, *written, read))


LOOPS: dict[str, LoopRule] = {
    "SignalDelay": _delay_loops,
    "SignalEnergy": _energy_loops,
    "SignalFftAutoScale": _sample_loops,
    "SignalFilterBank": _filter_bank_loops,
    "SignalFilterBankLog": _channel_loops,
    "SignalFilterBankSpectralSubtraction": _channel_loops,
    "SignalFilterBankSquareRoot": _channel_loops,
    "SignalFramer": _framer_loops,
    "SignalIrfft": _irfft_loops,
    "SignalOverlapAdd": _overlap_add_loops,
    "SignalPCAN": _channel_loops,
    "SignalRfft": _rfft_loops,
    "SignalStacker": _stacker_loops,
    "SignalWindow": _sample_loops,
}


OPERATORS = entries(prepare=PREPARE, loops=LOOPS, bounds=BOUNDS, init=INIT)
