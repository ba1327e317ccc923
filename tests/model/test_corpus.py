"""Every real file: what we read is what LiteRT's generated classes read, and writing it again changes nothing.

What LiteRT's reference interpreter refuses of damaged ones, the reader refuses or has a reason to take.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from edgetool.model.lint import model_findings
from edgetool.model.reader import read_model
from edgetool.model.schema import BUILTIN_OPERATORS, UNIONS, table
from edgetool.model.types import Graph, Model, Operator, Quantization, Tensor
from edgetool.model.writer import write_model
from tests.conftest import model_files, over_models
from tests.model.builders import ALL

FILES = model_files()
files = over_models(FILES)
ours = pytest.mark.parametrize("make", ALL.values(), ids=ALL)


def text(value: bytes | None) -> str:
    return value.decode() if value else ""


def numbers(value: Any) -> tuple[Any, ...]:
    return () if value is None else tuple(value.tolist() if hasattr(value, "tolist") else value)


def check_options(operator: Operator, theirs: Any) -> None:
    made = theirs.builtinOptions2 if operator.options_in_2 else theirs.builtinOptions
    union = "BuiltinOptions2" if operator.options_in_2 else "BuiltinOptions"
    number = theirs.builtinOptions2Type if operator.options_in_2 else theirs.builtinOptionsType
    if made is None:
        assert operator.options is None
        return
    assert operator.options is not None
    assert operator.options.table == UNIONS[union][number]
    for field in table(operator.options.table).fields:
        if field.kind == "deprecated":
            continue
        first, *rest = field.name.split("_")
        value = getattr(made, first + "".join(part.capitalize() for part in rest))
        if field.kind == "scalar":
            expected = field.enumeration.name(value) if field.enumeration else value
        elif field.kind == "string":
            expected = None if value is None else value.decode()
        elif field.kind == "bytes":
            expected = bytes(numbers(value))
        else:
            expected = numbers(value)
        assert operator.options[field.name] == expected


def check_operator(operator: Operator, theirs: Any, model: Any) -> None:
    entry = model.operatorCodes[theirs.opcodeIndex]
    code = max(entry.builtinCode, entry.deprecatedBuiltinCode)
    assert operator.code == BUILTIN_OPERATORS[code]
    assert operator.version == entry.version
    assert (operator.custom_code or "") == text(entry.customCode)
    assert operator.inputs == numbers(theirs.inputs)
    assert operator.outputs == numbers(theirs.outputs)
    assert operator.intermediates == numbers(theirs.intermediates)
    assert operator.mutating_variable_inputs == numbers(theirs.mutatingVariableInputs)
    assert (operator.custom_options or b"") == bytes(numbers(theirs.customOptions))
    assert operator.debug_metadata_index == theirs.debugMetadataIndex
    check_options(operator, theirs)


def check_tensor(tensor: Tensor, theirs: Any, model: Any) -> None:
    assert tensor.name == text(theirs.name)
    assert tensor.shape == numbers(theirs.shape)
    assert tensor.shape_signature == numbers(theirs.shapeSignature)
    assert tensor.dtype.code == theirs.type
    assert tensor.is_variable == theirs.isVariable
    assert tensor.has_rank == theirs.hasRank
    assert tensor.buffer == theirs.buffer
    assert (tensor.data or b"") == bytes(memoryview_of(model.buffers[theirs.buffer].data))
    assert tensor.sparsity is None
    assert theirs.sparsity is None
    quantization = tensor.quantization or Quantization((), (), 0)
    if theirs.quantization is not None:
        assert quantization.scales == numbers(theirs.quantization.scale)
        assert quantization.zero_points == numbers(theirs.quantization.zeroPoint)
        assert quantization.minimum == numbers(theirs.quantization.min)
        assert quantization.maximum == numbers(theirs.quantization.max)
        assert quantization.axis == theirs.quantization.quantizedDimension
    else:
        assert tensor.quantization is None


def memoryview_of(data: Any) -> Any:
    return b"" if data is None else memoryview(data)


def check_graph(graph: Graph, theirs: Any, model: Any) -> None:
    assert graph.name == text(theirs.name)
    assert graph.inputs == numbers(theirs.inputs)
    assert graph.outputs == numbers(theirs.outputs)
    assert graph.debug_metadata_index == theirs.debugMetadataIndex
    assert len(graph.tensors) == len(theirs.tensors)
    assert len(graph.operators) == len(theirs.operators)
    for index, tensor in enumerate(graph.tensors):
        assert tensor.index == index
        check_tensor(tensor, theirs.tensors[index], model)
    for index, operator in enumerate(graph.operators):
        assert operator.index == index
        check_operator(operator, theirs.operators[index], model)


def check_model(model: Model, blob: bytes) -> None:
    generated = pytest.importorskip("ai_edge_litert.schema_py_generated")
    theirs = generated.ModelT.InitFromPackedBuf(blob, 0)
    assert model.version == theirs.version
    assert model.description == text(theirs.description)
    assert [bytes(memoryview_of(buffer.data)) for buffer in theirs.buffers] == [data or b"" for data in model.data]
    assert [(m.name, m.buffer) for m in model.metadata] == [(text(m.name), m.buffer) for m in theirs.metadata or ()]
    assert all(m.data == (model.data[m.buffer] or b"") for m in model.metadata)
    assert len(model.signatures) == len(theirs.signatureDefs or ())
    for signature, other in zip(model.signatures, theirs.signatureDefs or (), strict=True):
        assert (signature.key, signature.subgraph) == (text(other.signatureKey), other.subgraphIndex)
        assert list(signature.inputs) == [(text(m.name), m.tensorIndex) for m in other.inputs]
        assert list(signature.outputs) == [(text(m.name), m.tensorIndex) for m in other.outputs]
    assert len(model.operator_codes) == len(theirs.operatorCodes)
    assert len(model.subgraphs) == len(theirs.subgraphs)
    for graph, other in zip(model.subgraphs, theirs.subgraphs, strict=True):
        check_graph(graph, other, theirs)


def payloads_are_aligned(blob: bytes, model: Model) -> bool:
    """Whether each constant starts at a multiple of 16, wherever its bytes occur."""
    for data in model.data:
        if data and len(data) >= 16:
            at = blob.find(data)
            while at >= 0 and at % 16:
                at = blob.find(data, at + 1)
            if at < 0:
                return False
    return True


@files
def test_real_files_read_as_litert_reads_them(path: Path) -> None:
    blob = path.read_bytes()
    model = read_model(blob, name=path.name)
    check_model(model, blob)
    assert model.unknown_fields == ()


@files
def test_real_files_survive_writing(path: Path) -> None:
    blob = path.read_bytes()
    model = read_model(blob)
    written = write_model(model)
    assert read_model(written) == model
    assert write_model(read_model(written)) == written
    assert payloads_are_aligned(written, model)
    assert len(written) <= 1.02 * len(blob) + 64
    check_model(model, written)


@files
def test_real_files_cause_nothing_worse_than_a_note(path: Path) -> None:
    assert {finding.level for finding in model_findings(read_model(path.read_bytes()))} <= {"note"}


@ours
def test_our_models_read_as_litert_reads_them(make: Any) -> None:
    model = make()
    written = write_model(model)
    assert read_model(written) == model
    assert payloads_are_aligned(written, model)
    assert model_findings(model) == ()
    check_model(model, written)


@ours
def test_our_models_run(make: Any) -> None:
    interpreter_module = pytest.importorskip("ai_edge_litert.interpreter")
    interpreter = interpreter_module.Interpreter(model_content=write_model(make()), num_threads=1)
    interpreter.allocate_tensors()
    interpreter.invoke()


@over_models([p for p in FILES if p.parent.name in ("mlperf", "made")])
def test_written_files_compute_the_same(path: Path) -> None:
    np = pytest.importorskip("numpy")
    interpreter_module = pytest.importorskip("ai_edge_litert.interpreter")
    blob = path.read_bytes()
    results = []
    for content in (blob, write_model(read_model(blob))):
        interpreter = interpreter_module.Interpreter(model_content=content, num_threads=1)
        interpreter.allocate_tensors()
        generator = np.random.default_rng(0)
        for given in interpreter.get_input_details():
            values = generator.integers(0, 100, given["shape"]).astype(given["dtype"])
            interpreter.set_tensor(given["index"], values)
        interpreter.invoke()
        results.append([interpreter.get_tensor(out["index"]) for out in interpreter.get_output_details()])
    for before, after in zip(*results, strict=True):
        np.testing.assert_array_equal(before, after)


MUTANTS = 800
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_what_litert_refuses_is_refused_or_has_a_reason() -> None:
    for name in ("ai_edge_litert", "tflite_micro"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name} (the extra 'verify')")
    if not hasattr(os, "fork"):
        pytest.skip("the children that LiteRT runs in need fork()")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.refusals", str(MUTANTS), "7"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    total = next(line for line in done.stdout.splitlines() if line.startswith("| all |"))
    refused, reader, check, taken, run_by_tflm = (
        int(number.replace(",", "")) for number in re.findall(r"[\d,]+", total)
    )
    assert refused == reader + check + taken
    assert reader > 0.9 * refused > 0.4 * MUTANTS
    assert run_by_tflm > 0.9 * taken
