"""Feature maps in horizontal stripes: a region of a network runs once for each stripe of its results' rows.

A region is a sequence of operators. It may read several tensors from outside, and write several results: those that
none of its operators reads. All others are used inside only. For each stripe, its operators are copied. A copy computes
the rows that the stripe needs of its output, from rows of the region's inputs and of the other copies' outputs; a
result is divided into equal shares. Rows that two stripes need are computed twice; this is the price for tensors that
are never complete.

Copies read and write views: parts of the region's inputs and results, and of a copy's output of which another copy
needs fewer rows. No operator moves data. `portable` writes the same computation with SLICE and CONCATENATION, for
runtimes that do not follow the offsets of a plan.

A copy of a kernel with padding SAME pads its own input, wherever the stripe is. In the first stripe the padding before
the first row is the original one, in the last stripe that after the last row. Elsewhere, the first or the last rows of
such a copy are computed from padding instead of the rows of other stripes; views skip them. Their number, and with
strides the first row of the input, are chosen so that all other rows are those of the original operator. In the
region's results, rows behind those of the stripe may be wrong, because the next stripe writes them again. If rows in
front of them are wrong, the copy writes a tensor of its own, and RESHAPE moves the rows that are right into the result.
An operator that needs no padding along its rows because the stripe is inside the image, and has none along its columns,
is copied with padding VALID, and computes no row in vain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from edgetool.errors import UsageError
from edgetool.model.draft import Draft
from edgetool.model.edit import without_metadata
from edgetool.model.types import DType, Graph, Model, Operator, Tensor
from edgetool.model.views import STRIPE, VIEWS_METADATA_NAME, View
from edgetool.operators.registry import entry_of, operator_costs
from edgetool.operators.rows import ROWS, RowInput, images_of

# Their inputs are an image, where the part begins, and its size or where it ends.
SLICES = ("SLICE", "STRIDED_SLICE")


@dataclass(frozen=True, slots=True, order=True)
class Region:
    """Operators of the main graph by position, the first and the last inclusive, and the number of stripes."""

    first: int
    last: int
    stripes: int


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of an image from `first` up to, but without, `end`; outside the image they are computed in vain."""

    first: int
    end: int

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.end - self.first

    def contains(self, other: Rows) -> bool:
        """Return whether all rows of the other are among these."""
        return self.first <= other.first and other.end <= self.end

    def union(self, other: Rows) -> Rows:
        """Return the rows from the first to the last of both."""
        return Rows(min(self.first, other.first), max(self.end, other.end))


@dataclass(frozen=True, slots=True)
class Copy:
    """One operator of a region in one stripe.

    operator: its position in the main graph. rows: what it computes of the output. inputs: the rows of each input that
    is read by rows, by position. padding: that of the copy, if it is not that of the operator. pads: the rows that
    PAD adds before and after. moved: the rows that RESHAPE moves into the result, if the copy cannot write there.
    """

    operator: int
    rows: Rows
    inputs: tuple[tuple[int, Rows], ...]
    padding: str | None = None
    pads: tuple[int, int] | None = None
    moved: Rows | None = None

    @property
    def written(self) -> Rows:
        """The rows of a result that it writes, or RESHAPE behind it."""
        return self.rows if self.moved is None else self.moved


@dataclass(frozen=True, slots=True)
class Interface:
    """The tensors of a region: what it reads from outside, and its results, in this order."""

    sources: tuple[int, ...]
    results: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Striped:
    """A model in stripes, its views, and the multiply-accumulates beyond those of the original model."""

    model: Model
    views: tuple[View, ...]
    extra_macs: int


def row_inputs(graph: Graph, operator: Operator) -> tuple[RowInput, ...]:
    """Return the inputs of which the operator reads rows; none if it cannot be computed in stripes."""
    entry = entry_of(operator)
    if entry is None or entry.rows is None or len(operator.outputs) != 1:
        return ()
    items = tuple(entry.rows(operator, graph))
    images = [operator.inputs[item.input] for item in items]
    if not images or not images_of(graph, [*images, operator.outputs[0]]):
        return ()
    is_computed = all(graph.tensors[index].data is None and not graph.tensors[index].is_variable for index in images)
    return items if is_computed else ()


