"""The table of offsets, walked by examples/firmware/walk.c on five emulated cores.

Each program has all models, planned for its core, and of each model two more headers in which one offset is 16 bytes
too high: one of a tensor, one of an input or output. What the tensors leave in memory is computed here as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from edgetool.codegen.header import header
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.pipeline.emit import emit_files
from edgetool.pipeline.firmware import HEADER_ONLY, FirmwareRequest
from edgetool.pipeline.plan import plan_model
from edgetool.pipeline.targets import resolve_target
from tests.codegen.boards import BOARDS, EXAMPLE, build, run
from tests.codegen.header_specs import KWS
from tests.conftest import SHARED
from tests.model import builders

STEP = 16
MADE: dict[str, Model] = {
    **{name: make() for name, make in builders.ALL.items()},
    "branches": builders.branches_model(),
    "chain": builders.chain_model(40),
    "logistic": builders.unary_model("LOGISTIC"),
}
COMMITTED = EXAMPLE.parent / "keyword_spotting" / "keyword_spotting.tflite"
REAL = (
    "mlperf/kws_ref_model",
    "mlperf/ad01_int8",
    "mlperf/vww_96_int8",
    "mlperf/pretrainedResnet_quant",
    "made/cnn_mix",
    "made/densenet_tiny",
    "made/inception_mimo",
    "made/attn",
    "made/tcn",
)
EVERY_SHIFT_UP_TO = 20_000  # bytes of memory: larger models are walked as they are, and with the two shifts

MAIN_HEAD = """\
#include "board.h"
#include "walk.h"

typedef struct {
    uint32_t index;
    uint32_t offset;
} input_or_output;

__attribute__((aligned(16))) static uint8_t memory[MEMORY_BYTES];
static edgetool_tensor shifted[TENSORS];

static void tell(const char *name, const char *what, uint32_t number)
{
    board_write(name);
    board_write(" ");
    board_write(what);
    board_write(" ");
    board_write_number(number);
    board_write("\\n");
}

static uint32_t misplaced(const walk_plan *plan, const input_or_output *ends, uint32_t count)
{
    uint32_t failures = 0u;
    uint32_t i;
    uint32_t end;
    for (end = 0u; end < count; ++end) {
        for (i = 0u; i < plan->tensor_count; ++i) {
            const edgetool_tensor *const tensor = &plan->tensors[i];
            if (tensor->subgraph == 0u && tensor->index == ends[end].index) {
                failures += tensor->offset != ends[end].offset;
            }
        }
    }
    return failures;
}

/* How many of all shifts of one offset pass as if nothing were wrong. */
static uint32_t unseen_shifts(walk_plan plan)
{
    const edgetool_tensor *const right = plan.tensors;
    uint32_t unseen = 0u;
    uint32_t i;
    plan.tensors = shifted;
    for (i = 0u; i < plan.tensor_count; ++i) {
        shifted[i] = right[i];
    }
    for (i = 0u; i < plan.tensor_count; ++i) {
        shifted[i].offset = right[i].offset + 16u;
        unseen += walk(&plan).failures == 0u;
        shifted[i].offset = right[i].offset - 16u;
        unseen += walk(&plan).failures == 0u;
        shifted[i].offset = right[i].offset;
    }
    return unseen;
}

static void try_model(const walk_plan *plan, const input_or_output *ends, uint32_t count)
{
    const walk_result result = walk(plan);
    tell(plan->name, "tensors", plan->tensor_count);
    tell(plan->name, "memory", plan->memory_bytes);
    tell(plan->name, "overlaps", result.overlaps);
    tell(plan->name, "checksum", result.checksum);
    tell(plan->name, "failures", result.failures + misplaced(plan, ends, count));
}

