"""What `edgetool plan` prints about a plan of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgetool.cli.output import fact, grouped, printable, table, width, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgetool.report.document import RowsInfo, RowTensorInfo

SHADES = ".:-=+*#%@"  # for more and more of a tensor's rows; all of them at the end
MAX_COLUMNS = 64
MIN_COLUMNS = 12
NAME_COLUMNS = 20
MIN_NAME_COLUMNS = 8


def rows_facts(rows: RowsInfo) -> list[str]:
    """Show the memory beside its bound, what the application hands over, and the size of the schedule."""
    text = grouped(rows.memory_bytes, "B")
    if rows.extra_macs:
        text += f" at {rows.extra_macs_percent:.1f} % extra multiply-accumulates"
    bound = rows.lower_bound_bytes
    if bound is not None:
        text += "; no row-wise schedule without recomputation takes less"
        if bound < rows.memory_bytes:
            text += f" than {grouped(bound, 'B')} ({100 * (rows.memory_bytes / bound - 1):.1f} %)"
        elif rows.extra_macs:
            text += f" than {grouped(bound, 'B')}"
    lines = fact("Rows", text)
    if rows.row_inputs:
        names = ", ".join(printable(name, 40) for name in rows.row_inputs)
        lines += fact("Row input", f"the application hands over row by row: {names}")
    if rows.row_outputs:
        names = ", ".join(printable(name, 40) for name in rows.row_outputs)
        lines += fact("Row output", f"the application takes row by row: {names}")
    stream = rows.stream
    if stream is not None:
        share = 100 * stream.step_macs / max(1, stream.window_macs)
        extra = 100 * (stream.step_macs / max(1, stream.touched_macs) - 1)
        beyond = f"{extra:.1f} % more than" if stream.step_macs > stream.touched_macs else "as many as"
        hop, window, macs = map(grouped, (stream.hop_rows, stream.window_rows, stream.step_macs))
        text = (
            f"{hop} of {window} rows are new in each inference; {macs} multiply-accumulates are {share:.1f} % of a "
            f"window's, and {beyond} new rows touch; rings take {grouped(stream.ring_bytes, 'B')}"
        )
        lines += fact("Stream", text)
    count = len(rows.segments)
    segments = f"{grouped(count)} segment{'s' * (count != 1)}"
    text = f"{grouped(rows.steps)} steps in {segments}; its tables take {grouped(rows.table_bytes, 'B')} of flash"
    if rows.weights_per_row_bytes:
        text += (
            f"; operators that take turns read up to {grouped(rows.weights_per_row_bytes, 'B')} of constants per row"
        )
    return lines + fact("Schedule", text)


def rows_picture(rows: RowsInfo, shown: int) -> list[str]:
    """Show how many rows of each tensor are in memory over time, with a line for each of the largest `shown` tensors.

    Time runs to the right. The first line shows where segments of operators start.
    """
    tensors = [item for item in rows.tensors if item.most_rows and item.live]
    chosen = sorted(tensors, key=lambda item: -item.most_rows * item.row_bytes)[: max(1, shown)]
    listed = sorted(chosen, key=_start)
    if not listed:
        return ["  there are no rows in memory"]
    cells = [(f"{item.most_rows:,} of {item.rows:,}", f"{item.row_bytes:,} B") for item in listed]
    header = ("most rows", "of")
    used = 2 + sum(2 + max(len(row[i]) for row in (header, *cells)) for i in range(2)) + 2
    names = max(MIN_NAME_COLUMNS, min(NAME_COLUMNS, max(len(_name(item)) for item in listed)))
    columns = max(MIN_COLUMNS, min(MAX_COLUMNS, width() - used - names, len(listed[0].live)))
    names = max(MIN_NAME_COLUMNS, width() - used - columns)
    lines = [
        (*row, _line(item, columns), printable(_name(item), names)) for row, item in zip(cells, listed, strict=True)
    ]
    marks = ("", "", _marks(rows, columns), "segments")
    text = [f"  {line}" for line in table((*header, f"step 0 to {rows.steps - 1}", "tensor"), [marks, *lines], ">><<")]
    if len(chosen) < len(tensors):
        text.append(f"  ... and {len(tensors) - len(chosen):,} more (-v shows all)")
    legend = f"rows in memory: {' '.join(SHADES)} from few to all rows of a tensor; | starts a segment of operators"
    return [*text, "", *wrapped(legend, "  "), *_segment_lines(rows)]


def _segment_lines(rows: RowsInfo) -> list[str]:
    """Name the operators that run row by row together."""
    together = [item.operators for item in rows.segments if len(item.operators) > 1]
    if not together:
        return wrapped("every operator runs alone", "  ")
    # A segment without operators only hands rows over.
    alone = sum(len(item.operators) == 1 for item in rows.segments)
    rest = f"; {alone} run alone" if alone > 1 else "; 1 runs alone" if alone else ""
    return wrapped(f"operators that run row by row together: {', '.join(map(_listed, together))}{rest}", "    ", "  ")


def _listed(operators: Sequence[int]) -> str:
    """Return "0-8", or "3 operators from 4 on" if they do not follow each other."""
    first, last = min(operators), max(operators)
    if last - first + 1 == len(operators):
        return f"{first}-{last}"
    return f"{len(operators)} of {first}-{last}"


def _start(item: RowTensorInfo) -> tuple[int, int]:
    return next(i for i, count in enumerate(item.live) if count), item.index


def _name(item: RowTensorInfo) -> str:
    return item.name.partition(";")[0]


def _line(item: RowTensorInfo, columns: int) -> str:
    live = item.live
    parts = [
        live[i * len(live) // columns : max(i * len(live) // columns + 1, (i + 1) * len(live) // columns)]
        for i in range(columns)
    ]
    return "".join(_shade(max(part), item.rows) for part in parts)


def _shade(count: int, rows: int) -> str:
    """Return a space for no row, and the last shade only for all rows."""
    if not count:
        return " "
    return SHADES[min(len(SHADES) - 1, count * (len(SHADES) - 1) // rows)]


def _marks(rows: RowsInfo, columns: int) -> str:
    marks = ["-"] * columns
    for item in rows.segments:
        marks[min(columns - 1, item.first_step * columns // rows.steps)] = "|"
    return "".join(marks)
