"""What keeps TFLM's kernels of signal processing within their tensors: they look at ranks and types alone.

Sources: signal/micro/kernels/*.cc and what they call in signal/src. Options are read by position, sorted by name.
"""

from __future__ import annotations

from math import prod

from edgetool.model.types import Tensor
from edgetool.operators.kernel import Call
from edgetool.operators.prepare.conditions import Condition
from edgetool.operators.prepare.inspection import constant_input, demand, integers
from edgetool.operators.prepare.options import flex_options, flex_size
from edgetool.operators.prepare.signal import FFT_LENGTH

INT32_LIMIT = 2**31
GAINS = 125  # what WideDynamicFunction (pcan_argc_fixed.cc) may look up for 32 bits
FRAME_STEP = 1
PREFILL = 2
CHANNELS, NOISE_CHANNELS = 0, 4


def _option(call: Call, position: int) -> int:
    value = flex_size(call, position)
    demand(call, value < INT32_LIMIT, f"does not support {value} as option {position}")
    return value


def _holds(call: Call, what: str, tensor: Tensor, elements: int) -> None:
    held = tensor.element_count
    demand(call, held >= elements, f"requires {elements} elements as {what}, not {held}")


def _output_of_input(call: Call) -> None:
    """As many elements come as go."""
    given, made = call.required_input(0).element_count, call.required_output().element_count
    demand(call, given == made, f"produces {given} elements, not {made}")


def _window(call: Call) -> None:
    source, weights = call.required_input(0).element_count, call.required_input(1).element_count
    demand(call, weights > 0 and source % weights == 0, f"cannot process {source} samples in windows of {weights}")
    _output_of_input(call)


def _framer(call: Call) -> None:
    size, step = _option(call, 0), _option(call, FRAME_STEP)
    raw = flex_options(call).raw
    prefilled = any(raw[PREFILL : PREFILL + 1])
    demand(call, size > 0 and (size >= step or not prefilled), f"cannot process frames of {size} in steps of {step}")
    _holds(call, "output 0", call.required_output(), call.required_input(0).element_count // step * size)


def _overlap_add(call: Call) -> None:
    shape, step = call.required_input(0).shape, _option(call, FRAME_STEP)
    demand(call, step <= shape[-1], f"cannot process frames of {shape[-1]} in steps of {step}")
    _holds(call, "output 0", call.required_output(), prod(shape[:-1]) * step)


def _transform(*, inverse: bool) -> Condition:
    """An FFT of an even length; complex numbers are pairs of elements."""

    def condition(call: Call) -> None:
        length = _option(call, FFT_LENGTH)
        source, result = call.required_input(0).shape, call.required_output().shape
        demand(call, bool(source), "does not support an input without dimensions")
        demand(call, length > 0 and length % 2 == 0, f"does not support a transform of {length} samples")
        pairs = length + 2
        if inverse:
            demand(
                call,
                source[-1] >= pairs and result[-1] >= length,
                f"cannot transform {source} to {result} with a length of {length}",
            )
        else:
            demand(
                call,
                source[-1] <= length and result[-1] >= pairs,
                f"cannot transform {source} to {result} with a length of {length}",
            )
        rows, made = prod(source[:-1]), prod(result[:-1])
        demand(call, made >= rows, f"produces {rows} rows, not {made}")

    return condition


def _energy(call: Call) -> None:
    end, start = _option(call, 0), _option(call, 1)
    demand(call, start <= end, f"cannot compute energies from {start} to {end}")
    _holds(call, "input 0", call.required_input(0), 2 * end)
    _holds(call, "output 0", call.required_output(), end)


def _filter_bank(call: Call) -> None:
    """Each channel weighs the frequencies from its start on."""
    channels = _option(call, CHANNELS)
    for position, what in ((3, "starts"), (4, "weight start indices"), (5, "widths")):
        constant_input(position, what)(call)
        _holds(call, f"input {position}", call.required_input(position), channels + 1)
    made = call.required_output().element_count
    demand(call, made <= channels, f"produces {channels} channels, not {made}")
    source, weights = call.required_input(0), min(call.required_input(p).element_count for p in (1, 2))
    starts, first_weights, widths = (integers(call.required_input(p)) for p in (3, 4, 5))
    for start, first, width in zip(starts[: channels + 1], first_weights, widths, strict=False):
        fits = width <= 0 or (0 <= start <= source.element_count - width and 0 <= first <= weights - width)
        demand(call, fits, f"reads {width} frequencies from {start} with weights from {first}")


def _spectral_subtraction(call: Call) -> None:
    channels = _option(call, NOISE_CHANNELS)
    _holds(call, "input 0", call.required_input(0), channels)
    _holds(call, "output 0", call.required_output(), channels)
    noise = call.required_output(1).element_count
    demand(call, noise <= channels, f"produces {channels} noise estimates, not {noise}")


def _gain_control(call: Call) -> None:
    _output_of_input(call)
    _holds(call, "input 1", call.required_input(1), call.required_input(0).element_count)
    _holds(call, "input 2", call.required_input(2), GAINS)


def _stacker(call: Call) -> None:
    channels, left, right, step = (_option(call, position) for position in range(4))
    rows = left + right + 1
    demand(call, 0 < step <= rows, f"cannot process {rows} rows in steps of {step}")
    demand(call, 0 < channels * rows < INT32_LIMIT, f"does not support {channels} channels")
    _holds(call, "input 0", call.required_input(0), channels)
    _holds(call, "output 0", call.required_output(), channels * rows)


SIGNAL_BOUNDS: dict[str, Condition] = {
    "SignalDelay": _output_of_input,
    "SignalEnergy": _energy,
    "SignalFftAutoScale": _output_of_input,
    "SignalFilterBank": _filter_bank,
    "SignalFilterBankLog": _output_of_input,
    "SignalFilterBankSpectralSubtraction": _spectral_subtraction,
    "SignalFilterBankSquareRoot": _output_of_input,
    "SignalFramer": _framer,
    "SignalIrfft": _transform(inverse=True),
    "SignalOverlapAdd": _overlap_add,
    "SignalPCAN": _gain_control,
    "SignalRfft": _transform(inverse=False),
    "SignalStacker": _stacker,
    "SignalWindow": _window,
}
