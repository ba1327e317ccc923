"""Operators whose kernels compute wrong outputs, rewritten into others that compute what the reference kernel does.

A fault of a kernel (operators/entry.py) applies to an operator under a condition, in one build of TFLM. Each rule here
replaces such an operator with an exact equivalent: every output is the same bit for bit as that of TFLM's reference
kernels for the original. There is no rule for svdf-int8-state: no operator has the same results.

- TRANSPOSE_CONV with wrong rows gets a larger output, of which SLICE takes a part, or a filter with a border of zeros.
- TRANSPOSE_CONV with a fused activation gets an operator for the activation.
- Grouped CONV_2D of int16 becomes one CONV_2D per group.
- Filters of int4 become filters of int8 with the same values and scales.
- CONV_2D of one row gets a row that its windows cover exactly.
- Absent biases become biases of zeros.
- FULLY_CONNECTED, SPACE_TO_BATCH_ND, MAXIMUM and MINIMUM get operands of another shape, or padded or broadcast before.
- DEPTHWISE_CONV_2D of one channel becomes CONV_2D, SOFTMAX of single elements a constant, and TRANSPOSE that moves
  nothing is removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgetool.errors import InternalError
from edgetool.model.draft import STORED, Array, Draft
from edgetool.model.edit import without_metadata
from edgetool.model.metadata import RECORD_METADATA_NAME, keeps_own_plan
from edgetool.model.types import DType, Graph, Model, Operator, OptionValue, Quantization, Tensor
from edgetool.operators.call import CLAMP_BOUNDS, Call, KernelRefusal, arena_bytes
from edgetool.operators.convolution import window_pads
from edgetool.operators.entry import KernelFault, OperatorEntry
from edgetool.operators.legality import kernel_faults, supports
from edgetool.operators.registry import entry_of, faults_of, loop_counts_of
from edgetool.operators.transpose_conv import misplaces_rows
from edgetool.passes.legalize import sentences
from edgetool.passes.rewrite import Applied, Context, OperatorBuilder, Rewrite, applied
from edgetool.passes.validation import is_consistent, is_in_order
from edgetool.target.platform import Platform
from edgetool.target.types import Runtime


@dataclass(frozen=True, slots=True)
class BuildContext(Context):
    """The input of rules: the runtime, one build of it, and the name of the fault that the result must not have."""

    platform: Platform | None = None
    fault: str = ""

    def is_supported(self, draft: Draft, operator: Operator) -> bool:
        """Return whether the runtime supports the operator, and its kernel in this build computes its outputs."""
        if self.platform is None or not is_consistent(draft, operator):
            return False
        if not supports(operator, draft, self.runtime):
            return False
        call = _call(draft, operator, self.platform)
        return self.fault not in {fault.name for fault in faults_of(call)} and not _gives_up(call)


def _call(draft: Draft, operator: Operator, platform: Platform) -> Call:
    graph = Graph(0, "", tuple(draft.tensors), (operator,), (), ())
    return Call(Model(3, "", (), (graph,), ()), graph, operator, platform, {})


def _gives_up(call: Call) -> bool:
    """Return whether the kernel returns an error that a release build of TFLM ignores, or reads beyond its tensors."""
    try:
        counts = loop_counts_of(call)
    except KernelRefusal:
        return True
    return counts is not None and counts.gives_up


@dataclass(frozen=True, slots=True)
class Cost:
    """Additional operators, bytes of constants, and multiply-accumulates per inference."""

    operators: int
    constant_bytes: int
    macs: int

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.operators + other.operators, self.constant_bytes + other.constant_bytes, self.macs + other.macs
        )

    def __sub__(self, other: Cost) -> Cost:
        return Cost(
            self.operators - other.operators, self.constant_bytes - other.constant_bytes, self.macs - other.macs
        )

    def __str__(self) -> str:
        """Return text such as "2 operators, 32 bytes of constants and 1,024 multiply-accumulates"; "" for nothing."""
        parts = [
            f"{count:,} {unit}{'s' * (count > 1 and unit == 'operator')}"
            for count, unit in (
                (self.operators, "operator"),
                (self.constant_bytes, "bytes of constants"),
                (self.macs, "multiply-accumulates"),
            )
            if count > 0
        ]
        return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


@dataclass(frozen=True, slots=True)
class AvoidedFault:
    """A rewrite that took place, the fault that it avoids, and what it costs."""

    applied: Applied
    fault: KernelFault
    cost: Cost


@dataclass(frozen=True, slots=True)
class Avoided:
    """The model, and the rewrites in the order in which they took place; if there are none, it is the input model."""

    model: Model
    kernels: str
    rewrites: tuple[AvoidedFault, ...] = ()

    def sentences(self, layers: Mapping[str, object]) -> tuple[str, ...]:
        """Return one sentence for each rule, operator and fault, with the affected ones of `layers`.

        layers: the scopes of the layers of a Keras model.
        """
        groups: dict[tuple[str, str, str], list[AvoidedFault]] = {}
        for item in self.rewrites:
            groups.setdefault((item.applied.rewrite, item.applied.operator_label, item.fault.name), []).append(item)
        return tuple(
            sentence for group in groups.values() for sentence in _group_sentences(group, self.kernels, layers)
        )


def _group_sentences(group: Sequence[AvoidedFault], kernels: str, layers: Mapping[str, object]) -> tuple[str, ...]:
    name, fault = group[0].applied.rewrite, group[0].fault
    cost = sum((item.cost for item in group), Cost(0, 0, 0))
    library = "CMSIS-NN's kernel" if kernels == "cmsis-nn" else "TensorFlow Lite Micro's kernel"
    rule = next(rule for rules in RULES.values() for rule in rules if rule.name == name)
    added = f", which adds {cost}" if str(cost) else ""
    summary = f"{rule.summary}{added}: otherwise, {library} {fault.effect}"
    return sentences([item.applied for item in group], [replace(rule, summary=summary)], layers)


# Each rewrite leaves fewer operators with faults; this is far more rounds than any chain of them needs.
MAX_ROUNDS = 16


def avoid_faults(
    model: Model, runtime: Runtime, platform: Platform, custom: Mapping[str, OperatorEntry] | None = None
) -> Avoided:
    """Return the model with each operator whose kernel computes wrong outputs rewritten, if a rule has an exact equal.

    Outputs are those of the reference kernels for the original model, bit for bit. Operators that no rule applies to
    remain: operators.legality.kernel_faults names them. Subgraphs keep their inputs, outputs and indices; an offline
    plan is removed if anything changed. A model that was compiled for an accelerator does not change.
    """
    if keeps_own_plan(model):
        return Avoided(model, platform.kernels)
    done: list[AvoidedFault] = []
    for subgraph in dict.fromkeys(index for index, _, _ in kernel_faults(model, platform, custom)):
        draft = Draft(model, subgraph)
        changes = _avoid(draft, BuildContext(runtime, platform=platform), platform) if is_in_order(draft) else []
        if changes:
            model = without_metadata(draft.finish(), RECORD_METADATA_NAME)
            done += changes
    return Avoided(model, platform.kernels, tuple(done))


def _avoid(draft: Draft, context: BuildContext, platform: Platform) -> list[AvoidedFault]:
    """Apply rules to each operator in turn, until a round changes nothing; return the rewrites."""
    done: list[AvoidedFault] = []
    for _ in range(MAX_ROUNDS):
        before = len(done)
        for index in tuple(operator.index for operator in draft.operators):
            operator = draft.operator(index)
            if operator is not None and operator.code in CODES and is_consistent(draft, operator):
                done += _avoid_one(draft, operator, context, platform)
        if len(done) == before:
            return done
    raise InternalError(f"the rewrites of a model did not converge after {MAX_ROUNDS} rounds: {done[-1].applied}")


def _avoid_one(draft: Draft, operator: Operator, context: BuildContext, platform: Platform) -> list[AvoidedFault]:
    """Apply the first rule for a fault of the operator that has a result."""
    faults = {fault.name: fault for fault in faults_of(_call(draft, operator, platform))}
    if not faults:
        return []
    before = _cost_of(draft)
    for name, rules in RULES.items():
        for rule in rules if name in faults else ():
            change = rule.apply(draft, operator, replace(context, fault=name))
            if change is not None:
                return [AvoidedFault(change, faults[name], _cost_of(draft) - before)]
    return []


def _cost_of(draft: Draft) -> Cost:
    graph = Graph(0, "", tuple(draft.tensors), tuple(draft.operators), (), ())
    entries = ((operator, entry_of(operator)) for operator in draft.operators)
    macs = sum(entry.macs(operator, graph) for operator, entry in entries if entry is not None and entry.macs)
    return Cost(len(draft.operators), _constant_bytes(draft, draft.operators), macs)


def _constant_bytes(draft: Draft, operators: Iterable[Operator]) -> int:
    """Return the bytes of the constants that the operators use; equal ones may share their data."""
    used = {tensor for operator in operators for tensor in operator.inputs if tensor >= 0}
    constants = {draft.tensors[tensor].buffer: draft.tensors[tensor] for tensor in used}
    return sum(len(tensor.data) for tensor in constants.values() if tensor.data is not None)


def _arena_bytes(draft: Draft, operators: Iterable[Operator], platform: Platform) -> int:
    """Return the bytes of the arena that the operators need while they run alone, one after the other."""
    return max(
        sum(arena_bytes(draft.tensors[tensor]) for tensor in _moving(draft, operator))
        + _scratch_bytes(_call(draft, operator, platform))
        for operator in operators
    )


def _moving(draft: Draft, operator: Operator) -> set[int]:
    """Return the operands in the arena."""
    operands = (*operator.inputs, *operator.outputs)
    return {tensor for tensor in operands if tensor >= 0 and not draft.tensors[tensor].is_constant}


def _scratch_bytes(call: Call) -> int:
    entry = entry_of(call.operator)
    if entry is None or entry.prepare is None:
        return 0
    try:
        return sum(request.size_bytes for request in entry.prepare(call) if request.kind == "scratch")
    except KernelRefusal:
        return 0


def _repeat(builder: OperatorBuilder, inputs: Sequence[int], shape: Sequence[int], **changed: OptionValue) -> int:
    """Add the replaced operator itself with other inputs, options and output shape; return its output."""
    draft, operator = builder.draft, builder.operator
    result, options = draft.tensors[operator.outputs[0]], operator.options
    output = draft.tensor(f"{result.name}/{operator.code.lower()}", shape, result.dtype, result.quantization)
    if options is not None:
        fields = {**dict(options.fields), **changed}
        operator = replace(operator, options=replace(options, fields=tuple(fields.items())))
    builder.operators.append(draft.copy(operator, inputs, [output]))
    return output


# TRANSPOSE_CONV

SAME, VALID = "SAME", "VALID"


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a transposed convolution. columns: whether it is the axis of columns; other_stride: that of rows."""

    inputs: int
    kernel: int
    stride: int
    pad: int
    outputs: int
    columns: bool
    other_stride: int

    def misplaces(self, kernel: int, pad: int, outputs: int) -> bool:
        """Return whether the kernel computes wrong outputs along this axis, with another filter, padding and size."""
        if not self.columns:
            return misplaces_rows((self.inputs, 1), (kernel, 1), (self.stride, 1), (pad, 0), (outputs, 1))
        row = self.other_stride  # one row of the input, whose outputs are right
        return misplaces_rows((1, self.inputs), (row, kernel), (row, self.stride), (0, pad), (row, outputs))


