"""Vela's reader on the same files, in an environment of its own (`pip install ethos-u-vela`)."""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path

from benchmarks.fuzz.inputs import Inputs
from ethosu.vela.errors import VelaError
from ethosu.vela.model_reader import ModelReaderOptions, read_model


def judge_number(_: str, source: Inputs, number: int) -> str:
    """ "" for what it takes, "refused" for an error of its own, "exit" where it ends the process; else it is raised."""
    with tempfile.TemporaryDirectory(prefix="fuzz-vela-") as folder:
        path = Path(folder, "mutant.tflite")
        path.write_bytes(source[number])
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                read_model(str(path), ModelReaderOptions())
        except VelaError:
            return "refused"
        except SystemExit:
            return "exit"
    return ""
