"""Damaged files: read or refused by name, and quickly. Nothing else."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from edgetool.errors import ModelError
from edgetool.model.findings import model_findings
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from tests.model.builders import ALL
from tests.model.mutants import mutants

MUTANTS_OF_EACH_OF_OURS = 150
MUTANTS_OF_EACH_REAL_FILE = 200
REAL_FILES = (
    "mlperf/vww_96_int8",
    "mlperf/kws_ref_model",
    "mlperf/ad01_int8",
    "tflm/person_detect_vela",
    "tflm/trained_lstm",
    "tflm/audio_preprocessor_int8",
    "made/lstm_fused_float",
    "made/cnn_mix_int16",
    "made/attn",
    "seanet/strided_slice0",
)


def survive(blob: bytes, count: int, seed: int) -> int:
    """Read `count` mutants; how many were accepted. An accepted one can be judged and written, too."""
    accepted = 0
    for mutant in mutants(blob, count, seed):
        start = time.process_time()
        model, message = attempt(mutant)
        assert time.process_time() - start < 1
        assert message.isprintable()
        if model is not None:
            accepted += 1
            model_findings(model)
            if not model.unknown_fields:
                written = write_model(model)
                assert write_model(read_model(written)) == written
    return accepted


def attempt(blob: bytes) -> tuple[Model | None, str]:
    """The model, or why there is none. Any other exception fails the test."""
    try:
        return read_model(blob), ""
    except ModelError as error:
        return None, str(error)


@pytest.mark.parametrize("make", ALL.values(), ids=ALL)
def test_mutants_of_our_models(make: object) -> None:
    assert callable(make)
    accepted = survive(write_model(make()), MUTANTS_OF_EACH_OF_OURS, seed=1)
    assert 0 < accepted < MUTANTS_OF_EACH_OF_OURS


@pytest.mark.parametrize("name", REAL_FILES)
def test_mutants_of_real_files(name: str, shared: Path) -> None:
    blob = (shared / "data" / "models" / f"{name}.tflite").read_bytes()
    accepted = survive(blob, MUTANTS_OF_EACH_REAL_FILE, seed=2)
    assert 0 < accepted < MUTANTS_OF_EACH_REAL_FILE


def test_mutants_repeat() -> None:
    blob = write_model(ALL["conv"]())
    assert list(mutants(blob, 20, 3)) == list(mutants(blob, 20, 3))
    assert list(mutants(blob, 20, 3)) != list(mutants(blob, 20, 4))
