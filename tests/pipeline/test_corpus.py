"""Every real file at hand through plan, estimate and emit."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgetool.memory.checker import check_layout
from edgetool.memory.planner import plan_memory
from edgetool.model.metadata import decode_plan, keeps_own_plan
from edgetool.model.reader import read_model
from edgetool.pipeline.analysis import Analysis, analyse
from edgetool.pipeline.firmware import firmware_files, output_name
from edgetool.pipeline.planning import planned_source
from edgetool.pipeline.source import Source
from edgetool.target.load import load_target
from edgetool.target.platform import platform_of
from tests.codegen.c_compilers import MATRIX, compile_in
from tests.conftest import model_files, over_models

TARGET = load_target("cortex-m7")
FILES = model_files()


def analysed(path: Path) -> tuple[Source, Analysis]:
    blob = path.read_bytes()
    source = Source(path.name, blob, read_model(blob, name=path.name))
    return source, analyse(source, TARGET)


@over_models(FILES)
def test_every_layout_passes_the_checker_and_keeps_the_bound(path: Path) -> None:
    source, analysis = analysed(path)
    plan = analysis.plan
    if keeps_own_plan(source.model):
        assert plan.planner == "file"
        assert list((plan.offsets or {}).values()) == list(plan.layout.offsets)
        return
    assert check_layout(plan.problem, plan.layout) == ()
    assert plan.layout.height >= plan.layout.lower_bound
    assert analysis.estimate is not None
    assert len(analysis.estimate.operators) == sum(len(graph.operators) for graph in source.model.subgraphs)
    account, stock = plan.account, plan.stock
    assert account is not None
    assert stock is not None
    assert account.bytes <= stock.bytes
    planned = planned_source(source, plan, TARGET).model
    if plan.offsets is None:
        assert decode_plan(planned) is None
        return
    offsets = decode_plan(planned)
    assert offsets is not None
    assert {key: offset for key, offset in offsets.items() if offset != -1} == dict(plan.offsets)
    again = plan_memory(planned, platform_of(TARGET))
    assert again.planner == "file"
    assert again.account == account


@pytest.mark.slow
@pytest.mark.skipif(not FILES, reason="needs the folder ../shared with real models")
def test_all_headers_compile_together_and_the_smallest_arrays_alone(tmp_path: Path) -> None:
    unit = []
    for path in FILES:
        source, analysis = analysed(path)
        plan = analysis.plan
        name = output_name(path, None)
        for file, content in firmware_files(name, source, plan, TARGET).items():
            (tmp_path / file).write_bytes(content)
        unit += [f'#include "{name}.h"\n#include "{name}_model.h"\n']
    (tmp_path / "all.c").write_text("".join(dict.fromkeys(unit)) + "int main(void) { return 0; }\n")
    sources = [path.name for path in sorted(tmp_path.glob("*_model.c"), key=lambda path: path.stat().st_size)[:8]]
    for compiler, standard in MATRIX:
        result = compile_in(tmp_path, compiler, standard, "-fsyntax-only", "all.c", *sources)
        assert result.returncode == 0, f"{compiler} {standard}: {result.stderr[:2000]}"
