"""Reads calibration samples from a CSV file: one flattened sample per row."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from edgetool.convert.data_file import open_data, size_bytes
from edgetool.convert.samples import Array, InputSpec, SampleSet
from edgetool.errors import CalibrationError

MAX_FILE_BYTES = 2**28


def read_csv(path: Path, spec: InputSpec) -> SampleSet:
    """The samples of one input. A first row without any number is a header.

    Values are separated by commas, or by semicolons or tabs where the first row has no comma.
    """
    width = math.prod(spec.shape)
    rows: list[Array] = []
    lines: list[int] = []
    try:
        with open_data(path) as stream:
            if size_bytes(stream) > MAX_FILE_BYTES:
                raise CalibrationError(
                    f"is larger than {MAX_FILE_BYTES:,} bytes", where=str(path), fix="save the samples with numpy.save"
                )
            text = stream.read().decode("utf-8-sig")
            for position, (number, cells) in enumerate(_rows(text, path)):
                where = f"{path} row {number}"
                row = [_number(cell) for cell in cells]
                numbers = [value for value in row if value is not None]
                if position == 0 and not numbers:
                    continue
                if len(numbers) != len(row):
                    bad = cells[row.index(None)]
                    raise CalibrationError(
                        f"has {bad[:40]!r}, which is not a number",
                        where=where,
                        fix="write numbers with a decimal point; a header row must not contain numbers",
                    )
                if len(row) != width:
                    raise CalibrationError(
                        f"has {len(row)} values, but input {spec.name!r} of shape {spec.shape} requires {width}",
                        where=where,
                        fix="write one flattened sample per row, with values separated by commas",
                    )
                rows.append(np.array(numbers).reshape(spec.shape))
                lines.append(number)
    except UnicodeDecodeError as error:
        raise CalibrationError("is not UTF-8 text", where=str(path), fix="save it as UTF-8") from error
    except csv.Error as error:
        raise CalibrationError(f"cannot be read as CSV ({error})", where=str(path), fix="repair it") from error
    return SampleSet(
        len(rows),
        lambda index: [rows[index]],
        lambda index: f"{path} row {lines[index]}" if lines else str(path),
    )


def _rows(text: str, path: Path) -> Iterator[tuple[int, Sequence[str]]]:
    """Every row that is not blank, with its number from 1."""
    lines = text.splitlines(keepends=True)
    first = next((line for line in lines if line.strip()), "")
    if "," in first and ";" in first:
        raise CalibrationError(
            "mixes commas and semicolons in its first row",
            where=str(path),
            fix="separate values with commas and use a decimal point",
        )
    separator = next((mark for mark in ",;\t" if mark in first), ",")
    for number, cells in enumerate(csv.reader(lines, delimiter=separator), start=1):
        if any(cell.strip() for cell in cells):
            yield number, cells


def _number(cell: str) -> float | None:
    if "_" in cell:  # which Python takes between digits
        return None
    try:
        return float(cell)
    except ValueError:
        return None
