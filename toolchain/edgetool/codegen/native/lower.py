"""From a model to the steps of its native program: every operator is lowered by its family.

PADs are folded into the convolutions that read them, lookups of several operators into one, tensors that only change
shape into views, operators on constants into constants. What is not supported is refused with the operator and the
reason, before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module

from edgetool.codegen.native.activation import fold_lookups, lower_lookup
from edgetool.codegen.native.control import copy_step, variable_tensors
from edgetool.codegen.native.program import Constant, RangeError, Step, check_step
from edgetool.codegen.native.site import Folded, Initial, Lowered, Lowering, Site, View
from edgetool.codegen.native.sums import sums_tensors
from edgetool.codegen.quantizers import C_TYPES
from edgetool.errors import UnsupportedModelError
from edgetool.model.types import DType, Graph, Model, Operator, Tensor
from edgetool.operators.call import scale, zero_point

# The module of each family, by operator.
FAMILIES: dict[str, str] = {
    "activation": "ABS ELU EXP HARD_SWISH LEAKY_RELU LOG LOGISTIC NEG PRELU RELU RELU6 RSQRT SQRT SQUARE TANH",
    "arithmetic": """
        ADD ADD_N DIV EQUAL GREATER GREATER_EQUAL LESS LESS_EQUAL LOGICAL_AND LOGICAL_NOT LOGICAL_OR MAXIMUM MINIMUM MUL
        NOT_EQUAL SELECT_V2 SQUARED_DIFFERENCE SUB
    """,
    "control": "ASSIGN_VARIABLE CALL_ONCE READ_VARIABLE VAR_HANDLE",
    "convolution": "CONV_2D DEPTHWISE_CONV_2D TRANSPOSE_CONV",
    "dense": "BATCH_MATMUL FULLY_CONNECTED",
    "movement": """
        BROADCAST_TO CONCATENATION DEPTH_TO_SPACE EXPAND_DIMS FILL PACK RESHAPE REVERSE_V2 SHAPE SLICE SPACE_TO_DEPTH
        SPLIT SPLIT_V SQUEEZE STRIDED_SLICE TRANSPOSE UNPACK
    """,
    "normalization": "L2_NORMALIZATION LOG_SOFTMAX SOFTMAX",
    "padding": "MIRROR_PAD PAD PADV2",
    "pooling": "AVERAGE_POOL_2D MAX_POOL_2D",
    "quantization": "CAST DEQUANTIZE QUANTIZE",
    "recurrent": "SVDF UNIDIRECTIONAL_SEQUENCE_LSTM",
    "reduction": "ARG_MAX ARG_MIN CUMSUM MEAN REDUCE_ALL REDUCE_MAX REDUCE_MIN SUM",
    "resize": "RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR",
    "selection": "BATCH_TO_SPACE_ND DYNAMIC_UPDATE_SLICE EMBEDDING_LOOKUP GATHER GATHER_ND SPACE_TO_BATCH_ND",
}
_MODULES = {code: family for family, codes in FAMILIES.items() for code in codes.split()}
# Operators that treat rows and columns outside their input as the input's zero point.
PADDED = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D"})
# Of a tensor, and of all constants that are computed from others: what lowering allocates has a bound.
MAX_TENSOR_BYTES = 2**26
# Of operators, their inputs and their variables, in all: tables refer to each other with 16 bits.
MAX_TABLE_ROWS = 2**16


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor is: in the memory of the tensor `root`, from `offset` on, or in flash as `constant`."""

    root: int
    offset: int = 0
    constant: Constant | None = None


@dataclass(frozen=True, slots=True)
class Ring:
    """The rows of a root tensor that a step of a stream keeps from the one before.

    They are its first `kept_bytes` bytes, which were `hop_bytes` bytes further on.
    """

    kept_bytes: int
    hop_bytes: int


