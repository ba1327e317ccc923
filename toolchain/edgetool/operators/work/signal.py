"""The work of TFLM's custom operators of signal processing, by custom code.

Sources: signal/micro/kernels/*.cc, signal/src/*.cc, kiss_fft.c, kiss_fftr.c. The work of square roots, logarithms and
gains depends on the numbers: the mean over spectra of noise is counted. Framers, stackers and delays are counted as
they run for the first time, filled before.
"""

from __future__ import annotations

from math import isqrt, prod

from edgetool.model.types import DType
from edgetool.operators.kernel import Call
from edgetool.operators.prepare.inspection import demand, integers
from edgetool.operators.prepare.options import flex_options, flex_size
from edgetool.operators.prepare.signal import SAMPLE_BYTES
from edgetool.operators.work.copies import copied, copied_evenly, filled, moved, repeating
from edgetool.operators.work.loops import Loops, repeated, together
from edgetool.operators.work.types import Work, WorkRule

INT16_BYTES = 2
RADICES = (2, 3, 4, 5)  # kiss_fft has code of its own for these; others take memory from the heap, and were not counted


def _samples(call: Call) -> Work:
    source = call.required_input(0)
    rows = prod(source.shape[:-1])
    return Work(source.dtype.name.lower(), {"row": rows, "sample": source.element_count})


def _channels(call: Call) -> Work:
    source = call.required_input(0)
    return Work(source.dtype.name.lower(), {"channel": source.element_count})


def _energy(call: Call) -> Work:
    """The bins from start_index to end_index; options are sorted by name."""
    return Work("int16", {"bin": max(flex_size(call, 0) - flex_size(call, 1), 0)})


def _filter_bank(call: Call) -> Work:
    """Each channel sums the bins that it is wide; one more channel than there are is summed."""
    widths, result = call.required_input(5), call.required_output()
    weights = sum(integers(widths)) if widths.is_constant else 0
    loops = {"channel": widths.element_count, "weight": weights, "axis": len(result.shape)}
    return Work("uint64", together(loops, copied_evenly(result.size_bytes, 1)))


def _stages(length: int) -> list[tuple[int, int]]:
    """The radix of each stage of a complex FFT, and what is left of its length (kf_factor)."""
    found, radix, rest, largest = [], 4, length, isqrt(length)
    while rest > 1:
        while rest % radix:
            radix = {4: 2, 2: 3}.get(radix, radix + 2)
            if radix > largest:
                radix = rest
        rest //= radix
        found.append((radix, rest))
    return found


def _complex_fft(length: int) -> Loops:
    """A stage is a call for each part into which those before have divided the signal (kf_work)."""
    parts, found = 1, []
    for radix, rest in _stages(length):
        found.append({f"stage of {radix}": parts, f"butterfly of {radix}": parts * rest})
        if rest == 1:
            found.append({"point copied": parts * radix})
        parts *= radix
    return together(*found)


