from __future__ import annotations

import pytest

from edgetool.model.types import DType, Tensor
from edgetool.operators.call import KernelRefusal
from tests.flexbuffers import flex_map
from tests.operators.prepare.asked import Asked, F, asked
from tests.operators.prepare.calls import HOST, tensor

INT16, INT32, UINT32, UINT64, BOOL = DType.INT16, DType.INT32, DType.UINT32, DType.UINT64, DType.BOOL
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


def test_stacker_allocates_before_prepare_looks_at_tensors() -> None:
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


def test_what_overlap_add_does_not_take() -> None:
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
