"""What NAME.h says of a state; nothing where there is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgetool.codegen.header import header
from edgetool.memory.lifetimes import CarriedState
from tests.codegen.c_compilers import MATRIX, compile_in
from tests.codegen.header_specs import KWS

STREAM = replace(KWS, name="stream", state=CarriedState((("gru/state_0", 16), ("lstm/cell_state", 32))))


def test_no_state_is_not_spoken_of() -> None:
    assert "STATE" not in header(KWS)
    assert header(replace(KWS, state=CarriedState(()))) == header(KWS)


def test_the_state_and_its_reset_are_told() -> None:
    text = header(STREAM)
    assert "#define STREAM_STATE_TENSORS 2\n" in text
    assert "#define STREAM_STATE_BYTES 48\n" in text
    plain = " ".join(text.replace("*", " ").split())
    assert "gru/state_0 (16 bytes), lstm/cell_state (32 bytes)".replace("/", "") in plain.replace("/", "")
    assert "stream_runner::reset()" in plain


def test_many_states_are_not_all_named() -> None:
    many = CarriedState(tuple((f"layer_{i}", 4) for i in range(40)), resources=2)
    text = " ".join(header(replace(STREAM, state=many)).replace("*", " ").split())
    assert "layer_5 (4 bytes)" in text
    assert "layer_6" not in text
    assert "34 more" in text
    assert "2 resource variables" in text
    assert "#define STREAM_STATE_BYTES 160" in text


@pytest.mark.parametrize(("compiler", "standard"), [MATRIX[0], MATRIX[-1]])
def test_it_compiles(tmp_path: Path, compiler: str, standard: str) -> None:
    (tmp_path / "stream.h").write_text(header(STREAM), encoding="ascii")
    (tmp_path / "unit.c").write_text('#include "stream.h"\ntypedef char whole[STREAM_STATE_BYTES == 48 ? 1 : -1];\n')
    result = compile_in(tmp_path, compiler, standard, "-fsyntax-only", "unit.c")
    assert (result.returncode, result.stderr) == (0, "")
