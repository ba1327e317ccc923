"""No refusal where one form of the recurrent layers works."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgetool.convert import worker
from edgetool.convert.quantizer import LayerMap
from edgetool.convert.tflite import ConverterOptions, Order
from edgetool.convert.worker import ConvertedModel, convert_loaded
from edgetool.errors import ConversionError

FUSED, UNROLLED = ConversionError("layer 'lstm' (LSTM) fails"), ConversionError("too many steps")


def converted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failing: dict[str, Exception],
    *,
    lstms: bool = True,
    rnn: str = "auto",
) -> ConvertedModel:
    """The conversion of a model whose forms fail as told."""

    def form(name: str) -> Any:
        return SimpleNamespace(name=name, lowering=SimpleNamespace(cuts=SimpleNamespace(lstms=lstms)), unrolled=None)

    def once(_: Any, loaded: Any, *rest: Any) -> ConvertedModel:
        if loaded.name in failing:
            raise failing[loaded.name]
        return ConvertedModel(loaded.name.encode(), loaded, Order((), ()), LayerMap({}), (), None, ("own",))

    monkeypatch.setattr(worker, "_convert_form", once)
    loaded = form(rnn)
    if rnn == "auto":
        loaded.unrolled = lambda: form("unrolled")
    return convert_loaded(None, loaded, [], ConverterOptions("int8", "int8", False), tmp_path, lambda step: None)


def test_unrolled_if_fused_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = converted(tmp_path, monkeypatch, {"auto": FUSED})
    assert found.content == b"unrolled"
    reported, own = found.notes
    assert FUSED.what in reported
    assert own == "own"


def test_the_first_error_if_both_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConversionError, match="fails"):
        converted(tmp_path, monkeypatch, {"auto": FUSED, "unrolled": UNROLLED})


@pytest.mark.parametrize(("lstms", "rnn"), [(False, "auto"), (True, "fused")])
def test_no_second_try_without_a_choice(lstms: bool, rnn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConversionError, match="fails"):
        converted(tmp_path, monkeypatch, {rnn: FUSED}, lstms=lstms, rnn=rnn)
