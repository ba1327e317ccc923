"""How this room's tests convert."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgetool.convert.convert import convert_model
from edgetool.convert.request import Conversion, ConvertRequest

Convert = Callable[..., Conversion]


@pytest.fixture(scope="module")
def convert(tmp_path_factory: pytest.TempPathFactory) -> Convert:
    """Convert in a fresh work directory, with few samples; without progress or fresh, the same twice is done once."""
    done: dict[ConvertRequest, Conversion] = {}

    def run(path: Path, *, progress: Any = None, fresh: bool = False, **options: Any) -> Conversion:
        request = ConvertRequest(path, **{"samples": 8, **options})
        if progress is None and not fresh and request in done:
            return done[request]
        conversion = convert_model(request, workdir=tmp_path_factory.mktemp("work"), progress=progress)
        done[request] = conversion
        return conversion

    return run
