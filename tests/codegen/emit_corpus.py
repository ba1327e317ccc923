"""Writes the firmware files of many models: python -m tests.codegen.emit_corpus DIRECTORY MODEL.tflite...

Each model is planned for the core, and gets a directory called as its C names: in DIRECTORY/models with all that `emit`
can write for it, or without C++ where TFLM lacks an operator; in DIRECTORY/buffers with shared buffers. Some are in
DIRECTORY/shared together, in one arena.
"""

from __future__ import annotations

import sys
from pathlib import Path

from edgetool.errors import UnsupportedModelError
from edgetool.pipeline.emit import emit_files, emit_shared
from edgetool.pipeline.firmware import FirmwareRequest, output_name
from edgetool.pipeline.plan import plan_model
from edgetool.pipeline.targets import resolve_target
from edgetool.target.types import Target

CORE = "cortex-m7"
EVERYTHING = (FirmwareRequest("cmake", "array", profile=True), FirmwareRequest("cmake", "incbin", profile=True))
TOGETHER = ("kws_ref_model", "ad01_int8", "vww_96_int8")


def emit(directory: Path, path: Path, target: Target) -> Path:
    """The files of one model; returns its planned file."""
    name = output_name(path, None)
    planned = directory / f"{name}.tflite"
    plan_model(path, target, output=planned)
    for request in EVERYTHING:
        made = directory / "models" / name
        try:
            emit_files(planned, target, output=made, name=name, request=request, force=True)
        except UnsupportedModelError:
            header_only = FirmwareRequest("header", request.data)
            emit_files(planned, target, output=made, name=name, request=header_only, force=True)
    emit_files(planned, target, output=directory / "buffers" / name, name=name, arena_style="buffers")
    return planned


def main(arguments: list[str]) -> None:
    directory = Path(arguments[0])
    directory.mkdir(parents=True, exist_ok=True)
    target = resolve_target(CORE)
    planned = [emit(directory, Path(path), target) for path in arguments[1:]]
    together = [path for path in planned if path.stem in TOGETHER]
    emit_shared(together, target, output=directory / "shared", request=EVERYTHING[0])


if __name__ == "__main__":
    main(sys.argv[1:])
