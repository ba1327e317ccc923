"""What a file must hold to beyond its form, one broken rule at a time.

The mutators: the same for the same seed, and of every kind.
"""

from __future__ import annotations

import contextlib
import gzip
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from edgetool.errors import InvalidModelError, ModelError, UnsupportedModelError
from edgetool.model.flatbuffer import Record, read_root
from edgetool.model.reader import read_model
from edgetool.model.types import DType, Model, Quantization, SparseDimension, Sparsity
from edgetool.model.writer import write_model
from tests.model import structural_mutants
from tests.model.attacks import Path, with_field
from tests.model.builders import ALL, chain_model, conv_model, conv_model_bytes, if_model
from tests.model.mutants import mutants
from tests.model.structural_mutants import restructured

GRAPH: Path = ("subgraphs", 0)
INPUT: Path = (*GRAPH, "tensors", 0)
WEIGHTS: Path = (*GRAPH, "tensors", 1)  # (8, 3, 3, 3), per channel along 0
OPERATOR: Path = (*GRAPH, "operators", 0)
SIGNATURE: Path = ("signature_defs", 0)
TENSORS = len(conv_model().main.tensors)
BUFFERS = len(conv_model().data)


def record(table: str, **fields: Any) -> Record:
    return Record(table, 0, fields)


# The table, its field, the value, what is said. The base is one convolution.
INVALID: dict[str, tuple[Path, str, Any, str]] = {
    "no subgraph": ((), "subgraphs", (), "no subgraph"),
    "data in the first buffer": (("buffers", 0), "data", b"\0", "must be empty"),
    "input index": (GRAPH, "inputs", (TENSORS,), f"no tensor {TENSORS}"),
    "negative input": (GRAPH, "inputs", (-1,), "no tensor -1"),
    "output index": (GRAPH, "outputs", (2**31 - 1,), "no tensor"),
    "buffer": (INPUT, "buffer", BUFFERS, f"no buffer {BUFFERS}"),
    "operator's code": (OPERATOR, "opcode_index", 1, "no operator_code 1"),
    "operator's input": (OPERATOR, "inputs", (0, TENSORS, 2), "no tensor"),
    "operator's input below -1": (OPERATOR, "inputs", (0, 1, -2), "no tensor -2"),
    "operator's output": (OPERATOR, "outputs", (-1,), "no tensor -1"),
    "operator's intermediate": (OPERATOR, "intermediates", (-1,), "no tensor -1"),
    "negative dimension": (INPUT, "shape", (1, -8, 8, 3), "dimension of -8"),
    "size that overflows": (INPUT, "shape", (2**31 - 1,) * 3, "more than"),
    "size that overflows beside a 0": (INPUT, "shape", (2**31 - 1, 2**31 - 1, 0), "more than"),
    "ten thousand dimensions": (INPUT, "shape", (2**31 - 1,) * 10000, "more than"),
    "more dimensions than any tensor": (INPUT, "shape", (1,) * 255, "255 dimensions, more than 254"),
    "shape signature's length": (INPUT, "shape_signature", (-1, 8), "2 dimensions for 4"),
    "shape signature's value": (INPUT, "shape_signature", (-2, 8, 8, 3), "dimension of -2"),
    "constant shorter than its shape": (WEIGHTS, "shape", (8, 3, 3, 4), "216 bytes of data"),
    "constant wider than its data": (WEIGHTS, "type", "INT16", "216 bytes of data"),
    "variable with data": (WEIGHTS, "is_variable", True, "a variable with 216 bytes of data"),
    "zero points": ((*WEIGHTS, "quantization"), "zero_point", (0, 0), "2 zero points for 8 scales"),
    "zero points without scales": ((*WEIGHTS, "quantization"), "scale", (), "8 zero points for 0 scales"),
    "scales": ((*WEIGHTS, "quantization"), "quantized_dimension", 1, "8 scales for dimension 1"),
    "blockwise scales": (
        (*WEIGHTS, "quantization"),
        "details",
        record("BlockwiseQuantization", scales=TENSORS, zero_points=-1),
        "no tensor",
    ),
    "options of another operator": (
        OPERATOR,
        "builtin_options",
        record("Pool2DOptions"),
        "CONV_2D has Pool2DOptions",
    ),
    "custom operator without a name": (("operator_codes", 0), "builtin_code", 32, "without a name"),
    "signature's subgraph": (SIGNATURE, "subgraph_index", 1, "no subgraph 1"),
    "signature's tensor": ((*SIGNATURE, "inputs", 0), "tensor_index", TENSORS, "no tensor"),
    "metadata's buffer": ((), "metadata", [record("Metadata", name="m", buffer=BUFFERS)], "no buffer"),
    "deprecated metadata buffer": ((), "metadata_buffer", (-1,), "no buffer -1"),
}