def _path(dtype: DType, length: int) -> str:
    known = all(radix in RADICES for radix, _ in _stages(length // 2))
    return dtype.name.lower() if known else f"{dtype.name.lower()} other factors"


def _real_fft(length: int) -> Loops:
    """A complex FFT of half the length, and a pass that takes its halves apart or puts them together."""
    half = length // 2
    return together({"row": 1, "bin": half // 2}, _complex_fft(half))


def _rfft(call: Call) -> Work:
    """Each row is copied and filled up with zeros."""
    demand(call, len(call.required_input(0).shape) > 0, "does not support an input without dimensions")
    source, length = call.required_input(0), flex_options(call).integer("fft_length")
    size = source.shape[-1] * SAMPLE_BYTES[source.dtype]
    padding = filled(length * SAMPLE_BYTES[source.dtype] - size, size)
    row = together(copied_evenly(size, 1), padding, _real_fft(length))
    return Work(_path(source.dtype, length), repeated(prod(source.shape[:-1]), row))


def _irfft(call: Call) -> Work:
    """Floats are divided by the length afterwards."""
    source, length = call.required_input(0), flex_options(call).integer("fft_length")
    row = together(_real_fft(length), {"sample": length if source.dtype == DType.FLOAT32 else 0})
    return Work(_path(source.dtype, length), repeated(prod(source.shape[:-1]), row))


def _copied(samples: int, target: int, source: int) -> Loops:
    """A copy of so many int16, the offsets in samples too; none of none."""
    return copied(samples * INT16_BYTES, [(target * INT16_BYTES, source * INT16_BYTES)]) if samples > 0 else {}


def _written(samples: int, at: int, capacity: int, source: int) -> Loops:
    """Samples that a circular buffer takes: everything lies in it twice, and the second time goes around its end."""
    fits = min(samples, capacity - at)
    return together(
        _copied(samples, at, source),
        _copied(fits, capacity + at, source),
        _copied(samples - fits, 0, source + fits),
        {"step over the end": int(fits < samples)},
    )


def _delay(call: Call) -> Work:
    """A frame is written behind the zeros that it waits for, and as much read from the front."""
    source, delay = call.required_input(0), flex_size(call, 0)
    frame = source.shape[-1]
    rows = (
        repeated(
            number,
            together(
                {"row": 1},
                _written(frame, delay, delay + frame, row * frame),
                _copied(frame, row * frame, 0),
            ),
        )
        for row, number in repeating(prod(source.shape[:-1]))
    )
    return Work("int16", together(*rows))


def _framer(call: Call) -> Work:
    """Each step of samples is written, and a frame read; what reaches over the end of the buffer, in two parts."""
    source, size, step = call.required_input(0), flex_size(call, 0), flex_size(call, 1)
    capacity, frames = -(-size // step) * step, source.shape[-1] // step
    parts: list[Loops] = []
    for row, number in repeating(prod(source.shape[:-1])):
        parts.append({"row": number})
        for frame in range(frames):
            at, read, turn = (size - step + frame * step) % capacity, frame * step % capacity, row * frames + frame
            whole = min(size, capacity - read)
            loops = together(
                {"frame": 1, "frame over the end": int(whole < size)},
                _written(step, at, capacity, turn * step),
                _copied(whole, turn * size, read),
                _copied(size - whole, turn * size + whole, 0),
            )
            parts.append(repeated(number, loops))
    return Work("int16", together(*parts))


def _overlap_add(call: Call) -> Work:
    """A frame is added to what was left of those before; what is done is copied out, and the rest moved forward."""
    source, step = call.required_input(0), flex_options(call).integer("frame_step")
    size, element = source.shape[-1], SAMPLE_BYTES[source.dtype]
    frames = source.shape[-2]
    frame = together(
        {"frame": 1, "sample": size},
        copied_evenly(step * element, 1),
        moved((size - step) * element, 0, step * element),
        filled(step * element, (size - step) * element),
    )
    rows = prod(source.shape[:-2])
    # The first frame meets zeros only, to which software adds sooner.
    met = {"row": rows, "sample on another": rows * (frames - 1) * (size - step)}
    return Work(source.dtype.name.lower(), together(met, repeated(rows * frames, frame)))


def _stacker(call: Call) -> Work:
    """The channels are written as often as frames lie left of the first one; read is what is complete."""
    channels, left, right = (flex_size(call, position) for position in range(3))
    capacity = channels * (left + right + 1)
    written = [_written(channels, at * channels, capacity, 0) for at in range(1 + left)]
    read = together({"read": 1}, _copied(capacity, 0, 0)) if right == 0 else {}
    return Work("int16", together({"frame": 1 + left, "extended": int(left > 0)}, *written, read))


WORK: dict[str, WorkRule] = {
    "SignalDelay": _delay,
    "SignalEnergy": _energy,
    "SignalFftAutoScale": _samples,
    "SignalFilterBank": _filter_bank,
    "SignalFilterBankLog": _channels,
    "SignalFilterBankSpectralSubtraction": _channels,
    "SignalFilterBankSquareRoot": _channels,
    "SignalFramer": _framer,
    "SignalIrfft": _irfft,
    "SignalOverlapAdd": _overlap_add,
    "SignalPCAN": _channels,
    "SignalRfft": _rfft,
    "SignalStacker": _stacker,
    "SignalWindow": _samples,
}