@dataclass(frozen=True, slots=True)
class Extension:
    """A filter with zeros before and after it, an output of `size`, and the start of the original output in it."""

    before: int
    after: int
    start: int
    size: int


def _same_extension(axis: Axis) -> Extension | None:
    """Return the shortest border of zeros for which the kernel computes the original output with SAME padding."""
    limit = 2 * max(axis.stride, axis.kernel) + 2
    for zeros in range(2 * limit):
        for before in range(min(zeros, limit) + 1):
            kernel = axis.kernel + zeros
            pad = _pad(axis, SAME, kernel, axis.outputs)
            if pad == axis.pad + before and not axis.misplaces(kernel, pad, axis.outputs):
                return Extension(before, zeros - before, 0, axis.outputs)
    return None


def _valid_extension(axis: Axis) -> Extension | None:
    """Return the shortest filter whose output without padding contains the original output."""
    end = axis.pad + axis.outputs
    covered = (axis.inputs - 1) * axis.stride + axis.kernel
    first = max(0, end - covered, axis.stride - axis.kernel)
    for zeros in range(first, first + axis.stride + 1):
        kernel, size = axis.kernel + zeros, covered + zeros
        if _pad(axis, VALID, kernel, size) == 0 and not axis.misplaces(kernel, 0, size):
            return Extension(0, zeros, axis.pad, size)
    return None