UNSUPPORTED: dict[str, tuple[Path, str, Any, str]] = {
    "schema version": ((), "version", 4, "version 4"),
    "operator newer than the schema": (("operator_codes", 0), "builtin_code", 9999, "code 9999"),
    "unknown unknown operator code that stands for none": (("operator_codes", 0), "builtin_code", 127, "code 127"),
    "unknown unknown tensor type": (INPUT, "type", 99, "type 99"),
    "negative unknown unknown tensor type": (INPUT, "type", -1, "type -1"),
    "variant's type": (INPUT, "variant_tensors", [record("VariantSubType", type=99)], "type 99"),
    "payload outside the flatbuffer": (("buffers", 1), "offset", 4096, "outside the flatbuffer"),
    "payload's size outside": (("buffers", 1), "size", 2, "outside the flatbuffer"),
    "external buffer": (INPUT, "external_buffer", 1, "another file"),
    "external buffers": ((), "external_buffers", [record("ExternalBuffer")], "another file"),
    "external groups": ((), "external_buffer_groups", [record("ExternalBufferGroup")], "another file"),
    "custom options outside": (OPERATOR, "large_custom_options_offset", 99, "outside the flatbuffer"),
    "custom options' format": (OPERATOR, "custom_options_format", 7, "unknown format"),
    "two option tables": (OPERATOR, "builtin_options_2", record("DilateOptions"), "two option tables"),
}


def test_the_base_is_sound() -> None:
    assert read_model(conv_model_bytes()) == conv_model()


@pytest.mark.parametrize(("path", "field", "value", "message"), INVALID.values(), ids=INVALID)
def test_a_broken_rule_is_refused(path: Path, field: str, value: Any, message: str) -> None:
    with pytest.raises(InvalidModelError, match=message) as caught:
        read_model(with_field(conv_model(), path, field, value), name="some.tflite")
    assert str(caught.value.where).startswith("some.tflite: ")
    assert caught.value.fix


@pytest.mark.parametrize(("path", "field", "value", "message"), UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_unsupported_content_is_named(path: Path, field: str, value: Any, message: str) -> None:
    with pytest.raises(UnsupportedModelError, match=message) as caught:
        read_model(with_field(conv_model(), path, field, value), name="some.tflite")
    assert " at byte " in str(caught.value.where)
    assert caught.value.fix


TOLERATED: dict[str, tuple[Path, str, Any]] = {
    "optional input left out": (OPERATOR, "inputs", (0, 1, -1)),
    "no zero points": ((*WEIGHTS, "quantization"), "zero_point", ()),
    "odd quantized dimension": ((*WEIGHTS, "quantization"), "quantized_dimension", 9),
    "placeholder offset": (("buffers", 1), "offset", 1),
    "an operator's old code only": (("operator_codes", 0), "builtin_code", 0),
    "an operator's new code only": (("operator_codes", 0), "deprecated_builtin_code", 0),
    "no names": (INPUT, "name", None),
    "an option's number without a name": ((*OPERATOR, "builtin_options"), "fused_activation_function", 77),
}


@pytest.mark.parametrize(("path", "field", "value"), TOLERATED.values(), ids=TOLERATED)
def test_what_runtimes_tolerate_is_read(path: Path, field: str, value: Any) -> None:
    model = read_model(with_field(conv_model(), path, field, value))
    assert model.main.operators[0].code == "CONV_2D"
    assert read_model(write_model(model)) == model


def test_names_in_messages_are_printable() -> None:
    hostile = replace(conv_model().main.tensors[0], name="\x1b[2J\n" + "x" * 500, shape=(-1,))
    model = conv_model()
    graph = replace(model.main, tensors=(hostile, *model.main.tensors[1:]))
    with pytest.raises(InvalidModelError) as caught:
        read_model(write_model(replace(model, subgraphs=(graph,))))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("path", "field", "value"),
    [
        ((*OPERATOR, "builtin_options"), "then_subgraph_index", 3),
        ((*OPERATOR, "builtin_options"), "else_subgraph_index", -1),
    ],
)
def test_subgraphs_in_options_are_checked(path: Path, field: str, value: int) -> None:
    with pytest.raises(InvalidModelError, match="no subgraph"):
        read_model(with_field(if_model(), path, field, value))


