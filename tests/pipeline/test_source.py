"""A user's file of custom operators: read, refused with its key, and followed by every command's library function."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from edgetool.convert.request import ConvertRequest
from edgetool.errors import OutputError, UsageError
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.pipeline.convert import convert_file
from edgetool.pipeline.emit import emit_files
from edgetool.pipeline.estimate import estimate_file
from edgetool.pipeline.plan import plan_model
from edgetool.pipeline.source import MAX_FILE_BYTES, read_custom_operators
from edgetool.report.document import Report
from edgetool.target.load import load_target
from edgetool.target.platform import platform_of
from tests.model.builders import Builder

EXACT = '[[operator]]\nname = "MyOp"\nmacs_per_output = 9\npersistent = []\n'


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "ops.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def custom_model(code: str = "MyOp") -> Model:
    """(1, 4, 4, 2) to the same: CONV_2D, then the custom operator."""
    build = Builder()
    x = build.activation([1, 4, 4, 2])
    z = build.activation([1, 4, 4, 2])
    build.operator("CUSTOM", [build.conv(x, 2)], [z], custom_code=code)
    return build.model([x], [z])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "custom.tflite"
    path.write_bytes(write_model(custom_model()))
    return path


def arena(model: Path, text: str | None, target: str = "cortex-m7") -> tuple[int | None, bool]:
    """The arena in the report, and whether it is only a lower bound."""
    described = None if text is None else write(model.parent, text)
    found = plan_model(model, load_target(target), custom_operators=described).arena
    assert found is not None
    return found.bytes, found.is_lower_bound


def rules(report: Report) -> set[str]:
    return {finding.rule for finding in report.findings}


def test_no_file_describes_nothing() -> None:
    assert read_custom_operators(None) == {}


def test_the_operators_of_a_file_by_name(tmp_path: Path) -> None:
    entries = read_custom_operators(write(tmp_path, EXACT + '[[operator]]\nname = "Other"\n'))
    assert list(entries) == ["MyOp", "Other"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b"", "operator: is missing"),
        (b"[[operator]", "is not valid TOML"),
        (b"\xff\xfe[[operator]]", "is not a UTF-8 text file"),
        (b"a = " + b"[\n" * 5000, "is not valid TOML: nested too deeply"),
        (b"a = 9" + b".a" * 4000, "is not valid TOML: nested too deeply"),
        (b"#" * (MAX_FILE_BYTES + 1), "is larger than"),
        (b'[[operator]]\nname = "a"\nscratch = [{}]', "operator[0].scratch[0]: must name"),
    ],
    ids=["empty", "syntax", "encoding", "deep", "long line", "large", "key"],
)
def test_a_bad_file_is_wrong_usage_naming_file_and_key(tmp_path: Path, text: bytes, what: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        read_custom_operators(path)
    assert (caught.value.exit_code, type(caught.value)) == (2, UsageError)
    assert f"{path}: {what}" in str(caught.value)
    assert caught.value.fix


def test_further_problems_are_details(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read_custom_operators(write(tmp_path, "[[operator]]\ninit = [-1]\nscrach = []"))
    assert str(caught.value).endswith("operator[0].name: is missing")
    assert caught.value.details == (
        "operator[0].init[0]: is -1, not an integer from 0 to 1073741824",
        "operator[0].scrach: is an unknown key; did you mean 'scratch'?",
    )


def test_a_path_that_is_no_file(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.toml"):
        with pytest.raises(UsageError, match="specify the path of a TOML file with custom operators"):
            read_custom_operators(path)


@given(st.one_of(st.binary(max_size=200), st.text(alphabet='[]{}operat=name"\n0.1,', max_size=60).map(str.encode)))
@example(b'[[operator]]\n"" = 1')
@example(b'[[operator]]\nname = "\\u0000"')
def test_odd_files_are_our_errors_alone(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = write(tmp_path_factory.getbasetemp(), content)
    with contextlib.suppress(UsageError):
        assert read_custom_operators(path)


def test_an_arena_is_exact_only_with_what_the_operator_allocates(model: Path) -> None:
    bound, is_bound = arena(model, None)
    assert is_bound
    assert arena(model, '[[operator]]\nname = "MyOp"\nmacs_per_output = 9') == (bound, True)
    assert arena(model, EXACT.replace("MyOp", "Another")) == (bound, True)
    assert arena(model, EXACT) == (bound, False)


def test_every_described_byte_is_in_the_account(model: Path) -> None:
    target = load_target("cortex-m7")

    def account(text: str) -> tuple[int, int]:
        found = plan_model(model, target, custom_operators=write(model.parent, text)).arena
        assert found is not None
        assert found.tail_bytes is not None
        assert found.head_bytes is not None
        return found.head_bytes, found.tail_bytes

    head, tail = account(EXACT)
    sizes = '[[operator]]\nname = "MyOp"\ninit = [20]\npersistent = [100, { output = 0, bytes_per_element = 4 }]\n'
    assert account(sizes) == (head, tail + 32 + 112 + 128)
    # A scratch buffer of 3,201 bytes stands beside the input and output of the operator, and an empty one nowhere.
    one = "{ input = 0, bytes_per_element = 100, plus = 1 }"
    four = account(f'[[operator]]\nname = "MyOp"\nscratch = [{one}, 0, 16, 1]')
    handles = 4 * platform_of(target).size_of("ScratchBufferHandle")
    assert handles == 16  # so that no padding hides it
    assert four == (32 + 32 + 3216 + 16 + 16, tail + handles)


def test_temporary_tensors_raise_the_moment_of_prepare(model: Path) -> None:
    many = arena(model, f'[[operator]]\nname = "MyOp"\ntemporary_inputs = {[0] * 40}')
    exact, _ = arena(model, EXACT)
    structs = platform_of(load_target("cortex-m7")).structs
    one = structs["TfLiteTensor"].size_bytes + structs["TfLiteAffineQuantization"].size_bytes + 2 * 4
    assert many[0] is not None
    assert exact is not None
    assert many[0] >= 40 * one
    assert many[0] > exact


def test_a_position_that_the_operator_lacks_is_a_refusal(model: Path) -> None:
    text = '[[operator]]\nname = "MyOp"\nscratch = [{ input = 3, bytes_per_element = 1 }]'
    report = plan_model(model, load_target("cortex-m7"), custom_operators=write(model.parent, text))
    (refusal,) = [finding for finding in report.findings if finding.rule == "kernel-refuses"]
    assert refusal.level == "error"
    assert refusal.where == "operator 1 (MyOp)"
    assert "MyOp has no input 3" in refusal.message
    assert report.arena is not None
    assert report.arena.is_lower_bound


def test_a_described_operator_of_tflm_is_the_users_own(tmp_path: Path) -> None:
    """The profile's OpData of TFLM's own kernel is not counted for another kernel of that name."""
    target = load_target("cortex-m7")
    build = Builder()
    x, y = build.activation([1, 1, 3, 2]), build.activation([1, 4, 3, 2])
    build.operator("CUSTOM", [x], [y], custom_code="CIRCULAR_BUFFER")
    model = tmp_path / "circular.tflite"
    model.write_bytes(write_model(build.model([x], [y])))
    op_data = platform_of(target).op_data["CIRCULAR_BUFFER"].size_bytes
    assert op_data > 0
    same = f"init = [{op_data}]\ntemporary_inputs = [0]\ntemporary_outputs = [0]"
    own, exact = arena(model, None)
    assert (own, exact) == arena(model, f'[[operator]]\nname = "CIRCULAR_BUFFER"\n{same}')
    without, _ = arena(model, '[[operator]]\nname = "CIRCULAR_BUFFER"\ninit = []')
    assert without is not None
    assert own is not None
    assert without < own


def test_the_finding_goes_once_the_operator_is_described(model: Path) -> None:
    described = write(model.parent, EXACT)
    target = load_target("cortex-m7")
    assert {"custom-operator", "operator-not-modelled"} <= rules(estimate_file(model, [target])[0])
    report = estimate_file(model, [target], custom_operators=described)[0]
    assert not {"custom-operator", "operator-not-modelled", "arena-lower-bound"} & rules(report)
    assert report.estimate is not None
    assert report.estimate.operators[1].macs == 9 * 32


def test_a_description_that_nothing_uses_or_that_replaces_a_kernel_is_reported(model: Path, tmp_path: Path) -> None:
    target = load_target("cortex-m7")
    other = write(tmp_path, EXACT.replace("MyOp", "MyOop"))
    reported = {f.rule: f.message for f in plan_model(model, target, custom_operators=other).findings}
    assert "MyOop" in reported["custom-operator-unused"]
    assert "custom-operator" in reported
    signal = tmp_path / "signal.tflite"
    signal.write_bytes(write_model(custom_model("SignalWindow")))
    own = write(tmp_path, EXACT.replace("MyOp", "SignalWindow"))
    assert "custom-operator-replaces" in rules(plan_model(signal, target, custom_operators=own))
    assert "custom-operator-replaces" not in rules(plan_model(signal, target))


def test_every_function_follows_the_file_and_names_it_in_its_report(model: Path, tmp_path: Path) -> None:
    described = write(tmp_path, EXACT)
    target = load_target("cortex-m7")
    reports = [
        plan_model(model, target, custom_operators=described),
        emit_files(model, target, output=tmp_path / "emitted", custom_operators=described).report,
        convert_file(ConvertRequest(model), target, output=tmp_path / "made", custom_operators=described).report,
        *estimate_file(model, [target], custom_operators=described),
    ]
    for report in reports:
        assert report.provenance.options["custom_operators"] == "ops.toml"
        assert "custom-operator" not in rules(report)
        assert report.arena is None or not report.arena.is_lower_bound
    assert plan_model(model, target).provenance.options["custom_operators"] is None


def test_a_bad_file_stops_before_anything_is_written(model: Path, tmp_path: Path) -> None:
    described = write(tmp_path, "[[operator]]")
    target = load_target("cortex-m7")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UsageError, match="name: is missing"):
        emit_files(model, target, output=tmp_path / "out", custom_operators=described)
    with pytest.raises(UsageError, match="name: is missing"):
        convert_file(ConvertRequest(model), target, output=tmp_path / "out", custom_operators=described)
    with pytest.raises(UsageError, match="name: is missing"):
        plan_model(model, target, output=tmp_path / "planned.tflite", custom_operators=described)
    assert sorted(tmp_path.iterdir()) == before


def test_the_users_file_is_never_replaced(model: Path, tmp_path: Path) -> None:
    described = write(tmp_path, EXACT)
    with pytest.raises(OutputError, match="would overwrite the input"):
        plan_model(model, None, output=described, custom_operators=described, force=True)
    assert described.read_text() == EXACT
