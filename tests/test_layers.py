"""The architecture as a test: a module imports only from rooms above its own."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "toolchain" / "edgetool"

# From the ground up. A room may import itself and what stands before it.
ROOMS = [
    "__init__",
    "errors",
    "finding",
    "figure",
    "model",
    "target",
    "operators",
    "memory",
    "estimate",
    "report",
    "gate",
    "firmware",
    "child",
    "convert",
    "runtime",
    "pipeline",
    "sweep",
    "cli",
    "__main__",
]
PURE = {"errors", "finding", "figure", "model", "operators", "memory", "estimate", "report", "gate", "firmware"}
# Modules whose import means effects: files, processes, clocks, the environment.
EFFECTS = {
    "os",
    "io",
    "sys",
    "time",
    "datetime",
    "pathlib",
    "shutil",
    "subprocess",
    "tempfile",
    "signal",
    "random",
    "click",
}
# Heavy libraries, and the only room that may import each.
OWNERS = {
    "tensorflow": "convert",
    "keras": "convert",
    "tf_keras": "convert",
    "h5py": "convert",
    "PIL": "convert",
    "ai_edge_litert": "runtime",
    "tflite_runtime": "runtime",
    "tflite_micro": "runtime",
    "click": "cli",
    "ortools": "memory",
    "numba": "memory",
    "dask": "sweep",
    "distributed": "sweep",
    "optuna": "sweep",
    "matplotlib": "sweep",
    "sqlite3": "sweep",
}
MODULES = sorted(SOURCE.rglob("*.py"))
MAX_LINES = 400


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module)
            if node.module == "edgetool":
                found.update(f"edgetool.{alias.name}" for alias in node.names if not alias.name.startswith("_"))
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_module_imports_only_from_rooms_above(path: Path) -> None:
    room = room_of(path)
    assert room in ROOMS, f"{room} is no room of the architecture"
    for name in imports_of(path):
        top, _, rest = name.partition(".")
        if top == "edgetool":
            imported = rest.partition(".")[0] or "__init__"
            assert imported in ROOMS, name
            assert ROOMS.index(imported) <= ROOMS.index(room), f"{room} imports {name} from below"
        elif top in OWNERS:
            assert OWNERS[top] == room, f"only {OWNERS[top]} imports {top}"
        elif room in PURE:
            assert top not in EFFECTS, f"{room} is pure but imports {top}"
        if room in PURE:
            owned = OWNERS.get(top) == room
            assert owned or top in sys.stdlib_module_names or top in {"edgetool", "flatbuffers", "numpy"}, name


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_module_is_one_idea(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES
    assert path.stem not in {"utils", "util", "helpers", "misc"}


def test_pure_rooms_do_not_print_or_open_files() -> None:
    for path in MODULES:
        if room_of(path) not in PURE:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"open", "print", "input", "exec", "eval"}, f"{path}: {node.func.id}"


def test_every_room_exists() -> None:
    present = {room_of(path) for path in MODULES}
    assert present == set(ROOMS)
