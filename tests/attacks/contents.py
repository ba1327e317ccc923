"""Sound flatbuffers that say what cannot be: indices, cycles, contents elsewhere, shapes, quantization, sparsity."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from edgetool.model.types import DType, SparseDimension, Sparsity
from edgetool.model.writer import write_model, write_root
from tests.attacks.base import Attack, changed, record, sound, sound_model
from tests.attacks.places import GRAPH, INPUT, LEAST, MAX_UNSIGNED, MOST, OPERATOR, ROOT, WEIGHTS
from tests.model.attacks import Path, records, with_field
from tests.model.builders import Builder, if_model, options

_SIGNATURE: Path = ("signature_defs", 0)
_SCALES: Path = (*WEIGHTS, "quantization")


def _own_body() -> bytes:
    """A WHILE whose condition is the subgraph that it is in (CVE-2021-29591)."""
    build = Builder()
    x, y = (build.tensor([1], DType.BOOL) for _ in range(2))
    build.operator("WHILE", [x], [y], options("WhileOptions", cond_subgraph_index=0, body_subgraph_index=0))
    return write_model(build.model([x], [y]))


def _chain(length: int) -> bytes:
    """Subgraphs that each call the next one, and the last the first."""
    model = if_model()
    graphs = tuple(
        replace(
            model.main,
            index=index,
            operators=(
                replace(
                    model.main.operators[0],
                    options=options(
                        "IfOptions",
                        then_subgraph_index=(index + 1) % length,
                        else_subgraph_index=(index + 1) % length,
                    ),
                ),
            ),
        )
        for index in range(length)
    )
    return write_model(replace(model, subgraphs=graphs))


def _negative_code() -> bytes:
    """In both fields: the larger of the two counts."""
    root = records(sound())
    root["operator_codes"][0].fields.update(builtin_code=-9, deprecated_builtin_code=-9)
    return write_root(root)


def _sparse(columns: SparseDimension, order: tuple[int, ...] = (0, 1), blocks: tuple[int, ...] = ()) -> bytes:
    """The weights (2, 4), stored by row as the three numbers that are not 0."""
    model = sound_model()
    rows = SparseDimension("DENSE", 2)
    weights = replace(model.main.tensors[1], data=b"abc", sparsity=Sparsity(order, blocks, (rows, columns)))
    tensors = (model.main.tensors[0], weights, *model.main.tensors[2:])
    data = tuple(b"abc" if index == weights.buffer else payload for index, payload in enumerate(model.data))
    return write_model(replace(model, data=data, subgraphs=(replace(model.main, tensors=tensors),)))


def _columns(segments: tuple[int, ...], indices: tuple[int, ...]) -> SparseDimension:
    return SparseDimension("SPARSE_CSR", 0, segments, indices, "Int32Vector", "Int32Vector")


def _called(field: str, value: Any, message: str) -> Attack:
    """The IF of if_model with another subgraph."""
    return Attack(lambda: with_field(if_model(), (*OPERATOR, "builtin_options"), field, value), message)


ATTACKS = {
    "index-of-an-input-negative": changed(GRAPH, "inputs", (-1,), "no tensor -1"),
    "index-of-an-input-oversized": changed(GRAPH, "inputs", (MOST,), f"no tensor {MOST}"),
    "index-of-an-output-negative": changed(GRAPH, "outputs", (LEAST,), f"no tensor {LEAST}"),
    "index-of-an-output-oversized": changed(GRAPH, "outputs", (4,), "no tensor 4"),
    "index-of-an-operators-input-negative": changed(OPERATOR, "inputs", (-2, 1, 2), "no tensor -2"),
    "index-of-an-operators-input-oversized": changed(OPERATOR, "inputs", (0, 1, 2**30), "no tensor"),
    "index-of-an-operators-output-left-out": changed(OPERATOR, "outputs", (-1,), "no tensor -1"),
    "index-of-an-operators-output-oversized": changed(OPERATOR, "outputs", (MOST,), "no tensor"),
    "index-of-an-intermediate": changed(OPERATOR, "intermediates", (-1,), "no tensor -1"),
    "index-of-an-operator-code": changed(OPERATOR, "opcode_index", MAX_UNSIGNED, f"no operator_code {MAX_UNSIGNED}"),
    "index-of-a-buffer": changed(INPUT, "buffer", MAX_UNSIGNED, f"no buffer {MAX_UNSIGNED}"),
    "index-of-a-metadata-buffer": changed(("metadata", 0), "buffer", MAX_UNSIGNED, "no buffer"),
    "index-of-old-metadata": changed(ROOT, "metadata_buffer", (-1,), "no buffer -1"),
    "index-of-a-signatures-subgraph": changed(_SIGNATURE, "subgraph_index", 1, "no subgraph 1"),
    "index-of-a-signatures-tensor": changed((*_SIGNATURE, "outputs", 0), "tensor_index", 4, "no tensor 4"),
    "index-of-blockwise-scales": changed(
        _SCALES, "details", record("BlockwiseQuantization", scales=MOST, zero_points=-1), "no tensor"
    ),
    "index-of-a-branch-negative": _called("then_subgraph_index", -1, "no subgraph -1"),
    "index-of-a-branch-oversized": _called("else_subgraph_index", MOST, "no subgraph"),
    "cycle-of-one-subgraph": _called("then_subgraph_index", 0, "subgraph 0 calls 0"),
    "cycle-of-two-subgraphs": Attack(lambda: _chain(2), "subgraph . calls . calls"),
    "cycle-of-a-while": Attack(_own_body, "subgraph 0 calls 0"),
    "cycle-of-a-hundred-subgraphs": Attack(lambda: _chain(100), r"calls .* \.\.\."),
    "outside-offset": changed(("buffers", 1), "offset", 4096, "outside the flatbuffer"),
    "outside-size": changed(("buffers", 1), "size", 2**40, "outside the flatbuffer"),
    "outside-offset-of-all": changed(("buffers", 1), "offset", 2**64 - 1, "outside the flatbuffer"),
    "outside-buffer": changed(INPUT, "external_buffer", 1, "another file"),
    "outside-buffers": changed(ROOT, "external_buffers", [record("ExternalBuffer", id=1)], "another file"),
    "outside-group": changed(
        ROOT, "external_buffer_groups", [record("ExternalBufferGroup", name="/etc/passwd")], "another file"
    ),
    "outside-custom-options": changed(OPERATOR, "large_custom_options_offset", 2**40, "outside the flatbuffer"),
    "outside-custom-options-size": changed(OPERATOR, "large_custom_options_size", 2**40, "outside the flatbuffer"),
    "shape-negative": changed(INPUT, "shape", (1, -4), "dimension of -4"),
    "shape-least": changed(INPUT, "shape", (LEAST,), "dimension of -2147483648"),
    "shape-overflows-32-bits": changed(INPUT, "shape", (2**16 + 1,) * 3, "more than"),
    "shape-overflows-64-bits-to-0": changed(INPUT, "shape", (2**16,) * 4, "more than"),
    "shape-overflows-beside-a-0": changed(INPUT, "shape", (MOST, MOST, 0), "more than"),
    "shape-of-a-thousand-dimensions": changed(INPUT, "shape", (MOST,) * 1000, "more than"),
    "shape-beyond-its-constant": changed(WEIGHTS, "shape", (2, 5), "8 bytes of data for INT8 .*, which needs 10"),
    "shape-short-of-its-constant": changed(WEIGHTS, "shape", (2, 3), "8 bytes of data"),
    "shape-signature-of-another-rank": changed(INPUT, "shape_signature", (-1,), "1 dimensions for 2"),
    "type-wider-than-its-constant": changed(WEIGHTS, "type", "INT32", "8 bytes of data"),
    "type-unknown": changed(INPUT, "type", 127, "unknown tensor type 127"),
    "operator-code-unknown": changed(("operator_codes", 0), "builtin_code", MOST, ""),
    "operator-code-negative": Attack(_negative_code, "unknown operator code -9"),
    "operator-code-custom-without-a-name": changed(("operator_codes", 0), "builtin_code", 32, "without a name"),
    "version-of-the-schema": changed(ROOT, "version", MAX_UNSIGNED, "not 3"),
    "options-of-another-operator": changed(OPERATOR, "builtin_options", record("Conv2DOptions"), "FULLY_CONNECTED has"),
    "options-twice": changed(OPERATOR, "builtin_options_2", record("DilateOptions"), "two option tables"),
    "data-in-the-first-buffer": changed(("buffers", 0), "data", b"\0", "must be empty"),
    "subgraphs-none": changed(ROOT, "subgraphs", (), "the model has no subgraph"),
    "scales-of-another-count": changed(_SCALES, "scale", (0.5, 0.5, 0.5), "(scales|zero points)"),
    "zero-points-without-scales": changed(_SCALES, "scale", (), "zero points for 0 scales"),
    # CVE-2022-23560: a sparse constant is unpacked to wherever its indices lead.
    "sparse-index-oversized": Attack(
        lambda: _sparse(_columns((0, 2, 3), (0, MOST, 1))), "outside a dimension of size 4"
    ),
    "sparse-index-negative": Attack(lambda: _sparse(_columns((0, 2, 3), (0, -1, 1))), "outside a dimension of size 4"),
    "sparse-segments-oversized": Attack(lambda: _sparse(_columns((0, 2, MOST), (0, 3, 1))), "do not partition"),
    "sparse-segments-falling": Attack(lambda: _sparse(_columns((0, 4, 3), (0, 3, 1))), "do not partition"),
    "sparse-segments-none": Attack(lambda: _sparse(SparseDimension("SPARSE_CSR", 0)), "do not partition"),
    "sparse-order-outside": Attack(lambda: _sparse(_columns((0, 2, 3), (0, 3, 1)), (0, 7)), "is not a permutation of"),
    "sparse-dense-size": Attack(lambda: _sparse(SparseDimension("DENSE", MOST)), "but the dimension has size 4"),
}
