"""Writes a Keras model as a .keras file that is the same, byte for byte, whenever it is written."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

from edgetool.convert.float_model import explain
from edgetool.errors import OutputError, UnsupportedModelError

METADATA = "metadata.json"
CONFIG = "config.json"
SHARED = "shared_object_id"
DATE = "1980-01-01@00:00:00"  # the earliest that a zip file can hold, and what it holds when not told


def save_keras(model: Any, path: Path) -> None:
    """Save at `path`. OutputError when it cannot be written, UnsupportedModelError when Keras cannot save the model."""
    dated = path.with_name(f"dated-{path.name}")
    try:
        model.save(str(dated))
        with zipfile.ZipFile(dated) as old, zipfile.ZipFile(path, "w") as new:
            for name in sorted(old.namelist()):
                new.writestr(zipfile.ZipInfo(name), _timeless(name, old.read(name)))
    except OSError as error:
        raise OutputError(
            f"the model cannot be written: {error.strerror or error}",
            where=str(path),
            fix="free some disk space, or set TMPDIR to a folder with more space",
        ) from error
    except MemoryError:
        raise
    except Exception as error:  # Keras raises what a layer's get_config raises
        what, where = explain(error)
        raise UnsupportedModelError(
            f"Keras cannot save {where}: {what}",
            fix="use built-in Keras layers, or define get_config in the custom ones",
        ) from error
    finally:
        dated.unlink(missing_ok=True)


def _timeless(name: str, content: bytes) -> bytes:
    """A member of the archive without the date, and with shared objects numbered and not called by their addresses."""
    if name == METADATA:
        return json.dumps({**json.loads(content), "date_saved": DATE}).encode()
    if name == CONFIG:
        return json.dumps(_renumbered(json.loads(content), {})).encode()
    return content


def _renumbered(value: Any, numbers: dict[int, int]) -> Any:
    if isinstance(value, list):
        return [_renumbered(item, numbers) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: numbers.setdefault(item, len(numbers))
        if key == SHARED and isinstance(item, int)
        else _renumbered(item, numbers)
        for key, item in value.items()
    }
