"""The user's function that makes a model: what it may do, and what is reported when it fails. No Keras needed."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from edgetool.errors import UnsupportedModelError, UsageError
from edgetool.train.training import BuildRequest
from edgetool.train.training_worker import call_builder, copy_user_files


class Model:
    def __init__(self, **parameters: Any) -> None:
        self.parameters = parameters


KERAS = types.SimpleNamespace(Model=Model)


def run(tmp_path: Path, text: str, function: str = "build", others: dict[str, str] | None = None, **values: Any) -> Any:
    source = tmp_path / "my_model.py"
    source.write_text(f"from tests.train.test_training_worker import Model\n{text}", encoding="utf-8")
    files = []
    for name, content in (others or {}).items():
        files.append(tmp_path / name)
        files[-1].parent.mkdir(exist_ok=True)
        files[-1].write_text(content, encoding="utf-8")
    files = sorted({path if path.parent == tmp_path else path.parent for path in files})
    (tmp_path / "work").mkdir()
    return call_builder(KERAS, copy_user_files(tmp_path / "work" / "builder", source, files), function, values)


def test_the_function_is_called_with_the_parameters(tmp_path: Path) -> None:
    made = run(tmp_path, "def build(**given):\n    return Model(**given)", width=0.5, name="a", deep=True)
    assert made.parameters == {"width": 0.5, "name": "a", "deep": True}


def test_it_finds_its_files_and_leaves_nothing_behind(tmp_path: Path) -> None:
    text = "import my_blocks\nfrom my_package import sizes\n"
    text += "def build():\n    open('new', 'w')\n    return Model(a=my_blocks.A, b=sizes.B, c=open('c.txt').read())"
    others = {"my_blocks.py": "A = 1", "c.txt": "3", "my_package/__init__.py": "", "my_package/sizes.py": "B = 2"}
    path, before = list(sys.path), tmp_path / "new"
    assert run(tmp_path, text, others=others).parameters == {"a": 1, "b": 2, "c": "3"}
    assert sys.path == path
    assert not {"my_model", "my_blocks", "my_package", "my_package.sizes"} & set(sys.modules)
    assert not before.exists()
    assert Path.cwd() == tmp_path / "work"


@pytest.fixture(autouse=True)
def back(tmp_path: Path) -> Any:
    here = Path.cwd()
    yield
    os.chdir(here)


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("def build(): return None", UnsupportedModelError, r"my_model\.py: function build returned NoneType"),
        ("def build(): return {}['a']", UnsupportedModelError, r"my_model\.py:2: build\(\) failed: KeyError: 'a'"),
        ("def build(): raise SystemExit(3)", UnsupportedModelError, "SystemExit: 3"),
        ("def build(): raise KeyboardInterrupt", UnsupportedModelError, "KeyboardInterrupt: no message"),
        ("def build(): return build()", UnsupportedModelError, "RecursionError"),
        (
            "import not_there_at_all",
            UnsupportedModelError,
            r"my_model\.py:2: importing my_model\.py.*must be listed too",
        ),
        ("def build(:", UnsupportedModelError, r"my_model\.py:2: importing my_model\.py failed: SyntaxError"),
        (
            "class E(Exception):\n    def __str__(self): raise OSError\ndef build(): raise E",
            UnsupportedModelError,
            "E: ",
        ),
        ("def make(): pass", UsageError, r"has no function 'build'; use make"),
        ("build = 3", UsageError, r"has no function 'build'; define it"),
        ("def build(width): pass", UsageError, r"missing a required argument: 'width'; it takes width"),
    ],
)
def test_errors_are_reported_with_file_and_line(tmp_path: Path, text: str, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said):
        run(tmp_path, text)


def test_a_parameter_that_it_does_not_take_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"called with widht: .*'widht'; it takes width=1"):
        run(tmp_path, "def build(width=1): pass", widht=2)


def test_a_failure_in_an_imported_file_is_reported_there(tmp_path: Path) -> None:
    text = "import my_blocks\ndef build(): return my_blocks.block()"
    with pytest.raises(UnsupportedModelError) as caught:
        run(tmp_path, text, others={"my_blocks.py": "\n\ndef block(): return 1 / 0"})
    assert caught.value.where == f"{tmp_path / 'my_blocks.py'}:3"
    assert [line.partition(" in ")[0] for line in caught.value.details] == [
        f"{tmp_path / 'my_model.py'}:3",
        f"{tmp_path / 'my_blocks.py'}:3",
    ]


def test_it_may_remove_its_own_directory(tmp_path: Path) -> None:
    text = "import os, shutil\ndef build():\n    shutil.rmtree(os.getcwd())\n    return Model()"
    assert isinstance(run(tmp_path, text), Model)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_copy_does_not_continue(tmp_path: Path) -> None:
    text = "import os\ndef build():\n    child = os.fork()\n    return Model(child=child)"
    made = run(tmp_path, text)
    # A copy that went on would run this test to its end and be seen twice in the report; it left instead.
    assert os.waitstatus_to_exitcode(os.waitpid(made.parameters["child"], 0)[1]) == 0


def test_names_that_hide_a_module_or_each_other_are_refused(tmp_path: Path) -> None:
    for name in ("random.py", "a.py", "b/a.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    with pytest.raises(UsageError, match=r"random\.py: has the same name as the Python module random"):
        copy_user_files(tmp_path / "one", tmp_path / "random.py", [])
    with pytest.raises(UsageError, match=r"b/a\.py: has the same name as .*a\.py; rename"):
        copy_user_files(tmp_path / "two", tmp_path / "a.py", [tmp_path / "b" / "a.py"])


@pytest.mark.parametrize("value", [None, [1], float("nan"), {"a": 1}])
def test_parameters_are_numbers_and_texts(value: Any) -> None:
    with pytest.raises(UsageError, match="width"):
        BuildRequest(Path("a.py"), "build", parameters={"width": value})
