"""Feature maps in horizontal stripes: a region of a network runs once for each stripe of its results' rows.

A region is a sequence of operators. It may read several tensors from outside, and write several results: those that
none of its operators reads. All others are used inside only. For each stripe, its operators are copied. A copy computes
the rows that the stripe needs of its output, from rows of the region's inputs and of the other copies' outputs; a
result is divided into shares that are equal, or grow or shrink evenly. Rows that two stripes need are computed twice;
this is the price for tensors that are never complete.

A stripe may also keep the rows that it shares with the next one: RESHAPE moves them to a tensor of their own as soon as
nothing else of the stripe reads them, and in front of the rows that the next stripe computes. Nothing is computed twice
then, but the kept rows wait in memory, and there are more operators.

Copies read and write views: parts of the region's inputs and results, and of a copy's output of which another copy
needs fewer rows. Only RESHAPE and PAD, where it is named here, move data. `portable` writes the same computation with
SLICE and CONCATENATION, for runtimes that do not follow the offsets of a plan.

A copy of a kernel with padding SAME pads its own input, wherever the stripe is. In the first stripe the padding before
the first row is the original one, in the last stripe that after the last row. Elsewhere, the first or the last rows of
such a copy are computed from padding instead of the rows of other stripes; views skip them. Their number, and with
strides the first row of the input, are chosen so that all other rows are those of the original operator. In the
region's results, rows behind those of the stripe may be wrong, because the next stripe writes them again. If rows in
front of them are wrong, the copy writes a tensor of its own, and RESHAPE moves the rows that are right into the result.
An operator that needs no padding along its rows because the stripe is inside the image, and has none along its columns,
is copied with padding VALID, and computes no row in vain. In regions that keep rows, a PAD in front of a convolution
makes it such an operator: that takes less time than a row of all channels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, pairwise

from edgetool.errors import UsageError
from edgetool.model.draft import Draft
from edgetool.model.edit import without_metadata
from edgetool.model.types import DType, Graph, Model, Operator, Tensor
from edgetool.model.views import STRIPE, VIEWS_METADATA_NAME, View
from edgetool.operators.registry import entry_of, operator_costs
from edgetool.operators.rows import ROWS, RowInput, images_of

# Copies of which no row is computed in vain, because a PAD takes less time.
FRAMED = ("CONV_2D",)
# Their inputs are an image, where the part begins, and its size or where it ends.
SLICES = ("SLICE", "STRIDED_SLICE")


@dataclass(frozen=True, slots=True, order=True)
class Region:
    """Operators of the main graph by position, the first and the last inclusive, and the number of stripes.

    keeps: whether a stripe takes rows that it shares with the one before from there, instead of computing them again.
    growth: by how many percent a stripe is higher than the one before.
    """

    first: int
    last: int
    stripes: int
    keeps: bool = False
    growth: int = 0


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

    def within(self, others: Rows) -> Rows:
        """Return these rows by their places among others."""
        return Rows(self.first - others.first, self.end - others.first)

    def end_at(self, end: int) -> Rows | None:
        """Return the rows up to, but without, another end; None if there are none."""
        return Rows(self.first, min(self.end, end)) if self.first < end else None

    def union(self, other: Rows) -> Rows:
        """Return the rows from the first to the last of both."""
        return Rows(min(self.first, other.first), max(self.end, other.end))


@dataclass(frozen=True, slots=True)
class Copy:
    """One operator of a region in one stripe.

    operator: its position in the main graph. rows: what it computes of the output. inputs: the rows of each input that
    is read by rows, by position. padding: that of the copy, if it is not that of the operator. pads: the rows that
    PAD adds before and after. framed: the rows and columns before and after, which a PAD adds to what the copy reads.
    moved: the rows that RESHAPE moves into the result, if the copy cannot write there. kept: the rows that RESHAPE
    moves from the tensor of the stripe before. A copy without rows computes nothing: all are in that tensor.
    """

    operator: int
    rows: Rows
    inputs: tuple[tuple[int, Rows], ...]
    padding: str | None = None
    pads: tuple[int, int] | None = None
    framed: tuple[tuple[int, int], tuple[int, int]] | None = None
    moved: Rows | None = None
    kept: Rows | None = None

    @property
    def written(self) -> Rows:
        """The rows of a result that it writes, or RESHAPE behind it."""
        return self.rows if self.moved is None else self.moved

    @property
    def held(self) -> Rows:
        """The rows of the tensor of its stripe."""
        return self.rows if self.kept is None else self.kept.union(self.rows)

    @property
    def keeps_first(self) -> bool:
        """Whether the kept rows are there before the others are computed, of which none is in front of them."""
        return self.kept is not None and self.kept.end <= self.rows.first


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
        self._copies: dict[tuple[int, Rows, bool, bool], Copy | None] = {}
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
        grown = [*self.growing(region)]
        if len(grown) <= region.last - region.first:
            return None
        return tuple(tuple(reversed(stripe_copies)) for stripe_copies in grown[-1][1])

    def growing(self, region: Region) -> Iterator[tuple[int, Sequence[Sequence[Copy]]]]:
        """Yield the copies of the operators of a region from each position on, the last one's at first and then one
        more each time, as far as all stripes can be computed: for each stripe, the last copy first. The lists grow as
        the iterator proceeds.
        """
        needed: list[dict[int, Rows]] = [{} for _ in range(region.stripes)]
        copies: list[list[Copy]] = [[] for _ in needed]
        for position in range(region.last, region.first - 1, -1):
            output = self.graph.operators[position].outputs[0]
            is_result = output not in needed[0]
            if is_result:
                if region.stripes > self.height(position):
                    return
                shares = divided(self.height(position), region.stripes, region.growth)
                for rows, share in zip(needed, shares, strict=True):
                    rows[output] = share
            before = Rows(0, 0)  # the rows of the last tensor that holds some
            for stripe_copies, rows in zip(copies, needed, strict=True):
                if output not in rows:
                    stripe_copies.append(Copy(position, Rows(before.end, before.end), ()))
                    continue
                kept = rows[output].end_at(before.end) if region.keeps and not is_result else None
                copy = self._needed_copy(position, rows, kept, in_place=is_result, framed=region.keeps)
                if copy is None or (kept is not None and kept.first < before.first):
                    return
                stripe_copies.append(copy)
                before = rows[output] if copy.rows.count else before
            yield position, copies

    def _needed_copy(
        self, position: int, needed: dict[int, Rows], kept: Rows | None, *, in_place: bool, framed: bool
    ) -> Copy | None:
        """Return the copy that computes the needed rows of an operator's output but those that are kept, and add those
        that it reads; None if there is none.
        """
        operator = self.graph.operators[position]
        rows = needed[operator.outputs[0]]
        if kept == rows:
            return Copy(position, Rows(rows.end, rows.end), (), kept=kept)
        if kept is not None:
            rows = Rows(kept.end, rows.end)
        copy = self._copy(position, rows, in_place=in_place, framed=framed)
        if copy is None and in_place:
            apart = self._copy(position, rows, in_place=False, framed=framed)
            copy = None if apart is None else replace(apart, moved=rows)
        if copy is not None and kept is not None:
            copy = replace(copy, kept=kept)
        for place, item in () if copy is None else copy.inputs:
            index = operator.inputs[place]
            needed[index] = item if index not in needed else needed[index].union(item)
        return copy

    def height(self, position: int) -> int:
        """Return the number of rows that an operator writes."""
        return self.graph.tensors[self.graph.operators[position].outputs[0]].shape[ROWS]

    def _copy(self, position: int, needed: Rows, *, in_place: bool, framed: bool) -> Copy | None:
        """Return the copy of an operator that computes the needed rows with the fewest others.

        in_place: whether it writes to the complete output. Only rows that a later stripe writes again may be wrong.
        framed: whether a PAD may add rows and columns to the input of a convolution.
        """
        key = position, needed, in_place, framed
        if key not in self._copies:
            limits = Rows(needed.first, self.height(position)) if in_place else None
            items = self.inputs[position]
            copy = _copy(self.graph, position, items, needed, limits)
            if framed and self.graph.operators[position].code in FRAMED and (copy is None or copy.rows != needed):
                copy = _framed(self.graph, position, items[0], needed)
            self._copies[key] = copy
        return self._copies[key]


def taken_rows(graph: Graph, stripes: Sequence[Sequence[Copy]]) -> list[dict[int, Rows]]:
    """Return the rows of each tensor that the stripes behind each one take from it, or from one before."""
    result: list[dict[int, Rows]] = [{}]
    for copies in reversed(stripes[1:]):
        taken = dict(result[-1])
        for copy in copies:
            output = graph.operators[copy.operator].outputs[0]
            further = taken.pop(output, None) if copy.rows.count else taken.get(output)
            if copy.kept is not None:
                taken[output] = copy.kept if copy.rows.count or further is None else copy.kept.union(further)
        result.append(taken)
    return result[::-1]


def divided(height: int, stripes: int, growth: int = 0) -> tuple[Rows, ...]:
    """Return the rows of each stripe, at least one; each is higher than the one before by `growth` percent."""
    parts = [
        *accumulate(((100 + growth) ** number * 100 ** (stripes - number) for number in range(stripes)), initial=0)
    ]
    ends = [max(height * part // parts[-1], number) for number, part in enumerate(parts)]
    ends = [min(end, height - (stripes - number)) for number, end in enumerate(ends)]
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


def _framed(graph: Graph, position: int, item: RowInput, needed: Rows) -> Copy:
    """Return the copy of a convolution without padding behind a PAD that adds it."""
    axis = item.rows
    operator = graph.operators[position]
    extent = (axis.kernel - 1) * axis.dilation + 1
    first, end = needed.first * axis.stride - axis.pad, (needed.end - 1) * axis.stride - axis.pad + extent
    read = Rows(max(first, 0), min(end, axis.size))
    source, result = graph.tensors[operator.inputs[0]], graph.tensors[operator.outputs[0]]
    taps, stride, dilation = _columns(graph, operator)
    width = (result.shape[2] - 1) * stride + (taps - 1) * dilation + 1
    before = max(width - source.shape[2], 0) // 2
    columns = before, max(width - source.shape[2] - before, 0)
    rows = read.first - first, end - read.end
    return Copy(position, needed, ((item.input, read),), "VALID", framed=(rows, columns))


def _columns(graph: Graph, operator: Operator) -> tuple[int, int, int]:
    """Return the width of an operator's windows in taps, their stride and their dilation."""
    assert operator.options is not None
    fields = dict(operator.options.fields)
    taps = fields["filter_width"] if "filter_width" in fields else graph.tensors[operator.inputs[1]].shape[2]
    stride, dilation = fields["stride_w"], fields.get("dilation_w_factor", 1)
    assert isinstance(taps, int)
    assert isinstance(stride, int)
    assert isinstance(dilation, int)
    return taps, stride, dilation


