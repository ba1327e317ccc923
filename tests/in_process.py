"""Conversions without the child process: TensorFlow is imported once for many of them, which are otherwise the same."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from edgetool import child
from edgetool.cli.errors import exit_code_of
from edgetool.cli.main import cli
from edgetool.errors import ConversionError, EdgetoolError


def run(
    module: str,
    request: Mapping[str, Any],
    *,
    workdir: Path,
    progress: Callable[[str], None] | None = None,
    advice: str | None = None,
    **_: Any,
) -> dict[str, Any]:
    """What edgetool.child.run does, without the child and its limits."""
    (workdir / child.LOG_NAME).touch()  # what libraries print goes nowhere
    work = importlib.import_module(module).work
    try:
        result: dict[str, Any] = work(json.loads(json.dumps(dict(request))), workdir, progress or (lambda step: None))
    except (EdgetoolError, MemoryError):
        raise
    except Exception as error:
        raise ConversionError(f"{type(error).__name__}: {str(error).partition(chr(10))[0]}", fix=advice) from error
    finally:
        if own := request.get("custom_objects"):
            sys.modules.pop(Path(own).stem, None)  # a child would forget the user's module as well
    return result


@contextlib.contextmanager
def no_children() -> Iterator[None]:
    """Let every conversion until the block ends run in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(child, "run", run)
        yield


def command_line(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """`edgetool ARGUMENTS` run in the directory, and its conversions, in this process."""
    with no_children(), contextlib.chdir(cwd):
        return captured(*arguments)


def captured(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """`edgetool ARGUMENTS` in this process: the exit code and what was printed."""
    words = [str(argument) for argument in arguments]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = exit_code_of(lambda: cli.main(words, prog_name="edgetool", standalone_mode=False), tracebacks=False)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())