def _pad(axis: Axis, padding: str, kernel: int, outputs: int) -> int:
    strides = (axis.stride, axis.stride)
    return window_pads(padding, (outputs, outputs), (kernel, kernel), strides, (1, 1))[0]


def _axes(draft: Draft, operator: Operator) -> tuple[Axis, Axis] | None:
    shapes = [draft.tensors[tensor].shape for tensor in (operator.inputs[2], operator.inputs[1], operator.outputs[0])]
    options = operator.options
    if options is None or any(len(shape) != 4 for shape in shapes):
        return None
    (image, kernel, outputs), padding = [shape[1:3] for shape in shapes], options.text("padding")
    strides = options.integer("stride_h"), options.integer("stride_w")
    pads = window_pads(padding, outputs, kernel, strides, (1, 1))
    rows, columns = (Axis(image[i], kernel[i], strides[i], pads[i], outputs[i], i == 1, strides[0]) for i in range(2))
    return rows, columns


def _extended(
    draft: Draft, operator: Operator, padding: str, parts: Sequence[Extension]
) -> tuple[OperatorBuilder, int] | None:
    """Return the builder of a TRANSPOSE_CONV with other sizes, and of a SLICE of its output, and the result."""
    weights, source, *bias = operator.inputs[1:]
    values, old = draft.values(weights), draft.tensors[weights]
    result, options = draft.tensors[operator.outputs[0]], operator.options
    if values is None or options is None:
        return None
    builder = OperatorBuilder(draft, operator)
    border = ((0, 0), *((part.before, part.after) for part in parts), (0, 0))
    if any(part.before or part.after for part in parts):
        weights = draft.constant(f"{old.name}/bordered", np.pad(values, border), old.quantization)
    shape = (result.shape[0], *(part.size for part in parts), result.shape[3])
    operands = [builder.constant(list(shape)), weights, source, *bias]
    output = _repeat(builder, operands, shape, padding=padding)
    if shape != result.shape:
        starts = [0, *(part.start for part in parts), 0]
        bounds = [builder.constant(starts), builder.constant(list(result.shape))]
        output = builder.add("SLICE", [output, *bounds], result.shape, like=result.index)
    return builder, output


