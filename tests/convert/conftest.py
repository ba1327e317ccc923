"""How this room's tests convert."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgetool.convert.convert import convert_model
from edgetool.convert.request import Conversion, ConvertRequest
from tests.in_process import no_children

Convert = Callable[..., Conversion]


@pytest.fixture(scope="module")
def convert(tmp_path_factory: pytest.TempPathFactory) -> Convert:
    """Convert in a fresh work directory, with few samples; the same twice is done once.

    In a child process as users do, with `fresh`, limits or code in the model; else in this one.
    """
    done: dict[ConvertRequest, Conversion] = {}

    def run(path: Path, *, progress: Any = None, fresh: bool = False, **options: Any) -> Conversion:
        request = ConvertRequest(path, **{"samples": 8, **options})
        in_child = fresh or "limits" in options or request.trust_model_code
        if request not in done or in_child or progress is not None:
            with contextlib.nullcontext() if in_child else no_children():
                done[request] = convert_model(request, workdir=tmp_path_factory.mktemp("work"), progress=progress)
        return done[request]

    return run
