"""Imports the user's module with a model's own classes and functions: in the child process, on code that is trusted."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from edgetool.convert.user_code import Workshop, import_file, lines_of, message_of, told
from edgetool.errors import EdgetoolError, UnsupportedModelError, UsageError

CUSTOM_OBJECTS = "--custom-objects module.py"
OPTION = "--custom-objects"
INSTALL = "install the modules that it imports in edgetool's environment, or put them into the folder of"
# A dictionary of this name in the module says what is made known; without it, all that is public in it is.
DECLARED = "CUSTOM_OBJECTS"
LIBRARIES = frozenset(["keras", "numpy", "tensorflow", "tf_keras", *sys.stdlib_module_names])


@dataclass(frozen=True, slots=True)
class Code:
    """What a module makes known, by the name that a model file has for it, and whether it is made for tf_keras."""

    objects: Mapping[str, Any] = field(default_factory=dict)
    of_tf_keras: bool = False
    workshop: Workshop | None = None

    @contextmanager
    def told(self, doing: str) -> Iterator[None]:
        """Let an error inside the module's code name its file and line; others pass as they are."""
        try:
            yield
        except (EdgetoolError, MemoryError):
            raise
        except Exception as error:
            lines = () if self.workshop is None else lines_of(error, self.workshop)
            if not lines:
                raise
            raise UnsupportedModelError(
                f"its code fails while loading {doing}: {type(error).__name__}: {message_of(error)}",
                where=lines[-1].partition(" in ")[0],
                fix="load the model with it outside edgetool to find out why",
                details=lines,
            ) from error


def read_code(path: Path) -> Code:
    """Import the module from where it is, with its folder on the path for what it imports, now and when it is called.

    Raises UsageError when it is not there, hides another module or defines nothing, UnsupportedModelError with file and
    line when importing it fails.
    """
    workshop = _workshop(path)
    sys.dont_write_bytecode = True  # nothing is left in the user's folder
    sys.path.insert(0, str(workshop.folder))
    with told(workshop, f"importing {path.name}", missing=f"{INSTALL} {path.name}"):
        resolved = path.resolve()
        module = import_file(resolved, resolved.stem)
    objects = _objects(module, path)
    return Code(objects, any(_of_tf_keras(item) for item in objects.values()), workshop)


def _workshop(path: Path) -> Workshop:
    try:
        resolved = path.resolve(strict=True)
        names = [entry.name for entry in resolved.parent.iterdir()]
    except OSError as error:
        raise UsageError(
            f"cannot be read: {error.strerror or error}", where=f"{OPTION} {path}", fix="specify a readable Python file"
        ) from error
    if resolved.suffix != ".py":
        raise UsageError("is not a Python file", where=f"{OPTION} {path}", fix="specify a .py file")
    if resolved.stem in sys.modules or resolved.stem in sys.stdlib_module_names:
        raise UsageError(f"has the same name as the Python module {resolved.stem}", where=str(path), fix="rename it")
    return Workshop(resolved.parent, path, {name: path.parent / name for name in names})


def _objects(module: ModuleType, path: Path) -> dict[str, Any]:
    declared = getattr(module, DECLARED, None)
    if declared is not None:
        if not isinstance(declared, dict) or not all(isinstance(key, str) for key in declared):
            raise UsageError(
                f"{DECLARED} is not a dictionary with string keys", where=str(path), fix="map names to classes"
            )
        return dict(declared)
    found = {name: item for name, item in vars(module).items() if not name.startswith("_") and _is_own(item)}
    if not found:
        raise UsageError(
            "does not define any class or function", where=str(path), fix=f"define them, or list them in {DECLARED}"
        )
    return found


def _is_own(item: Any) -> bool:
    """Whether it is a class or a function of the user's and not one that the module took from a library."""
    known = inspect.isclass(item) or inspect.isfunction(item)
    return known and (item.__module__ or "").partition(".")[0] not in LIBRARIES


def _of_tf_keras(item: Any) -> bool:
    return inspect.isclass(item) and any(base.__module__.startswith("tf_keras.") for base in item.__mro__)
