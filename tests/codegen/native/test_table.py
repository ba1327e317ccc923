"""The table of operators in docs/native.md lists exactly what the lowerings support."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from benchmarks.kernels.cases import Case, generators

from edgetool.codegen.native.lower import FAMILIES, lowering_of, unsupported

PAGE = Path(__file__).resolve().parents[3] / "docs" / "native.md"
CASES = 3  # of each operator and type: refusals of some of them do not matter


def _rows() -> Iterator[tuple[list[str], str]]:
    """Yield the operators and the types of each row."""
    text = PAGE.read_text(encoding="utf-8")
    table = re.search(r"<!-- operators: begin -->\n(.*?)<!-- operators: end -->", text, re.DOTALL)
    assert table is not None
    for line in table[1].splitlines()[2:]:
        _, operators, types, *rest = (cell.strip() for cell in line.split("|"))
        assert len(rest) == 4, line
        yield operators.split(", "), types


def _pairs(types: str) -> set[str]:
    """Return the types of a cell as benchmarks/kernels/cases names them: "a, b to c; d" is a-c, b-c and d."""
    pairs: set[str] = set()
    for part in types.split("; "):
        sources, _, results = part.partition(" to ")
        names = sources.split(", ")
        pairs |= {f"{name}-{result}" for name in names for result in results.split(", ")} if results else {*names}
    return pairs - {"none"}


def test_the_table_lists_every_operator_once() -> None:
    listed = [code for operators, _ in _rows() for code in operators]
    assert listed == [code for operators, _ in sorted(_rows()) for code in operators]
    assert sorted(listed) == sorted(code for codes in FAMILIES.values() for code in codes.split())
    assert all(lowering_of(code) is not None for code in listed)


def test_the_table_lists_the_types_of_every_operator() -> None:
    by_operator = {code: _pairs(types) for operators, types in _rows() for code in operators}
    supported: dict[str, set[str]] = {code: set() for code in by_operator}
    for code, kind in generators():
        if code in by_operator:
            models = (Case(code, kind, number).model() for number in range(CASES))
            if any(unsupported(model) is None for model in models):
                supported[code].add(f"{kind}-float32" if code == "DEQUANTIZE" else kind)
    assert supported == by_operator
