"""Models of the custom operators that TFLM brings."""

from __future__ import annotations

from collections.abc import Callable
from struct import pack

from edgetool.model.types import DType, Model
from tests.flexbuffers import flex_map
from tests.memory.account_net import Net

FLOAT32, INT8, INT16, INT32, BOOL = DType.FLOAT32, DType.INT8, DType.INT16, DType.INT32, DType.BOOL
UINT32, UINT64 = DType.UINT32, DType.UINT64


def plain(net: Net, *shape: int, dtype: DType = INT16) -> int:
    """A tensor without quantization, as those of signal processing."""
    return net.tensor(shape, dtype)


def spectrum() -> Model:
    """From samples to the energies of a spectrum: framer, window, delay, FFT, energy."""
    net = Net(1)
    x = plain(net, 1, 160)
    frames, valid = plain(net, 1, 1, 400), plain(net, dtype=BOOL)
    net.custom("SignalFramer", [x], [frames, valid], flex_map(frame_size=400, frame_step=160, prefill=1))
    windowed = plain(net, 1, 1, 400)
    weights = net.constant([index % 100 for index in range(400)], dtype=INT16)
    net.custom("SignalWindow", [frames, weights], [windowed], flex_map(shift=12))
    delayed = plain(net, 1, 1, 400)
    net.custom("SignalDelay", [windowed], [delayed], flex_map(delay_length=30))
    flat = net.op("RESHAPE", [delayed, net.constant([400])], 400, new_shape=(400,))
    scaled, shift = plain(net, 400), plain(net, dtype=INT32)
    net.custom("SignalFftAutoScale", [flat], [scaled, shift])
    spectral = plain(net, 514)
    net.custom("SignalRfft", [scaled], [spectral], flex_map(T=INT16.code, fft_length=512))
    energy = plain(net, 257, dtype=UINT32)
    net.custom("SignalEnergy", [spectral], [energy], flex_map(start_index=0, end_index=257))
    return net.model([x], [energy, valid, shift])


def features() -> Model:
    """From energies to features: filter bank, square root, spectral subtraction, PCAN, logarithm."""
    net = Net(2)
    energies, shift, channels = plain(net, 65, dtype=UINT32), plain(net, dtype=INT32), 12
    tables = [net.constant([1] * size, dtype=INT16) for size in (60, 60)]
    tables += [net.constant([index * step for index in range(channels + 1)], dtype=INT16) for step in (5, 4)]
    tables.append(net.constant([4] * (channels + 1), dtype=INT16))
    banks = plain(net, channels, dtype=UINT64)
    net.custom("SignalFilterBank", [energies, *tables], [banks], flex_map(num_channels=channels))
    roots, clean, noise, gained = (plain(net, channels, dtype=UINT32) for _ in range(4))
    net.custom("SignalFilterBankSquareRoot", [banks, shift], [roots])
    net.custom(
        "SignalFilterBankSpectralSubtraction",
        [roots],
        [clean, noise],
        flex_map(
            alternate_one_minus_smoothing=16000,
            alternate_smoothing=384,
            clamping=0,
            min_signal_remaining=819,
            num_channels=channels,
            one_minus_smoothing=15000,
            smoothing=1384,
            smoothing_bits=10,
            spectral_subtraction_bits=14,
        ),
    )
    gains = net.constant([100] * 125, dtype=INT16)
    net.custom("SignalPCAN", [clean, noise, gains], [gained], flex_map(snr_shift=6))
    logarithms = plain(net, channels)
    given = flex_map(input_correction_bits=3, output_scale=1600)
    net.custom("SignalFilterBankLog", [gained], [logarithms], given)
    stacked, valid = plain(net, channels * 4), plain(net, dtype=BOOL)
    given = flex_map(num_channels=channels, stacker_left_context=2, stacker_right_context=1, stacker_step=2)
    net.custom("SignalStacker", [logarithms], [stacked, valid], given)
    return net.model([energies, shift], [stacked, valid])


def back_to_samples(dtype: DType) -> Model:
    """The inverse FFT of two rows, and their overlapping sum."""
    net = Net(3)
    x, samples = plain(net, 2, 3, 66, dtype=dtype), plain(net, 2, 3, 64, dtype=dtype)
    net.custom("SignalIrfft", [x], [samples], flex_map(T=dtype.code, fft_length=64))
    y = plain(net, 2, 96, dtype=dtype)
    net.custom("SignalOverlapAdd", [samples], [y], flex_map(T=dtype.code, frame_step=32))
    return net.model([x], [y])


def keywords() -> Model:
    """Two of five classes, detected by their scores."""
    net = Net(7)
    scores = plain(net, 1, 5, dtype=INT32)
    outputs = [plain(net, 2, dtype=BOOL), plain(net, 2, dtype=INT32)]
    net.custom("BasicClassifier", [scores, net.constant([4, 1]), net.constant([100, -20])], outputs)
    return net.model([scores], outputs)


def detections() -> Model:
    """The end of an object detector, with eleven scratch buffers."""
    net = Net(4)
    boxes, scores = net.arena(1, 12, 4, dtype=FLOAT32), net.arena(1, 12, 4, dtype=FLOAT32)
    outputs = [net.arena(*shape, dtype=FLOAT32) for shape in ((1, 5, 4), (1, 5), (1, 5), (1,))]
    given = flex_map(
        max_detections=5,
        max_classes_per_detection=1,
        num_classes=3,
        nms_score_threshold=-100.0,
        nms_iou_threshold=1.0,
        y_scale=10.0,
        x_scale=10.0,
        h_scale=5.0,
        w_scale=5.0,
    )
    anchors = net.tensor([12, 4], FLOAT32, data=pack("<48f", *([0.5, 0.5, 0.25, 0.25] * 12)))
    net.custom("TFLite_Detection_PostProcess", [boxes, scores, anchors], outputs, given)
    return net.model([boxes, scores], outputs)


def rolling_window() -> Model:
    """CIRCULAR_BUFFER, of which only the newest row is used: the others are whatever lay in the arena before."""
    net = Net(5)
    x = net.arena(1, 1, 1, 6)
    y = net.arena(1, 9, 1, 6)
    net.custom("CIRCULAR_BUFFER", [x], [y], flex_map(cycles_max=1))
    newest = net.op("SLICE", [y, net.constant([0, 8, 0, 0]), net.constant([1, 1, 1, 6])], 1, 1, 1, 6)
    return net.model([x], [net.conv(newest, 3)])


def decoded_weights() -> Model:
    """Compressed constants: by table, of values that were pruned."""
    net = Net(6)
    table = bytes([0, 1, 0, 0, 1, 4, 16]).ljust(16, b"\0") + bytes(range(16))
    pruned = bytes([2, 1, 0, 0, 1]).ljust(16, b"\0") + bytes(range(24))
    inputs = []
    for codes, tables in ((bytes(12), table), (bytes(3), pruned)):
        inputs += [net.tensor([len(data)], DType.UINT8, data=data) for data in (codes, tables)]
    outputs = [net.arena(4, 6), net.tensor([4, 6], INT8, scales=[0.25] * 4)]
    net.custom("TFLM_DECODE", inputs, outputs)
    x = net.arena(1, 6)
    return net.model([x], [net.op("ADD", [outputs[0], x], 4, 6), outputs[1]])


MODELS: dict[str, Callable[[], Model]] = {
    make.__name__: make for make in (spectrum, features, keywords, detections, rolling_window, decoded_weights)
} | {f"back_to_samples-{dtype.name.lower()}": lambda d=dtype: back_to_samples(d) for dtype in (INT16, FLOAT32)}
