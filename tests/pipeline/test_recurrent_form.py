"""Which form of the recurrent layers is taken, and what is said of the other."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgetool.convert.request import ConvertRequest
from edgetool.errors import ConversionError
from edgetool.pipeline import convert
from edgetool.pipeline.convert import Form, best_form
from edgetool.report.document import QuantizationInfo
from edgetool.target.load import load_target

UNROLLED = ConversionError("too many steps")


def form_of(request: ConvertRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: dict[str, Any]) -> Form:
    made = Form.__new__(Form)
    scopes = ("around/forward_lstm", "around/backward_lstm", "lstm")
    conversion = SimpleNamespace(fused=scopes, layers={"around": "Bidirectional", **dict.fromkeys(scopes, "LSTM")})
    for name, value in (("findings", ()), ("quality", QuantizationInfo), ("conversion", conversion), ("source", None)):
        object.__setattr__(made, name, value)

    def converted(wanted: ConvertRequest, *args: Any) -> Form:
        if wanted.rnn in failing:
            raise failing[wanted.rnn]
        return made

    monkeypatch.setattr(convert, "_converted", converted)
    return best_form(request, load_target("cortex-m4"), name="m.tflite", workdir=tmp_path, progress=lambda step: None)


@pytest.fixture
def request_(tmp_path: Path) -> ConvertRequest:
    return ConvertRequest(tmp_path / "m.keras")


def test_the_reason_for_a_missing_alternative_is_reported(
    request_: ConvertRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = form_of(request_, tmp_path, monkeypatch, {"unrolled": UNROLLED})
    (reported,) = found.findings
    assert reported.message.startswith("layers 'around' and 'lstm' were converted to one operator")
    assert reported.message.endswith(UNROLLED.what)