class RowGraph:
    """The operators of a main graph that can be copied for stripes, and the copies that were already computed."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.inputs = tuple(row_inputs(graph, operator) for operator in graph.operators)
        self._copies: dict[tuple[int, Rows, bool], Copy | None] = {}
        self._uses: dict[int, list[int]] = {}
        for position, operator in enumerate(graph.operators):
            for index in {*operator.inputs, *operator.outputs}:
                self._uses.setdefault(index, []).append(position)

    def interface(self, first: int, last: int) -> Interface | None:
        """Return the tensors of a region, None if the operators from first to last are none."""
        graph, span = self.graph, range(first, last + 1)
        written = [graph.operators[position].outputs[0] for position in span if self.inputs[position]]
        if len(set(written)) < len(span):
            return None
        sources: dict[int, None] = {}
        for position in span:
            operator = graph.operators[position]
            by_rows = dict.fromkeys(operator.inputs[item.input] for item in self.inputs[position])
            if any(index >= 0 and graph.tensors[index].data is None for index in {*operator.inputs} - {*by_rows}):
                return None
            sources |= {index: None for index in by_rows if index not in written}
        read = {index for position in span for index in graph.operators[position].inputs}
        inner = [index for index in written if index in read]
        is_used = any(index in graph.outputs or not {*self._uses[index]} <= {*span} for index in inner)
        is_input = not {*written}.isdisjoint((*graph.inputs, *sources))
        results = tuple(index for index in written if index not in read)
        return None if is_used or is_input or not results else Interface(tuple(sources), results)

    def copies(self, region: Region) -> tuple[tuple[Copy, ...], ...] | None:
        """Return the copies of each stripe of a region, in the order in which they run; None if a stripe cannot be
        computed, or the operators are no region.
        """
        if self.interface(region.first, region.last) is None:
            return None
        grown = [*self.growing(region.last, region.stripes, region.first)]
        if len(grown) <= region.last - region.first:
            return None
        return tuple(tuple(reversed(stripe_copies)) for stripe_copies in grown[-1][1])

    def growing(self, last: int, stripes: int, first: int) -> Iterator[tuple[int, Sequence[Sequence[Copy]]]]:
        """Yield the copies of the operators from each position on, the last one's at first and then one more each time,
        as far as all stripes can be computed: for each stripe, the last copy first. The lists grow as the iterator
        proceeds.
        """
        needed: list[dict[int, Rows]] = [{} for _ in range(stripes)]
        copies: list[list[Copy]] = [[] for _ in needed]
        for position in range(last, first - 1, -1):
            output = self.graph.operators[position].outputs[0]
            is_result = output not in needed[0]
            if is_result:
                if stripes > self.height(position):
                    return
                for rows, share in zip(needed, divided(self.height(position), stripes), strict=True):
                    rows[output] = share
            for stripe_copies, rows in zip(copies, needed, strict=True):
                copy = self._needed_copy(position, rows, in_place=is_result)
                if copy is None:
                    return
                stripe_copies.append(copy)
            yield position, copies

    def _needed_copy(self, position: int, needed: dict[int, Rows], *, in_place: bool) -> Copy | None:
        """Return the copy that computes the needed rows of an operator's output, and add those that it reads; None if
        there is none.
        """
        operator = self.graph.operators[position]
        rows = needed[operator.outputs[0]]
        copy = self._copy(position, rows, in_place=in_place)
        if copy is None and in_place:
            apart = self._copy(position, rows, in_place=False)
            copy = None if apart is None else replace(apart, moved=rows)
        for place, item in () if copy is None else copy.inputs:
            index = operator.inputs[place]
            needed[index] = item if index not in needed else needed[index].union(item)
        return copy

    def height(self, position: int) -> int:
        """Return the number of rows that an operator writes."""
        return self.graph.tensors[self.graph.operators[position].outputs[0]].shape[ROWS]

    def _copy(self, position: int, needed: Rows, *, in_place: bool) -> Copy | None:
        """Return the copy of an operator that computes the needed rows with the fewest others.

        in_place: whether it writes to the complete output. Only rows that a later stripe writes again may be wrong.
        """
        key = position, needed, in_place
        if key not in self._copies:
            limits = Rows(needed.first, self.height(position)) if in_place else None
            self._copies[key] = _copy(self.graph, position, self.inputs[position], needed, limits)
        return self._copies[key]


def divided(height: int, stripes: int) -> tuple[Rows, ...]:
    """Return the rows of each stripe."""
    ends = [number * height // stripes for number in range(stripes + 1)]
    return tuple(Rows(first, end) for first, end in pairwise(ends))


def _copy(graph: Graph, position: int, items: Sequence[RowInput], needed: Rows, limits: Rows | None) -> Copy | None:
    rows = items[0].rows
    if items[0].outside == "constant":
        return _padding(position, items[0], needed)
    if items[0].factor > 1:
        return _multiplying(position, items[0], needed, limits)
    if rows.kernel == rows.stride == 1 and not rows.pad:
        return Copy(position, needed, tuple((item.input, needed) for item in items))
    found = [
        window
        for window in _windows(graph, graph.operators[position], items[0], needed)
        if limits is None or limits.contains(window[1])
    ]
    best = min(found, key=lambda window: (window[1].count, window[0].count), default=None)
    if best is None:
        return None
    read, computed, padding = best
    return Copy(position, computed, ((items[0].input, read),), padding)


def _multiplying(position: int, item: RowInput, needed: Rows, limits: Rows | None) -> Copy | None:
    """Return the copy of an operator that turns each row into several."""
    read = Rows(needed.first // item.factor, -(-needed.end // item.factor))
    computed = Rows(read.first * item.factor, read.end * item.factor)
    return Copy(position, computed, ((item.input, read),)) if limits is None or limits.contains(computed) else None


def _padding(position: int, item: RowInput, needed: Rows) -> Copy | None:
    """Return the copy of an operator that pads."""
    before, size = item.rows.pad, item.rows.size
    read = Rows(max(0, needed.first - before), min(size, needed.end - before))
    if read.count < 1:
        return None
    pads = max(0, before - needed.first), max(0, needed.end - before - size)
    return Copy(position, needed, ((item.input, read),), pads=pads)


def _windows(graph: Graph, operator: Operator, item: RowInput, needed: Rows) -> Iterator[tuple[Rows, Rows, str | None]]:
    """Yield input rows, the output rows that a copy computes from them, and its padding; the needed rows are right."""
    axis = item.rows
    extent = (axis.kernel - 1) * axis.dilation + 1
    first, end = needed.first * axis.stride - axis.pad, (needed.end - 1) * axis.stride - axis.pad + extent
    inside = Rows(max(first, 0), min(end, axis.size))
    is_inside = inside == Rows(first, end)
    if is_inside and (item.outside == "nothing" or not _pads_columns(graph, operator)):
        yield inside, needed, "VALID"
    if item.outside == "nothing" or inside.count < 1:
        return
    reach = extent + axis.stride
    for start in range(inside.first, max(0, inside.first - reach) - 1, -1):
        for stop in range(inside.end, min(axis.size, inside.end + reach) + 1):
            count = -(-(stop - start) // axis.stride)
            pad = max((count - 1) * axis.stride + extent - (stop - start), 0) // 2
            row, phase = divmod(start - pad + axis.pad, axis.stride)
            if not phase and row <= needed.first and row + count >= needed.end:
                yield Rows(start, stop), Rows(row, row + count), None


def _pads_columns(graph: Graph, operator: Operator) -> bool:
    """Return whether the windows of an operator reach beyond the columns of its input, or would be fewer if not."""
    source, result = graph.tensors[operator.inputs[0]], graph.tensors[operator.outputs[0]]
    assert operator.options is not None
    fields = dict(operator.options.fields)
    taps = fields["filter_width"] if "filter_width" in fields else graph.tensors[operator.inputs[1]].shape[2]
    stride, dilation = fields["stride_w"], fields.get("dilation_w_factor", 1)
    assert isinstance(taps, int)
    assert isinstance(stride, int)
    assert isinstance(dilation, int)
    extent = (taps - 1) * dilation + 1
    return (source.shape[2] - extent) // stride + 1 != result.shape[2] or (
        result.shape[2] - 1
    ) * stride + extent > source.shape[2]


def stripe(model: Model, regions: Iterable[Region]) -> Striped:
    """Return the model with these regions in stripes; it only runs with an offline plan that follows its views.

    Raises UsageError for operators that are no region, or of which some stripe cannot be computed.
    """
    graph = model.main
    rows = RowGraph(graph)
    by_first = {region.first: region for region in regions}
    builder = _Builder(model)
    position = 0
    while position < len(graph.operators):
        region = by_first.get(position)
        if region is None:
            builder.keep(graph.operators[position])
            position += 1
            continue
        interface, stripes = rows.interface(region.first, region.last), rows.copies(region)
        if interface is None or stripes is None:
            raise UsageError(
                f"the operators {region.first} to {region.last} cannot run in {region.stripes} stripes",
                fix="choose operators that compute images row by row, and whose inner tensors nothing else reads",
            )
        builder.add(interface.results, stripes)
        position = region.last + 1
    return builder.finish()


class _Builder:
    """The operators and views of a model in stripes."""

    def __init__(self, model: Model) -> None:
        self.original = model
        self.graph = model.main
        self.draft = Draft(model)
        self.operators: list[Operator] = []
        self.views: dict[int, tuple[int, int]] = {}
        self._parts: dict[tuple[int, Rows], int] = {}

    def keep(self, operator: Operator) -> None:
        """Add an operator that runs as it is."""
        self.operators.append(operator)

    def add(self, results: Sequence[int], stripes: Sequence[Sequence[Copy]]) -> None:
        """Add the copies of a region with these results."""
        for number, stripe_copies in enumerate(stripes):
            following = [copy for copies in stripes[number + 1 : number + 2] for copy in copies]
            # The tensor with the computed rows of each tensor of the region, and the rows.
            computed: dict[int, tuple[int, Rows]] = {}
            for place_in_stripe, copy in enumerate(stripe_copies):
                operator = self.graph.operators[copy.operator]
                inputs = list(operator.inputs)
                for place, rows in copy.inputs:
                    whole = self.graph.tensors[inputs[place]]
                    index, first = computed.get(inputs[place], (inputs[place], Rows(0, whole.shape[ROWS])))
                    inputs[place] = self._part(index, Rows(rows.first - first.first, rows.end - first.first))
                output = operator.outputs[0]
                if output in results and copy.moved is None:
                    is_right = not following or copy.rows.end <= following[place_in_stripe].written.first
                    index = self._part(output, copy.rows) if is_right else self._view(output, copy.rows)
                else:
                    index = self._tensor(output, copy.rows.count, f"{STRIPE}{number}")
                computed[output] = index, copy.rows
                self._copy(operator, copy, inputs, index)
                if copy.moved is not None:
                    skipped = copy.moved.first - copy.rows.first
                    source = self._part(index, Rows(skipped, skipped + copy.moved.count))
                    self._move(source, self._part(output, copy.moved))

    def _copy(self, operator: Operator, copy: Copy, inputs: list[int], output: int) -> None:
        if copy.pads is not None:
            paddings = self.draft.tensors[inputs[1]]
            values = self.draft.values(inputs[1])
            assert values is not None
            changed = values.reshape(-1, 2).copy()
            changed[ROWS] = copy.pads
            inputs[1] = self.draft.constant(paddings.name, changed.reshape(values.shape), dtype=paddings.dtype)
        if operator.code in SLICES:
            # The part of the input that the copy reads has exactly the rows of its output.
            for place, bound in ((1, 0), (2, copy.rows.count)):
                bounds = self.draft.values(inputs[place])
                assert bounds is not None
                changed = bounds.copy()
                changed[ROWS] = bound
                like = self.draft.tensors[inputs[place]]
                inputs[place] = self.draft.constant(like.name, changed, dtype=like.dtype)
        if operator.code == "TRANSPOSE_CONV":
            sizes = self.draft.values(inputs[0])
            assert sizes is not None
            changed = sizes.copy()
            changed[ROWS] = copy.rows.count
            inputs[0] = self.draft.constant(self.draft.tensors[inputs[0]].name, changed, dtype=DType.INT32)
        clone = self.draft.copy(operator, inputs, [output])
        if copy.padding is not None and operator.options is not None:
            fields = tuple(
                (name, copy.padding if name == "padding" else value) for name, value in operator.options.fields
            )
            clone = replace(clone, options=replace(operator.options, fields=fields))
        self.operators.append(clone)

    def _move(self, source: int, result: int) -> None:
        """Add the operator that copies all elements of one tensor to another."""
        shape = self.draft.tensors[result].shape
        sizes = self.draft.constant(f"{self.draft.tensors[result].name}/shape", list(shape), dtype=DType.INT32)
        self.operators.append(self.draft.make("RESHAPE", [source, sizes], [result], new_shape=shape))

    def _part(self, tensor: int, rows: Rows) -> int:
        """Return the view of rows of a tensor: itself, if it has no others."""
        whole = self.draft.tensors[tensor]
        if rows == Rows(0, whole.shape[ROWS]):
            return tensor
        if (tensor, rows) not in self._parts:
            self._parts[tensor, rows] = self._view(tensor, rows)
        return self._parts[tensor, rows]

    def _view(self, tensor: int, rows: Rows) -> int:
        """Return a new view; one whose last rows are wrong when they are written is not for other readers."""
        index = self._tensor(tensor, rows.count, f"/rows{rows.first}")
        self.views[index] = tensor, rows.first * row_bytes(self.draft.tensors[tensor])
        return index

    def _tensor(self, like: int, rows: int, suffix: str) -> int:
        source = self.draft.tensors[like]
        # Converters join the names of fused layers with semicolons.
        name = f"{source.name.partition(';')[0]}{suffix}"
        return self.draft.tensor(name, _with_rows(source, rows), source.dtype, source.quantization)

    def finish(self) -> Striped:
        """Return the result, with the tensors numbered anew."""
        self.draft.replace_all(self.operators)
        parents = {parent for parent, _ in self.views.values()}
        numbers = self.draft.numbering(parents)
        model = self.draft.finish(parents)
        views = sorted((numbers[index], numbers[parent], offset) for index, (parent, offset) in self.views.items())
        extra = _total_macs(model) - _total_macs(self.original)
        return Striped(model, tuple(View(*view) for view in views), extra)


def row_bytes(tensor: Tensor) -> int:
    """Return the bytes of a row of an image."""
    return tensor.size_bytes // tensor.shape[ROWS]


def _total_macs(model: Model) -> int:
    return sum(cost.macs for cost in operator_costs(model))


def portable(model: Model, views: Sequence[View]) -> Model:
    """Return a model that computes the same without views, with SLICE and CONCATENATION.

    A view that no operator writes becomes a SLICE of its parent; a parent that no operator writes becomes the
    CONCATENATION of the views that operators write, each up to the first row of the next one. Raises UsageError if
    these do not make up the parent.
    """
    draft = Draft(without_metadata(model, VIEWS_METADATA_NAME))
    graph = model.main
    writes = {output for operator in graph.operators for output in operator.outputs}
    written = {*graph.inputs, *writes}
    parents: Mapping[int, list[View]] = {view.parent: [] for view in views}
    for view in sorted(views, key=lambda view: view.offset):
        parents[view.parent].append(view)
    for parent, parts in parents.items():
        if parent not in written:
            _concatenate(draft, parent, [view for view in parts if view.tensor in written])
    for view in views:
        if view.tensor not in written:
            first = view.offset // row_bytes(draft.tensors[view.parent])
            draft.insert_before(draft.consumers(view.tensor)[0], _slice(draft, view.parent, view.tensor, first))
    return draft.finish()


def _concatenate(draft: Draft, parent: int, views: Sequence[View]) -> None:
    """Add the operators that write a parent behind those that write its views."""
    whole = draft.tensors[parent]
    starts = [view.offset // row_bytes(whole) for view in views]
    heights = [draft.tensors[view.tensor].shape[ROWS] for view in views]
    ends = [*starts[1:], whole.shape[ROWS]]
    if starts[:1] != [0] or any(start + height < end for start, height, end in zip(starts, heights, ends, strict=True)):
        raise UsageError(
            f"the views of tensor {parent} are not all of its rows", fix="create the file again without stripes"
        )
    parts, operators = [], []
    for view, start, height, end in zip(views, starts, heights, ends, strict=True):
        part = view.tensor
        if start + height > end:
            part = draft.tensor(
                f"{whole.name}/rows{start}", _with_rows(whole, end - start), whole.dtype, whole.quantization
            )
            operators.append(_slice(draft, view.tensor, part, 0))
        parts.append(part)
    tensors = {view.tensor for view in views}
    last = [operator for operator in draft.operators if set(operator.outputs) & tensors][-1]
    made = draft.make("CONCATENATION", parts, [parent], axis=ROWS, fused_activation_function="NONE")
    draft.insert_after(last, *operators, made)


def _with_rows(tensor: Tensor, rows: int) -> tuple[int, ...]:
    return tensor.shape[0], rows, *tensor.shape[2:]


def _slice(draft: Draft, source: int, part: int, first: int) -> Operator:
    """Return the operator that copies a part of a tensor, from its row `first` on."""
    tensor = draft.tensors[part]
    begin = draft.constant(f"{tensor.name}/begin", [0, first, 0, 0], dtype=DType.INT32)
    size = draft.constant(f"{tensor.name}/size", list(tensor.shape), dtype=DType.INT32)
    return draft.make("SLICE", [source, begin, size], [part])