def _move_rows(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Choose the form with the fewest bytes in total: the arena of its operators alone, and its constants.

    Among equal ones, that without a border is chosen, because it computes fewer products.
    """
    axes = _axes(draft, operator)
    if axes is None or not isinstance(context, BuildContext) or context.platform is None:
        return None
    forms = (
        ("transpose-conv-slice", VALID, [_valid_extension(axis) for axis in axes]),
        ("transpose-conv-border", SAME, [_same_extension(axis) for axis in axes]),
    )
    candidates: list[tuple[int, str, OperatorBuilder, int]] = []
    for name, padding, extensions in forms:
        parts = [extension for extension in extensions if extension is not None]
        built = _extended(draft, operator, padding, parts) if len(parts) == len(axes) else None
        if built is None or not built[0].is_supported(context):
            continue
        operators = built[0].operators
        size = _arena_bytes(draft, operators, context.platform) + _constant_bytes(draft, operators)
        candidates.append((size, name if len(operators) > 1 else "transpose-conv-border", *built))
    if not candidates:
        return None
    _, name, builder, result = min(candidates, key=lambda candidate: candidate[0])
    return builder.finish(name, result)


CLAMPS = frozenset({"RELU", "RELU6"})  # the fused activations that are operators, too


def _separate_activation(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    result, options = draft.tensors[operator.outputs[0]], operator.options
    if options is None or result.per_tensor is None:
        return None
    fused = options.text("fused_activation_function")
    builder = OperatorBuilder(draft, operator)
    output = _repeat(builder, operator.inputs, result.shape, fused_activation_function="NONE")
    if fused in CLAMPS:
        output = builder.add(fused, [output], result.shape, like=result.index, version=2)
    else:
        for code, bound in zip(("MAXIMUM", "MINIMUM"), CLAMP_BOUNDS[fused], strict=True):
            limit = builder.constant(_code(result, bound), result.quantization)
            output = builder.add(code, [output, limit], result.shape, like=result.index, version=2)
    if not builder.is_supported(context):
        return None
    return builder.finish("separate-activation", output)


def _code(tensor: Tensor, bound: float) -> Array:
    """Return the code of a bound, as kernels round it, within the range of the type."""
    scale, zero_point = tensor.per_tensor or (1.0, 0)
    kind = STORED[tensor.dtype]
    quotient = float(np.float32(bound) / np.float32(scale))
    code = zero_point + int(np.copysign(np.floor(abs(quotient) + 0.5), quotient))
    limits = np.iinfo(kind)
    return np.array([min(max(code, limits.min), limits.max)], kind)


# Convolutions


def _int8_filter(draft: Draft, weights: int) -> int | None:
    """Return the filter of int4 as int8; None if it is not a constant of int4."""
    old = draft.tensors[weights]
    if old.dtype is not DType.INT4 or old.data is None or old.sparsity is not None:
        return None
    packed = np.frombuffer(old.data, np.uint8)
    nibbles = np.stack([packed & 15, packed >> 4], axis=1).reshape(-1)[: old.element_count].astype(np.int8)
    values = np.where(nibbles > 7, nibbles - 16, nibbles).astype(np.int8).reshape(old.shape)
    return draft.constant(f"{old.name}/int8", values, old.quantization)


def _widen_filter(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    source, weights, *bias = operator.inputs
    wide = _int8_filter(draft, weights)
    if wide is None:
        return None
    if operator.code == "CONV_2D" and bias in ([], [-1]):
        bias = [_zeros(draft, source, weights, draft.tensors[weights].shape[0], np.dtype(np.int32))]
    return _changed("int8-filter", draft, operator, [source, wide, *bias], context)


def _changed(name: str, draft: Draft, operator: Operator, inputs: Sequence[int], context: Context) -> Applied | None:
    """Give the operator other inputs, if it is then supported."""
    changed = replace(operator, inputs=tuple(inputs), version=max(operator.version, 2))
    if not context.is_supported(draft, changed):
        return None
    record = applied(name, draft, operator)
    draft.replace(operator, changed)
    return record


def _zeros(draft: Draft, source: int, weights: int, units: int, dtype: np.dtype[np.int32] | np.dtype[np.int64]) -> int:
    """Return a bias of zeros, whose scales are the products of those of the source and the weights."""
    scale, _ = draft.tensors[source].per_tensor or (1.0, 0)
    quantization = draft.tensors[weights].quantization
    scales = tuple(float(np.float32(scale * each)) for each in (quantization.scales if quantization else ()))
    bias = Quantization(scales, (0,) * len(scales), 0)
    return draft.constant(f"{draft.tensors[weights].name}/bias", np.zeros(units, dtype), bias)


def _zero_bias(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    source, weights, *bias = operator.inputs
    if bias not in ([], [-1]):
        return None
    wide = draft.tensors[source].dtype is DType.INT16
    units = draft.tensors[weights].shape[0]
    zeros = _zeros(draft, source, weights, units, np.dtype(np.int64) if wide else np.dtype(np.int32))
    return _changed("bias-of-zeros", draft, operator, [source, weights, zeros], context)


def _zero_svdf_bias(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    source, features, time, bias, state = operator.inputs
    options = operator.options
    if bias >= 0 or options is None or draft.tensors[source].dtype is not DType.INT8:
        return None
    units = draft.tensors[features].shape[0] // max(options.integer("rank"), 1)
    zeros = _zeros(draft, state, time, units, np.dtype(np.int32))
    return _changed("bias-of-zeros", draft, operator, [source, features, time, zeros, state], context)


MAX_JOINED = 10  # the inputs of a CONCATENATION


def _split_groups(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    source, weights, *rest = operator.inputs
    image, old, result = draft.tensors[source], draft.tensors[weights], draft.tensors[operator.outputs[0]]
    values, options = draft.values(weights), operator.options
    bias = rest[0] if rest and rest[0] >= 0 else None
    offsets = None if bias is None else draft.values(bias)
    if values is None or options is None or (bias is not None and offsets is None):
        return None
    count = image.shape[3] // old.shape[3]
    units = old.shape[0] // count
    builder = OperatorBuilder(draft, operator)
    part = (*image.shape[:3], old.shape[3])
    parts = [draft.tensor(f"{image.name}/split", part, image.dtype, image.quantization) for _ in range(count)]
    split = draft.make("SPLIT", [builder.constant(np.array(3, np.int32)), source], parts, 2, num_splits=count)
    builder.operators.append(split)
    without_bias_type = options["quantized_bias_type"] != "INT32"
    outputs = []
    for group, piece in enumerate(parts):
        own = slice(group * units, (group + 1) * units)
        scales = _sliced(old.quantization, own)
        filters = draft.constant(f"{old.name}/group", values[own], scales)
        operands = [piece, filters]
        if bias is not None and offsets is not None:
            sums = draft.tensors[bias]
            operands.append(draft.constant(f"{sums.name}/group", offsets[own], _sliced(sums.quantization, own)))
        elif without_bias_type:
            operands.append(_zeros(draft, source, filters, units, np.dtype(np.int64)))
        else:
            operands += [-1] * len(rest)
        shape = (*result.shape[:3], units)
        outputs.append(_repeat(builder, operands, shape))
    joined = _joined(draft, builder, outputs, result)
    if not builder.is_supported(context):
        return None
    return builder.finish("conv-per-group", joined)


def _joined(draft: Draft, builder: OperatorBuilder, parts: list[int], like: Tensor) -> int:
    """Return the concatenation of the channels, in several steps if there are many parts."""
    while len(parts) > 1:
        groups = [parts[first : first + MAX_JOINED] for first in range(0, len(parts), MAX_JOINED)]
        parts = [_concatenated(draft, builder, group, like) for group in groups]
    return parts[0]


def _concatenated(draft: Draft, builder: OperatorBuilder, parts: Sequence[int], like: Tensor) -> int:
    if len(parts) == 1:
        return parts[0]
    channels = sum(draft.tensors[part].shape[3] for part in parts)
    return builder.add("CONCATENATION", parts, (*like.shape[:3], channels), like=like.index, version=3, axis=3)


def _sliced(quantization: Quantization | None, part: slice) -> Quantization | None:
    if quantization is None or not quantization.per_channel:
        return quantization
    return Quantization(quantization.scales[part], (0,) * len(quantization.scales[part]), quantization.axis)


def _exact_row(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Pad or shorten the row to the columns that the windows cover, so that no window reaches beyond its ends."""
    source, weights, result = (draft.tensors[index] for index in (*operator.inputs[:2], operator.outputs[0]))
    stride = operator.options["stride_w"] if operator.options else None
    if not isinstance(stride, int) or source.per_tensor is None:
        return None
    builder = OperatorBuilder(draft, operator)
    covered = (result.shape[2] - 1) * stride + weights.shape[2]
    missing, shape = covered - source.shape[2], (*source.shape[:2], covered, source.shape[3])
    if missing > 0:
        margins = [[0, 0], [0, 0], [missing // 2, missing - missing // 2], [0, 0]]
        bounds = ("PAD", [builder.constant(margins)])
    else:
        bounds = ("SLICE", [builder.constant([0] * len(shape)), builder.constant(list(shape))])
    row = builder.add(bounds[0], [source.index, *bounds[1]], shape, like=source.index)
    output = _repeat(builder, [row, *operator.inputs[1:]], result.shape, padding=VALID)
    return builder.finish("exact-row", output) if builder.is_supported(context) else None


def _depthwise_as_convolution(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Use CONV_2D, along a row or else along a column, because CMSIS-NN refuses some windows along a row."""
    source, weights, *bias = operator.inputs
    image, old, result = draft.tensors[source], draft.tensors[weights], draft.tensors[operator.outputs[0]]
    values, options = draft.values(weights), operator.options
    if values is None or options is None or image.shape[1] != 1 or image.shape[3] != 1:
        return None
    scales = old.quantization and replace(old.quantization, axis=0, minimum=(), maximum=())
    for upright in (False, True):
        builder = OperatorBuilder(draft, operator)
        turned = [0, 2, 1, 3] if upright else [0, 1, 2, 3]
        filters = values.transpose(3, 1, 2, 0).transpose(turned)
        kernel = draft.constant(f"{old.name}/conv", np.ascontiguousarray(filters), scales)
        pixels = builder.reshape(source, [image.shape[i] for i in turned])
        fields: dict[str, OptionValue] = {name: options[name] for name in ("padding", "fused_activation_function")}
        for new, own in ("hw", "wh") if upright else ("hh", "ww"):
            fields[f"stride_{new}"] = options[f"stride_{own}"]
            fields[f"dilation_{new}_factor"] = options[f"dilation_{own}_factor"]
        shape = [result.shape[i] for i in turned]
        output = draft.tensor(f"{result.name}/conv_2d", shape, result.dtype, result.quantization)
        builder.operators.append(draft.make("CONV_2D", [pixels, kernel, *bias], [output], 3, **fields))
        if upright:
            output = builder.reshape(output, result.shape)
        if builder.is_supported(context):
            return builder.finish("depthwise-as-conv", output)
    return None


# Others


def _flat_dense(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    source, weights, *bias = operator.inputs
    units, depth = draft.tensors[weights].shape
    rows = draft.tensors[source].element_count // depth
    options = operator.options
    if options is None:
        return None
    builder = OperatorBuilder(draft, operator)
    flat = builder.reshape(source, (rows, depth))
    result = _repeat(builder, [flat, weights, *bias], (rows, units), keep_num_dims=False)
    if not builder.is_supported(context):
        return None
    return builder.finish("flat-dense", result)


def _remove_transpose(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Remove the operator; a result of the graph, and one with another scale than the input, becomes a RESHAPE."""
    source, result = draft.tensors[operator.inputs[0]], draft.tensors[operator.outputs[0]]
    if result.index in draft.outputs or source.is_variable or source.quantization != result.quantization:
        return OperatorBuilder(draft, operator).finish("no-transpose", source.index)
    record = applied("no-transpose", draft, operator)
    draft.redirect(result.index, source.index)
    draft.replace(operator)
    return record


def _highest_code(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Use MAXIMUM with the highest code, which is the result whatever the input."""
    source, result = draft.tensors[operator.inputs[0]], draft.tensors[operator.outputs[0]]
    builder = OperatorBuilder(draft, operator)
    highest = builder.constant(np.array([np.iinfo(np.int16).max], np.int16), result.quantization)
    output = builder.add("MAXIMUM", [source.index, highest], result.shape, like=result.index, version=2)
    if not builder.is_supported(context):
        return None
    return builder.finish("softmax-constant", output)


def _broadcast_first(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Broadcast as few inputs as possible before the operator."""
    result = draft.tensors[operator.outputs[0]]
    inputs = [draft.tensors[tensor] for tensor in operator.inputs]
    smaller = [place for place in range(2) if inputs[place].shape != result.shape]
    for places in (*([place] for place in smaller), smaller):
        builder = OperatorBuilder(draft, operator)
        operands = [
            _broadcast(builder, tensor, result.shape) if place in places else tensor.index
            for place, tensor in enumerate(inputs)
        ]
        (output,) = builder.repeat(operands)
        if builder.is_supported(context):
            return builder.finish("broadcast-before", output)
    return None


def _broadcast(builder: OperatorBuilder, tensor: Tensor, shape: Sequence[int]) -> int:
    values = builder.draft.values(tensor.index)
    if values is not None:
        return builder.constant(np.ascontiguousarray(np.broadcast_to(values, shape)), tensor.quantization)
    return builder.add("BROADCAST_TO", [tensor.index, builder.constant(list(shape))], shape, like=tensor.index)


def _pad_first(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    source, result = draft.tensors[operator.inputs[0]], draft.tensors[operator.outputs[0]]
    paddings = draft.values(operator.inputs[2])
    if paddings is None or (source.per_tensor or (0, 0))[1] != (result.per_tensor or (0, 0))[1]:
        return None
    builder = OperatorBuilder(draft, operator)
    margins = np.zeros((len(source.shape), 2), np.int32)
    margins[1 : 1 + len(paddings)] = paddings
    shape = [side + int(margin.sum()) for side, margin in zip(source.shape, margins, strict=True)]
    padded = builder.add("PAD", [source.index, builder.constant(margins)], shape, like=source.index)
    (output,) = builder.repeat([padded, operator.inputs[1], builder.constant(np.zeros_like(paddings))])
    if not builder.is_supported(context):
        return None
    return builder.finish("pad-before", output)


_BIAS = Rewrite("bias-of-zeros", "given a bias of zeros", _zero_bias)
_INT8_FILTER = Rewrite("int8-filter", "given weights of int8 with the same values", _widen_filter)
# The rules by the fault that they avoid, in the order in which several faults of one operator are avoided.
RULES: Mapping[str, tuple[Rewrite, ...]] = {
    "transpose-conv-activation": (
        Rewrite("separate-activation", "given its activation as an operator of its own", _separate_activation),
    ),
    "transpose-conv-rows": (  # one function with two results, each with its own summary
        Rewrite("transpose-conv-slice", "given a larger output, of which SLICE takes the original part", _move_rows),
        Rewrite("transpose-conv-border", "given a filter with a border of zeros", _move_rows),
    ),
    "conv-row-ends": (Rewrite("exact-row", "given a row that its windows cover exactly, by PAD or SLICE", _exact_row),),
    "grouped-conv-int16": (
        Rewrite("conv-per-group", "replaced by one CONV_2D per group, between SPLIT and CONCATENATION", _split_groups),
    ),
    "grouped-conv-int4": (_INT8_FILTER,),
    "grouped-conv-without-bias": (_BIAS,),
    "conv-int16-without-bias": (_BIAS,),
    "depthwise-int4-nibbles": (_INT8_FILTER,),
    "depthwise-scratch": (
        Rewrite(
            "depthwise-as-conv", "replaced by CONV_2D, which is the same for one channel", _depthwise_as_convolution
        ),
    ),
    "dense-weights-zero-point": (
        Rewrite("flat-dense", "given an input and an output of two dimensions by RESHAPE", _flat_dense),
    ),
    "transpose-identity": (Rewrite("no-transpose", "removed, because it moves nothing", _remove_transpose),),
    "softmax-int16-single": (
        Rewrite("softmax-constant", "replaced by MAXIMUM with the result, which is always 1", _highest_code),
    ),
    "extremum-broadcast": (
        Rewrite("broadcast-before", "given an input that is broadcast before, by BROADCAST_TO", _broadcast_first),
    ),
    "space-to-batch-padding": (Rewrite("pad-before", "given an input that is padded before, by PAD", _pad_first),),
    "svdf-without-bias": (Rewrite("bias-of-zeros", "given a bias of zeros", _zero_svdf_bias),),
}
# The operators that the rules apply to.
CODES = frozenset(
    """
    CONV_2D DEPTHWISE_CONV_2D FULLY_CONNECTED MAXIMUM MINIMUM SOFTMAX SPACE_TO_BATCH_ND SVDF TRANSPOSE TRANSPOSE_CONV
    """.split()
)
