"""The frames and calls of library functions are read from their machine code."""

from __future__ import annotations

import shutil

import pytest
from benchmarks.native.stack import CallGraph, bound, code_graph, library_bytes

THUMB = """
00008000 <first>:
    8000:\tpush\t{r4, r6-r7, lr}
    8002:\tsub\tsp, #12
    8004:\tstr.w\tr0, [sp, #-8]!
    8008:\tvpush\t{d8-d9}
    800c:\tstmdb\tr3!, {r4, r5}
    8010:\tbl\t8020 <second>
    8014:\tadd\tsp, #12
    8016:\tpop\t{r4, r6, r7, pc}

00008020 <second>:
    8020:\tstmdb\tsp!, {r4, lr}
    8024:\tbeq.n\t8028 <second+0x8>

00008030 <third>:
    8030:\tpush\t{r3}
    8032:\tbx\tlr
"""
RISC_V = """
10000000 <outer>:
10000000:\tadd\tsp,sp,-32
10000004:\tlui\ta0,0x10000 # 10001000 <__bss_end>
10000008:\tjal\t10000010 <inner>
1000000c:\tret
10000010 <inner>:
10000010:\taddi\tsp,sp,-16
10000014:\tret
"""


def test_pushes_and_calls_are_found() -> None:
    graph = code_graph(THUMB)
    assert graph == CallGraph({"first": 52, "second": 8, "third": 4}, {"first": {"second"}, "second": {"third"}})
    assert bound(graph, "first") == 64
    assert bound(code_graph(RISC_V), "outer") == 48


@pytest.mark.parametrize("line", ["blx\tr3", "mov\tsp, r7", "sub\tsp, r3", "add\tsp,sp,t0"])
def test_what_cannot_be_bounded_is_an_error(line: str) -> None:
    with pytest.raises(ValueError, match="first"):
        code_graph(f"00008000 <first>:\n    8000:\t{line}\n")


def test_recursion_is_an_error() -> None:
    with pytest.raises(ValueError, match="recursive"):
        bound(CallGraph({"a": 4, "b": 4}, {"a": {"b"}, "b": {"a"}}), "a")


@pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="arm-none-eabi-gcc is not installed")
def test_a_conversion_without_an_fpu_takes_much_stack() -> None:
    # It calls conversions and a product of doubles.
    assert library_bytes("cortex-m0plus", "__aeabi_l2f") > 64
