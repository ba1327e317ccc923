"""Signal processing: single operators of many sizes, and chains from noise to features, whose numbers are as they are
in spectra of noise."""

from __future__ import annotations

from collections.abc import Callable
from math import cos, pi

from tests.flexbuffers import flex_map
from tests.memory.account_net import Net

from edgetool.model.types import DType, Model

INT16, INT32, FLOAT32, BOOL = DType.INT16, DType.INT32, DType.FLOAT32, DType.BOOL
UINT32, UINT64 = DType.UINT32, DType.UINT64

# Samples of a frame, length of the FFT, first bin, channels, and the bins of the narrowest channel.
CHAINS: tuple[tuple[int, int, int, int, int], ...] = (
    (400, 512, 4, 24, 2),
    (480, 512, 5, 40, 1),
    (500, 512, 6, 40, 1),
    (512, 512, 4, 32, 1),
    (420, 512, 8, 10, 6),
    (440, 512, 3, 5, 4),
    (460, 512, 5, 16, 3),
    (490, 512, 2, 48, 1),
)
ROWS: tuple[tuple[int, ...], ...] = ((50,), (3, 40), (1, 2, 33), (333,), (5, 8))
# The FFT's length, the samples of a row, and the rows.
TRANSFORMED: tuple[tuple[int, int, int], ...] = (
    (16, 16, 1), (32, 20, 3), (64, 64, 1), (128, 100, 2), (256, 256, 1), (512, 400, 1), (1024, 800, 1), (96, 96, 1),
    (48, 40, 2), (160, 160, 1), (400, 400, 1), (240, 240, 1), (8, 8, 4), (120, 90, 1), (2048, 2000, 1), (768, 700, 1),
    (300, 300, 1), (200, 180, 1), (64, 40, 5), (90, 90, 1),
)  # fmt: skip
# Frame, step, frames and rows.
FRAMED: tuple[tuple[int, int, int, int], ...] = (
    (40, 20, 3, 1), (100, 24, 4, 2), (64, 64, 2, 1), (30, 10, 1, 3), (400, 160, 1, 1), (480, 320, 1, 1), (12, 4, 9, 1),
    (200, 100, 2, 2), (480, 160, 2, 1), (36, 12, 4, 3), (90, 30, 2, 1), (1000, 500, 1, 1), (16, 8, 5, 2),
    (26, 13, 3, 2), (75, 25, 2, 1), (250, 125, 1, 1), (13, 5, 3, 2), (3, 1, 4, 1), (7, 3, 5, 3), (2, 2, 4, 1),
    (3, 3, 9, 2), (1, 1, 6, 2), (27, 9, 3, 2), (31, 7, 6, 1),
)  # fmt: skip

# Channels, and the frames left and right.
STACKED: tuple[tuple[int, int, int], ...] = (
    (8, 2, 1), (13, 3, 0), (40, 1, 1), (5, 0, 2), (16, 4, 0), (24, 0, 0), (10, 1, 0), (32, 2, 2), (7, 3, 1), (64, 1, 0),
    (20, 5, 0), (3, 6, 1),
)  # fmt: skip


def plain(net: Net, *shape: int, dtype: DType = INT16) -> int:
    """A tensor without quantization."""
    return net.tensor(shape, dtype)


