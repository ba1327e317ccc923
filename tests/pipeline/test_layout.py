"""The library step behind `edgetool layout`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgetool.errors import EdgetoolError, FailedCheckError, InvalidModelError, OutputError, UsageError
from edgetool.memory.problem import Memory
from edgetool.pipeline.layout import MAX_INSTANCE_BYTES, TimedMemory, layout_instance, open_instance, place_instance
from edgetool.report.json import to_json
from edgetool.report.layout import LayoutReport, MinimizedMemory, layout_document

# Placed by size, as TFLM does, these need 1,600 bytes; 1,120 are alive at once.
AUDIO = Path(__file__).parents[2] / "examples" / "layout" / "audio.csv"
GRAPH = AUDIO.parent / "branches.json"


def rules(report: LayoutReport) -> list[str]:
    return [finding.rule for finding in report.findings]


def test_the_lowest_layout_and_what_it_saves() -> None:
    layout = layout_instance(AUDIO).layout
    assert (layout.height, layout.lower_bound, layout.optimal, layout.proof) == (1120, 1120, True, "bound met")
    assert (layout.naive_bytes, layout.ratio) == (2624, 2624 / 1120)
    assert (layout.capacity, layout.fits, layout.shared) == (None, None, None)
    first = layout.buffers[0]
    assert (first.id, first.lower, first.upper, first.size, first.alignment) == ("samples", 0, 4, 480, 1)


def test_constants_are_placed_when_asked_for() -> None:
    assert [b.id for b in layout_instance(GRAPH).layout.buffers] == [
        "image",
        "narrow",
        "wide",
        "pooled",
        "both",
        "classes",
    ]
    placed = layout_instance(GRAPH, constants_in_ram=True).layout
    assert {b.id: (b.lower, b.upper) for b in placed.buffers}["weights"] == (4, 5)
    assert placed.height == 28682


def test_strategies_for_comparison_say_what_may_be_lower() -> None:
    report = layout_instance(AUDIO, strategy="tflm")
    assert (report.layout.height, report.layout.proof, rules(report)) == (1600, "none", ["not-proven"])
    assert "--strategy optimal" in report.findings[0].message


def test_a_capacity_is_judged() -> None:
    fits = layout_instance(AUDIO, capacity=1200)
    assert (fits.layout.fits, fits.layout.height <= 1200) == (True, True)
    tight = layout_instance(AUDIO, capacity=1120)
    assert (tight.layout.fits, rules(tight)) == (True, [])
    missed = layout_instance(AUDIO, capacity=1500, strategy="tflm")
    assert (missed.layout.fits, rules(missed)) == (False, ["over-capacity"])
    with pytest.raises(FailedCheckError, match=r"audio\.csv: no layout fits .* 1,120 B are live at time 2"):
        layout_instance(AUDIO, capacity=1119)


def test_a_capacity_that_only_alignment_makes_impossible(tmp_path: Path) -> None:
    path = tmp_path / "i.csv"
    path.write_text("id,lower,upper,size,alignment\na,0,2,10,16\nb,0,2,10,16\n")
    with pytest.raises(
        FailedCheckError, match=r"26 B are live at time 0, including 6 B of alignment padding"
    ) as reported:
        layout_instance(path, capacity=20)
    assert [line.split()[0] for line in reported.value.details] == ["10", "10"]
    assert layout_instance(path, capacity=26).layout.fits


def test_the_answer_is_written_and_is_pinned(tmp_path: Path) -> None:
    report = layout_instance(AUDIO, output=tmp_path / "answer.csv")
    again = layout_instance(tmp_path / "answer.csv", strategy="greedy")
    assert again.layout.buffers == report.layout.buffers
    with pytest.raises(OutputError):
        layout_instance(AUDIO, output=tmp_path / "answer.csv")
    layout_instance(GRAPH, output=tmp_path / "answer.json", constants_in_ram=True)
    assert rules(again) == []
    offsets = [tensor["offset"] for tensor in json.loads((tmp_path / "answer.json").read_text())["tensors"]]
    placed = layout_instance(tmp_path / "answer.json", constants_in_ram=True).layout.buffers
    assert offsets == [buffer.offset for buffer in placed]


def test_pins_that_raise_the_bound_are_reported(tmp_path: Path) -> None:
    layout_instance(AUDIO, strategy="tflm", output=tmp_path / "high.csv")
    report = layout_instance(tmp_path / "high.csv")
    assert (report.layout.height, report.layout.proof, rules(report)) == (1600, "bound met", ["pins-raise-bound"])
    assert "without them, it is 1,120 B" in report.findings[0].message


@pytest.mark.parametrize("sharing", ["greedy", "dynamic-programming"])
def test_whole_buffers_are_shared(sharing: str) -> None:
    layout = layout_instance(AUDIO, sharing=sharing).layout  # type: ignore[arg-type]
    assert layout.shared is not None
    assert sorted(name for group in layout.shared for name in group.buffers) == sorted(b.id for b in layout.buffers)
    assert layout.height == sum(group.size for group in layout.shared)
    assert layout.height == {"greedy": 1504, "dynamic-programming": 1216}[sharing]
    assert layout.optimal == (sharing == "dynamic-programming")
    offset = {b.id: b.offset for b in layout.buffers}
    assert all(offset[name] == group.offset for group in layout.shared for name in group.buffers)


def test_shared_buffers_lie_where_their_alignment_allows(tmp_path: Path) -> None:
    path = tmp_path / "i.csv"
    path.write_text("id,lower,upper,size,alignment\na,0,9,30,6\nb,0,9,17,8\nc,0,3,9,10\nd,3,9,9,4\n")
    layout = layout_instance(path, sharing="dynamic-programming").layout
    assert all(b.offset % b.alignment == 0 for b in layout.buffers)
    assert (layout.height, layout.lower_bound, layout.proof) == (69, 57, "none")


def test_what_cannot_apply_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--strategy and --sharing are mutually exclusive"):
        layout_instance(AUDIO, sharing="greedy", strategy="optimal")
    with pytest.raises(UsageError, match="constants"):
        layout_instance(AUDIO, constants_in_ram=True)
    with pytest.raises(UsageError, match="time limit"):
        layout_instance(AUDIO, time_limit=0)
    with pytest.raises(UsageError, match="cannot be read"):
        layout_instance(tmp_path / "none.csv")
    layout_instance(AUDIO, output=tmp_path / "answer.csv")
    with pytest.raises(UsageError, match="pinned"):
        layout_instance(tmp_path / "answer.csv", sharing="greedy")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x80\x04\x95\x10\x00\x00\x00", "is not UTF-8 text (row 1)"),
        (b"id,lower,upper,size\na,0,1,\xff\n", "is not UTF-8 text (row 2)"),
        ("id,lower,upper,size\n".encode("utf-16"), "is not UTF-8 text (row 1)"),
        ("id,lower,upper,size\n".encode("utf-16-le"), "NUL byte"),
        (bytes(4) + b"TFL3" + bytes(40), "is a .tflite"),
        (b"", "is empty"),
        (b"id,lower,upper,size\na,0,1,-1\n", "row 2"),
        (b"id,lower,upper,size,offset\na,0,2,5,0\nb,1,3,5,4\n", "row 2 ('a') and row 3 ('b') overlap"),
    ],
)
def test_files_that_are_no_instance_name_the_file(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "bad"
    path.write_bytes(content)
    with pytest.raises(InvalidModelError) as caught:
        layout_instance(path)
    assert caught.value.where == str(path)
    assert words in caught.value.what


def test_a_file_beyond_the_limit_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.csv"
    with path.open("wb") as file:
        file.truncate(MAX_INSTANCE_BYTES + 1)
    with pytest.raises(InvalidModelError, match="is larger than 134,217,728 bytes"):
        open_instance(path)


def test_nothing_is_written_when_something_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "i.csv").write_text("id,lower,upper,size,offset\na,0,2,5,0\nb,1,3,5,4\n")
    with pytest.raises(EdgetoolError):
        layout_instance(tmp_path / "i.csv", output=tmp_path / "answer.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["i.csv"]


def test_an_instance_without_buffers(tmp_path: Path) -> None:
    (tmp_path / "i.csv").write_text("id,lower,upper,size\n")
    report = layout_instance(tmp_path / "i.csv", capacity=0, output=tmp_path / "answer.csv")
    assert (report.layout.height, report.layout.ratio, report.layout.optimal) == (0, None, True)
    assert (tmp_path / "answer.csv").read_text() == "id,lower,upper,size,offset\n"
    (tmp_path / "e.csv").write_text("id,lower,upper,size\na,0,1,0\n")
    assert layout_instance(tmp_path / "e.csv").layout.optimal


@pytest.mark.parametrize("size", [2**62, 2**61 - 1])
def test_the_largest_numbers(tmp_path: Path, size: int) -> None:
    (tmp_path / "i.csv").write_text(f"id,lower,upper,size\na,{-(2**62)},{2**62},{size}\nb,0,1,1\nc,0,1,7\n")
    layout = layout_instance(tmp_path / "i.csv").layout
    assert (layout.height, layout.optimal) == (size + 8, True)


def test_the_document_names_what_decided_its_figures(tmp_path: Path) -> None:
    document = layout_document(layout_instance(AUDIO, capacity=2000, seed=3))
    assert to_json(document).startswith('{\n  "schema": "edgetool/1"')
    assert document["provenance"]["options"] == {
        "command": "layout",
        "capacity": 2000,
        "strategy": "optimal",
        "sharing": None,
        "time_limit": 60.0,
        "seed": 3,
        "constants_in_ram": False,
    }
    assert (document["instance"]["name"], document["instance"]["buffers"]) == ("audio.csv", 9)


def test_progress_shows_peaks() -> None:
    reported: list[str] = []
    layout_instance(AUDIO, progress=reported.append)
    assert reported[-1] == "height 1,120 B, lower bound 1,120 B"


SEVERAL = "id,lower,upper,size,memory,traffic\na,0,2,64,,\nb,1,3,64,,1000\nc,2,4,32,slow,\n"
FAST, SLOW = TimedMemory(Memory("fast", 64), 0.0), TimedMemory(Memory("slow", 256), 1.5)


def test_buffers_are_placed_for_the_fewest_cycles(tmp_path: Path) -> None:
    path, answer = tmp_path / "several.csv", tmp_path / "answer.csv"
    path.write_text(SEVERAL)
    report = place_instance(path, [FAST, SLOW], output=answer)
    placement = report.placement
    assert [(b.id, b.memory) for b in placement.buffers] == [("a", "slow"), ("b", "fast"), ("c", "slow")]
    # a is written and read once, and so is c.
    assert placement.cycles == placement.lower_bound_cycles == 1.5 * (2 * 64 + 2 * 32)
    assert [(item.name, item.traffic) for item in placement.memories] == [("fast", 1000), ("slow", 192)]
    assert layout_document(report)["placement"]["proof"] == "bound met"
    assert answer.read_text().splitlines()[:2] == ["id,lower,upper,size,memory,traffic,offset", "a,0,2,64,slow,,0"]


def test_the_traffic_of_a_graph_follows_from_its_operators(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    tensors = [{"name": "x", "size": 10}, {"name": "y", "size": 8, "memory": ["slow"]}, {"name": "z", "size": 6}]
    operators = [{"inputs": ["x"], "outputs": ["y"]}, {"inputs": ["x", "y"], "outputs": ["z"]}]
    path.write_text(json.dumps({"tensors": tensors, "operators": operators}))
    output = tmp_path / "out.json"
    report = place_instance(path, [TimedMemory(Memory("fast", 10), 0.0), SLOW], output=output)
    assert [(b.id, b.memory) for b in report.placement.buffers] == [("x", "fast"), ("y", "slow"), ("z", "slow")]
    assert [item.traffic for item in report.placement.memories] == [3 * 10, 2 * 8 + 6]
    assert [tensor["memory"] for tensor in json.loads(output.read_text())["tensors"]] == ["fast", "slow", "slow"]


def test_the_fewest_bytes_of_a_memory_come_before_cycles(tmp_path: Path) -> None:
    path = tmp_path / "several.csv"
    path.write_text(SEVERAL)
    report = place_instance(path, [FAST, SLOW], minimize="fast")
    assert report.minimized == MinimizedMemory("fast", 0, 0, "bound met")
    assert {item.memory for item in report.placement.buffers} == {"slow"}
    least = place_instance(path, [FAST, SLOW], minimize="slow")
    assert least.minimized == MinimizedMemory("slow", 64, 64, "search exhausted")
    assert least.placement.cycles == 1.5 * (2 * 64 + 2 * 32)
    assert layout_document(least)["minimized"]["lower_bound"] == 64
    with pytest.raises(UsageError, match="there is no memory 'slwo'"):
        place_instance(path, [FAST, SLOW], minimize="slwo")


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("id,lower,upper,size,memory\na,0,1,8,sram\n", UsageError, "can be in 'sram', which is no --memory"),
        ("id,lower,upper,size,offset\na,0,1,8,0\n", UsageError, "has an offset, which several memories"),
        ("id,lower,upper,size,alias\na,0,1,8,x\n", UsageError, "has an alias, which several memories"),
        ("id,lower,upper,size\na,0,1,1000\n", FailedCheckError, "no placement fits in these memories"),
        ("id,lower,upper,size,traffic\na,0,1,8,-1\n", InvalidModelError, "traffic"),
    ],
)
def test_what_cannot_be_placed_is_refused(tmp_path: Path, text: str, error: type[EdgetoolError], said: str) -> None:
    path = tmp_path / "several.csv"
    path.write_text(text)
    with pytest.raises(error, match=said):
        place_instance(path, [FAST, SLOW])


def test_an_instance_that_names_memories_needs_them(tmp_path: Path) -> None:
    path = tmp_path / "several.csv"
    path.write_text(SEVERAL)
    with pytest.raises(UsageError, match="the instance names memories"):
        layout_instance(path)