def test_a_subgraph_that_calls_itself_is_refused() -> None:
    blob = with_field(if_model(), (*OPERATOR, "builtin_options"), "then_subgraph_index", 0)
    with pytest.raises(InvalidModelError, match="subgraph 0 calls 0"):
        read_model(blob)


def with_sparsity(**changes: Any) -> bytes:
    """A (2, 4) matrix with 3 numbers in it, stored by row; `changes` break it."""
    rows = SparseDimension("DENSE", 2)
    columns = SparseDimension("SPARSE_CSR", 0, (0, 2, 3), (0, 3, 1), "Int32Vector", "Uint8Vector")
    sparsity = Sparsity((0, 1), (), (rows, columns))
    if "columns" in changes:
        sparsity = replace(sparsity, dimensions=(rows, replace(columns, **changes.pop("columns"))))
    if "rows" in changes:
        sparsity = replace(sparsity, dimensions=(replace(rows, **changes.pop("rows")), columns))
    sparsity = replace(sparsity, **changes)
    model = conv_model()
    tensor = replace(
        model.main.tensors[2], shape=(2, 4), dtype=DType.INT8, data=b"abc", sparsity=sparsity, quantization=None
    )
    tensors = (*model.main.tensors[:2], tensor, *model.main.tensors[3:])
    data = tuple(b"abc" if i == tensor.buffer else payload for i, payload in enumerate(model.data))
    return write_model(replace(model, data=data, subgraphs=(replace(model.main, tensors=tensors),)))


def test_a_sparse_constant_is_read() -> None:
    tensor = read_model(with_sparsity()).main.tensors[2]
    assert tensor.sparsity is not None
    assert tensor.sparsity.dimensions[1].segments == (0, 2, 3)
    assert tensor.sparsity.dimensions[1].indices == (0, 3, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"traversal_order": (0, 2)}, "is not a permutation of"),
        ({"traversal_order": (0, 0)}, "is not a permutation of"),
        ({"traversal_order": (0, 1, 2), "block_map": (2,)}, "block for a dimension"),
        ({"dimensions": ()}, "0 entries for 2"),
        ({"rows": {"dense_size": 3}}, "3, but the dimension has size 2"),
        ({"rows": {"dense_size": -1}}, "-1, but the dimension"),
        ({"columns": {"segments": (0, 2, 4)}}, "do not partition"),
        ({"columns": {"segments": (0, 4, 3)}}, "do not partition"),
        ({"columns": {"segments": (1, 2, 3)}}, "do not partition"),
        ({"columns": {"segments_type": None}}, "do not partition"),
        ({"columns": {"indices": (0, 4, 1)}}, "outside a dimension of size 4"),
    ],
)
def test_a_broken_sparse_constant_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidModelError, match=message):
        read_model(with_sparsity(**changes))