def chain(size: int, length: int, first: int, channels: int, narrow: int) -> Model:
    """Window, scale, FFT, energy, filter bank, square root, spectral subtraction, gain and logarithm of one frame."""
    net = Net(size)
    x = plain(net, size)
    windowed = plain(net, size)
    hann = [round(2048 - 2048 * cos(2 * pi * (at + 0.5) / size)) for at in range(size)]
    net.custom("SignalWindow", [x, net.constant(hann, dtype=INT16)], [windowed], flex_map(shift=12))
    scaled, shift = plain(net, size), plain(net, dtype=INT32)
    net.custom("SignalFftAutoScale", [windowed], [scaled, shift])
    bins = length // 2 + 1
    spectrum = plain(net, 2 * bins)
    net.custom("SignalRfft", [scaled], [spectrum], flex_map(T=INT16.code, fft_length=length))
    energy = plain(net, bins, dtype=UINT32)
    net.custom("SignalEnergy", [spectrum], [energy], flex_map(start_index=first, end_index=bins - 2))
    widths = [min(narrow + at // 4, (bins - first) // (channels + 1)) for at in range(channels + 1)]
    starts = [first + sum(widths[:at]) for at in range(channels + 1)]
    weights = [at * 1531 % 4097 for at in range(sum(widths))]
    tables = [weights, [4096 - weight for weight in weights]]
    places = [starts, [start - first for start in starts], widths]
    banks = plain(net, channels, dtype=UINT64)
    given = [net.constant(values, dtype=INT16) for values in (*tables, *places)]
    net.custom("SignalFilterBank", [energy, *given], [banks], flex_map(num_channels=channels))
    roots, clean, noise, gained = (plain(net, channels, dtype=UINT32) for _ in range(4))
    net.custom("SignalFilterBankSquareRoot", [banks, shift], [roots])
    smoothing = flex_map(
        alternate_one_minus_smoothing=16000,
        alternate_smoothing=384,
        clamping=0,
        min_signal_remaining=819,
        num_channels=channels,
        one_minus_smoothing=15000,
        smoothing=1384,
        smoothing_bits=10,
        spectral_subtraction_bits=14,
    )
    net.custom("SignalFilterBankSpectralSubtraction", [roots], [clean, noise], smoothing)
    gains = net.constant([max(32000 - 250 * at, 100) for at in range(125)], dtype=INT16)
    net.custom("SignalPCAN", [clean, noise, gains], [gained], flex_map(snr_shift=6))
    logarithms = plain(net, channels)
    net.custom("SignalFilterBankLog", [gained], [logarithms], flex_map(input_correction_bits=3, output_scale=1600))
    return net.model([x], [logarithms])


def windows() -> Model:
    """SignalWindow of rows, and SignalFftAutoScale of all of them."""
    net = Net(41)
    inputs, outputs = [], []
    for shape in ROWS:
        x, y = plain(net, *shape), plain(net, *shape)
        weights = net.constant([(at * 97) % 4096 for at in range(shape[-1])], dtype=INT16)
        net.custom("SignalWindow", [x, weights], [y], flex_map(shift=12))
        count = net.tensors[x].element_count
        z, scaled, shift = plain(net, count), plain(net, count), plain(net, dtype=INT32)
        net.custom("SignalFftAutoScale", [z], [scaled, shift])
        inputs += [x, z]
        outputs += [y, scaled, shift]
    return net.model(inputs, outputs)


def transforms(dtype: DType) -> Model:
    """SignalRfft and back."""
    net = Net(42)
    inputs, outputs = [], []
    for length, size, rows in TRANSFORMED:
        x, spectrum, y = (
            plain(net, rows, size, dtype=dtype),
            plain(net, rows, length + 2, dtype=dtype),
            plain(net, rows, length, dtype=dtype),
        )
        net.custom("SignalRfft", [x], [spectrum], flex_map(T=dtype.code, fft_length=length))
        net.custom("SignalIrfft", [spectrum], [y], flex_map(T=dtype.code, fft_length=length))
        inputs.append(x)
        outputs.append(y)
    return net.model(inputs, outputs)


def frames() -> Model:
    """SignalFramer, SignalDelay and SignalStacker."""
    net = Net(43)
    inputs, outputs = [], []
    for size, step, number, rows in FRAMED:
        x, y, valid = plain(net, rows, number * step), plain(net, rows, number, size), plain(net, dtype=BOOL)
        net.custom("SignalFramer", [x], [y, valid], flex_map(frame_size=size, frame_step=step, prefill=1))
        inputs.append(x)
        outputs += [y, valid]
        x, y = plain(net, rows, size), plain(net, rows, size)
        net.custom("SignalDelay", [x], [y], flex_map(delay_length=step))
        inputs.append(x)
        outputs.append(y)
    for channels, left, right in STACKED:
        x, y, valid = plain(net, channels), plain(net, channels * (left + right + 1)), plain(net, dtype=BOOL)
        given = flex_map(num_channels=channels, stacker_left_context=left, stacker_right_context=right, stacker_step=2)
        net.custom("SignalStacker", [x], [y, valid], given)
        inputs.append(x)
        outputs += [y, valid]
    return net.model(inputs, outputs)


def overlaps(dtype: DType) -> Model:
    """SignalOverlapAdd."""
    net = Net(44)
    inputs, outputs = [], []
    for size, step, number, rows in FRAMED:
        x, y = plain(net, rows, number, size, dtype=dtype), plain(net, rows, number * step, dtype=dtype)
        net.custom("SignalOverlapAdd", [x], [y], flex_map(T=dtype.code, frame_step=step))
        inputs.append(x)
        outputs.append(y)
    return net.model(inputs, outputs)


CASES: dict[str, Callable[[], Model]] = {
    **{f"chain-{given[0]}": lambda given=given: chain(*given) for given in CHAINS},
    "windows": windows,
    "frames": frames,
    **{f"transforms-{dtype.name.lower()}": lambda dtype=dtype: transforms(dtype) for dtype in (INT16, INT32, FLOAT32)},
    **{f"overlaps-{dtype.name.lower()}": lambda dtype=dtype: overlaps(dtype) for dtype in (INT16, FLOAT32)},
}
