"""Random models of one element-wise operator, compared with TFLM."""

from __future__ import annotations

from benchmarks.kernels.cases import Case

from edgetool.errors import UnsupportedModelError
from tests.codegen.native.host import Trial, compare_all, prepare


def random_differences(code: str, kind: str, count: int, *, supported: float = 0.3) -> list[str]:
    """Return how native results differ from TFLM's; models that either of them refuses count as refused.

    Args:
        code: The operator.
        kind: Its type.
        count: The number of models. Half of them have rows that stay apart.
        supported: The share of models that both must support.
    """
    trials: list[Trial] = []
    for number in range(count):
        model = Case(code, kind, number).model()
        try:
            trials.append(prepare(model, 3, number, row_wise=number % 2 == 1))
        except UnsupportedModelError:
            continue
    assert len(trials) >= count * supported
    return [f"{code}/{kind}: {difference}" for difference in compare_all(trials) if difference is not None]
