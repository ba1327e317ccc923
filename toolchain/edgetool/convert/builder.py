"""Runs the user's function that makes a Keras model: in a child process, and only on code that the user trusts."""

from __future__ import annotations

import importlib.util
import inspect
import os
import shutil
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from edgetool.errors import OutputError, UnsupportedModelError, UsageError

FRAMES_SHOWN = 5
MESSAGE_LENGTH = 300
NAME_FILES = "run it on its own; files that it imports or reads must be listed too"


@dataclass(frozen=True, slots=True)
class Workshop:
    """A folder with copies of the user's files, where the module is imported and its function runs.

    source: the module's file as the user gave it. originals: the same for every name in the folder, for messages.
    """

    folder: Path
    source: Path
    originals: Mapping[str, Path]


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
            module = _imported(workshop)
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


@contextmanager
def told(workshop: Workshop, doing: str, *, missing: str = NAME_FILES) -> Iterator[None]:
    """Let whatever the user's code raises, exits and interrupts included, name its file and line.

    missing: what to do about a module or a file that it does not find.
    """
    process = os.getpid()
    try:
        yield
    except MemoryError:
        raise
    except BaseException as error:
        if os.getpid() != process:
            os._exit(1)
        lines = lines_of(error, workshop)
        raise UnsupportedModelError(
            f"{doing} failed: {type(error).__name__}: {message_of(error)}",
            where=lines[-1].partition(" in ")[0] if lines else str(workshop.source),
            fix=missing if isinstance(error, ImportError | FileNotFoundError) else "run it on its own to find out why",
            details=lines[-FRAMES_SHOWN:],
        ) from error
    if os.getpid() != process:  # it forked, and this is the copy: the answer is not this one's to give
        os._exit(0)


def lines_of(error: BaseException, workshop: Workshop) -> tuple[str, ...]:
    """ "model.py:12 in build: x = 1 / 0" for every frame of the user's own, outermost first."""
    lines = [
        f"{place}:{frame.lineno} in {frame.name}: {frame.line}"
        for frame in traceback.extract_tb(error.__traceback__)
        if (place := _original(Path(frame.filename), workshop)) is not None
    ]
    if isinstance(error, SyntaxError) and error.filename:
        place = _original(Path(error.filename), workshop)
        if place is not None:
            lines.append(f"{place}:{error.lineno} in the source: {(error.text or '').strip()}")
    return tuple(lines)


def _original(path: Path, workshop: Workshop) -> Path | None:
    """Where the user has this file of the folder; None for files elsewhere."""
    if not path.is_relative_to(workshop.folder):
        return None
    name, *rest = path.relative_to(workshop.folder).parts
    return workshop.originals.get(name, Path(name)).joinpath(*rest)


def message_of(error: BaseException) -> str:
    """The first line of what an error says."""
    try:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    except Exception as failure:  # the user's own class, whose __str__ fails
        return f"its message is not available ({type(failure).__name__})"
    return lines[0][:MESSAGE_LENGTH].rstrip(".") if lines else "no message"


def _imported(workshop: Workshop) -> ModuleType:
    file = workshop.folder / workshop.source.resolve().name
    spec = importlib.util.spec_from_file_location(workshop.source.stem, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{workshop.source.name} is not a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


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
