"""The architecture as a test: a module imports only from packages listed above its own."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "toolchain" / "edgetool"

# From the ground up. A package may import itself and those before it.
PACKAGES = (
    *("__init__", "errors", "structure", "finding", "figure"),
    *("archive", "model", "target", "operators", "passes", "memory", "estimate", "report", "gate", "codegen"),
    *("child", "convert", "train", "execute", "pipeline", "sweep", "cli", "__main__"),
)
PURE = frozenset(PACKAGES[1 : PACKAGES.index("child")]) - {"target"}
# Modules whose import means effects: files, processes, clocks, the environment.
EFFECTS = frozenset(
    "os io sys time datetime pathlib shutil subprocess tempfile signal random click importlib.resources".split()
)
# The only module in a pure package that reads the package's data.
PACKAGE_DATA = SOURCE / "codegen" / "templates.py"
EFFECT_CALLS = frozenset(["open", "print", "input", "exec", "eval"])
# Heavy libraries, and the only packages that may import each.
OWNERS = {
    **dict.fromkeys(("tensorflow", "keras", "tf_keras"), ("convert", "train")),
    **dict.fromkeys(("h5py", "PIL", "torch", "litert_torch", "onnx", "onnxruntime"), ("convert",)),
    **dict.fromkeys(("ai_edge_litert", "tflite_runtime", "tflite_micro"), ("execute",)),
    **dict.fromkeys(("ortools", "numba"), ("memory",)),
    **dict.fromkeys(("dask", "distributed", "optuna", "matplotlib", "sqlite3"), ("sweep",)),
    "click": ("cli",),
}
# What pure packages may import besides the standard library.
PURE_LIBRARIES = frozenset(["edgetool", "flatbuffers", "msgspec", "numpy"])


def test_modules_import_only_what_their_package_may() -> None:
    violations = [
        f"{path.relative_to(SOURCE)}: {problem}"
        for path in sorted(SOURCE.rglob("*.py"))
        for problem in problems(path, path.read_text(encoding="utf-8"))
    ]
    assert violations == []


def test_violations_are_found() -> None:
    for package, text, problem in (
        (
            "model",
            "from edgetool.memory.problem import Buffer",
            "imports edgetool.memory.problem, from a later package",
        ),
        ("gate", "import os", "imports os, but gate is pure"),
        ("codegen", "import importlib.resources", "imports importlib.resources, but codegen is pure"),
        ("passes", "open('x')", "calls open, but passes is pure"),
        ("report", "import yaml", "imports the library yaml, but report is pure"),
        ("pipeline", "import keras", "imports keras, which only convert and train may"),
    ):
        assert [*problems(SOURCE / package / "example.py", text)] == [problem]


def test_every_package_exists() -> None:
    assert {package_of(path) for path in SOURCE.rglob("*.py")} == set(PACKAGES)


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def problems(path: Path, text: str) -> Iterator[str]:
    """What a module does that its package may not."""
    package, tree = package_of(path), ast.parse(text)
    if path.stem in {"utils", "util", "helpers", "misc"}:
        yield "a name that says nothing"
    for name in imports_of(tree):
        top, _, rest = name.partition(".")
        if top == "edgetool":
            imported = rest.partition(".")[0] or "__init__"
            if PACKAGES.index(imported) > PACKAGES.index(package):
                yield f"imports {name}, from a later package"
        elif package not in OWNERS.get(top, (package,)):
            yield f"imports {top}, which only {' and '.join(OWNERS[top])} may"
        elif package in PURE and top not in OWNERS:
            if {top, name} & EFFECTS and path != PACKAGE_DATA:
                yield f"imports {name}, but {package} is pure"
            elif top not in sys.stdlib_module_names and top not in PURE_LIBRARIES:
                yield f"imports the library {top}, but {package} is pure"
    for node in ast.walk(tree):
        called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
        if package in PURE and called in EFFECT_CALLS:
            yield f"calls {called}, but {package} is pure"


def imports_of(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            names.add(node.module or "")
            if node.module == "edgetool":
                names.update(f"edgetool.{alias.name}" for alias in node.names if not alias.name.startswith("_"))
    return names
