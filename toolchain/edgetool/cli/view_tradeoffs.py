"""The tables of precision trade-offs and of constraints, as the document has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgetool.cli.text import fact, printable, short_size, sizes, table
from edgetool.cli.view_latency import percent

Section = Mapping[str, Any]

FITS = {True: "yes", False: "no", None: "?"}


def precision_lines(tradeoffs: Section, *, everything: bool = False) -> list[str]:
    """The model in each precision, and the highest that fits; nothing where that was not computed."""
    if not tradeoffs:
        return []
    own, recommended = tradeoffs["own"], tradeoffs["recommended"]
    listed = [*tradeoffs["rows"], *([] if own is not None else [tradeoffs["as_is"]])]
    columns = [
        sizes([row[key] for row in listed]) for key in ("parameter_bytes", "arena_bytes", "model_bytes", "bytes_moved")
    ]
    rows = [
        (
            f"{row['precision']}{' (current)' if row['precision'] in (own, 'mixed') else ''}",
            *("unknown" if cell == "-" else cell for cell in cells),
            FITS[row["fits"]],
            "yes" if row["stock_tflm"] else "no",
        )
        for row, *cells in zip(listed, *columns, strict=True)
    ]
    header = ("precision", "constants", "arena", "model", "traffic", "fits", "in TFLM")
    lines = [f"  {line}" for line in table(header, rows, "<>>>><<")]
    advised = "none" if tradeoffs["advised"] is None else str(tradeoffs["advised"])
    lines += fact("Recommended", f"{advised}: {printable(tradeoffs['advice'], 400)}", bold=advised)
    best = "none" if recommended is None else str(recommended)
    lines += fact("Highest", f"{best}: {printable(tradeoffs['reason'], 400)}")
    return lines + (fact("", printable(tradeoffs["note"], 400)) if everything else [])


def constraint_lines(constraints: Section) -> list[str]:
    """Needs against memories, and what the largest operator asks for; nothing where that was not computed."""
    if not constraints:
        return []
    rows = [_limit(name, constraints[name]) for name in ("arena", "flash")]
    lines = [f"  {line}" for line in table(("memory", "needs", "of", "region", "share", "fits"), rows, "<>><><")]
    peak = constraints["activations"]
    if peak is not None:
        lines += fact("Peak", f"op {_place(peak)} alone needs {short_size(peak['bytes'])} for its inputs and outputs")
    return lines + cache_fact(constraints["cache"])


def cache_fact(cache: Section | None) -> list[str]:
    """Whether operators work within the data cache; nothing where there is none."""
    if cache is None:
        return []
    size = short_size(cache["cache_bytes"])
    if cache["use"] == "fits":
        return fact("Cache", f"{size} holds the {_cached(cache)} of any single operator")
    text = (
        f"{size}; {percent(cache['streaming_share'])} of the time is spent in operators whose {_cached(cache)} exceed "
        f"it (up to {short_size(cache['working_set_bytes'])}, op {_place(cache['largest'])})"
    )
    return fact("Cache", text)


def _cached(cache: Section) -> str:
    return " and ".join(printable(str(name)) for name in cache["cached"])


def _limit(name: str, limit: Section) -> tuple[str, ...]:
    share = limit["share"]
    needed, of = sizes([limit["bytes"], limit["limit_bytes"]])
    return (
        name,
        needed,
        of if limit["limit_bytes"] is not None else "no limit",
        printable(limit["region"] or "-", 20),
        "-" if share is None else percent(share),
        FITS[limit["fits"]],
    )


def _place(item: Section) -> str:
    index = f"{item['subgraph']}:{item['index']}" if item["subgraph"] else str(item["index"])
    return f"{index} {printable(str(item['operator']), 30)}"