int main(void)
{
"""

MAIN_MODEL = """\
    {{
        static const input_or_output ends[] = {{{ends}}};
        const walk_plan plan = {{"{name}", {name}_tensors(), {macro}_TENSOR_COUNT, {macro}_POSITION_COUNT, memory,
                                {macro}_ACTIVATIONS_BYTES, {data}_model}};
        try_model(&plan, ends, (uint32_t)(sizeof ends / sizeof ends[0]));
{more}    }}
"""
ALL_SHIFTS = '        tell("{name}", "unseen", unseen_shifts(plan));\n'


@dataclass(frozen=True)
class Emitted:
    """A model's header, as it was written; `name` is that of its C names, `model` what it was made of."""

    name: str
    model: str
    header: str

    def numbers(self, pattern: str) -> list[int]:
        return [int(number) for number in re.findall(rf"^#define {pattern} (\d+)$", self.header, re.MULTILINE)]

    @property
    def memory_bytes(self) -> int:
        return self.numbers(r"\w+_ACTIVATIONS_BYTES")[0]

    @property
    def overlaps(self) -> int:
        """What the note in the header says."""
        found = re.search(r"(\d+) outputs? shares? memory with an", self.header)
        return int(found[1]) if found else 0

    def shifted(self, kind: str, which: int) -> Emitted:
        """The header with one offset of a "TENSOR" or an "(?:INPUT|OUTPUT)" too high, under another name."""
        found = list(re.finditer(rf"^#define \w+?_{kind}_\w+_OFFSET (\d+)$", self.header, re.MULTILINE))
        place = found[which % len(found)]
        wrong = self.header[: place.start(1)] + str(int(place[1]) + STEP) + self.header[place.end(1) :]
        name = f"{'tensor' if kind == 'TENSOR' else 'end'}{self.name[-2:]}"
        renamed = wrong.replace(self.name.upper(), name.upper()).replace(self.name, name)
        return Emitted(name, self.model, renamed)


def paths(directory: Path) -> list[Path]:
    """The models: ten of ours, and the real ones that are there."""
    for name, model in MADE.items():
        (directory / f"{name}.tflite").write_bytes(write_model(model))
    real = [SHARED / "data" / "models" / f"{name}.tflite" for name in REAL]
    return [COMMITTED, *(directory / f"{name}.tflite" for name in MADE), *(path for path in real if path.exists())]


def emit(directory: Path, core: str) -> list[Emitted]:
    """Plan every model for the core and write its header, and its data for the assembler."""
    target = resolve_target(core)
    made = []
    for number, path in enumerate(paths(directory)):
        name, planned = f"model{number:02}", directory / f"{path.stem}_planned.tflite"
        plan_model(path, target, output=planned)
        emit_files(planned, target, output=directory, name=name, request=FirmwareRequest("header", "incbin"))
        made.append(Emitted(name, path.stem, (directory / f"{name}.h").read_text(encoding="ascii")))
    return made


def main_source(directory: Path, emitted: list[Emitted]) -> str:
    """The program that walks them all; writes the headers with an offset shifted."""
    text = "".join(f'#include "{one.name}.h"\n#include "{one.name}_model.h"\n' for one in emitted)
    body = ""
    for number, right in enumerate(emitted):
        wrong = [right.shifted("TENSOR", 7 * number), right.shifted("(?:INPUT|OUTPUT)", number)]
        for one in wrong:
            (directory / f"{one.name}.h").write_text(one.header, encoding="ascii")
            text += f'#include "{one.name}.h"\n'
        for one in (right, *wrong):
            macro = one.name.upper()
            ends = [
                f"{{{macro}_{kind}_{i}_TENSOR_INDEX, {macro}_{kind}_{i}_OFFSET}}"
                for kind in ("INPUT", "OUTPUT")
                for i in range(one.numbers(rf"\w+_{kind}_COUNT")[0])
            ]
            more = ALL_SHIFTS.format(name=one.name) if one is right and one.memory_bytes <= EVERY_SHIFT_UP_TO else ""
            body += MAIN_MODEL.format(name=one.name, macro=macro, data=right.name, ends=", ".join(ends), more=more)
    memory = max(one.memory_bytes for one in emitted)
    tensors = max(one.numbers(r"\w+_TENSOR_COUNT")[0] for one in emitted)
    sizes = f"#define MEMORY_BYTES {memory}\n#define TENSORS {tensors}\n"
    return f"{text}{sizes}{MAIN_HEAD}{body}    return 0;\n}}\n"


def checksum(one: Emitted, inputs: Sequence[int]) -> int:
    """What walk.c must find in the memory after the last operator."""
    offsets = dict(re.findall(r"^#define (\w+_TENSOR_\w+_OFFSET) (\d+)$", one.header, re.MULTILINE))
    rows = re.findall(r"^ +\{(\d+), (\d+), (\w+), (\d+), (-?\d+), -?\d+\},$", one.header, re.MULTILINE)
    assert len(rows) == len(offsets)
    memory = np.zeros(one.memory_bytes, np.uint8)
    used = [number for number, row in enumerate(rows) if int(row[4]) >= 0]
    is_input = [row[0] == "0" and int(row[1]) in inputs for row in rows]
    for number in sorted(used, key=lambda number: (not is_input[number], int(rows[number][4]))):
        _, _, key, size, _ = rows[number]
        start = int(offsets[key])
        at = np.arange(start, start + int(size), dtype=np.uint64)
        mixed = ((number * 0x9E3779B1) ^ (at * 0x85EBCA6B)) & 0xFFFFFFFF
        mixed = ((mixed ^ (mixed >> 15)) * 0x2C1B3C6D) & 0xFFFFFFFF
        memory[start : start + int(size)] = mixed >> 24
    total = 2166136261
    for byte in memory.tobytes():
        total = (total ^ byte) * 16777619 & 0xFFFFFFFF
    return total


@pytest.mark.slow
@pytest.mark.parametrize("core", ["cortex-m3", "cortex-m7", "cortex-m55"])
def test_no_tensor_overwrites_another_that_is_needed_and_any_shift_is_seen(tmp_path: Path, core: str) -> None:
    emitted = emit(tmp_path, core)
    assert len(emitted) >= 10
    (tmp_path / "board.ld").write_text(BOARDS[core].script)
    (tmp_path / "main.c").write_text(main_source(tmp_path, emitted))
    sources = ["main.c", str(EXAMPLE / "walk.c"), *(f"{one.name}_model.S" for one in emitted)]
    done = run(core, build(tmp_path, core, "board.ld", sources, "-I.", '-DWALK_HEADER="model00.h"'))
    assert done.returncode == 0, done.stderr[-2000:]
    found = {
        (name, what): int(number)
        for name, what, number in re.findall(r"^(\w+) (\w+) (\d+)$", done.stderr, re.MULTILINE)
    }
    for one in emitted:
        inputs = read_model((tmp_path / f"{one.name}.tflite").read_bytes()).main.inputs
        assert found[one.name, "failures"] == 0, one.model
        assert found[one.name, "tensors"] == one.numbers(r"\w+_TENSOR_COUNT")[0] > 1
        assert found[one.name, "memory"] == one.memory_bytes
        assert found[one.name, "overlaps"] == one.overlaps, one.model
        assert found[one.name, "checksum"] == checksum(one, inputs), one.model
        assert found.get((one.name, "unseen"), 0) == 0, one.model
        assert found[f"tensor{one.name[-2:]}", "failures"] > 0, one.model
        assert found[f"end{one.name[-2:]}", "failures"] > 0, one.model
    assert sum(what == "unseen" for _, what in found) >= 10
    assert sum(one.overlaps for one in emitted) >= 10


@pytest.mark.slow
def test_positions_are_those_of_the_operators_in_the_file(tmp_path: Path) -> None:
    """From the operator that writes a tensor to the last that reads it; inputs from the first, outputs to the last."""
    for one in emit(tmp_path, "cortex-m7"):
        model = read_model((tmp_path / f"{one.name}.tflite").read_bytes())
        if len(model.subgraphs) > 1:
            continue  # positions then count calls of subgraphs as well
        graph = model.main
        assert one.numbers(r"\w+_POSITION_COUNT") == [len(graph.operators)]
        rows = re.findall(r"^ +\{0, (\d+), \w+, \d+, (-?\d+), (-?\d+)\},$", one.header, re.MULTILINE)
        assert len(rows) > 1
        for index, first, last in (map(int, row) for row in rows):
            writers = [op.index for op in graph.operators if index in op.outputs]
            readers = [op.index for op in graph.operators if index in op.inputs]
            assert [first] == (writers or [0])
            assert last == (len(graph.operators) - 1 if index in graph.outputs else max(readers)), one.model


def test_overlapping_tensors_are_seen_without_the_models_plan(tmp_path: Path) -> None:
    """Two tensors of 32 bytes alive together, 16 apart, in a model that has no plan: the bytes alone tell."""
    (tmp_path / "main.c").write_text(
        """\
#include "board.h"
#include "model.h"
#include "walk.h"

__attribute__((aligned(16))) static uint8_t memory[64];

int main(void)
{
    /* A flatbuffer of one empty table. */
    static const unsigned char model[] = {8, 0, 0, 0, 4, 0, 4, 0, 4, 0, 0, 0};
    edgetool_tensor tensors[2] = {{0, 0, 0, 32, 0, 2}, {0, 1, 16, 32, 1, 3}};
    walk_plan plan = {"two", tensors, 2, 4, memory, sizeof memory, model};
    const uint32_t together = walk(&plan).failures;
    tensors[1].offset = 32;
    return (int)(10u * together + walk(&plan).failures);
}
"""
    )
    (tmp_path / "model.h").write_text(header(KWS))
    sources = ["main.c", str(EXAMPLE / "walk.c")]
    options = ("-I.", '-DWALK_HEADER="model.h"')
    done = run("cortex-m7", build(tmp_path, "cortex-m7", str(EXAMPLE / "mps2-an500.ld"), sources, *options))
    # That the model has no plan counts for three failures: one for each tensor, one for their number.
    assert done.returncode == 10 * 4 + 3, done.stderr
    assert done.stderr.count("tensor 0 of subgraph 0 was overwritten") == 1


def test_the_example_runs(tmp_path: Path) -> None:
    target = resolve_target("cortex-m7")
    plan_model(COMMITTED, target, output=tmp_path / "planned.tflite")
    emit_files(tmp_path / "planned.tflite", target, output=tmp_path, name="keyword_spotting", request=HEADER_ONLY)
    sources = [str(EXAMPLE / "walk.c"), str(EXAMPLE / "walk_main.c"), "keyword_spotting_model.c"]
    done = run("cortex-m7", build(tmp_path, "cortex-m7", str(EXAMPLE / "mps2-an500.ld"), sources, "-I."))
    assert (done.returncode, done.stderr) == (0, "11 tensors in 14000 bytes: none overwrites another that is needed\n")
