"""The rules of each operator: sound ones are read, and each rule broken alone is refused by field and byte."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from edgetool.errors import InvalidModelError
from edgetool.model.reader import read_model
from edgetool.model.rules import COUNTS, RULES
from edgetool.model.schema import OPTION_TABLES, table
from edgetool.model.types import DType, Model, SparseDimension, Sparsity
from edgetool.model.writer import write_model
from tests.memory.account_models import MODELS
from tests.model.builders import Builder, options
from tests.model.operator_cases import BROKEN, SOUND, Case, Given


@pytest.mark.parametrize("case", SOUND.values(), ids=SOUND)
def test_a_sound_operator_is_read(case: Case) -> None:
    operator = read_model(case.blob()).main.operators[0]
    assert (operator.code, len(operator.inputs)) == (case.code, len(case.inputs))


@pytest.mark.parametrize(("case", "field", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_rule_is_refused(case: Case, field: str, message: str) -> None:
    with pytest.raises(InvalidModelError, match=message) as caught:
        read_model(case.blob(), name="some.tflite")
    assert str(caught.value.what).startswith(case.code)
    assert str(caught.value.where).startswith("some.tflite: ")
    assert str(caught.value.where).endswith(f", field {field}")
    assert " at byte " in str(caught.value.where)


def test_every_rule_has_a_sound_operator_and_a_broken_one() -> None:
    """At least one operator for each list of rules."""
    for cases in (SOUND.values(), (case for case, _, _ in BROKEN.values())):
        held = {RULES[case.code] for case in cases if case.code in RULES}
        assert held == set(RULES.values())


def short_and_long(code: str) -> dict[str, tuple[int, int]]:
    """Numbers of inputs and outputs that the operator does not take."""
    (least_in, most_in), (least_out, most_out) = COUNTS[code].inputs, COUNTS[code].outputs
    wrong = {}
    if least_in:
        wrong["inputs"] = (least_in - 1, least_out)
    if most_in < 100:
        wrong["inputs "] = (most_in + 1, least_out)
    if least_out:
        wrong["outputs"] = (least_in, least_out - 1)
    if most_out < 100:
        wrong["outputs "] = (least_in, most_out + 1)
    return wrong


@pytest.mark.parametrize("code", sorted(COUNTS))
def test_an_operator_has_its_number_of_inputs_and_outputs(code: str) -> None:
    for side, (inputs, outputs) in short_and_long(code).items():
        case = Case(code, [(1,)] * inputs, [(1,)] * outputs, without_options=True)
        with pytest.raises(InvalidModelError, match=rf": {code} has \d+ {side.strip()}?, not ") as caught:
            read_model(case.blob())
        assert str(caught.value.where).endswith(f", field {side.strip()}")


@pytest.mark.parametrize("code", sorted(code for code, counts in COUNTS.items() if counts.needed))
def test_an_operator_has_its_first_inputs(code: str) -> None:
    counts = COUNTS[code]
    inputs: list[Given] = [(1,)] * max(1, counts.inputs[0])
    inputs[-1] = None
    case = Case(code, inputs, [(1,)] * counts.outputs[0], without_options=True)
    with pytest.raises(InvalidModelError, match=f": {code} lacks its required input {len(inputs) - 1}"):
        read_model(case.blob())


def test_an_operator_may_lack_a_later_input() -> None:
    for code in ("SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM"):
        inputs: list[Given] = [(1,), None, *[(1,)] * (COUNTS[code].inputs[0] - 2)]
        assert read_model(Case(code, inputs, [(1,)]).blob()).main.operators[0].inputs[1] == -1


def test_no_operator_writes_what_it_reads() -> None:
    build = Builder()
    x, y = build.tensor((1,)), build.tensor((1,))
    build.operator("CUSTOM", [y, x], [x], custom_code="Own")
    with pytest.raises(InvalidModelError, match="CUSTOM writes tensor 0, which it also reads"):
        read_model(write_model(build.model([], [])))


def test_the_shape_in_a_message_is_short() -> None:
    case = Case("ABS", [(1,) * 200], [(2,)])
    with pytest.raises(InvalidModelError, match=r"1, 1, \.\.\.\]") as caught:
        read_model(case.blob())
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_what_tflm_runs_is_read(make: Callable[[], Model]) -> None:
    """The models on which the account of the arena is measured, with every operator that TFLM has."""
    model = make()
    assert [graph.operators for graph in read_model(write_model(model)).subgraphs] == [
        graph.operators for graph in model.subgraphs
    ]


def test_what_has_rules_has_counts() -> None:
    assert RULES.keys() <= COUNTS.keys()


def any_operand(generator: random.Random) -> Given:
    kind = generator.randrange(4)
    if kind == 0:
        return generator.randrange(-3, 4)
    if kind == 1:
        return [generator.randrange(-3, 5) for _ in range(generator.randrange(5))]
    return any_shape(generator)


def any_shape(generator: random.Random) -> tuple[int, ...]:
    return tuple(generator.choice((0, 1, 1, 2, 3, 4)) for _ in range(generator.choice((0, 1, 2, 3, 4, 4, 5))))


def any_options(code: str, generator: random.Random) -> dict[str, Any]:
    fields = table(OPTION_TABLES[code]).fields if code in OPTION_TABLES else ()
    return {
        item.name: generator.randrange(-2, 4)
        for item in fields
        if item.kind == "scalar" and item.scalar != "bool" and not item.index_of and generator.random() < 0.7
    }


@pytest.mark.parametrize("code", sorted(RULES))
def test_whatever_an_operator_is_given_it_is_read_or_refused(code: str) -> None:
    generator = random.Random(code)
    refused = 0
    for _ in range(40):
        counts = COUNTS.get(code)
        inputs = [any_operand(generator) for _ in range(counts.inputs[0] if counts else 2)]
        outputs = [any_shape(generator) for _ in range(counts.outputs[0] if counts else 1)]
        case = Case(code, inputs, outputs, any_options(code, generator), generator.random() < 0.1)
        try:
            read_model(case.blob())
        except InvalidModelError:
            refused += 1
    assert refused > 0


@pytest.mark.parametrize(
    ("code", "inputs", "outputs", "given"),
    [
        ("CUSTOM", 100_000, 100_000, {}),
        ("ADD_N", 100_000, 1, {}),
        ("CONCATENATION", 100_000, 1, {"axis": 1}),
        ("PACK", 100_000, 1, {"values_count": 100_000}),
        ("UNPACK", 1, 100_000, {"num": 100_000}),
        ("SPLIT_V", 3, 100_000, {"num_splits": 100_000}),
    ],
)
def test_an_operator_that_names_a_tensor_very_often_costs_little(
    code: str, inputs: int, outputs: int, given: dict[str, int]
) -> None:
    """A kernel would be held up for hours by shapes that are compared as often as that."""
    build = Builder()
    x, axis, y = (
        build.tensor((100_000, *[1] * 253)),
        build.tensor((), DType.INT32, data=bytes(4)),
        build.tensor((1,) * 253),
    )
    build.operator(
        code,
        [x, x, axis] if inputs == 3 else [x] * inputs,
        [y] * outputs,
        options(OPTION_TABLES[code], **given) if given else None,
        custom_code="Own" if code == "CUSTOM" else None,
    )
    blob = write_model(build.model([], []))
    start = time.process_time()
    with contextlib.suppress(InvalidModelError):
        read_model(blob)
    assert time.process_time() - start < 1


def test_the_numbers_of_a_sparse_constant_are_not_looked_at() -> None:
    """Its bytes are not those of its elements."""
    build = Builder()
    x, y = build.tensor((2, 3)), build.tensor((2,))
    axes = build.tensor((1,), DType.INT32, data=b"abc")
    dimension = SparseDimension("SPARSE_CSR", 0, (0, 1), (0,), "Int32Vector", "Int32Vector")
    build.tensors[axes] = replace(build.tensors[axes], sparsity=Sparsity((0,), (), (dimension,)))
    build.operator("MEAN", [x, axes], [y])
    assert read_model(write_model(build.model([], []))).main.operators[0].code == "MEAN"
