"""The .tflite as a read-only, 16-byte aligned array: in C, or included by the assembler, which is faster to build."""

from __future__ import annotations

from edgetool import errors
from edgetool.codegen import c_names
from edgetool.codegen.templates import fill

BYTES_PER_ROW = 16
_CELL = len("0x00,")


def model_data(name: str, blob: bytes) -> tuple[str, str]:
    """Return the texts of NAME_model.c and NAME_model.h, where NAME is c_names.model_identifier(name).

    The array is `NAME_model`, its size the macro `NAME_MODEL_BYTES`.

    Raises:
        InvalidModelError: There are no bytes.
    """
    if not blob:
        raise errors.InvalidModelError("the model is empty", where=name, fix="convert it again")
    names = {**c_names.model_names(name), "my_label": c_names.comment_text(name)}
    return fill("c/model.c", **names, MY_ROWS=_rows(blob)), fill("c/model.h", **names, MY_BYTES=len(blob))


def incbin_source(name: str) -> str:
    """Return the text of NAME_model.S, where NAME is c_names.model_identifier(name), which replaces NAME_model.c.

    The assembler includes the model from NAME.tflite, and compares its size with NAME_MODEL_BYTES in NAME_model.h.
    """
    return fill("c/model.S", **c_names.model_names(name), my_label=c_names.comment_text(name))


def _rows(blob: bytes) -> str:
    cells = "0x" + blob.hex(",").replace(",", ",0x") + ","
    width = BYTES_PER_ROW * _CELL
    return "".join([f"  {cells[start : start + width]}\n" for start in range(0, len(cells), width)])