@dataclass(frozen=True, slots=True)
class Stream:
    """What a program computes in one step of a stream, when the window has moved by a hop; see incremental.py.

    Attributes:
        hop_rows: The rows of the input that are new in each step.
        window_rows: The rows of the input in a window.
        row_bytes: The size of a row of the input.
        rings: Those of root tensors.
        macs: The multiply-accumulates of each operator in a step.
        touched_macs: Those of rows that depend on new rows of the input, or that no window had before.
        window_macs: Those of a whole window.
    """

    hop_rows: int
    window_rows: int
    row_bytes: int
    rings: Mapping[int, Ring]
    macs: Mapping[int, int]
    touched_macs: int
    window_macs: int

    @property
    def step_macs(self) -> int:
        """The multiply-accumulates of a step."""
        return sum(self.macs.values())

    @property
    def window_hops(self) -> int:
        """How many hops fill a window."""
        return -(-self.window_rows // self.hop_rows)


@dataclass(frozen=True, slots=True)
class NativeProgram:
    """A model as steps, in the order of its operators.

    The main graph has another tensor for each resource variable (control.py) and for sums of rows (sums.py).
    places: the place of each tensor that a step, an input or an output refers to. initial: what init and reset write to
    variables, by tensor; the others get their zero point. stream: what the program keeps if it is a step of a stream.
    """

    model: Model
    steps: tuple[Step, ...]
    places: dict[int, Place]
    initial: dict[int, Constant] = field(default_factory=dict)
    stream: Stream | None = None

    @property
    def graph(self) -> Graph:
        """The subgraph that the program runs."""
        return self.model.main

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernels that the steps call, sorted."""
        return tuple(sorted({step.kernel for step in self.steps if step.begins is None}))

    @property
    def has_transfers(self) -> bool:
        """Whether the firmware copies constants while steps run (loads.py)."""
        return any(step.begins is not None for step in self.steps)


def lowering_of(code: str, *, vector: bool = False) -> Lowering | None:
    """Return the lowering of an operator, or that for cores with Helium; None if the native runtime lacks it."""
    family = _MODULES.get(code)
    if family is None:
        return None
    lowering: Lowering | None = import_module(f"edgetool.codegen.native.{family}").LOWERINGS.get(code)
    if vector:
        lowering = import_module("edgetool.codegen.native.vector").LOWERINGS.get(code, lowering)
    return lowering


def lower(
    model: Model,
    *,
    row_wise: bool = False,
    vector: bool = False,
    dsp: bool = True,
    lean: bool = False,
    plain: bool = False,
) -> NativeProgram:
    """Return the steps of a model.

    Args:
        model: The model.
        row_wise: Whether the rows of images stay apart, for plans of rows instead of tensors.
        vector: Whether the core has Helium, for which some operators have kernels of their own.
        dsp: Whether it has Arm's DSP extension, without which some of them have those that need less scratch.
        lean: Whether kernels must do without scratch that only makes them faster.
        plain: Whether convolutions must have the kernels for all shapes, of which pairs of operators are made.

    Raises:
        UnsupportedModelError: The native runtime does not support an operator or its options.
    """
    graph = model.main
    _check_tensors(graph)
    folded_bytes = 0
    tensors = [*graph.tensors, *variable_tensors(model)]
    sums = sums_tensors(graph, len(tensors)) if row_wise else {}
    tensors += sums.values()
    pads, lookups = _foldable_pads(graph), fold_lookups(graph)
    steps: list[Step] = []
    places: dict[int, Place] = {}
    initial: dict[int, Constant] = {}
    for operator in graph.operators:
        if operator.index in pads or operator.index in lookups.absorbed:
            continue
        current = replace(graph, tensors=tuple(tensors))
        flags = {"row_wise": row_wise, "vector": vector, "dsp": dsp, "lean": lean, "plain": plain}
        site = _site(model, current, operator, pads, **flags)
        if operator.index in sums:
            site = replace(site, sums=sums[operator.index].index)
        lookup = lookups.by_operator.get(operator.index)
        lowering = lowering_of(operator.code, vector=vector) if lookup is None else partial(lower_lookup, lookup=lookup)
        if lowering is None:
            site.refuse("it has no native kernel")
        for item in _lowered(lowering, site):
            if isinstance(item, Step):
                steps.append(item)
            elif isinstance(item, Initial):
                initial[item.variable] = Constant("uint8_t", item.data, "variable after reset")
            elif tensors[item.output].is_variable or (isinstance(item, View) and tensors[item.source].is_variable):
                steps.append(_copied(site, item))
            elif isinstance(item, View):
                source = _place(places, tensors, item.source)
                places[item.output] = replace(source, offset=source.offset + item.offset)
                if tensors[item.source].data is not None:
                    tensors[item.output] = replace(tensors[item.output], data=tensors[item.source].data)
            else:
                folded_bytes += len(item.data)
                site.require(folded_bytes <= MAX_TENSOR_BYTES, "it computes too many constants")
                tensors[item.output] = replace(tensors[item.output], data=item.data)
    folded = replace(model, subgraphs=(replace(graph, tensors=tuple(tensors)), *model.subgraphs[1:]))
    used = {index for step in steps for index in _tensors_of(step)} | {*graph.inputs, *graph.outputs}
    program = NativeProgram(
        folded,
        tuple(steps),
        {index: _place(places, tensors, index) for index in sorted(used)},
        {index: constant for index, constant in initial.items() if index in used},
    )
    _check_written(program)
    _check_sizes(program)
    _check_count(program)
    return program


def _check_written(program: NativeProgram) -> None:
    """Raise UnsupportedModelError if a step or an output reads memory that nothing has written."""
    graph = program.graph
    written = {program.places[index].root for index in graph.inputs}
    written |= {index for index, tensor in enumerate(graph.tensors) if tensor.is_variable}

    def require(index: int, reader: str) -> None:
        place = program.places[index]
        if place.constant is None and place.root not in written:
            raise UnsupportedModelError(
                f"{reader} reads tensor {index}, which nothing has written",
                where=f"tensor {index}",
                fix="convert the model again",
            )

    for step in program.steps:
        for item in step.inputs:
            if isinstance(item.source, int):
                require(item.source, f"operator {step.operator}")
        written.add(program.places[step.output].root)
    for index in graph.outputs:
        require(index, "an output")


def _check_sizes(program: NativeProgram) -> None:
    """Raise UnsupportedModelError unless steps write each of their outputs whole, and read inside of their inputs.

    Shapes in a file can differ from what its operators compute; TFLM corrects some of them when it runs.
    """
    tensors = program.graph.tensors
    computed: dict[int, int] = {}
    for step in program.steps:
        computed[step.output] = computed.get(step.output, 0) + step.output_bytes
        inside = step.output_offset + step.output_bytes <= tensors[step.output].size_bytes
        for item in step.inputs:
            size = len(item.source.data) if isinstance(item.source, Constant) else tensors[item.source].size_bytes
            inside = inside and item.row_bytes * item.rows * step.batches <= size
        if not inside:
            raise _wrong_size(program, step)
    for step in program.steps:
        output = tensors[step.output]
        # Variables keep their contents, and can be written several times.
        if computed[step.output] != output.size_bytes and not output.is_variable:
            raise _wrong_size(program, step)


def _check_count(program: NativeProgram) -> None:
    """Raise UnsupportedModelError if the tables of a program may have too many rows."""
    count = sum(1 + len(step.inputs) + len(step.states) for step in program.steps)
    if count > MAX_TABLE_ROWS:
        raise UnsupportedModelError(
            f"the native runtime allows {MAX_TABLE_ROWS:,} operators and inputs of operators, and it has {count:,}",
            fix="split the model",
        )


def _wrong_size(program: NativeProgram, step: Step) -> UnsupportedModelError:
    label = next(item.label for item in program.graph.operators if item.index == step.operator)
    return UnsupportedModelError(
        f"{label} reads or computes another number of bytes than its tensors have",
        where=f"operator {step.operator}",
        fix="convert the model again",
    )


def _check_tensors(graph: Graph) -> None:
    """Raise UnsupportedModelError for tensors that no program can have: huge ones, and constants that are computed."""
    for tensor in graph.tensors:
        if tensor.data is None and tensor.size_bytes > MAX_TENSOR_BYTES:
            raise UnsupportedModelError(
                f"the native runtime allows {MAX_TENSOR_BYTES:,} bytes for a tensor, and it has {tensor.size_bytes:,}",
                where=f"tensor {tensor.index}",
                fix="check the shapes of the model",
            )
    written = {index for operator in graph.operators for index in operator.outputs if index >= 0}
    for index in sorted(written.union(graph.inputs)):
        if graph.tensors[index].data is not None or (index in written and index in graph.inputs):
            what = "constant" if graph.tensors[index].data is not None else "an input of the model"
            raise UnsupportedModelError(
                f"it is {what}, and is written to", where=f"tensor {index}", fix="convert the model again"
            )


def _lowered(lowering: Lowering, site: Site) -> Iterator[Lowered]:
    """Return what an operator becomes; refuse it if a kernel cannot have one of its numbers."""
    try:
        for item in lowering(site):
            if isinstance(item, Step):
                check_step(item)
            yield item
    except RangeError as error:
        site.refuse(error.what)
    except ArithmeticError:
        site.refuse("a quotient of its scales does not exist, or has no room")


def _copied(site: Site, item: View | Folded) -> Step:
    """Return a view or constant as a copy: memory of variable tensors is never shared, nor in flash."""
    size = site.graph.tensors[item.output].size_bytes
    if isinstance(item, Folded):
        return copy_step(site, Constant("uint8_t", item.data, "assigned to a variable"), item.output, size)
    site.require(item.offset == 0, "it slices a variable tensor")
    return copy_step(site, item.source, item.output, size)


def _tensors_of(step: Step) -> list[int]:
    sources = [item.source for item in step.inputs if isinstance(item.source, int)]
    return [*sources, step.output, *step.states]


def _place(places: dict[int, Place], tensors: list[Tensor], index: int) -> Place:
    if index in places:
        return places[index]
    data = tensors[index].data
    if data is None:
        return Place(index)
    # Arrays of C are aligned to their elements.
    c_type = "uint8_t" if tensors[index].dtype in (DType.BOOL, DType.FLOAT64) else C_TYPES.get(tensors[index].dtype)
    return Place(index, constant=Constant(c_type or "uint8_t", data, f"tensor {index}"))


def _foldable_pads(graph: Graph) -> dict[int, Operator]:
    """Return the PADs, by index, whose only readers are convolutions, and which pad rows and columns of int8."""
    readers: dict[int, list[Operator]] = {}
    for operator in graph.operators:
        for index in operator.inputs:
            if index >= 0:
                readers.setdefault(index, []).append(operator)
    return {
        operator.index: operator
        for operator in graph.operators
        if operator.code in ("PAD", "PADV2")
        and _is_spatial_pad(graph, operator)
        and operator.outputs[0] not in graph.outputs
        and readers.get(operator.outputs[0])
        and all(
            reader.code in PADDED
            and reader.inputs[0] == operator.outputs[0]
            and reader.inputs.count(operator.outputs[0]) == 1
            for reader in readers[operator.outputs[0]]
        )
    }


def _is_spatial_pad(graph: Graph, operator: Operator) -> bool:
    """Return whether the operator adds rows and columns of the zero point around an image."""
    source, amounts = graph.tensors[operator.inputs[0]], graph.tensors[operator.inputs[1]]
    if source.dtype is not DType.INT8 or len(source.shape) != 4 or amounts.data is None or source.data is not None:
        return False
    pads = _amounts(amounts)
    if any(pads[axis] != (0, 0) for axis in (0, 3)) or len(pads) != 4:
        return False
    output = graph.tensors[operator.outputs[0]]
    if zero_point(source) != zero_point(output) or scale(source) != scale(output):
        return False
    if len(operator.inputs) < 3 or operator.inputs[2] < 0:
        return True
    value = graph.tensors[operator.inputs[2]].data
    return value is not None and int.from_bytes(value[:1], "little", signed=True) == zero_point(output)


def _amounts(tensor: Tensor) -> list[tuple[int, int]]:
    """Return the padding before and behind each axis."""
    width = tensor.dtype.bits // 8
    data = tensor.data or b""
    numbers = [int.from_bytes(data[i : i + width], "little", signed=True) for i in range(0, len(data), width)]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def _site(model: Model, graph: Graph, operator: Operator, pads: dict[int, Operator], **flags: bool) -> Site:
    """Return the operator's site; if it reads a folded PAD, with the PAD's input and padding."""
    pad = next((item for item in pads.values() if item.outputs[0] in operator.inputs), None)
    if pad is None:
        return Site(model, graph, operator, **flags)
    amounts = _amounts(graph.tensors[pad.inputs[1]])
    folded = replace(operator, inputs=(pad.inputs[0], *operator.inputs[1:]))
    pad_top, pad_left = amounts[1][0], amounts[2][0]
    return Site(model, graph, folded, pad_top=pad_top, pad_left=pad_left, **flags)


def unsupported(model: Model) -> str | None:
    """Return why the native runtime does not support the model, None if it does."""
    try:
        lower(model)
    except UnsupportedModelError as error:
        return str(error)
    return None
