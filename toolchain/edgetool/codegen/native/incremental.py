"""A native program for one step of a stream: what a window of time computes after it has moved on by a hop.

Time is the height of the input: its rows, as they are fed, are frames. A row of a tensor *stays* if it equals one that
the window had before, only further on: it is then part of a ring, and is not computed again. Whether it does follows
from the rows that its step reads: all of them must stay, or be the same, and padding must be padding for both.

Each tensor is reduced to the rows that the outputs need: first those of the ring, then those that are computed. The
rows of the input that a step of the stream is fed count as computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import lcm

import numpy as np
import numpy.typing as npt

from edgetool.codegen.native.lower import NativeProgram, Place, Ring, Stream
from edgetool.codegen.native.program import Constant, RowInput, Step
from edgetool.codegen.native.rows import row_problem
from edgetool.errors import UnsupportedModelError
from edgetool.model.types import DType, Tensor
from edgetool.operators.registry import operator_costs

MAX_EXTRA = 1.1  # multiply-accumulates of a step of the stream, as a multiple of those that the new frames touch
# Kernels whose rows depend on their number, and what the number decides.
NUMBERED = {
    "edgetool_resize_bilinear_s8": "interpolates rows by their place in the window",
    "edgetool_transpose_conv_s8": "has other taps for each row",
    "edgetool_transpose_conv_s16": "has other taps for each row",
}
WHOLE = "needs the whole window at once"

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Motion:
    """How the rows of a step move when the window does.

    hop: the number of rows by which they do, None if they do not. stays: the rows that stay. touched: those that depend
    on new frames, or that the window had not reached before. why: why those that do not stay do not.
    """

    hop: int | None
    stays: Flags
    touched: Flags
    why: Mapping[int, str]


@dataclass(slots=True)
class _Bytes:
    """What is known of each byte of a root tensor: whether it stays, depends on new frames, and is needed."""

    stays: Flags
    touched: Flags
    needed: Flags

    @classmethod
    def of(cls, size: int) -> _Bytes:
        """Return bytes that nothing is known of."""
        return cls(*(np.zeros(size, bool) for _ in range(3)))


def incremental_program(program: NativeProgram, frames: int) -> NativeProgram:
    """Return the program of a step of the stream, whose rings `stream` describes.

    Args:
        program: Steps that keep the rows of images apart, of a model with one input.
        frames: The hop: how many rows of the input are new in each step.

    Raises:
        UnsupportedModelError: The model does not stream, or not with this hop.
    """
    return _Analysis(program, frames).result()


class _Analysis:
    """The motion of all tensors of a program, and what is left of it in a step of the stream."""

    def __init__(self, program: NativeProgram, frames: int) -> None:
        program = _narrowed(program)
        self._program, self._graph = program, program.graph
        self._label = {item.index: item.label for item in self._graph.operators}
        self._input = _streamed_input(program)
        source = self._graph.tensors[self._input]
        self._frame_bytes = _frame_bytes(program, self._input)
        self._window = source.size_bytes // self._frame_bytes
        self._frames = frames
        if not 0 < frames < self._window:
            raise UnsupportedModelError(
                f"--incremental {frames} is no hop within a window of {self._window:,} rows",
                where="the input",
                fix=f"specify 1 to {self._window - 1:,}" if self._window > 1 else "omit --incremental",
            )
        self._writers: dict[int, list[Step]] = {}
        for step in program.steps:
            self._writers.setdefault(program.places[step.output].root, []).append(step)
        self._still: dict[int, str] = {}
        self._speed = self._speeds()
        self._bytes: dict[int, _Bytes] = {}
        self._motions = [self._motion(step) for step in program.steps]

    # -- motion

    def _speeds(self) -> dict[int, Fraction]:
        """Return by how many bytes each root tensor that moves does so for each frame; check the hop.

        Those that do not move and their readers need all that they read at once; others are noted in `_still`.
        """
        program = self._program
        speeds = {program.places[self._input].root: Fraction(self._frame_bytes)}
        unit, slowest = 1, ""
        for step in program.steps:
            if step.states:
                raise self._refused(step, "keeps a state of its own between inferences", "omit --incremental")
            rates: list[Fraction] = []  # by how many rows each input moves, and the output because of it
            found: set[Fraction] = set()
            for item, source in _computed(program, step):
                speed = speeds.get(program.places[source].root)
                if speed is not None and item.row_bytes and item.stride:
                    rates.append(speed / item.row_bytes)
                    found.add(rates[-1] * item.divisor / item.stride)
            root = program.places[step.output].root
            is_single = step.batches == 1 and not step.accumulates and len(self._writers[root]) == 1
            if len(found) > 1:
                self._still[root] = "reads inputs that move by different numbers of rows"
            if step.rows == 1 or not is_single or len(found) != 1:
                continue
            rate = found.pop()
            speeds[root] = rate * step.row_bytes
            needed = lcm(unit, *(item.denominator for item in (rate, *rates)))
            if needed != unit:
                unit, slowest = needed, f"operator {step.operator}"
        if self._frames % unit:
            label = self._label[int(slowest.partition(" ")[2])]
            raise UnsupportedModelError(
                f"--incremental {self._frames} is not a multiple of {unit}, and the rows of {label} move by whole ones "
                f"only if the window moves by {unit} rows, or a multiple",
                where=slowest,
                fix=f"specify {unit}, or a multiple",
            )
        return speeds

    def _hop_bytes(self, root: int) -> int | None:
        """Return by how many bytes a root tensor moves in a step of the stream; None if it does not move."""
        speed = self._speed.get(root)
        return None if speed is None else int(speed * self._frames)

    def _motion(self, step: Step) -> _Motion:
        """Return how the rows of a step move, and note it for the bytes of its output."""
        place = self._program.places[step.output]
        hop_bytes = self._hop_bytes(place.root)
        hop = None if hop_bytes is None else hop_bytes // step.row_bytes
        rows = 1 if step.accumulates else step.rows * step.batches
        stays, touched = np.zeros(rows, bool), np.zeros(rows, bool)
        why: dict[int, str] = {}
        numbered = _numbered(step)
        for y in range(rows):
            reads = list(self._reads(step, y))
            touched[y] = any(self._of(root).touched[part].any() for root, part in reads)
            if hop is None:
                reason: str | None = self._still.get(place.root, WHOLE)
            elif y + hop >= rows:
                reason = "had no row further on"
                touched[y] = True
            else:
                reason = numbered or self._change(step, y, hop)
            stays[y] = reason is None
            if reason is not None:
                why[y] = reason
        start = place.offset + step.output_offset
        output = self._of(place.root)
        for flags, values in ((output.stays, stays), (output.touched, touched)):
            flags[start : start + rows * step.row_bytes] = np.repeat(values, step.row_bytes)
        return _Motion(hop, stays, touched, why)

    def _change(self, step: Step, y: int, hop: int) -> str | None:
        """Return why row y differs from the row that is `hop` rows further on before the window moves; None if not."""
        for item in step.inputs:
            constant = _constant(self._program, item)
            if constant is None and not (item.row_bytes and item.stride):
                return WHOLE
            for tap in range(item.taps if item.row_bytes else 0):
                here = y * item.stride - item.pad + tap * item.dilation
                there = here + hop * item.stride
                is_inside, was_inside = (0 <= place < item.rows * item.divisor for place in (here, there))
                if is_inside != was_inside:
                    where, rows = ("above", "first") if min(here, there) < 0 else ("below", "last")
                    return f"reads padding {where} the window, so that its {rows} rows change with every hop"
                if is_inside and constant is not None and here // item.divisor != there // item.divisor:
                    return "has a constant for each row"
        for root, part in self._reads(step, y):
            if not self._of(root).stays[part].all():
                return WHOLE if root not in self._speed else "reads rows that change"
        return None

    def _reads(self, step: Step, y: int) -> Iterator[tuple[int, slice]]:
        """Yield the bytes of root tensors that a row reads; of all rows, if they are added up in one."""
        numbers = range(step.rows) if step.accumulates else [y]
        for item, source in _computed(self._program, step):
            place = self._program.places[source]
            size = item.row_bytes or self._graph.tensors[source].size_bytes
            for number in numbers:
                batch, row = divmod(number, step.rows)
                for read in rows_read(item, row):
                    start = place.offset + (batch * item.rows + read) * item.row_bytes
                    yield place.root, slice(start, start + size)

    def _of(self, root: int) -> _Bytes:
        """Return what is known of a root tensor; that of the input at first."""
        if root not in self._bytes:
            found = _Bytes.of(self._graph.tensors[root].size_bytes)
            if root == self._program.places[self._input].root:
                new = self._frames * self._frame_bytes
                found.stays[:-new] = True
                found.touched[-new:] = True
            self._bytes[root] = found
        return self._bytes[root]

    # -- what is left

    def result(self) -> NativeProgram:
        """Return the program of a step of the stream."""
        program, graph = self._program, self._graph
        for index in graph.outputs:
            place = program.places[index]
            if place.constant is None:
                self._of(place.root).needed[place.offset : place.offset + graph.tensors[index].size_bytes] = True
        computed = self._computed_rows()
        macs, touched, window = self._macs(computed)
        self._require_savings(computed, sum(macs.values()), touched)
        built = _Builder(program)
        rings: dict[int, Ring] = {}
        for root, known in self._bytes.items():
            if not known.needed.any():
                continue
            first, last = int(known.needed.argmax()), len(known.needed) - int(known.needed[::-1].argmax())
            hop = self._hop_bytes(root)
            kept = self._kept.get(root, 0)
            built.cut(root, first, last)
            if kept and hop is not None:
                rings[built.roots[root]] = Ring(kept, hop)
        for position, rows in computed.items():
            built.add(program.steps[position], rows)
        stream = Stream(self._frames, self._window, self._frame_bytes, rings, macs, touched, window)
        return built.program(stream)

    def _computed_rows(self) -> dict[int, range]:
        """Return the rows that each step computes, by position, without steps that compute none; note what is needed.

        A root tensor of one step has the rows of its ring, from the first one that is needed up to the first one that
        does not stay, and then those that are computed.
        """
        program = self._program
        computed: dict[int, range] = {}
        self._kept: dict[int, int] = {}
        for position in reversed(range(len(program.steps))):
            step, motion = program.steps[position], self._motions[position]
            place = program.places[step.output]
            start = place.offset + step.output_offset
            count = len(motion.stays)
            needed = self._of(place.root).needed
            own: Flags = np.any(needed[start : start + count * step.row_bytes].reshape(count, -1), axis=1)
            if not own.any():
                continue
            if step.batches > 1:
                own[:] = True
            elif _numbered(step) is not None:
                own[0] = True
            first, last = int(own.argmax()), count - int(own[::-1].argmax())
            begin = first + int((~motion.stays[first:]).argmax())
            if begin > first and motion.hop is not None:
                # What the ring has in the next step must exist in this one.
                last = max(last, begin + motion.hop)
                self._kept[place.root] = (begin - first) * step.row_bytes
            needed[start + first * step.row_bytes : start + last * step.row_bytes] = True
            computed[position] = range(begin, last)
            for y in computed[position]:
                for root, part in self._reads(step, y):
                    self._of(root).needed[part] = True
        root = program.places[self._input].root
        needed = self._of(root).needed
        fresh = len(needed) - self._frames * self._frame_bytes
        first = min(int(needed.argmax()) if needed.any() else fresh, fresh) // self._frame_bytes * self._frame_bytes
        needed[first:] = True
        if fresh > first:
            self._kept[root] = fresh - first
        return dict(sorted(computed.items()))

    def _macs(self, computed: Mapping[int, range]) -> tuple[dict[int, int], int, int]:
        """Return the multiply-accumulates of a step of the stream by operator, of what frames touch, and of a window.

        Those of an operator are spread evenly over the rows of its steps.
        """
        costs = {item.index: item.macs for item in operator_costs(self._program.model) if item.subgraph == 0}
        steps = [step.operator for step in self._program.steps]
        macs, touched = dict.fromkeys(steps, 0.0), 0.0
        for position, rows in computed.items():
            motion, operator = self._motions[position], steps[position]
            of_row = costs.get(operator, 0) / steps.count(operator) / len(motion.stays)
            macs[operator] += len(rows) * of_row
            touched += int(motion.touched[rows.start : rows.stop].sum()) * of_row
        window = sum(costs.get(operator, 0) for operator in macs)
        return {operator: round(number) for operator, number in macs.items()}, round(touched), window

    def _require_savings(self, computed: Mapping[int, range], macs: int, touched: int) -> None:
        """Raise UnsupportedModelError if much is computed that no new frame touches, or all of the window."""
        if macs > MAX_EXTRA * touched:
            for position, rows in computed.items():
                motion = self._motions[position]
                if not all(motion.touched[rows.start : rows.stop]):
                    raise self._refused(
                        self._program.steps[position],
                        f"{motion.why[rows.start]}; each step of the stream would take {macs:,} multiply-accumulates, "
                        f"of which only {touched:,} depend on new rows",
                        "omit --incremental, or remove the padding in time, or the outputs that depend on it",
                    )
        if all(len(computed.get(i, ())) == len(motion.stays) for i, motion in enumerate(self._motions)):
            position = next((i for i in computed if self._motions[i].hop is None), 0)
            raise self._refused(
                self._program.steps[position],
                f"{WHOLE}, and no rows before it stay with this hop",
                "omit --incremental",
            )

    def _refused(self, step: Step, why: str, fix: str) -> UnsupportedModelError:
        label = self._label[step.operator]
        return UnsupportedModelError(
            f"--incremental does not support {label} here: it {why}", where=f"operator {step.operator}", fix=fix
        )


def _numbered(step: Step) -> str | None:
    """Return what the number of a row decides in a kernel; None if rows of equal inputs are equal."""
    if step.kernel == "edgetool_copy" and dict(step.op.values)["phases"] != 1:
        return "has other columns for each row"
    return NUMBERED.get(step.kernel)


def _streamed_input(program: NativeProgram) -> int:
    """Return the only input of a model. Raises UnsupportedModelError if it has others."""
    inputs = [index for index in dict.fromkeys(program.graph.inputs) if program.places[index].constant is None]
    if not program.steps:
        raise UnsupportedModelError(
            "the model computes nothing that --incremental could save", fix="omit --incremental"
        )
    if len(inputs) != 1 or program.graph.tensors[inputs[0]].is_variable:
        raise UnsupportedModelError(
            f"--incremental applies to models with one input, and this one has {len(inputs)}",
            where="the inputs",
            fix="omit --incremental, or join the inputs",
        )
    if not program.graph.tensors[inputs[0]].size_bytes:
        raise UnsupportedModelError("it is empty", where="the input", fix="omit --incremental")
    return inputs[0]


def _frame_bytes(program: NativeProgram, index: int) -> int:
    """Return the size of a row of the input: what is fed at once, or, if all of it is read at once, by its shape."""
    tensor = program.graph.tensors[index]
    (rows,) = (item for item in row_problem(program, [index]).tensors if item.tensor == index)
    height = tensor.shape[1] if len(tensor.shape) > 1 else 1
    return rows.row_bytes if rows.row_bytes < tensor.size_bytes else tensor.size_bytes // max(1, height)


def _narrowed(program: NativeProgram) -> NativeProgram:
    """Return the program with copies that read only the rows of a tensor that they need, instead of all of it."""
    tensors, places, steps = list(program.graph.tensors), dict(program.places), []
    for step in program.steps:
        first = step.inputs[0] if step.inputs else None
        if step.kernel == "edgetool_copy" and first is not None and isinstance(first.source, int):
            place, values = places[first.source], dict(step.op.values)
            start, run, counts, strides = (values[name] for name in ("start", "run", "count", "step"))
            assert isinstance(start, int)
            assert isinstance(run, int)
            assert isinstance(counts, tuple)
            assert isinstance(strides, tuple)
            signed = (stride - 2**32 if stride >= 2**31 else stride for stride in strides)
            ends = [(count - 1) * stride for count, stride in zip(counts, signed, strict=True)]
            low, high = start + sum(min(0, end) for end in ends), start + sum(max(0, end) for end in ends) + run
            source = tensors[first.source]
            is_single = place.constant is None and step.rows * step.batches * first.rows == 1
            if is_single and len(source.shape) > 2 and _numbered(step) is None:
                row = source.size_bytes // source.shape[1]
                low, high = low // row * row, -(-high // row) * row
                tensor = replace(source, index=len(tensors), shape=(high - low,), dtype=DType.INT8)
                places[tensor.index] = Place(place.root, place.offset + low)
                tensors.append(tensor)
                op = replace(step.op, values=tuple((values | {"start": start - low}).items()))
                overlaps = tuple(replace(item, distance=item.distance + low) for item in step.overlaps)
                narrow = replace(first, source=tensor.index, row_bytes=high - low)
                step = replace(step, op=op, inputs=(narrow,), overlaps=overlaps)
        steps.append(step)
    main = replace(program.graph, tensors=tuple(tensors))
    model = replace(program.model, subgraphs=(main, *program.model.subgraphs[1:]))
    return replace(program, model=model, steps=tuple(steps), places=places)


def _computed(program: NativeProgram, step: Step) -> Iterator[tuple[RowInput, int]]:
    """Yield the inputs of a step that are in the arena, with their tensors."""
    for item in step.inputs:
        if isinstance(item.source, int) and program.places[item.source].constant is None:
            yield item, item.source


def _constant(program: NativeProgram, item: RowInput) -> Constant | None:
    return item.source if isinstance(item.source, Constant) else program.places[item.source].constant


def rows_read(item: RowInput, y: int) -> Iterator[int]:
    """Yield the rows of an input that an output row reads."""
    for tap in range(item.taps):
        place = y * item.stride - item.pad + tap * item.dilation
        if 0 <= place < item.rows * item.divisor:
            yield place // item.divisor


@dataclass(slots=True)
class _Builder:
    """The program of a step of the stream while it is built: tensors that are parts of the root tensors.

    roots: the new tensor of each root tensor. starts: the first byte of the old one in it.
    """

    old: NativeProgram
    tensors: list[Tensor] = field(init=False)
    places: dict[int, Place] = field(init=False)
    roots: dict[int, int] = field(default_factory=dict)
    starts: dict[int, int] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tensors = list(self.old.graph.tensors)
        self.places = {}

    def cut(self, root: int, first: int, last: int) -> None:
        """Add the tensor that has a part of a root tensor."""
        tensor = self.tensors[root]
        self.roots[root] = self._added(replace(tensor, shape=((last - first) * 8 // tensor.dtype.bits,)))
        self.starts[root] = first

    def _added(self, tensor: Tensor) -> int:
        self.tensors.append(replace(tensor, index=len(self.tensors)))
        return len(self.tensors) - 1

    def _view(self, tensor: int, begin: int) -> int:
        """Return a new tensor for what begins at a byte of an old one."""
        place = self.old.places[tensor]
        index = self._added(self.tensors[tensor])
        self.places[index] = Place(self.roots[place.root], place.offset + begin - self.starts[place.root])
        return index

    def add(self, step: Step, rows: range) -> None:
        """Add a step that computes only some rows."""
        if step.accumulates or step.batches > 1:
            # It computes all of them.
            rows = range(step.rows)
        inputs = []
        shifts = []
        for item in step.inputs:
            first = 0
            source: int | Constant
            if not isinstance(item.source, int) or self.old.places[item.source].constant is not None:
                source = item.source
                if isinstance(source, int):
                    self.places[source] = self.old.places[source]
            else:
                if item.row_bytes and step.batches == 1:
                    first = min((row for y in rows for row in rows_read(item, y)), default=0)
                source = self._view(item.source, first * item.row_bytes)
            pad = item.pad - rows.start * item.stride + first * item.divisor
            inputs.append(replace(item, source=source, rows=item.rows - first, pad=pad))
            shifts.append(first * item.row_bytes - rows.start * step.row_bytes)
        self.steps.append(
            replace(
                step,
                inputs=tuple(inputs),
                output=self._view(step.output, step.output_offset + rows.start * step.row_bytes),
                output_offset=0,
                rows=len(rows),
                band=min(step.band, len(rows)),
                overlaps=tuple(
                    replace(item, distance=item.distance + shifts[item.input])
                    for item in step.overlaps
                    if not item.descending
                ),
            )
        )

    def program(self, stream: Stream) -> NativeProgram:
        """Return the program."""
        old, graph = self.old, self.old.graph
        for index in (*graph.inputs, *graph.outputs):
            place = old.places[index]
            if place.constant is None:
                self.places[index] = Place(self.roots[place.root], max(0, place.offset - self.starts[place.root]))
            else:
                self.places[index] = place
        model = replace(old.model, subgraphs=(replace(graph, tensors=tuple(self.tensors)), *old.model.subgraphs[1:]))
        return replace(old, model=model, steps=tuple(self.steps), places=self.places, stream=stream)