@pytest.mark.parametrize(
    ("blob", "message"),
    [
        (b"", "empty"),
        (b"\x89HDF\r\n\x1a\n" + bytes(64), "HDF5.*edgetool convert"),
        (b"PK\x03\x04" + bytes(64), "zip archive"),
        (gzip.compress(b"x", mtime=0), "gzip"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer"),
        (b"<!DOCTYPE html>\n<title>404</title>", "web page"),
        (b"TFL3", "text file"),
        (bytes(64), "not a .tflite model"),
        (b"\x1c\0\0\0TFL2" + bytes(64), "not a .tflite model"),
        (b"\x1c\0\0\0TFL3", "beyond the end"),
        (b"\x1c\0\0TFL3", "not a .tflite model"),
    ],
)
def test_other_kinds_of_files_are_recognized(blob: bytes, message: str) -> None:
    with pytest.raises(InvalidModelError, match=message) as caught:
        read_model(blob, name="some.tflite")
    assert str(caught.value.where).startswith("some.tflite")
    assert caught.value.fix


def test_any_bytes_like_object_is_accepted() -> None:
    blob = conv_model_bytes()
    assert read_model(bytearray(blob)) == read_model(memoryview(blob)) == conv_model()


def test_an_empty_quantization_table_is_ignored() -> None:
    path = (*INPUT, "quantization")
    blob = with_field(conv_model(), INPUT, "quantization", record("QuantizationParameters"))
    assert read_model(blob).main.tensors[0].quantization is None
    assert read_model(with_field(conv_model(), path, "zero_point", ())).main.tensors[0].quantization == Quantization(
        (1 / 16,), (), 0
    )


def best_seconds(blob: bytes) -> float:
    """The CPU time of the best of five reads."""
    times = []
    for _ in range(5):
        start = time.process_time()
        read_model(blob)
        times.append(time.process_time() - start)
    return min(times)


def test_the_time_of_reading_is_proportional_to_the_size() -> None:
    """Compared in the same run, because a busy machine takes more time for both."""
    assert best_seconds(write_model(chain_model(600))) < 25 * best_seconds(write_model(chain_model(60)))


def test_reading_imports_nothing_heavy() -> None:
    script = (
        "import sys, edgetool.model.reader, edgetool.model.lint, edgetool.model.writer, edgetool.model.edit\n"
        "print(sorted({'numpy', 'flatbuffers', 'tensorflow', 'ai_edge_litert', 'click'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def read(blob: bytes) -> Model | None:
    with contextlib.suppress(ModelError):
        return read_model(blob)
    return None


def sound(blob: bytes) -> bool:
    """Whether its tables can be read."""
    with contextlib.suppress(ModelError):
        read_root(blob, "Model", "mutant")
        return True
    return False


def changed(blob: bytes, count: int, seed: int) -> list[bytes]:
    root, generator = read_root(blob, "Model", "seed")[0], random.Random(seed)
    return [restructured(root, generator) for _ in range(count)]


@pytest.mark.parametrize("make", ALL.values(), ids=ALL)
def test_some_damaged_files_are_sound_and_some_are_not(make: Callable[[], Model]) -> None:
    found = Counter(read(blob) is None for blob in mutants(write_model(make()), 60, seed=1))
    assert min(found[True], found[False]) >= 3


@pytest.mark.parametrize("make", ALL.values(), ids=ALL)
def test_many_changed_files_are_read(make: Callable[[], Model]) -> None:
    models = [read(blob) for blob in changed(write_model(make()), 100, seed=1)]
    assert sum(model is not None for model in models) >= 15
    assert sum(model is None for model in models) >= 5


def test_mutants_repeat() -> None:
    blob = conv_model_bytes()
    assert list(mutants(blob, 20, 3)) == list(mutants(blob, 20, 3))
    assert list(mutants(blob, 20, 3)) != list(mutants(blob, 20, 4))
    assert changed(blob, 20, 3) == changed(blob, 20, 3)
    assert changed(blob, 20, 3) != changed(blob, 20, 4)


@pytest.mark.slow
@pytest.mark.parametrize("change", tuple(dict.fromkeys(structural_mutants.CHANGES)), ids=lambda change: change.__name__)
def test_every_change_changes_a_file_and_never_its_seed(
    change: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(structural_mutants, "CHANGES", (change,))
    sound = write_model(ALL["residual"]())
    assert len(set(changed(sound, 60, seed=2))) > 10
    root = read_root(sound, "Model", "seed")[0]
    generator = random.Random(3)
    before = repr(root)
    for _ in range(20):
        restructured(root, generator)
    assert repr(root) == before


@pytest.mark.slow
def test_operators_of_all_kinds_are_put_in() -> None:
    roots = [read_root(blob, "Model", "mutant")[0] for blob in changed(conv_model_bytes(), 1000, seed=4) if sound(blob)]
    codes = {entry["builtin_code"] for root in roots for entry in root["operator_codes"]}
    assert len(codes) > 100


def test_tables_are_shared() -> None:
    """Two entries of a vector lead to one table."""
    shared = 0
    for blob in filter(sound, changed(write_model(ALL["residual"]()), 200, seed=5)):
        root = read_root(blob, "Model", "mutant")[0]
        starts = [record.at for graph in root["subgraphs"] for record in (*graph["tensors"], *graph["operators"])]
        shared += len(set(starts)) < len(starts)
    assert shared >= 3
