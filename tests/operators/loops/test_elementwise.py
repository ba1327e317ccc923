from __future__ import annotations

import pytest

from edgetool.operators.elementwise import FUNCTIONS
from tests.operators.loops.runs import DSP, FLOAT32, INT8, INT16, unary


@pytest.mark.parametrize("code", FUNCTIONS)
def test_a_function_of_floats_is_one_loop_on_both_kernel_sets(code: str) -> None:
    work = unary(code, 2, 3, 7, dtype=FLOAT32)
    assert (work.path, work.loops) == ("float32", {"own dimension": 6, "short dimension": 6, "element": 42})
    assert unary(code, 2, 3, 7, dtype=FLOAT32, platform=DSP) == work


def test_abs_multiplies_where_scales_differ() -> None:
    assert unary("ABS", 9, dtype=FLOAT32).path == "float32"
    assert unary("ABS", 9, dtype=INT8, scale=0.5, made_scale=0.5).path == "int8 quantized"
    assert unary("ABS", 9, dtype=INT16, scale=0.5, made_scale=0.25).path == "int16 rescaled"
