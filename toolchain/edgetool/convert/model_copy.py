"""Writes a copy of a model file with another configuration and, where Keras 2 wrote it, weights for Keras 3."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

from edgetool.convert.legacy_weights import convert_groups, copy_tree
from edgetool.convert.source import Source, link

CONFIG, WEIGHTS = "config.json", "model.weights.h5"
Node = dict[str, Any]


def copy_with(source: Source, config: Node, path: Path, *, convert_weights: bool = False) -> None:
    """Write the copy at `path`; the user's own stays as it is. A link where nothing changes."""
    if config == source.config and not convert_weights:
        link(source.path, path)
    elif source.kind == "h5":
        _copy_hdf5(source, config, path, convert_weights)
    else:
        _copy_zip(source, config, path, convert_weights)


def _copy_hdf5(source: Source, config: Node, path: Path, convert_weights: bool) -> None:
    import h5py

    shutil.copyfile(source.path, path)
    path.chmod(0o600)  # the original may be read-only
    with h5py.File(path, "r+") as file:
        del file.attrs["model_config"]
        file.attrs["model_config"] = json.dumps(config)
        if convert_weights and source.config is not None:
            convert_groups(file.get("model_weights", file), source.config)


def _copy_zip(source: Source, config: Node, path: Path, convert_weights: bool) -> None:
    with zipfile.ZipFile(source.path) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.infolist():
            if entry.filename == CONFIG:
                new.writestr(CONFIG, json.dumps(config))
            elif entry.filename == WEIGHTS and convert_weights and source.config is not None:
                _copy_weights(old, new, source.config, config, path.parent)
            else:
                with old.open(entry) as reader, new.open(entry.filename, "w", force_zip64=True) as writer:
                    shutil.copyfileobj(reader, writer)


def _copy_weights(old: zipfile.ZipFile, new: zipfile.ZipFile, before: Node, after: Node, folder: Path) -> None:
    import h5py

    moved = folder / f"moved-{WEIGHTS}"
    try:
        with old.open(WEIGHTS) as reader, h5py.File(reader, "r") as given, h5py.File(moved, "w") as made:
            copy_tree(given, made, before, after)
        new.write(moved, WEIGHTS)
    finally:
        moved.unlink(missing_ok=True)
