"""Models of PyTorch and ONNX become int8 models that run in TFLM, close to the original."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from edgetool.convert.convert import convert_model
from edgetool.convert.exported_program import pickled_error
from edgetool.convert.load_torch import check_complex, check_quantization, import_program, place_of_operator
from edgetool.convert.request import Conversion, ConvertRequest
from edgetool.convert.samples import InputSpec, prepare_sample
from edgetool.errors import CalibrationError, EdgetoolError, UnsupportedModelError
from edgetool.model.reader import read_model
from edgetool.pipeline.quality import measure_quality

MODELS = Path(__file__).parent / "foreign"
SHAPES = {"images": (3, 16, 16), "images_int8": (3, 16, 16), "sequences": (6, 8)}
CONVOLUTIONAL = ("images.pt2", "images.onnx")
CHANNELS_LAST = InputSpec("x", (16, 8, 3), "float32", axes=(1, 2, 0))


def test_samples_in_the_order_of_the_original_are_transposed() -> None:
    values = np.arange(3 * 16 * 8, dtype=np.float32).reshape(3, 16, 8)
    assert CHANNELS_LAST.original_shape == values.shape
    assert np.array_equal(prepare_sample(values, CHANNELS_LAST, None, ""), values.transpose(1, 2, 0))
    assert np.array_equal(prepare_sample(values[None], CHANNELS_LAST, None, ""), values.transpose(1, 2, 0))


def test_samples_in_the_order_of_the_device_stay_as_they_are() -> None:
    values = np.zeros((16, 8, 3), np.float32)
    assert np.array_equal(prepare_sample(values, CHANNELS_LAST, None, ""), values)
    with pytest.raises(CalibrationError, match=r"requires \(3, 16, 8\) or, with its channels last, \(16, 8, 3\)"):
        prepare_sample(values.transpose(1, 0, 2), CHANNELS_LAST, None, "")


def test_samples_of_a_cube_are_in_the_order_of_the_original() -> None:
    spec = InputSpec("x", (3, 3, 3), "float32", axes=(1, 2, 0))
    values = np.arange(27, dtype=np.float32).reshape(3, 3, 3)
    assert np.array_equal(prepare_sample(values, spec, None, ""), values.transpose(1, 2, 0))


def test_a_pickled_file_is_refused_with_the_lines_that_export_it(tmp_path: Path) -> None:
    error = pickled_error(tmp_path / "model.pth")
    assert isinstance(error, UnsupportedModelError)
    assert "torch.export.export(" in (error.fix or "")
    assert "torch.export.save(" in (error.fix or "")


def converted(name: str, workdir: Path, **options: object) -> Conversion:
    needed = "onnxruntime" if name.endswith(".onnx") else "litert_torch"
    if find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")
    samples = workdir / "samples.npy"
    shape = SHAPES[name.partition(".")[0]]
    np.save(samples, np.random.default_rng(1).normal(size=(24, *shape)).astype(np.float32))
    work = workdir / "work"
    work.mkdir()
    request = replace(ConvertRequest(MODELS / name, calibration=samples), **options)  # type: ignore[arg-type]
    return convert_model(request, workdir=work)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["images.pt2", "images.onnx", "sequences.pt2", "sequences.onnx", "images_int8.pt2"])
def test_a_model_is_close_to_the_original(name: str, tmp_path: Path) -> None:
    conversion = converted(name, tmp_path)
    model = read_model(conversion.tflite)
    graph = model.main
    assert {graph.tensors[index].dtype.name for index in (*graph.inputs, *graph.outputs)} == {"INT8"}
    assert "TRANSPOSE" not in {operator.code for operator in graph.operators} or name not in CONVOLUTIONAL
    quality, _ = measure_quality(conversion, model, scheme="int8", workdir=tmp_path)
    assert quality.outputs[0].sqnr_db is not None
    assert quality.outputs[0].sqnr_db > 30


@pytest.mark.slow
@pytest.mark.parametrize("name", ["images.pt2", "images.onnx"])
def test_the_layout_can_be_kept(name: str, tmp_path: Path) -> None:
    conversion = converted(name, tmp_path, keep_layout=True)
    graph = read_model(conversion.tflite).main
    assert graph.tensors[graph.inputs[0]].shape == (1, *SHAPES["images"])
    assert not any("channels last" in note for note in conversion.notes)


@pytest.mark.slow
def test_a_program_in_int8_keeps_its_scales(tmp_path: Path) -> None:
    graph = read_model(converted("images_int8.pt2", tmp_path).tflite).main
    import torch
    import torch.ao.quantization.fx._decomposed  # defines the operators of quantized programs

    program = torch.export.load(MODELS / "images_int8.pt2")
    nodes = [node for node in program.graph.nodes if "dequantize_per" in str(node.target)]
    single = {(np.float32(node.args[1]), node.args[2]) for node in nodes if "per_tensor" in str(node.target)}
    tables = {node.args[1].name: node for node in nodes if "per_channel" in str(node.target)}
    targets = program.graph_signature.inputs_to_buffers
    weights = {tuple(program.state_dict[targets[name]].tolist()) for name in tables}
    constants = [tensor.quantization for tensor in graph.tensors if tensor.data and tensor.dtype.name == "INT8"]
    assert {quantization.scales for quantization in constants if quantization} == weights
    computed = [tensor for tensor in graph.tensors if tensor.data is None]
    assert {tensor.dtype.name for tensor in computed} == {"INT8"}
    assert "QUANTIZE" not in {operator.code for operator in graph.operators}
    for tensor in computed:
        assert tensor.per_tensor is not None
        assert (np.float32(tensor.per_tensor[0]), tensor.per_tensor[1]) in single


@pytest.mark.parametrize(
    ("target", "arguments", "message"),
    [
        ("quantize_per_tensor.default", (0.1, 0, 0, 255, "torch.uint8"), "to torch.uint8 from 0 to 255 at node 'node'"),
        ("dequantize_per_channel.default", (0, -8, 7, "torch.int8"), "to torch.int8 from -8 to 7 at node 'node'"),
        ("choose_qparams.tensor", (-128, 127, "torch.int8"), r"scales are not constant \(choose_qparams.tensor\)"),
    ],
)
def test_other_quantizations_of_a_program_are_refused(target: str, arguments: tuple[object, ...], message: str) -> None:
    node = SimpleNamespace(name="node", target=f"quantized_decomposed.{target}", args=(None, *arguments))
    program = SimpleNamespace(graph=SimpleNamespace(nodes=[node]))
    with pytest.raises(UnsupportedModelError, match=message):
        check_quantization(program, Path("model.pt2"))
    node.args = (None, *arguments[:-3], -127, 127, "torch.int8")
    if not target.startswith("choose"):
        check_quantization(program, Path("model.pt2"))


def node(name: str, target: str, *, dtype: object = None, module: str = "") -> SimpleNamespace:
    """A node of a program, of a module inside the whole one."""
    stack = {"self": ("", "Net"), "inner": (module, "Head")}
    return SimpleNamespace(
        name=name, target=target, meta={"val": SimpleNamespace(dtype=dtype), "nn_module_stack": stack}
    )


def program(*nodes: SimpleNamespace, decomposed: tuple[SimpleNamespace, ...] = ()) -> SimpleNamespace:
    return SimpleNamespace(
        graph=SimpleNamespace(nodes=nodes),
        run_decompositions=lambda: SimpleNamespace(graph=SimpleNamespace(nodes=decomposed)),
    )


def test_the_node_of_an_operator_is_named_with_its_module() -> None:
    own = node("i0", "aten.i0.default", module="head.act")
    given = program(own, decomposed=(own, node("_det", "aten._linalg_det.default")))
    assert place_of_operator(given, "aten.i0.default") == "node 'i0' of module 'head.act'"
    assert place_of_operator(given, "aten._linalg_det.default") == "node '_det'"
    assert place_of_operator(given, "aten.sort.default") == ""


def test_complex_numbers_are_refused_with_their_node() -> None:
    real = node("linear", "aten.linear.default", dtype=SimpleNamespace(is_complex=False))
    check_complex(program(real), Path("model.pt2"))
    spectrum = node("fft", "aten.fft_rfft.default", dtype=SimpleNamespace(is_complex=True), module="head")
    with pytest.raises(UnsupportedModelError, match=r"node 'fft' of module 'head': computes complex numbers"):
        check_complex(program(real, spectrum), Path("model.pt2"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("forward", "precision", "numbers", "what"),
    [
        (lambda self, x: x + 1, "half", (), r"input 'x' is of type torch.float16; .*model.float\(\)"),
        (lambda self, x, n: x * n, "float", (2,), r"has an input that is not a tensor \('n'\)"),
        (lambda self, x: x.i0(), "float", (), "node 'i0': LiteRT Torch .* has no operator for aten.i0"),
    ],
)
def test_what_cannot_be_imported_is_named(
    forward: Callable[..., Any], precision: str, numbers: tuple[int, ...], what: str, tmp_path: Path
) -> None:
    if find_spec("litert_torch") is None:
        pytest.skip("litert_torch is not installed")
    import torch

    module = type("Module", (torch.nn.Module,), {"forward": forward})()
    example = (getattr(torch.zeros(1, 4), precision)(), *numbers)
    torch.export.save(torch.export.export(module, example, strict=False), tmp_path / "model.pt2")
    with pytest.raises(EdgetoolError, match=what):
        import_program(tmp_path / "model.pt2", (), tmp_path, lambda step: None)


@pytest.mark.slow
def test_layers_keep_the_names_of_modules(tmp_path: Path) -> None:
    conversion = converted("images.pt2", tmp_path, debug_quantization=True)
    assert conversion.layers["stem.0"] == "Conv2d"
    assert conversion.debug is not None
    assert {entry["name"] for entry in conversion.debug["layers"]} >= {"stem.0", "pointwise", "classifier"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["images.pt2", "images.onnx"])
def test_a_model_in_float_computes_the_same(name: str, tmp_path: Path) -> None:
    conversion = converted(name, tmp_path, quantize="float32")
    assert not any("differs by" in note for note in conversion.notes)
