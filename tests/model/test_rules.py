"""The rules of each operator: sound ones are read, and each rule broken alone is refused by field and byte.

Which operators have which rules, stated a second time. Where shapes are place holders, what does not go together is
kept for the rooms below to refuse.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from edgetool.errors import InvalidModelError, UnsupportedModelError
from edgetool.memory.planner import plan_memory
from edgetool.model.lint import model_findings
from edgetool.model.reader import read_model
from edgetool.model.rules import COUNTS, RULES
from edgetool.model.schema import OPTION_TABLES, table
from edgetool.model.types import DType, Model, SparseDimension, Sparsity
from edgetool.model.writer import write_model
from edgetool.operators.legality import unsupported_operators
from edgetool.target.load import load_runtime
from tests.attacks.operators import Input, model_of
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


def test_the_values_of_a_sparse_constant_are_not_checked() -> None:
    """Its bytes are not those of its elements."""
    build = Builder()
    x, y = build.tensor((2, 3)), build.tensor((2,))
    axes = build.tensor((1,), DType.INT32, data=b"abc")
    dimension = SparseDimension("SPARSE_CSR", 0, (0, 1), (0,), "Int32Vector", "Int32Vector")
    build.tensors[axes] = replace(build.tensors[axes], sparsity=Sparsity((0,), (), (dimension,)))
    build.operator("MEAN", [x, axes], [y])
    assert read_model(write_model(build.model([], []))).main.operators[0].code == "MEAN"


ANY = 64  # more than any operator has where the rule limits the number
EXPECTED_COUNTS = {
    """
    ABS AVERAGE_POOL_2D BITCAST BUCKETIZE CAST CEIL COMPLEX_ABS COS DENSIFY DEPTH_TO_SPACE DEQUANTIZE ELU EXP
    FAKE_QUANT FLOOR GELU HARD_SWISH IMAG L2_NORMALIZATION L2_POOL_2D LEAKY_RELU LOCAL_RESPONSE_NORMALIZATION
    LOG LOGICAL_NOT LOGISTIC LOG_SOFTMAX MATRIX_DIAG MAX_POOL_2D NEG QUANTIZE RANDOM_STANDARD_NORMAL
    RANDOM_UNIFORM RANK READ_VARIABLE REAL RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 ROUND RSQRT SHAPE SIGN SIN
    SOFTMAX SPACE_TO_DEPTH SQRT SQUARE SQUEEZE TANH WHERE ZEROS_LIKE
    """: (1, 1, 1, 1),
    """
    ADD ARG_MAX ARG_MIN ATAN2 BATCH_MATMUL BITWISE_XOR BROADCAST_ARGS BROADCAST_TO CUMSUM DIV EMBEDDING_LOOKUP
    EQUAL EXPAND_DIMS FILL FLOOR_DIV FLOOR_MOD GATHER GATHER_ND GREATER GREATER_EQUAL LESS LESS_EQUAL
    LOGICAL_AND LOGICAL_OR MATRIX_SET_DIAG MAXIMUM MEAN MINIMUM MIRROR_PAD MUL MULTINOMIAL NOT_EQUAL POW PRELU
    REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN REDUCE_PROD RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR
    REVERSE_SEQUENCE REVERSE_V2 RFFT2D RIGHT_SHIFT SEGMENT_SUM SQUARED_DIFFERENCE SUB SUM TILE TRANSPOSE
    """: (2, 2, 1, 1),
    """
    BATCH_TO_SPACE_ND DILATE DYNAMIC_UPDATE_SLICE RANGE SCATTER_ND SELECT SELECT_V2 SLICE SPACE_TO_BATCH_ND
    UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_MIN UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_SUM
    """: (3, 3, 1, 1),
    "CONV_2D CONV_3D DEPTHWISE_CONV_2D PAD PADV2": (2, 3, 1, 1),
    "ONE_HOT SPARSE_TO_DENSE STRIDED_SLICE": (4, 4, 1, 1),
    "RNN SVDF UNIDIRECTIONAL_SEQUENCE_RNN": (5, 5, 1, 1),
    "CONCATENATION PACK": (1, ANY, 1, 1),
    "CONV_3D_TRANSPOSE TRANSPOSE_CONV": (3, 4, 1, 1),
    "ADD_N": (2, ANY, 1, 1),
    "ASSIGN_VARIABLE": (2, 2, 0, 0),
    "BIDIRECTIONAL_SEQUENCE_LSTM": (48, 48, 1, 2),
    "BIDIRECTIONAL_SEQUENCE_RNN": (12, 12, 1, 2),
    "CALL_ONCE": (0, 0, 0, 0),
    "FULLY_CONNECTED": (2, 3, 1, 2),
    "IF": (1, ANY, 0, ANY),
    "LSTM": (5, 24, 1, 4),
    "NON_MAX_SUPPRESSION_V4": (5, 5, 2, 2),
    "NON_MAX_SUPPRESSION_V5": (6, 6, 3, 3),
    "RESHAPE": (1, 2, 1, 1),
    "SPLIT_V": (3, 3, 1, ANY),
    "SPLIT": (2, 2, 1, ANY),
    "TOPK_V2": (2, 2, 2, 2),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (20, 24, 1, 1),
    "UNIQUE": (1, 1, 2, 2),
    "UNPACK": (1, 1, 1, ANY),
    "VAR_HANDLE": (0, 0, 1, 1),
}
EACH = {code: counts for codes, counts in EXPECTED_COUNTS.items() for code in codes.split()}
FIRST, OTHERS = Input((2, 3)), Input((2,))


def refusal(code: str, inputs: list[Input | None], outputs: list[tuple[int, ...]]) -> str:
    """What is said of a file with this operator."""
    with pytest.raises(InvalidModelError) as caught:
        read_model(model_of(code, inputs, outputs))
    return str(caught.value)


@pytest.mark.parametrize("code", sorted(EACH))
def test_one_tensor_too_few_or_too_many(code: str) -> None:
    least_in, most_in, least_out, most_out = EACH[code]
    for count in {least_in - 1, most_in + 1} - {-1, ANY + 1}:
        assert f"{code} has {count} input{'' if count == 1 else 's'}, not" in refusal(
            code, [FIRST] * count, [(2,)] * least_out
        )
    for count in {least_out - 1, most_out + 1} - {-1, ANY + 1}:
        assert f"{code} has {count} output{'' if count == 1 else 's'}, not" in refusal(
            code, [FIRST] * least_in, [(2,)] * count
        )


# Operators that share a rule, with tensors that break it and what is said then.
SHARED: dict[str, tuple[list[Input | None], tuple[int, ...], str]] = {
    """
    ABS CAST CEIL COS DEQUANTIZE ELU EXP FLOOR GELU HARD_SWISH L2_NORMALIZATION LEAKY_RELU LOG LOGICAL_NOT LOGISTIC
    LOG_SOFTMAX NEG QUANTIZE RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 ROUND RSQRT SIGN SIN SOFTMAX SQRT SQUARE SQUEEZE TANH
    ZEROS_LIKE
    """: ([FIRST], (7,), "produce 6 elements"),
    "CUMSUM EXPAND_DIMS REVERSE_SEQUENCE REVERSE_V2": ([FIRST, Input((1,), (0,))], (7,), "produce 6 elements"),
    """
    ADD ATAN2 BITWISE_XOR DIV EQUAL FLOOR_DIV FLOOR_MOD GREATER GREATER_EQUAL LESS LESS_EQUAL LOGICAL_AND LOGICAL_OR
    MAXIMUM MINIMUM MUL NOT_EQUAL POW RIGHT_SHIFT SQUARED_DIFFERENCE SUB
    """: ([FIRST, Input((4, 3))], (2, 3), "incompatible shapes"),
    "ARG_MAX ARG_MIN MEAN REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN REDUCE_PROD SUM": (
        [FIRST, Input((1,), (-100,))],
        (2,),
        "axis -100",
    ),
    "AVERAGE_POOL_2D L2_POOL_2D MAX_POOL_2D": ([FIRST], (2, 3), "with 2 dimensions instead of 4"),
    "DEPTH_TO_SPACE SPACE_TO_DEPTH": ([Input((1, 2, 2, 4))], (1, 2, 2, 4), "block_size 0"),
    "MIRROR_PAD PAD PADV2": ([FIRST, Input((3, 2), (0,) * 6)], (2, 3), "not 2 numbers for each of 2 dimensions"),
    "RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR": ([FIRST, Input((2,), (4, 4))], (2, 3), "with 2 dimensions instead of 4"),
}


@pytest.mark.parametrize(
    ("code", "inputs", "output", "message"),
    [(code, *broken) for codes, broken in SHARED.items() for code in codes.split()],
    ids=" ".join(SHARED).split(),
)
def test_each_operator_has_the_rule_it_shares(
    code: str, inputs: list[Input | None], output: tuple[int, ...], message: str
) -> None:
    assert message in refusal(code, inputs, [output])


Signatures = Sequence[tuple[int, ...]]


def adding(result: Sequence[int], signatures: Signatures) -> bytes:
    """ADD of two tensors of one row of three to a result that need not fit, with what is known of each of the three."""
    build = Builder()
    tensors = [build.activation(shape) for shape in ((1, 3), (1, 3), result)]
    build.operator("ADD", tensors[:2], tensors[2:])
    for index, signature in enumerate(signatures):
        build.tensors[index] = replace(build.tensors[index], shape_signature=signature)
    return write_model(build.model(tensors[:2], tensors[2:]))


@pytest.mark.parametrize(
    ("result", "signatures"),
    [
        ((4, 3), [(-1, 3), (1, 3), (4, 3)]),  # as many rows as there will be
        ((4, 3), [(-1, 3), (), ()]),
        ((1, 4), [(1, -1), (1, 3), (1, 4)]),
        ((1, 4), [(-1, -1), (-1, 3), (-1, 4)]),
    ],
)
def test_what_disagrees_where_sizes_are_unknown_is_read_and_not_planned(
    result: tuple[int, ...], signatures: Signatures
) -> None:
    model = read_model(adding(result, signatures))
    assert "ADD has output 0 of shape" in model.subgraphs[0].operators[0].shape_conflict
    assert read_model(write_model(model)) == model
    (illegal,) = unsupported_operators(model, load_runtime("tflm-2026-08"))
    assert illegal.kind == "limit"
    assert "known only when the model runs" in illegal.why
    with pytest.raises(UnsupportedModelError, match=r"operator 0: ADD has output 0 .* known only when the model runs"):
        plan_memory(model)


def test_inspect_reports_it() -> None:
    findings = model_findings(read_model(adding((4, 3), [(-1, 3), (), ()])))
    (unsettled,) = (finding for finding in findings if finding.rule == "unsettled-shapes")
    assert (unsettled.level, unsettled.where) == ("error", "operator 0 ADD")


def test_what_agrees_is_planned_although_sizes_are_unknown() -> None:
    model = read_model(adding((1, 3), [(-1, -1), (1, 3), (-1, 3)]))
    assert model.subgraphs[0].operators[0].shape_conflict == ""
    plan_memory(model)


@pytest.mark.parametrize("signatures", [[], [(1, 3), (1, 3), (1, 4)], [(-1, 3), (-1, 3), (-1, 4)]])
def test_a_batch_that_is_unknown_throughout_is_one_and_excuses_nothing(signatures: Signatures) -> None:
    with pytest.raises(InvalidModelError, match="ADD has output 0 of shape"):
        read_model(adding((1, 4), signatures))


def two_parts(code: str, result: tuple[int, ...], signature: tuple[int, ...], table: str) -> bytes:
    """An operator of two tensors of one row of four to a result, with the same rows unknown in all of them."""
    build = Builder()
    tensors = [build.activation((1, 4)), build.activation((1, 4)), build.activation(result)]
    build.operator(code, tensors[: 1 if code == "RESHAPE" else 2], tensors[2:], options(table))
    for index, own in enumerate(((-1, 4), (-1, 4), signature)):
        build.tensors[index] = replace(build.tensors[index], shape_signature=own)
    return write_model(build.model(tensors[:2], tensors[2:]))


@pytest.mark.parametrize(
    ("code", "result", "table"),
    [
        ("RESHAPE", (1, 2), "ReshapeOptions"),  # the converter's own, of reshape(x, [-1, 2])
        ("CONCATENATION", (1, 4), "ConcatenationOptions"),  # and of two batches one after the other
    ],
)
def test_an_operator_that_makes_other_rows_does_not_keep_the_batch(
    code: str, result: tuple[int, ...], table: str
) -> None:
    operator = read_model(two_parts(code, result, (-1, result[1]), table)).main.operators[0]
    assert operator.shape_conflict.startswith(f"{code} has output 0 of shape")
    with pytest.raises(InvalidModelError, match="has output 0 of shape"):
        read_model(two_parts(code, result, (), table).replace(b"\xff\xff\xff\xff", b"\x01\0\0\0"))


@pytest.mark.parametrize("knows_ranks", [True, False])
def test_a_tensor_without_a_rank_is_no_scalar_where_the_writer_knows_ranks(knows_ranks: bool) -> None:
    """EXPAND_DIMS along an axis that is calculated, as the converter writes it."""
    build = Builder()
    tensors = [build.activation((2, 3)), build.tensor((), DType.INT32), build.activation(())]
    build.tensors[:2] = [replace(tensor, has_rank=knows_ranks) for tensor in build.tensors[:2]]
    build.operator("EXPAND_DIMS", tensors[:2], tensors[2:])
    blob = write_model(build.model(tensors[:2], tensors[2:]))
    if knows_ranks:
        assert "produce 6 elements" in read_model(blob).main.operators[0].shape_conflict
    else:
        with pytest.raises(InvalidModelError, match="produce 6 elements"):
            read_model(blob)


def test_too_few_tensors_are_never_excused() -> None:
    build = Builder()
    tensors = [build.activation((1, 3)), build.activation((1, 3))]
    build.tensors[0] = replace(build.tensors[0], shape_signature=(1, -1))
    build.operator("ADD", tensors[:1], tensors[1:])
    with pytest.raises(InvalidModelError, match="has 1 input, not 2"):
        read_model(write_model(build.model(tensors[:1], tensors[1:])))


def gathering(signature: tuple[int, ...]) -> Model:
    """GATHER of row 2 of one row."""
    build = Builder()
    source, rows = build.activation((1, 3)), build.tensor((1,), DType.INT32, data=b"\x02\0\0\0")
    build.tensors[source] = replace(build.tensors[source], shape_signature=signature)
    result = build.activation((1, 3))
    build.operator("GATHER", [source, rows], [result], options("GatherOptions"))
    return read_model(write_model(build.model([source], [result])))


def test_indices_into_a_dimension_of_unknown_size() -> None:
    operator = gathering((-1, 3)).subgraphs[0].operators[0]
    assert operator.shape_conflict == "index 2 of GATHER is outside a dimension of size 1"
    with pytest.raises(InvalidModelError, match="outside a dimension of size 1"):
        gathering((1, 3))
