"""Messages of TensorFlow's converter, as it gave them, and what is made of them."""

from __future__ import annotations

import pytest

from edgetool.convert.tflite import Refused, explain, refused_operations

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
    found = explain(refusal(("ResizeBicubic", "up/resize/ResizeBicubic")), LAYERS)
    assert found.reason == (
        "TensorFlow Lite has no built-in operator for ResizeBicubic, which layer 'up' (UpSampling2D) requires"
    )
    assert found.fix == "use interpolation='bilinear' or 'nearest'"
    assert found.details == ()


def test_each_operation_and_layer_is_named_once() -> None:
    message = refusal(("Cumprod", "odd/Cumprod"), ("Erfinv", "block/deep/erfinv/Erfinv"), ("Cumprod", "odd/Cumprod_1"))
    assert refused_operations(message, LAYERS) == (Refused("Cumprod", "odd"), Refused("Erfinv", "block/deep"))
    found = explain(message, LAYERS)
    assert "'odd'" in found.reason
    (other,) = found.details
    assert "Erfinv, which layer 'block/deep' (Odd) requires" in other


def test_an_operation_that_lite_has_but_not_of_that_type() -> None:
    found = explain(refusal(("Mul", "odd/mul"), operands="tensor<1x8xf64>, tensor<f64>"), LAYERS)
    assert "Mul of float64, which layer 'odd'" in found.reason
    assert "float32" in found.fix


def test_a_place_that_no_layer_made() -> None:
    found = explain(refusal(("Svd", "my_function/Svd")), {})
    assert found.reason == "TensorFlow Lite has no built-in operator for Svd"
    assert explain("TF Select ops: Qr, Svd\n", {}).reason.endswith("for Qr")


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
    found = explain(message, LAYERS, {"StatefulPartitionedCall:1": "first"})
    assert part in found.reason
    assert fix in found.fix
    assert len(found.reason) <= 300
