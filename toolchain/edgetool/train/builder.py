"""Runs the user's function that makes a Keras model: in a child process, and only on code that the user trusts."""

from __future__ import annotations

import inspect
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from edgetool.convert.user_code import Workshop, import_file, told
from edgetool.errors import OutputError, UnsupportedModelError, UsageError


def set_up(folder: Path, source: Path, files: list[Path]) -> Workshop:
    """Copy the module and its files side by side into a new folder.

    Raises UsageError for two of one name and for names that hide a module, OutputError when it cannot be written.
    """
    originals: dict[str, Path] = {}
    for path in (source, *files):
        name = path.resolve().name
        if name in originals:
            raise UsageError(f"has the same name as {originals[name]}", where=str(path), fix="rename one of the two")
        if path.suffix == ".py" and (path.stem in sys.modules or path.stem in sys.stdlib_module_names):
            raise UsageError(f"has the same name as the Python module {path.stem}", where=str(path), fix="rename it")
        originals[name] = path
    try:
        folder.mkdir()
        for name, path in originals.items():
            if path.is_dir():
                shutil.copytree(path, folder / name)
            else:
                shutil.copyfile(path, folder / name)
    except (OSError, shutil.Error) as error:
        raise OutputError(
            f"the builder's files cannot be copied: {error}",
            where=str(folder),
            fix="free some disk space and check the files",
        ) from error
    return Workshop(folder, source, originals)


def call_builder(keras: Any, workshop: Workshop, function: str, parameters: Mapping[str, Any]) -> Any:
    """The keras.Model that the function returns. What it imported is forgotten again.

    Raises UsageError when there is no such function or it takes other parameters, UnsupportedModelError with file and
    line when the code raises or returns something else.
    """
    with _inside(workshop):
        with told(workshop, f"importing {workshop.source.name}"):
            module = import_file(workshop.folder / workshop.source.resolve().name, workshop.source.stem)
        builder = _function(module, workshop, function)
        _check_parameters(builder, workshop, function, parameters)
        with told(workshop, f"{function}({', '.join(f'{name}={value!r}' for name, value in parameters.items())})"):
            model = builder(**parameters)
    if not isinstance(model, keras.Model):
        raise UnsupportedModelError(
            f"function {function} returned {_type_name(model)}, not a Keras model",
            where=str(workshop.source),
            fix="return a Keras 3 model (keras.Model)",
        )
    return model


@contextmanager
def _inside(workshop: Workshop) -> Iterator[None]:
    """Work in the folder and import from it; afterwards nothing of it can be found any more."""
    outside = workshop.folder.parent  # the work directory: the user's code may remove its own
    before = set(sys.modules)
    sys.path.insert(0, str(workshop.folder))
    os.chdir(workshop.folder)
    try:
        yield
    finally:
        os.chdir(outside)
        sys.path[:] = [entry for entry in sys.path if entry != str(workshop.folder)]
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if isinstance(file, str) and Path(file).is_relative_to(workshop.folder):
                del sys.modules[name]


def _function(module: ModuleType, workshop: Workshop, name: str) -> Any:
    found = getattr(module, name, None)
    if callable(found):
        return found
    own = [key for key, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
    functions = [key for key in own if callable(getattr(module, key)) and not key.startswith("_")]
    raise UsageError(
        f"has no function {name!r}",
        where=str(workshop.source),
        fix=f"use {' or '.join(functions)}" if functions else "define it",
    )


def _check_parameters(builder: Any, workshop: Workshop, function: str, parameters: Mapping[str, Any]) -> None:
    try:
        signature = inspect.signature(builder)
    except (TypeError, ValueError):  # a callable without one: calling it tells
        return
    try:
        signature.bind(**parameters)
    except TypeError as error:
        takes = ", ".join(map(str, signature.parameters.values())) or "no parameters"
        raise UsageError(
            f"function {function} cannot be called with {', '.join(parameters) or 'no parameters'}: {error}",
            where=str(workshop.source),
            fix=f"it takes {takes}",
        ) from error


def _type_name(value: Any) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
