"""What kernels take: the notation of the runtime's profile, and the packaged tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.model.types import DType
from edgetool.target.load import load_runtime
from edgetool.target.signatures import OperandTypes, parse_signature, read_kernel_types
from edgetool.target.toml import Section

FLOAT32, INT8, INT16, INT32 = DType.FLOAT32, DType.INT8, DType.INT16, DType.INT32
OPERATORS = ("ADD", "PACK", "RELU6")


def test_a_signature_accepts_its_types() -> None:
    signature = parse_signature("float32|int8 = int32 > =")
    assert signature.accepts([INT8, INT8, INT32], [INT8])
    assert signature.accepts([FLOAT32, FLOAT32, None], [FLOAT32])
    assert signature.first_mismatch([INT16, INT16, INT32], [INT16]) == 0
    assert signature.first_mismatch([INT8, FLOAT32, INT32], [INT8]) == 1
    assert signature.first_mismatch([INT8, INT8, INT8], [INT8]) == 2
    assert signature.first_mismatch([INT8, INT8, INT32], [FLOAT32]) == 3


def test_operands_beyond_the_list_may_be_anything_unless_the_last_repeats() -> None:
    assert parse_signature("int8 > int8").accepts([INT8, FLOAT32], [INT8, INT32])
    repeated = parse_signature("int8 =... > =1...")
    assert repeated.accepts([INT8] * 5, [INT8] * 3)
    assert repeated.first_mismatch([INT8, INT8, INT8, INT16], [INT8]) == 3
    assert repeated.first_mismatch([INT8, INT8], [INT8, INT16]) == 3
    assert parse_signature(">").accepts([], [])


def test_any_type_is_a_star() -> None:
    assert parse_signature("* > =").accepts([DType.INT64], [DType.INT64])
    assert parse_signature("* > =").first_mismatch([DType.INT64], [INT32]) == 1
    assert parse_signature("* * >").inputs == (OperandTypes(), OperandTypes())


@given(st.lists(st.sampled_from(list(DType)), min_size=1, max_size=6), st.sampled_from(list(DType)))
def test_equals_signs_mean_one_type_for_all(inputs: list[DType], output: DType) -> None:
    signature = parse_signature("* =... > =")
    assert signature.accepts(inputs, [output]) == (set(inputs) == {output})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("int8", "'>'"),
        ("int8 > int8 > int8", "'>'"),
        ("int7 > int8", "not a valid type"),
        ("int8 > =1", "input 1"),
        ("> =", "input 0"),
    ],
)
def test_invalid_signatures_are_rejected(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_signature(text)


def problems_of(types: dict[str, str], scales: dict[str, str] | None = None, **others: dict[str, str]) -> list[str]:
    """The problems of a profile with these tables."""
    section = Section({"types": {"reference": types, **others}, "scales": scales or {}}, [])
    read_kernel_types(section, OPERATORS)
    return [f"{problem.key}: {problem.what}" for problem in section.problems]


def test_a_profile_is_read_strictly() -> None:
    assert problems_of({"ADD": "int8 = > =", "RELU6": "int8 > ="}, {"RELU6": "int8: ignores"}) == []
    assert problems_of({"ADD": "int8 = > ="}, None, **{"cmsis-nn": {"ADD": "int8 int8 > int8"}}) == []
    for problem, part in (
        (problems_of({"ADDD": "int8 > int8"}), "not an operator"),
        (problems_of({"ADD": "int8 > int9"}), "not a valid type"),
        (problems_of({"ADD": "int8 > int8"}, {"PACK": "int8: ignores"}), "no entry"),
        (problems_of({"ADD": "int8 > int8"}, {"ADD": "int8: sometimes"}), "not a valid rule"),
        (problems_of({"ADD": "int8 > int8"}, {"ADD": "int8: writes 0 0"}), "positive"),
        (problems_of({"ADD": "int8 > int8"}, {"ADD": "int8 int16: writes 1 0"}), "not a valid rule"),
        (problems_of({"ADD": "int8 > int8"}, None, arm={"ADD": "int8 > int8"}), "unknown key"),
    ):
        assert len(problem) == 1
        assert part in problem[0]


def test_the_packaged_runtime_describes_every_operator() -> None:
    runtime = load_runtime("tflm-2026-08")
    kernel_types = {item.operator: item for item in runtime.kernel_types}
    assert kernel_types.keys() == set(runtime.operators)
    assert [rule.refuses for rule in kernel_types["RELU6"].equal_scales] == [False]
    narrow = ([INT16, INT8, INT32], [INT16])
    dense = kernel_types["FULLY_CONNECTED"]
    assert any(signature.accepts(*narrow) for signature in dense.reference)
    assert not any(signature.accepts(*narrow) for signature in dense.cmsis_nn)


def test_limits_by_kernels_and_type() -> None:
    runtime = load_runtime("tflm-2026-08")
    limit = runtime.rank_limit("TRANSPOSE", "cmsis-nn", INT8)
    assert limit is not None
    assert limit.maximum == 4
    assert runtime.rank_limit("TRANSPOSE", "cmsis-nn", FLOAT32) is None
    assert runtime.rank_limit("TRANSPOSE", "reference", INT8) is None


def test_a_registration_requires_the_operands_that_it_lists() -> None:
    runtime = load_runtime("tflm-2026-08")
    by_function = {item.function: item for item in runtime.registrations}
    narrow = by_function["Register_CONV_2D_INT8"]
    assert narrow.serves([INT8, INT8, INT32], [INT8])
    assert narrow.serves([INT8, INT8, None], [INT8])
    assert narrow.serves([INT8, INT8], [INT8])
    assert not narrow.serves([INT8, DType.INT4, INT32], [INT8])
    wide = by_function["Register_CONV_2D_INT16"]
    assert wide.serves([INT16, INT8, DType.INT64], [INT16])
    for bias in ([], [None], [INT8]):
        assert not wide.serves([INT16, INT8, *bias], [INT16])


def test_a_registration_serves_all_operators_of_its_kind() -> None:
    runtime = load_runtime("tflm-2026-08")
    narrow, mixed, real = ([INT8], [INT8]), ([INT8], [INT16]), ([FLOAT32], [FLOAT32])
    found = runtime.registration("SOFTMAX", "cmsis-nn", [narrow, narrow])
    assert found is not None
    assert found.function == "Register_SOFTMAX_INT8"
    found = runtime.registration("SOFTMAX", "cmsis-nn", iter([mixed, mixed]))
    assert found is not None
    assert found.function == "Register_SOFTMAX_INT8_INT16"
    assert runtime.registration("SOFTMAX", "cmsis-nn", [narrow, mixed]) is None
    assert runtime.registration("SOFTMAX", "cmsis-nn", [real]) is None
    assert runtime.registration("SOFTMAX", "reference", [narrow]) is None
    assert runtime.registration("RELU", "cmsis-nn", [narrow]) is None


def test_what_a_registration_serves_its_kernel_supports() -> None:
    runtime = load_runtime("tflm-2026-08")
    for item in runtime.registrations:
        types = runtime.kernel_types_of(item.operator)
        assert types is not None
        first = [operand.types[0] if operand.types else INT32 for operand in item.types.inputs]
        inputs = [
            kind if operand.same_as is None else first[operand.same_as]
            for kind, operand in zip(first, item.types.inputs, strict=True)
        ]
        (result,) = item.types.outputs
        output = result.types[0] if result.same_as is None else inputs[result.same_as]
        missing = [None] * (len(types.cmsis_nn[0].inputs) - len(inputs))
        assert item.serves(inputs, [output])
        assert any(signature.accepts([*inputs, *missing], [output]) for signature in types.cmsis_nn), item
