"""Prepare and loop counts of the custom operators for signals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.model.types import DType, Tensor
from edgetool.operators.call import KernelRefusal
from edgetool.operators.loops import LoopCounts
from tests.flexbuffers import flex_map
from tests.memory.account_net import Net
from tests.operators.asked import Asked, F, asked
from tests.operators.calls import HOST, tensor
from tests.operators.runs import BOOL, FLOAT32, INT16, INT32, run

UINT32, UINT64 = DType.UINT32, DType.UINT64
S16, S32, U64 = tensor(8, dtype=INT16), tensor(8, dtype=UINT32), tensor(8, dtype=UINT64)
SCALAR, FLAG = tensor(dtype=INT32), tensor(dtype=BOOL)


@pytest.mark.parametrize(
    ("name", "inputs", "outputs"),
    [
        ("SignalEnergy", [S16], [S32]),
        ("SignalFftAutoScale", [S16], [S16, SCALAR]),
        ("SignalFilterBankLog", [S32], [S16]),
        ("SignalFilterBankSquareRoot", [U64, SCALAR], [S32]),
        ("SignalPCAN", [S32, S32, S16], [S32]),
        ("SignalWindow", [S16, S16], [S16]),
    ],
)
def test_operators_without_a_state(name: str, inputs: list[Tensor], outputs: list[Tensor]) -> None:
    requests = asked(name, inputs, outputs, custom_options=b"")
    assert requests == [f"t{index}" for index in range(len(inputs) + len(outputs))]
    with pytest.raises(KernelRefusal, match="not bool"):
        asked(name, inputs, [tensor(8, dtype=BOOL), *outputs[1:]], custom_options=b"")


@pytest.mark.parametrize(("source", "result"), [(S16, tensor(1, 8, dtype=INT16)), (tensor(dtype=INT16), S16)])
def test_window_gives_rows_as_it_takes_them(source: Tensor, result: Tensor) -> None:
    with pytest.raises(KernelRefusal, match="dimensions"):
        asked("SignalWindow", [source, S16], [result], custom_options=b"")


def test_delay_keeps_every_sample_twice() -> None:
    # 24 bytes in front of 2 * (8 + 3) samples of 2 bytes on 32 bits, 40 on 64; two rows and the pointers to them.
    rows, options = tensor(2, 8, dtype=INT16), flex_map(delay_length=3)
    requests = asked("SignalDelay", [rows], [rows], custom_options=options)
    assert requests == ["t0", "t1", *[("persistent", 8)] * 2, *[("persistent", 24 + 44)] * 2]
    assert asked("SignalDelay", [rows], [rows], custom_options=options, abi=HOST)[-1] == ("persistent", 40 + 44)


def _framed(size: int, step: int, source: Tensor) -> Asked:
    result = tensor(*source.shape[:-1], 2, size, dtype=INT16)
    options = flex_map(frame_size=size, frame_step=step, prefill=1)
    return asked("SignalFramer", [source], [result, FLAG], custom_options=options)


def test_framer_rounds_its_frame_up_to_whole_steps() -> None:
    # 5 samples in steps of 4 need room for 8.
    expected: Asked = ["t0", "t1", "t2", *[("persistent", 4)] * 2, ("persistent", 24 + 4 * 8)]
    assert _framed(5, 4, S16) == expected
    with pytest.raises(KernelRefusal, match="8 samples in steps of 3"):
        _framed(5, 3, S16)
    with pytest.raises(KernelRefusal, match="8 samples in steps of 0"):
        _framed(5, 0, S16)


def test_stacker_allocates_before_prepare_requests_tensors() -> None:
    options = flex_map(num_channels=8, stacker_left_context=1, stacker_right_context=2, stacker_step=2)
    requests = asked("SignalStacker", [S16], [tensor(32, dtype=INT16), FLAG], custom_options=options)
    assert requests == [("persistent", 24 + 4 * 8 * 4), "t0", "t1", "t2"]


def test_filter_bank() -> None:
    inputs = [S32, *[S16] * 5]
    requests = asked("SignalFilterBank", inputs, [U64], custom_options=flex_map(num_channels=8))
    assert requests == [("persistent", 9 * 8), *(f"t{index}" for index in range(7))]


def test_spectral_subtraction_finds_its_channels_among_nine_options() -> None:
    names = (
        "alternate_one_minus_smoothing",
        "alternate_smoothing",
        "clamping",
        "min_signal_remaining",
        "num_channels",
        "one_minus_smoothing",
        "smoothing",
        "smoothing_bits",
        "spectral_subtraction_bits",
    )
    options = flex_map(**{name: 8 if name == "num_channels" else 1 for name in names})
    requests = asked("SignalFilterBankSpectralSubtraction", [S32], [S32, S32], custom_options=options)
    assert requests == [("persistent", 32), "t0", "t1", "t2"]


@pytest.mark.parametrize(("dtype", "sample"), [(INT16, 2), (F, 4)])
def test_overlap_add_keeps_a_frame_per_row(dtype: DType, sample: int) -> None:
    source, result = tensor(2, 3, 8, dtype=dtype), tensor(2, 12, dtype=dtype)
    options = flex_map(T=dtype.code, frame_step=4)
    requests = asked("SignalOverlapAdd", [source], [result], custom_options=options)
    assert requests == ["t0", "t1", ("persistent", 8), *[("persistent", 8 * sample)] * 2]


def test_overlap_add_rejects() -> None:
    with pytest.raises(KernelRefusal, match="cannot add int32"):
        asked("SignalOverlapAdd", [S16], [S16], custom_options=flex_map(T=INT32.code, frame_step=4))
    with pytest.raises(KernelRefusal, match="does not support samples of type 9"):
        asked("SignalOverlapAdd", [S16], [S16], custom_options=flex_map(T=9, frame_step=4))
    with pytest.raises(KernelRefusal, match="an input of shape"):
        asked("SignalOverlapAdd", [S16], [S16], custom_options=flex_map(T=INT16.code, frame_step=4))


def _fft(name: str, dtype: DType, length: int, *, host: bool = False) -> Asked:
    # A spectrum has two numbers for each of length / 2 + 1 frequencies.
    time, spectrum = tensor(length, dtype=dtype), tensor(length + 2, dtype=dtype)
    given = (time, spectrum) if name == "SignalRfft" else (spectrum, time)
    options = flex_map(T=dtype.code, fft_length=length)
    return asked(name, [given[0]], [given[1]], custom_options=options, **({"abi": HOST} if host else {}))


@pytest.mark.parametrize(("dtype", "sample"), [(INT16, 2), (INT32, 4), (F, 4)])
def test_rfft(dtype: DType, sample: int) -> None:
    # 12 bytes, the FFT of 256 (264 bytes and 256 factors), 384 complex numbers; and the padded input.
    state = 12 + 264 + (256 + 384) * 2 * sample
    assert _fft("SignalRfft", dtype, 512) == [("persistent", state), "t0", "t1", ("scratch", 512 * sample)]
    assert _fft("SignalRfft", dtype, 512, host=True)[0] == ("persistent", state + 12)


@pytest.mark.parametrize(("dtype", "own_32", "own_64"), [(INT16, 0, 0), (INT32, 0, 0), (F, 8, 16)])
def test_irfft_has_no_scratch_buffer(dtype: DType, own_32: int, own_64: int) -> None:
    state = 264 + (4 + 6) * dtype.bits // 4
    assert _fft("SignalIrfft", dtype, 8) == [("persistent", 12 + own_32 + state), "t0", "t1"]
    assert _fft("SignalIrfft", dtype, 8, host=True)[0] == ("persistent", 24 + own_64 + state)


def test_an_odd_fft_has_no_state() -> None:
    assert _fft("SignalRfft", INT16, 7)[0] == ("persistent", 0)


def test_options_that_are_missing_or_negative() -> None:
    with pytest.raises(KernelRefusal, match="has 0 options, not 1"):
        asked("SignalDelay", [S16], [S16], custom_options=flex_map())
    with pytest.raises(KernelRefusal, match="a size of -3"):
        asked("SignalDelay", [S16], [S16], custom_options=flex_map(delay_length=-3))


def test_more_rows_than_any_memory_has_room_for() -> None:
    rows = tensor(2**24, 1, dtype=INT16)
    with pytest.raises(KernelRefusal, match="does not fit in any memory"):
        asked("SignalDelay", [rows], [rows], custom_options=flex_map(delay_length=1))


Kind = tuple[tuple[int, ...], DType]


def custom(code: str, inputs: Sequence[Kind], outputs: Sequence[Kind], **given_options: Any) -> LoopCounts:
    net = Net(1)
    given_inputs = [net.tensor(shape, dtype) for shape, dtype in inputs]
    made = [net.tensor(shape, dtype) for shape, dtype in outputs]
    net.custom(code, given_inputs, made, flex_map(**given_options) if given_options else None)
    return run(net.model(given_inputs, made))


def stages(length: int) -> list[int]:
    """The radices of kiss_fft for lengths of 2, 3 and 5: fours first."""
    found = []
    for radix in (4, 2, 3, 5):
        while length % radix == 0:
            found.append(radix)
            length //= radix
    assert length == 1
    return found


def transformed(radices: list[int], found: Counter[str]) -> int:
    """Transforms each part by itself, then joins them; the points of the whole."""
    radix = radices[0]
    part = 1
    if len(radices) == 1:
        found["point copied"] += radix
    else:
        for _ in range(radix):
            part = transformed(radices[1:], found)
    found[f"stage of {radix}"] += 1
    found[f"butterfly of {radix}"] += part
    return radix * part


@given(st.sampled_from([16, 24, 32, 40, 48, 60, 64, 96, 128, 200, 256, 300, 512]), st.integers(1, 3))
def test_transforms_are_divided_and_joined(length: int, rows: int) -> None:
    found: Counter[str] = Counter()
    assert transformed(stages(length // 2), found) == length // 2
    work = custom(
        "SignalRfft", [((rows, length), INT16)], [((rows, length + 2), INT16)], T=INT16.code, fft_length=length
    )
    assert work.path == "int16"
    assert {name: work.loops[name] for name in found} == {name: rows * turns for name, turns in found.items()}
    assert work.loops["bin"] == rows * (length // 4)


def test_rows_are_filled_up_to_the_length_of_the_transform() -> None:
    loops = custom("SignalRfft", [((40,), FLOAT32)], [((66,), FLOAT32)], T=FLOAT32.code, fft_length=64).loops
    assert (loops["copied 64 bytes"], loops["copied 16 bytes"], loops["filled 16 bytes"]) == (2, 2, 6)


def test_lengths_with_other_factors_are_another_code() -> None:
    work = custom("SignalRfft", [((56,), INT16)], [((58,), INT16)], T=INT16.code, fft_length=56)
    assert work.path == "int16 other factors"


@pytest.mark.parametrize(("dtype", "divided"), [(INT16, 0), (INT32, 0), (FLOAT32, 64)])
def test_floats_are_divided_on_the_way_back(dtype: DType, divided: int) -> None:
    loops = custom("SignalIrfft", [((66,), dtype)], [((64,), dtype)], T=dtype.code, fft_length=64).loops
    assert loops["sample"] == divided


def test_energies_of_some_bins() -> None:
    work = custom("SignalEnergy", [((66,), INT16)], [((33,), UINT32)], start_index=3, end_index=30)
    assert work == LoopCounts("int16", {"bin": 27})


def test_channels_are_as_wide_as_the_file_says() -> None:
    net = Net(1)
    energies, banks = net.tensor([33], UINT32), net.tensor([3], UINT64)
    tables = [net.constant([1] * 11, dtype=INT16) for _ in range(2)]
    tables += [net.constant(values, dtype=INT16) for values in ([0, 1, 3, 6], [0, 1, 3, 6], [1, 2, 3, 5])]
    net.custom("SignalFilterBank", [energies, *tables], [banks], flex_map(num_channels=3))
    loops = run(net.model([energies], [banks])).loops
    assert (loops["channel"], loops["weight"], loops["copied 16 bytes"], loops["copied words"]) == (4, 11, 1, 2)


@pytest.mark.parametrize(
    ("code", "inputs", "outputs", "path", "options"),
    [
        ("SignalFilterBankSquareRoot", [((9,), UINT64), ((), INT32)], [((9,), UINT32)], "uint64", {}),
        ("SignalFilterBankSpectralSubtraction", [((9,), UINT32)], [((9,), UINT32), ((9,), UINT32)], "uint32", {}),
        ("SignalPCAN", [((9,), UINT32), ((9,), UINT32), ((125,), INT16)], [((9,), UINT32)], "uint32", {"snr_shift": 6}),
        ("SignalFilterBankLog", [((9,), UINT32)], [((9,), INT16)], "uint32", {"output_scale": 1600}),
    ],
)
def test_features_are_made_channel_by_channel(
    code: str, inputs: list[Kind], outputs: list[Kind], path: str, options: dict[str, int]
) -> None:
    assert custom(code, inputs, outputs, **options) == LoopCounts(path, {"channel": 9})


def test_windows_are_applied_row_by_row() -> None:
    shape = ((3, 40), INT16)
    assert custom("SignalWindow", [shape, ((40,), INT16)], [shape], shift=12) == LoopCounts(
        "int16", {"row": 3, "sample": 120}
    )


class Ring:
    """A buffer of int16 in which everything lies twice; counts the bytes of each copy."""

    def __init__(self, capacity: int, filled: int) -> None:
        self.capacity, self.writes, self.reads = capacity, filled % capacity, 0
        self.copies: list[int] = []

    def write(self, samples: int) -> None:
        fits = min(samples, self.capacity - self.writes)
        self.copies += [samples, fits, samples - fits]
        self.writes = (self.writes + samples) % self.capacity

    def read(self, samples: int, gone: int) -> None:
        fits = min(samples, self.capacity - self.reads)
        self.copies += [fits, samples - fits]
        self.reads = (self.reads + gone) % self.capacity


@given(steps=st.integers(1, 4), extra=st.integers(0, 7), step=st.integers(8, 20), frames=st.integers(1, 9))
def test_frames_are_written_step_by_step_and_read_whole(steps: int, extra: int, step: int, frames: int) -> None:
    size = max(steps * step - extra, 1)
    ring = Ring(-(-size // step) * step, size - step if size > step else 0)
    for _ in range(frames):
        ring.write(step)
        ring.read(size, step)
    outputs: list[Kind] = [((2, frames, size), INT16), ((), BOOL)]
    options = {"frame_size": size, "frame_step": step, "prefill": 1}
    loops = custom("SignalFramer", [((2, frames * step), INT16)], outputs, **options).loops
    if size >= step:
        copies = loops.get("copies", 0) + loops.get("short uneven copies", 0)
        assert copies == 2 * sum(samples > 0 for samples in ring.copies)
    assert (loops["frame"], loops["row"]) == (2 * frames, 2)


def test_delays_write_twice_and_read_once() -> None:
    loops = custom("SignalDelay", [((3, 32), INT16)], [((3, 32), INT16)], delay_length=8).loops
    assert (loops["row"], loops["copies"], loops["copied 64 bytes"]) == (3, 9, 9)


def test_overlapping_frames_are_added_copied_and_moved() -> None:
    options = {"T": FLOAT32.code, "frame_step": 16}
    loops = custom("SignalOverlapAdd", [((2, 3, 48), FLOAT32)], [((2, 48), FLOAT32)], **options).loops
    assert (loops["row"], loops["frame"], loops["sample"]) == (2, 6, 6 * 48)
    assert (loops["copied 64 bytes"], loops["moved 16 bytes"], loops["filled 16 bytes"]) == (6, 6 * 8, 6 * 4)


@pytest.mark.parametrize(("right", "read"), [(0, 3 * 8 * 2), (1, 0)])
def test_stacks_begin_with_the_first_frame(right: int, read: int) -> None:
    options = {"num_channels": 8, "stacker_left_context": 2, "stacker_right_context": right, "stacker_step": 1}
    loops = custom("SignalStacker", [((8,), INT16)], [((8 * (3 + right),), INT16), ((), BOOL)], **options).loops
    assert loops["copied 16 bytes"] * 16 + loops["copied words"] * 4 == 3 * 2 * 16 + read
