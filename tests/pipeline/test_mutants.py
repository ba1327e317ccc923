"""Hostile files through everything that follows the reader: plan, estimate, checker and emitter."""

from __future__ import annotations

import time
from itertools import islice
from pathlib import Path

import pytest

from edgetool.errors import ModelError
from edgetool.memory.checker import check_layout
from edgetool.model.reader import read_model
from edgetool.model.writer import write_model
from edgetool.pipeline.analysis import analyse
from edgetool.pipeline.firmware import firmware_files
from edgetool.pipeline.planned import planned_source
from edgetool.pipeline.source import Source
from edgetool.target.load import load_target
from tests.conftest import SHARED, over_models
from tests.model.builders import conv_model_bytes, if_model
from tests.model.mutants import mutants

# A third of a second is usual. In a process full of other tests' objects, collecting garbage alone may take a second.
LONGEST_SECONDS = 5
NAMES = ("mlperf/kws_ref_model", "mlperf/vww_96_int8", "made/gru_unroll", "tflm/trained_lstm", "made/attn")
MODELS = SHARED / "data" / "models"
# All of them where the folder is there: a missing one fails instead of shrinking the test.
REAL = [MODELS / f"{name}.tflite" for name in NAMES] if MODELS.is_dir() else []
TARGET = load_target("cortex-m7")


def survive(blobs: list[bytes]) -> tuple[int, int]:
    """Accepted and refused; anything but our own refusal, or work without an end, fails the test."""
    accepted = 0
    refusals = []
    for blob in blobs:
        started = time.process_time()
        try:
            source = Source("mutant.tflite", blob, read_model(blob))
            analysis = analyse(source, TARGET)
            planned = planned_source(source, analysis.plan, TARGET)
            files = firmware_files("mutant", planned, analysis.plan, TARGET)
            assert check_layout(analysis.plan.problem, analysis.plan.layout) == ()
            assert all(content.isascii() for content in files.values())
            accepted += 1
        except ModelError as error:
            refusals.append(str(error))
        assert time.process_time() - started < LONGEST_SECONDS
    assert all(len(text.splitlines()) == 1 for text in refusals)
    return accepted, len(refusals)


@over_models(REAL)
def test_mutants_of_real_files(path: Path) -> None:
    accepted, refused = survive(list(islice(mutants(path.read_bytes(), 400, seed=11), 400)))
    assert accepted + refused == 400
    assert accepted > 0
    assert refused > 0


@pytest.mark.parametrize("blob", [conv_model_bytes(), write_model(if_model())], ids=["conv", "if"])
def test_mutants_of_our_own_files(blob: bytes) -> None:
    accepted, refused = survive(list(mutants(blob, 300, seed=12)))
    assert accepted > 0
    assert refused > 0
