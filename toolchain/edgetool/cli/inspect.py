"""edgetool inspect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from edgetool.cli.command import Command, option
from edgetool.cli.options import PATH, force_option, json_option, quiet_options, report_option
from edgetool.cli.output import deliver, fact, grouped, print_lines, printable, size_with_unit, table
from edgetool.cli.view import finding_lines
from edgetool.figure import significant

if TYPE_CHECKING:
    from pathlib import Path


def inspection(inspected: dict[str, Any], *, tensors: bool) -> list[str]:
    """Show totals, inputs and outputs, operators and, with `tensors`, every tensor."""
    from edgetool.report.document import FindingInfo

    model, totals = inspected["model"], inspected["totals"]
    lines = [click.style(printable(model["name"]), bold=True), ""]
    lines += fact("File", f"{size_with_unit(model['bytes'])}, sha256 {model['sha256'][:16]}...")
    if inspected["description"]:
        lines += fact("Description", printable(inspected["description"]))
    lines += fact(
        "Totals",
        f"{grouped(model['operators'])} operators, {grouped(model['tensors'])} tensors, "
        f"{grouped(model['parameters'])} parameters in {size_with_unit(totals['data_bytes'])} of constants",
    )
    lines += fact("Work", f"{grouped(totals['macs'])} MACs")
    for signature in inspected["signatures"]:
        lines += fact("Signature", f"{printable(signature['key'])} (subgraph {signature['subgraph']})")
    names = {
        (signature["subgraph"], index): f"{printable(name, 30)} = "
        for signature in inspected["signatures"]
        for name, index in (*signature["inputs"].items(), *signature["outputs"].items())
    }
    for entry in inspected["metadata"]:
        lines += fact("Metadata", f"{printable(entry['name'])}, {grouped(entry['bytes'], 'B')}")
    for graph in inspected["subgraphs"]:
        lines += _graph(graph, names, several=len(inspected["subgraphs"]) > 1, tensors=tensors)
    findings = tuple(FindingInfo(**finding) for finding in inspected["findings"])
    return lines + finding_lines(findings)


def _graph(graph: dict[str, Any], names: dict[tuple[int, int], str], *, several: bool, tensors: bool) -> list[str]:
    lines = [""]
    if several:
        lines += [click.style(f"Subgraph {graph['index']} {printable(graph['name'])}", bold=True), ""]
    for label, key in (("Input", "inputs"), ("Output", "outputs")):
        for index in graph[key]:
            lines += fact(label, names.get((graph["index"], index), "") + _described(graph["tensors"][index]))
    rows = [
        (
            str(item["index"]),
            printable(item["custom_code"] or item["operator"], 30),
            f"{item['macs']:,}" if item["macs"] else "-",
            f"{item['parameter_bytes']:,}" if item["parameter_bytes"] else "-",
            _shapes(graph, item["outputs"]),
        )
        for item in graph["operators"]
    ]
    lines += [
        "",
        *(f"  {line}" for line in table(("op", "operator", "MACs", "const B", "output"), rows, "><>><")),
    ]
    if tensors:
        listed = [
            (
                str(item["index"]),
                _kind(item),
                item["dtype"].lower(),
                _shape(item["shape"]),
                f"{item['bytes']:,}",
                _scale(item["quantization"]),
                printable(item["name"], 40),
            )
            for item in graph["tensors"]
        ]
        header = ("tensor", "kind", "type", "shape", "bytes", "quantization", "name")
        lines += ["", *(f"  {line}" for line in table(header, listed, "><<<><<"))]
    return lines


def _described(tensor: dict[str, Any]) -> str:
    scale = _scale(tensor["quantization"])
    return f"{tensor['index']}: {printable(tensor['name'], 40)} {tensor['dtype'].lower()} {_shape(tensor['shape'])}" + (
        f", {scale}" if scale else ""
    )


def _shapes(graph: dict[str, Any], indices: list[int]) -> str:
    shown = [
        f"{graph['tensors'][i]['dtype'].lower()} {_shape(graph['tensors'][i]['shape'])}" for i in indices[:3] if i >= 0
    ]
    return ", ".join(shown) + (f", {len(indices) - 3} more" if len(indices) > 3 else "")


def _shape(shape: list[int]) -> str:
    return "x".join(str(size) for size in shape) or "scalar"


def _kind(tensor: dict[str, Any]) -> str:
    if tensor["constant"]:
        return "sparse const" if tensor["sparse"] else "const"
    return "variable" if tensor["variable"] else "arena"


def _scale(quantization: dict[str, Any] | None) -> str:
    if quantization is None:
        return ""
    if quantization["per_channel"]:
        return f"{len(quantization['scales'])} scales on axis {quantization['axis']}"
    zero_point = quantization["zero_points"][0] if quantization["zero_points"] else 0
    scale = quantization["scales"][0]
    shown = scale if isinstance(scale, str) else significant(scale, 6)
    return f"scale {shown}, zero point {zero_point}"


@click.command(
    "inspect",
    cls=Command,
    examples=(
        "edgetool inspect model.tflite",
        "edgetool inspect model.tflite --tensors",
        "edgetool inspect model.tflite --json | jq .totals",
    ),
)
@click.argument("model", type=PATH)
@json_option
@report_option
@force_option
@option("--tensors", group="Output", is_flag=True, help="List every tensor, including constants.")
@quiet_options
def command(
    model: Path, as_json: bool, output: Path | None, force: bool, tensors: bool, quiet: bool, verbose: int
) -> None:
    """Show the operators, tensors, quantization and totals of MODEL, a .tflite file."""
    from edgetool.pipeline.inspect import inspect_model
    from edgetool.report.json import to_json

    inspected = inspect_model(model)
    if as_json or output is not None:
        deliver(to_json(inspected), output, force=force, quiet=quiet, inputs=(model,))
    elif not quiet:
        print_lines(inspection(inspected, tensors=tensors or verbose > 0))
