"""The tables of docs/kernels.md: the faults of the kernels, and how well their conditions predict what cores compute.

python -m benchmarks.kernels.page          rewrites the tables of the page
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.kernels.__main__ import MEASURED
from benchmarks.kernels.cases import Case
from benchmarks.kernels.compare import RIGHT, Comparison, read_measured
from benchmarks.kernels.predict import TARGETS, predictions, target_of

from edgetool.operators.entry import KernelFault
from edgetool.operators.registry import CUSTOM_OPERATORS, OPERATORS

PAGE = Path(__file__).parents[2] / "docs" / "kernels.md"
MARK = "<!-- {} -->\n"


def faults() -> Iterator[tuple[str, KernelFault]]:
    """Yield all faults with their operators, in the order of the registry."""
    for table in (OPERATORS, CUSTOM_OPERATORS):
        for code in table:
            for fault in table[code].faults:
                yield code, fault


def fault_table(*, esp_nn: bool = False) -> str:
    """Return the table of faults: those of ESP-NN alone, or all others."""
    lines = ["| fault | kernels | condition | what the kernel does | cause | fixed by |", "|---|---|---|---|---|---|"]
    for code, fault in faults():
        if (fault.kernels == ("esp-nn",)) != esp_nn:
            continue
        kernels, fixed_by = ", ".join(fault.kernels), fault.fixed_by or "no release"
        condition = f"{code} {fault.condition}"
        lines.append(f"| `{fault.name}` | {kernels} | {condition} | {fault.effect} | {fault.source} | {fixed_by} |")
    return "\n".join(lines) + "\n"


def measured_table(measured: Mapping[Case, Mapping[str, Comparison]]) -> str:
    """Return the table of all operators with a wrong result on some core or with a condition that applies.

    For each core: the models that ran, those with wrong results, those of them that a finding predicts, and the models
    with a finding whose results were right.
    """
    header = ["| operator | types |", "|---|---|"]
    for core in TARGETS:
        header[0] += f" {core}: models | wrong | predicted | right despite a finding |"
        header[1] += "---|---|---|---|"
    counts: dict[str, Counter[tuple[str, str]]] = {}
    types: dict[str, set[str]] = {}
    for case, outcomes in measured.items():
        for core, target in ((core, target_of(core)) for core in TARGETS):
            outcome = outcomes[core].outcome
            if outcome == "refused":
                continue
            is_wrong, is_predicted = outcome not in RIGHT, bool(predictions(case.model(), target))
            count = counts.setdefault(case.operator, Counter())
            count.update(
                {(core, "models"): 1, (core, "wrong"): is_wrong, (core, "predicted"): is_wrong and is_predicted}
            )
            count[core, "right"] += is_predicted and not is_wrong
            if is_wrong or is_predicted:
                types.setdefault(case.operator, set()).add(case.type)
    rows = [
        f"| {operator} | {', '.join(sorted(types[operator]))} |"
        + "".join(
            f" {counts[operator][core, 'models']:,} | {counts[operator][core, 'wrong']:,} "
            f"| {counts[operator][core, 'predicted']:,} | {counts[operator][core, 'right']:,} |"
            for core in TARGETS
        )
        for operator in sorted(types)
    ]
    return "\n".join([*header, *rows]) + "\n"


def with_table(page: str, name: str, table: str) -> str:
    """Return the page with the table between the marks of this name."""
    begin, end = MARK.format(f"{name}: begin"), MARK.format(f"{name}: end")
    pattern = re.escape(begin) + ".*?" + re.escape(end)
    assert re.search(pattern, page, re.DOTALL)
    return re.sub(pattern, lambda _: begin + table + end, page, flags=re.DOTALL)


def main() -> None:
    page = with_table(PAGE.read_text(encoding="utf-8"), "faults", fault_table())
    page = with_table(page, "faults of ESP-NN", fault_table(esp_nn=True))
    page = with_table(page, "measured", measured_table(read_measured(MEASURED)))
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
