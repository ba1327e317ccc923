"""Plans and firmware whose head, tail and model are in memories of their own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgetool.convert.request import ConvertRequest
from edgetool.errors import TargetError, UnsupportedModelError, UsageError
from edgetool.gate.limits import ModelLimits
from edgetool.gate.messages import usage
from edgetool.memory.account import Tenant, account_separate, account_shared_separate
from edgetool.memory.planner import PlanRequest
from edgetool.model.reader import read_model
from edgetool.model.writer import write_model
from edgetool.pipeline import fit
from edgetool.pipeline.check import CheckRequest, check_models
from edgetool.pipeline.convert import convert_file
from edgetool.pipeline.emit import emit_files, emit_shared
from edgetool.pipeline.firmware import FirmwareRequest, Project
from edgetool.pipeline.plan import plan_model
from edgetool.pipeline.reporting import Described
from edgetool.report.document import Report
from edgetool.target.load import load_target
from edgetool.target.platform import platform_of
from edgetool.target.types import MemoryRegion, Target
from tests.memory.account_models import MODELS
from tests.model.builders import Builder, unary_model

BOARD = load_target("nucleo-h743zi2")
# Its order and layout cannot be improved, so that its plan is TFLM's.
NAME = "long_chain"
STOCK = PlanRequest("original", "tflm")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("places") / "model.tflite"
    file.write_bytes(write_model(MODELS[NAME]()))
    return file


def board_with(**size_bytes: int) -> Target:
    """Return the board with regions of these sizes; "_" in a name stands for "-"."""
    sizes = {name.replace("_", "-"): size for name, size in size_bytes.items()}
    return replace(
        BOARD,
        regions=tuple(
            replace(region, size_bytes=sizes.get(region.name, region.size_bytes)) for region in BOARD.regions
        ),
    )


def planned(path: Path, place: str, target: Target = BOARD) -> Report:
    return plan_model(path, target, request=STOCK, place=place)


def errors(report: Report) -> list[str]:
    return [finding.message for finding in report.findings if finding.level == "error"]


def test_each_part_has_its_size_and_its_memory(path: Path, tmp_path: Path) -> None:
    separate = account_separate(read_model(path.read_bytes()), platform_of(BOARD))
    report = planned(path, "head=dtcm,tail=d3-sram")
    plan_model(path, BOARD, request=STOCK, output=tmp_path / "planned.tflite")
    assert [(item.part, item.memory, item.bytes, item.fits) for item in report.places] == [
        ("head", "dtcm", separate.head_arena_bytes, True),
        ("tail", "d3-sram", separate.tail_arena_bytes, True),
        ("model", "flash", (tmp_path / "planned.tflite").stat().st_size, True),
    ]
    assert report.memory is not None
    assert (report.memory.region, report.memory.arena_fits, report.memory.model_fits) == ("dtcm", True, True)
    assert errors(report) == []


@pytest.mark.parametrize("part", ["head", "tail", "model copy"])
def test_a_memory_fits_exactly_or_is_refused_with_its_missing_bytes(path: Path, part: str) -> None:
    place = "head=dtcm,tail=d3-sram,model=d2-sram"
    memory = {"head": "dtcm", "tail": "d3_sram", "model copy": "d2_sram"}[part]
    size = next(item.bytes for item in planned(path, place).places if item.part == part)
    assert errors(planned(path, place, board_with(**{memory: size}))) == []
    report = planned(path, place, board_with(**{memory: size - 1}))
    name = memory.replace("_", "-")
    assert errors(report) == [f"{name} has {size - 1:,} bytes, 1 fewer than are placed there ({part} {size:,})"]
    assert [item.part for item in report.places if item.fits is False] == [part]
    assert report.memory is not None
    assert (report.memory.arena_fits, report.memory.model_fits) == (part == "model copy", part != "model copy")


def test_parts_in_one_memory_need_room_for_their_sum(path: Path) -> None:
    place = "head=dtcm,tail=dtcm"
    head, tail, _ = (item.bytes for item in planned(path, place).places)
    assert errors(planned(path, place, board_with(dtcm=head + tail))) == []
    (error,) = errors(planned(path, place, board_with(dtcm=head + tail - 16)))
    assert error.endswith(f"16 fewer than are placed there (head {head:,} + tail {tail:,})")


@pytest.mark.slow
def test_an_arena_too_large_for_any_one_memory_can_fit_in_two(path: Path) -> None:
    place = "head=axi-sram,tail=dtcm"
    head, tail, _ = (item.bytes for item in planned(path, place).places)
    small = board_with(axi_sram=head, dtcm=tail, d2_sram=16, d3_sram=16)
    single = plan_model(path, small, request=STOCK)
    assert single.memory is not None
    assert single.memory.arena_fits is False
    assert errors(planned(path, place, small)) == []


def test_the_page_judges_the_same_places(path: Path) -> None:
    described: list[Described] = []
    small = board_with(dtcm=16)
    report = plan_model(path, small, request=STOCK, place="head=dtcm,tail=d3-sram", described=described)
    (page,) = described
    assert page.report.places == report.places
    assert page.report.memory == report.memory
    assert errors(page.report) == errors(report) != []


def test_a_copy_of_the_model_needs_room_in_ram_and_in_flash(path: Path) -> None:
    place = "head=dtcm,tail=dtcm,model=d2-sram"
    report = planned(path, place)
    size = report.places[2].bytes
    parts = [(item.part, item.memory, item.bytes) for item in report.places[2:]]
    assert parts == [("model copy", "d2-sram", size), ("model", "flash", size)]
    (error,) = errors(planned(path, place, board_with(flash=size - 16)))
    assert error == f"flash has {size - 16:,} bytes, 16 fewer than are placed there (model {size:,})"
    (error,) = errors(planned(path, place, board_with(d2_sram=size - 16)))
    assert error == f"d2-sram has {size - 16:,} bytes, 16 fewer than are placed there (model copy {size:,})"


def with_speeds(target: Target, **wait_states: float) -> Target:
    """Return the target with accesses of 4 bytes after these wait states; "_" in a name stands for "-"."""
    figures = {name.replace("_", "-"): value for name, value in wait_states.items()}
    return replace(
        target,
        regions=tuple(
            replace(region, wait_states=figures.get(region.name, region.wait_states), access_bytes=4)
            for region in target.regions
        ),
    )


SPEEDS = {"axi_sram": 3.0, "dtcm": 0.0, "d2_sram": 5.0, "d3_sram": 7.0}


def placements(report: Report) -> list[tuple[str, str]]:
    return [(item.head, item.tail) for item in report.placements]


def test_auto_takes_the_fastest_places_that_have_room(tmp_path: Path) -> None:
    board = replace(
        BOARD, regions=(*BOARD.regions, MemoryRegion("psram", "external-ram", 1 << 23, wait_states=30, access_bytes=4))
    )
    wide = tmp_path / "wide.tflite"
    build = Builder(seed=1)
    image = build.activation([1, 32, 32, 8])
    wide.write_bytes(write_model(build.model([image], [build.conv(image, 8, stride=1)])))
    head, tail, _ = (item.bytes for item in planned(wide, "head=dtcm,tail=dtcm").places)
    report = planned(wide, "auto", with_speeds(board, **SPEEDS))
    assert all(item.fits for item in report.placements)
    times = [item.latency_ms.value for item in report.placements if item.latency_ms is not None]
    assert len(times) == len(report.placements)
    assert times == sorted(times)
    # Without room on the chip for the head, it goes to the external RAM; the tail never has to.
    sizes = dict.fromkeys(("axi_sram", "dtcm", "d2_sram", "d3_sram"), tail)
    assert head > tail
    small = replace(
        board_with(**sizes), regions=(*board_with(**sizes).regions, board.regions[-1]), arena_region_name="axi-sram"
    )
    report = planned(wide, "auto", with_speeds(small, **SPEEDS))
    assert placements(report)[0] == ("psram", "axi-sram")
    assert {tail for _, tail in placements(report)} <= {"axi-sram", "dtcm", "d2-sram", "d3-sram"}


def test_a_slow_head_costs_time(path: Path) -> None:
    board = replace(
        BOARD,
        regions=(
            *BOARD.regions,
            MemoryRegion("psram", "external-ram", 1 << 23, wait_states=0, access_bytes=4, stall_cycles_per_byte=4.0),
        ),
    )
    fast, slow = (
        planned(path, f"head={head},tail=dtcm", with_speeds(board, **SPEEDS)).placements[0].latency_ms
        for head in ("dtcm", "psram")
    )
    assert fast is not None
    assert slow is not None
    assert slow.value > fast.value


def test_without_speeds_no_times_are_claimed_and_the_usual_places_are_kept(path: Path) -> None:
    report = planned(path, "auto")
    assert placements(report)[0] == ("axi-sram", "axi-sram")
    assert all(item.latency_ms is None for item in report.placements)


def test_auto_fails_if_nothing_fits(path: Path) -> None:
    tiny = board_with(axi_sram=16, dtcm=16, d2_sram=16, d3_sram=16)
    with pytest.raises(TargetError, match="no placement has room for a head of"):
        planned(path, "auto", tiny)
    assert planned(path, "auto", board_with(axi_sram=16)).placements[0].head == "d2-sram"


def test_an_external_tail_is_reported(path: Path) -> None:
    board = replace(BOARD, regions=(*BOARD.regions, MemoryRegion("sdram", "external-ram", 1 << 23)))
    rules = [finding.rule for finding in planned(path, "head=dtcm,tail=sdram", board).findings]
    assert "tail-in-external-ram" in rules
    cached = MemoryRegion(
        "sdram", "external-ram", 1 << 23, wait_states=0, access_bytes=4, cache_bytes=4096, stall_cycles_per_byte=2.0
    )
    known = replace(BOARD, regions=(*BOARD.regions, cached))
    inside, outside = (
        planned(path, f"head=dtcm,tail={tail}", with_speeds(known, **SPEEDS)) for tail in ("dtcm", "sdram")
    )
    (finding,) = (item for item in outside.findings if item.rule == "tail-in-external-ram")
    assert finding.level == "note"
    times = [item.placements[0].latency_ms for item in (inside, outside)]
    assert times[0] is not None
    assert times[1] is not None
    tail_bytes = outside.places[1].bytes
    assert times[1].value - times[0].value == pytest.approx(tail_bytes * 2 / known.clock_hz * 1e3)
    assert "tail-in-external-ram" not in [finding.rule for finding in planned(path, "head=dtcm,tail=dtcm").findings]


@pytest.mark.parametrize("project", ["header", "plain", "cmake"])
def test_emitted_files_state_the_planned_sizes(path: Path, tmp_path: Path, project: Project) -> None:
    report = planned(path, "head=dtcm,tail=d3-sram")
    emitted = emit_files(
        path, BOARD, output=tmp_path / "out", request=FirmwareRequest(project), place="head=dtcm,tail=d3-sram"
    )
    assert emitted.report.places[:2] == report.places[:2]
    assert emitted.report.places[2].bytes == path.stat().st_size  # without the plan
    assert {file.name for file in emitted.files} == {file.name for file in (tmp_path / "out").iterdir()}
    text = (tmp_path / "out" / "model.h").read_text()
    head, tail, _ = (item.bytes for item in report.places)
    assert f"#define MODEL_HEAD_BYTES {head}\n" in text
    assert f"#define MODEL_TAIL_BYTES {tail}\n" in text
    assert "MODEL_ARENA_BYTES" not in text
    assert "EDGETOOL_D3_SRAM" in (tmp_path / "out" / "model_memories.ld").read_text()
    assert (tmp_path / "out" / "model_runner.cc").exists() == (project != "header")


def test_converted_files_have_the_same_places(path: Path, tmp_path: Path) -> None:
    converted = convert_file(ConvertRequest(path), BOARD, output=tmp_path / "out", place="head=dtcm,tail=dtcm")
    sizes = {item.part: item.bytes for item in converted.report.places}
    text = (tmp_path / "out" / "model.h").read_text()
    assert f"#define MODEL_HEAD_BYTES {sizes['head']}\n" in text
    assert sizes["model"] == (tmp_path / "out" / "model.tflite").stat().st_size
    assert "model_memories.ld" in {file.name for file in converted.files}


def test_unknown_sizes_are_not_emitted(tmp_path: Path) -> None:
    file = tmp_path / "sign.tflite"
    file.write_bytes(write_model(unary_model("SIGN")))
    assert planned(file, "head=dtcm,tail=dtcm").places[0].fits is None
    with pytest.raises(UnsupportedModelError, match="the exact sizes of head and tail are unknown"):
        emit_files(file, BOARD, output=tmp_path / "out", place="head=dtcm,tail=dtcm")
    assert not (tmp_path / "out").exists()


def test_shared_buffers_have_no_places(path: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no head and no tail"):
        emit_files(path, BOARD, output=tmp_path / "out", arena_style="buffers", place="auto")


def test_places_need_a_target_and_an_arena(path: Path) -> None:
    with pytest.raises(UsageError, match="memories of a target"):
        plan_model(path, None, place="head=dtcm,tail=dtcm")
    with pytest.raises(UsageError, match="neither constants nor shared buffers"):
        plan_model(path, BOARD, request=PlanRequest(constants_in_ram=True), place="head=dtcm,tail=dtcm")


def checked(path: Path, place: str, target: Target = BOARD, limits: ModelLimits | None = None) -> Report:
    request = CheckRequest(limits=limits or ModelLimits(), lock=path.parent / "edgetool.lock", place=place)
    return check_models([path], [target], request).reports[0]


def memory_judgements(report: Report) -> list[tuple[bool | None, float | None, float | None]]:
    assert report.check is not None
    return [(item.passed, item.value, item.limit) for item in report.check.judgements if item.rule == "memory"]


def test_check_judges_each_memory_with_its_reserve(path: Path) -> None:
    limits = ModelLimits(reserve_bytes=1000, reserve_flash_bytes=2000)
    report = checked(path, "head=dtcm,tail=d3-sram", limits=limits)
    head, tail, model = (item.bytes for item in report.places)
    assert memory_judgements(report) == [
        (True, head, 131072 - 1000),
        (True, tail, 65536),
        (True, model, 2**21 - 2000),
    ]
    assert report.check is not None
    assert report.check.passed
    assert {item.rule for item in report.check.judgements}.isdisjoint({"arena", "flash"})


def test_check_fails_for_the_memory_that_is_too_small(path: Path) -> None:
    head, tail, _ = (item.bytes for item in checked(path, "head=dtcm,tail=dtcm").places)
    report = checked(path, "head=dtcm,tail=dtcm", board_with(dtcm=head + tail - 16))
    assert report.check is not None
    failed = [item for item in report.check.judgements if item.passed is False]
    assert [(item.rule, item.over) for item in failed] == [("memory", 16)]
    assert usage(report).arena == ">100 %"
    assert usage(checked(path, "head=dtcm,tail=dtcm", board_with(dtcm=2 * (head + tail)))).arena == "50 %"


def test_code_counts_in_its_memory_and_no_time_is_claimed(path: Path, tmp_path: Path) -> None:
    plain, moved = (planned(path, f"head=dtcm,tail=dtcm{code}") for code in ("", ",code=itcm"))
    (code,) = (item for item in moved.places if item not in plain.places)
    assert (code.part, code.memory) == ("code copy", "itcm")
    assert code.fits == (code.bytes <= code.memory_bytes)
    # TFLM and its kernels are a part of what a firmware links.
    assert moved.flash is not None
    assert moved.flash.code_bytes is not None
    assert 0 < code.bytes < moved.flash.code_bytes.value
    assert moved.estimate == plain.estimate
    assert moved.placements == plain.placements
    assert any(finding.rule == "code-placed" for finding in moved.findings)
    emitted = emit_files(path, BOARD, output=tmp_path / "out", place="auto,code=itcm")
    (text,) = (file.read_text() for file in emitted.files if file.name.endswith("_memories.ld"))
    assert "*libtensorflow-microlite.a:*(.text .text.*)" in text
    assert "} > EDGETOOL_ITCM AT > EDGETOOL_LOAD" in text
    small = planned(path, "head=dtcm,tail=dtcm,code=itcm", board_with(itcm=code.bytes - 4))
    assert errors(small) == [
        f"itcm has {code.bytes - 4:,} bytes, 4 fewer than are placed there (code copy {code.bytes:,})"
    ]
    in_flash = planned(path, "head=dtcm,tail=dtcm,code=flash").places
    assert [(item.part, item.bytes) for item in in_flash if item.memory == "flash"][1:] == [("code", code.bytes)]


def test_code_of_unknown_size_is_not_counted(path: Path) -> None:
    target = load_target("esp32-s3")
    arena = next(region.name for region in target.regions if region.kind == "sram")
    report = planned(path, f"head={arena},tail={arena},code={arena}", target)
    assert [item.part for item in report.places] == ["head", "tail", "model"]
    assert any("its size is unknown for xtensa-lx7" in finding.message for finding in report.findings)


def test_fit_names_the_places_of_an_arena_that_fits_only_in_two(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head, tail, _ = (item.bytes for item in planned(path, "head=dtcm,tail=dtcm").places)
    size = max(head, tail)
    small = board_with(axi_sram=size, dtcm=size, d2_sram=16, d3_sram=16)
    tiny = board_with(axi_sram=size, dtcm=16, d2_sram=16, d3_sram=16)
    monkeypatch.setattr(fit, "all_targets", lambda: [small, replace(tiny, name="tiny")])
    boards = {row.target.name: row for row in fit.fit_model(path).fit.boards}
    assert not boards[small.name].fits
    assert boards[small.name].place == "head=axi-sram,tail=dtcm,model=flash"
    assert "fits in several memories: head in axi-sram, tail in dtcm, model in flash" in boards[small.name].reasons
    assert boards["tiny"].place is None


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("pair")
    paths = [folder / "one.tflite", folder / "two.tflite"]
    for file, name in zip(paths, (NAME, "convolutions-int8"), strict=True):
        file.write_bytes(write_model(MODELS[name]()))
    return paths


def test_models_share_two_arenas(pair: list[Path], tmp_path: Path) -> None:
    emitted = emit_shared(pair, BOARD, output=tmp_path / "out", place="head=dtcm,tail=d3-sram")
    models = [read_model(path.read_bytes()) for path in pair]
    account = account_shared_separate([Tenant(model) for model in models], platform_of(BOARD))
    sizes = {item.part: item.bytes for item in emitted.arena.places}
    assert sizes == {
        "head": account.head_arena_bytes,
        "tail": account.tail_arena_bytes,
        "model": sum(path.stat().st_size for path in pair),
    }
    text = (tmp_path / "out" / "shared_arena.h").read_text()
    assert f"#define SHARED_HEAD_BYTES {sizes['head']}\n" in text
    assert f"#define SHARED_TAIL_BYTES {sizes['tail']}\n" in text
    assert "SHARED_ARENA_BYTES" not in text
    assert {file.name for file in emitted.files} == {file.name for file in (tmp_path / "out").iterdir()}
    assert "shared_memories.ld" in {file.name for file in emitted.files}
    assert emitted.arena.fits


def test_shared_arenas_are_as_large_as_the_largest_head_and_all_tails(pair: list[Path]) -> None:
    tenants = [Tenant(read_model(path.read_bytes())) for path in pair]
    one, two = (account_separate(tenant.model, platform_of(BOARD)) for tenant in tenants)
    both = account_shared_separate(tenants, platform_of(BOARD))
    assert both.head_arena_bytes == max(one.head_arena_bytes, two.head_arena_bytes)
    # The allocators exist once.
    assert one.tail_arena_bytes < both.tail_arena_bytes < one.tail_arena_bytes + two.tail_arena_bytes


def test_shared_arenas_that_do_not_fit_are_reported(pair: list[Path], tmp_path: Path) -> None:
    place = "head=dtcm,tail=d3-sram"
    emitted = emit_shared(pair, board_with(d3_sram=16), output=tmp_path / "out", place=place)
    assert emitted.arena.fits is False
    assert [item.rule for item in emitted.arena.findings if item.level == "error"] == ["memory-too-small"]


def test_shared_arenas_refuse_copies_and_a_place_without_a_target(pair: list[Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not copied to RAM"):
        emit_shared(pair, BOARD, output=tmp_path / "out", place="head=dtcm,tail=dtcm,model=axi-sram")
    with pytest.raises(UsageError, match="memories of a target"):
        emit_shared(pair, None, output=tmp_path / "out", place="auto")
