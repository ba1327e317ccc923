"""Messages of TensorFlow's converter, as it gave them, and what is made of them.

Weights in float16: half the size, the same answers in LiteRT, and refused by TFLM, as the analysis says.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgetool.convert.request import ConvertRequest
from edgetool.convert.tflite import UnsupportedOperation, explain_converter_error, unsupported_operations
from edgetool.errors import ModelError, UsageError
from edgetool.execute.run import run_model
from edgetool.model.reader import read_model
from edgetool.pipeline.analysis import analyse
from edgetool.pipeline.quality import measure_quality
from edgetool.pipeline.source import Source
from edgetool.target.load import load_target
from tests.convert.conftest import Convert

LAYERS = {"up": "UpSampling2D", "first": "Conv2D", "odd": "Odd", "block": "Sequential", "block/deep": "Odd"}
CALLERS = (
    'callsite(fused["StatefulPartitionedCall:", "StatefulPartitionedCall@__inference_signature_wrapper_48"] at '
    'fused["StatefulPartitionedCall:", "StatefulPartitionedCall"])'
)


def refusal(*operations: tuple[str, str], kind: str = "TF Select", operands: str = "tensor<1x8xf32>") -> str:
    """The message for operations and the names at which they were traced."""
    lines = ["Could not translate MLIR to FlatBuffer."]
    for name, place in operations:
        loc = f'loc(callsite(fused["{name}:", "{place}@__inference_serve_38"] at {CALLERS}))'
        lines[-1] += f"<unknown>:0: error: {loc}: 'tf.{name}' op is neither a custom op nor a flex op"
        lines.append(f"<unknown>:0: note: {loc}: Error code: ERROR_NEEDS_FLEX_OPS")
        lines.append("")
    lines[-1] = "<unknown>:0: error: failed while converting: 'main': "
    lines.append("Some ops are not supported by the native TFLite runtime, you can enable TF kernels fallback using")
    lines.append(f"{kind} ops: {', '.join(sorted({name for name, _ in operations}))}")
    lines.append("Details:")
    for name, _ in operations:
        lines.append(f'\ttf.{name}({operands}) -> ({operands}) : {{device = ""}}')
    lines += [
        "",
        "<unknown>:0: note: see current operation: ",
        '"func.func"() <{sym_name = "main"}> ({',
        "}) : () -> ()",
    ]
    return "\n".join(lines)


def test_the_operation_its_layer_and_what_to_use_instead() -> None:
    found = explain_converter_error(refusal(("ResizeBicubic", "up/resize/ResizeBicubic")), LAYERS)
    assert found.reason == (
        "TensorFlow Lite has no built-in operator for ResizeBicubic, which layer 'up' (UpSampling2D) requires"
    )
    assert found.fix == "use interpolation='bilinear' or 'nearest'"
    assert found.details == ()


def test_each_operation_and_layer_is_named_once() -> None:
    message = refusal(("Cumprod", "odd/Cumprod"), ("Erfinv", "block/deep/erfinv/Erfinv"), ("Cumprod", "odd/Cumprod_1"))
    assert unsupported_operations(message, LAYERS) == (
        UnsupportedOperation("Cumprod", "odd"),
        UnsupportedOperation("Erfinv", "block/deep"),
    )
    found = explain_converter_error(message, LAYERS)
    assert "'odd'" in found.reason
    (other,) = found.details
    assert "Erfinv, which layer 'block/deep' (Odd) requires" in other


def test_an_operation_that_lite_has_but_not_of_that_type() -> None:
    found = explain_converter_error(refusal(("Mul", "odd/mul"), operands="tensor<1x8xf64>, tensor<f64>"), LAYERS)
    assert "Mul of float64, which layer 'odd'" in found.reason
    assert "float32" in found.fix


def test_a_location_without_a_layer() -> None:
    found = explain_converter_error(refusal(("Svd", "my_function/Svd")), {})
    assert found.reason == "TensorFlow Lite has no built-in operator for Svd"
    assert explain_converter_error("TF Select ops: Qr, Svd\n", {}).reason.endswith("for Qr")


@pytest.mark.parametrize(
    ("message", "part", "fix"),
    [
        (
            "tensorflow/lite/kernels/reshape.cc:94 num_input_elements != num_output_elements (5 != 8)Node number 3 "
            "(RESHAPE) failed to prepare.",
            "the converted RESHAPE (operator 3) cannot be prepared: num_input_elements != num_output_elements (5 != 8)",
            "--input-shape",
        ),
        (
            "Max and min for dynamic tensors should be recorded during calibration: Failed for tensor odd/mul\n"
            "Empty min/max for tensor odd/mul",
            "'odd/mul' of layer 'odd' (Odd)",
            "--calibration",
        ),
        (
            "Exception encountered when calling Odd.call().\n\n\x1b[1mShapes must be equal rank.\x1b[0m\n\nArguments "
            "received by Odd.call():\n  \x1b[3mx\x1b[0m=...",
            "Shapes must be equal rank",
            "shape",
        ),
        (
            "WARNING: noise\nloc(\"StatefulPartitionedCall:1\"): error: 'tfl.concatenation' op quantization parameters "
            "violate the same scale constraint: !quant.uniform<i8:f32, 0.01> vs. !quant.uniform<i8:f32, 0.02>",
            "cannot find a common scale for the inputs of CONCATENATION of layer 'first' (Conv2D)",
            "--keep-float",
        ),
        ("<unknown>:0: error: something new", "something new", "another --quantize"),
        ("", "no message", "another --quantize"),
    ],
)
def test_other_messages(message: str, part: str, fix: str) -> None:
    found = explain_converter_error(message, LAYERS, {"StatefulPartitionedCall:1": "first"})
    assert part in found.reason
    assert fix in found.fix
    assert len(found.reason) <= 300


def test_a_float16_model_has_no_scales_and_float_inputs() -> None:
    assert ConvertRequest(Path("a.keras"), quantize="float16").io_type == "float32"
    for options in ({"io": "int8"}, {"dense_per_tensor": True}):
        with pytest.raises(UsageError, match="a float16 model"):
            ConvertRequest(Path("a.keras"), quantize="float16", **options)  # type: ignore[arg-type]


def test_float16_is_for_the_weights_and_keeps_the_answers(models: Path, convert: Convert, tmp_path: Path) -> None:
    made = convert(models / "small.keras", quantize="float16")
    model = read_model(made.tflite)
    constants = [tensor for tensor in model.main.tensors if tensor.data is not None and len(tensor.data) > 64]
    assert {tensor.dtype.name for tensor in constants} == {"FLOAT16"}
    assert {tensor.dtype.name for tensor in model.main.tensors if tensor.data is None} == {"FLOAT32"}
    assert {model.main.tensors[index].dtype.name for index in (*model.main.inputs, *model.main.outputs)} == {"FLOAT32"}
    quality, findings = measure_quality(made, model, scheme="float16", workdir=tmp_path)
    assert not findings
    assert all(output.sqnr_db is not None and output.sqnr_db > 50 for output in quality.outputs)


def test_tflm_refuses_float16_as_the_analysis_says(models: Path, convert: Convert, tmp_path: Path) -> None:
    made = convert(models / "small.keras", quantize="float16")
    for name in ("cortex-m0plus", "cortex-m7"):
        found = analyse(Source("f16", made.tflite, read_model(made.tflite)), load_target(name))
        errors = [finding for finding in found.findings if finding.level == "error"]
        assert [finding.rule for finding in errors] == ["operator-type-not-in-runtime"]
        assert "not float16" in errors[0].message
        assert found.plan.account is None or found.plan.account.is_lower_bound
    pytest.importorskip("tflite_micro")
    sample_rows = [np.zeros((1, 1, 8, 8, 3), np.float32)]
    with pytest.raises(ModelError, match=r"cannot prepare"):
        run_model(made.tflite, sample_rows, engine="tflm", workdir=tmp_path)