def _pads_columns(graph: Graph, operator: Operator) -> bool:
    """Return whether the windows of an operator reach beyond the columns of its input, or would be fewer if not."""
    source, result = graph.tensors[operator.inputs[0]], graph.tensors[operator.outputs[0]]
    taps, stride, dilation = _columns(graph, operator)
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
        held: dict[int, tuple[int, Rows]] = {}  # what later stripes take from earlier ones: tensors with rows of images
        taken = taken_rows(self.graph, stripes)
        for number, stripe_copies in enumerate(stripes):
            following = [copy for copies in stripes[number + 1 : number + 2] for copy in copies]
            last_readers = self._last_readers(stripe_copies)
            # The tensor with the computed rows of each tensor of the region, and the rows.
            computed: dict[int, tuple[int, Rows]] = {}
            for place_in_stripe, copy in enumerate(stripe_copies):
                operator = self.graph.operators[copy.operator]
                output = operator.outputs[0]
                if not copy.rows.count:
                    computed |= {output: held[output]} if copy.kept else {}
                    continue
                inputs = list(operator.inputs)
                for place, rows in copy.inputs:
                    whole = self.graph.tensors[inputs[place]]
                    source = computed.get(inputs[place], (inputs[place], Rows(0, whole.shape[ROWS])))
                    inputs[place] = self._rows_of(source, rows)
                if output in results and copy.moved is None:
                    is_right = not following or copy.rows.end <= following[place_in_stripe].written.first
                    index = self._part(output, copy.rows) if is_right else self._view(output, copy.rows)
                else:
                    index = self._tensor(output, copy.held.count, f"{STRIPE}{number}")
                computed[output] = index, copy.held
                if copy.kept is None:
                    self._copy(operator, copy, inputs, index, number)
                else:
                    self._join(operator, copy, inputs, (index, copy.held), held[output], number)
                if copy.moved is not None:
                    source = (index, copy.rows)
                    self._move(self._rows_of(source, copy.moved), self._part(output, copy.moved))
                for index in last_readers.get(place_in_stripe, ()):
                    if index in taken[number] and index in computed and computed[index] != held.get(index):
                        held[index] = self._parked(index, computed[index], taken[number][index], number)

    def _last_readers(self, copies: Sequence[Copy]) -> dict[int, list[int]]:
        """Return the tensors that each copy is the last one to read, by its place."""
        last: dict[int, int] = {}
        for place, copy in enumerate(copies):
            last |= {self.graph.operators[copy.operator].inputs[item]: place for item, _ in copy.inputs}
        result: dict[int, list[int]] = {}
        for tensor, place in last.items():
            result.setdefault(place, []).append(tensor)
        return result

    def _parked(self, whole: int, tensor: tuple[int, Rows], rows: Rows, number: int) -> tuple[int, Rows]:
        """Add the RESHAPE that moves rows to where they wait for the next stripe, so that the others need no memory."""
        index = self._tensor(whole, rows.count, f"/kept{STRIPE}{number}")
        self._move(self._rows_of(tensor, rows), index)
        return index, rows

    def _join(
        self,
        operator: Operator,
        copy: Copy,
        inputs: list[int],
        result: tuple[int, Rows],
        before: tuple[int, Rows],
        number: int,
    ) -> None:
        """Add a copy and the RESHAPE of the rows that it keeps: the last one that writes a row is right."""
        assert copy.kept is not None
        source, kept = self._rows_of(before, copy.kept), self._rows_of(result, copy.kept)
        if copy.keeps_first:
            self._move(source, kept)
        index, held = result
        # A view of which rows are wrong at first is not for readers.
        written = (self._part if copy.keeps_first else self._view)(index, copy.rows.within(held))
        self._copy(operator, copy, inputs, written, number)
        if not copy.keeps_first:
            self._move(source, kept)

    def _rows_of(self, tensor: tuple[int, Rows], rows: Rows) -> int:
        """Return the view of rows in a tensor that holds some of an image."""
        index, held = tensor
        return self._part(index, rows.within(held))

    def _copy(self, operator: Operator, copy: Copy, inputs: list[int], output: int, number: int) -> None:
        if copy.framed is not None:
            inputs[0] = self._frame(inputs[0], copy.framed, number)
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

    def _frame(self, source: int, framed: tuple[tuple[int, int], tuple[int, int]], number: int) -> int:
        """Add a PAD of rows and columns, and return its output."""
        tensor = self.draft.tensors[source]
        rows, columns = framed
        name = tensor.name.partition(";")[0].partition(STRIPE)[0]
        shape = (1, tensor.shape[ROWS] + sum(rows), tensor.shape[2] + sum(columns), tensor.shape[3])
        result = self.draft.tensor(f"{name}/padded{STRIPE}{number}", shape, tensor.dtype, tensor.quantization)
        paddings = self.draft.constant(f"{name}/paddings", [[0, 0], rows, columns, [0, 0]], dtype=DType.INT32)
        self.operators.append(self.draft.make("PAD", [source, paddings], [result]))
        return result

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
    written = {output: place for place, operator in enumerate(draft.operators) for output in operator.outputs}
    # Of the views with a row, the last one that is written.
    owners: list[View | None] = [None] * whole.shape[ROWS]
    for view in sorted(views, key=lambda view: written[view.tensor]):
        first, count = view.offset // row_bytes(whole), draft.tensors[view.tensor].shape[ROWS]
        owners[first : first + count] = [view] * count
    parts, operators = [], []
    first = 0
    for owner, rows in groupby(owners):
        count = len([*rows])
        if owner is None:
            raise UsageError(
                f"the views of tensor {parent} are not all of its rows", fix="create the file again without stripes"
            )
        part = owner.tensor
        if count < draft.tensors[part].shape[ROWS]:
            shape = _with_rows(whole, count)
            part = draft.tensor(f"{whole.name}/rows{first}", shape, whole.dtype, whole.quantization)
            operators.append(_slice(draft, owner.tensor, part, first - owner.offset // row_bytes(whole)))
        parts.append(part)
        first += count
    last = draft.operators[max(written[view.tensor] for view in views)]
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
