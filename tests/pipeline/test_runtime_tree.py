"""A user's folder with TFLM is recognized in every layout; others are refused or reported, and nothing hangs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgetool.errors import UsageError
from edgetool.model.writer import write_model
from edgetool.pipeline import runtime_tree
from edgetool.pipeline.plan import plan_model
from edgetool.pipeline.runtime_tree import (
    MAX_FILE_BYTES,
    MAX_UNREAD,
    TreeReport,
    recognize,
    recognize_tree,
    runtime_tree_of,
)
from edgetool.pipeline.targets import resolve_named
from edgetool.report.document import LinkedRuntime
from edgetool.target.fingerprints import (
    CMSIS_NN,
    ESP_NN,
    TFLM,
    FileDifference,
    Fingerprints,
    Library,
    LibraryMatch,
    fingerprint,
)
from edgetool.target.load import load_target
from edgetool.target.types import RuntimeTree
from tests.model.builders import Builder
from tests.target.trees import KNOWN, LIBRARY, checkout

ALLOCATOR, CONV = "lib/micro/allocator.cc", "lib/micro/kernels/conv.cc"
SIZES = b"int Sizes();\n"
KERNELS = Fingerprints(
    Library("CMSIS-NN", "kernels.csv", "Source"),
    ("2024-05-0123456789ab",),
    {"Source/sizes.c": (fingerprint(SIZES),)},
)


def write(root: Path, files: dict[str, bytes]) -> Path:
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    return root


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write(tmp_path / "tflite-micro", checkout("v-2024-06"))


def recognized(tree: Path) -> TreeReport:
    return recognize(tree, KNOWN, [KERNELS])


def test_a_checkout(tree: Path) -> None:
    report = recognized(tree)
    assert report == TreeReport("tflite-micro", LibraryMatch(LIBRARY, "v-2024-06", 6))
    assert (report.nearest, report.exact, report.differs) == ("v-2024-06", True, ())


def test_the_layout_of_arduino(tmp_path: Path) -> None:
    files = {
        f"src/{path.replace('.cc', '.cpp')}": content.replace(b'"lib/', b'"src/lib/').replace(b"CMSIS_NN", b"ARDUINO")
        for path, content in checkout("v-2023-06").items()
        if path != CONV
    }
    assert recognized(write(tmp_path, files)).tflm == LibraryMatch(LIBRARY, "v-2023-06", 5)


def test_kernel_libraries_are_recognized_beside_and_inside(tree: Path, tmp_path: Path) -> None:
    assert recognized(tree).kernels == ()
    write(tmp_path / "cmsis-nn", {"Source/sizes.c": SIZES})
    expected = (LibraryMatch(KERNELS.library, "2024-05-0123456789ab", 1),)
    assert recognized(tmp_path).kernels == expected
    write(tree / "tools/downloads/cmsis_nn", {"Source/sizes.c": SIZES})
    assert recognized(tree).kernels == expected


def test_version_control_is_not_searched(tree: Path) -> None:
    write(tree / ".git", {ALLOCATOR: checkout("v-2025-06")[ALLOCATOR]})
    assert recognized(tree).exact


@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 9, b"int Allocate();\0", b"/" * (MAX_FILE_BYTES + 1)],
    ids=["empty", "binary", "with a NUL", "too large"],
)
def test_a_damaged_file(tree: Path, content: bytes) -> None:
    (tree / ALLOCATOR).write_bytes(content)
    assert recognized(tree).differs == (FileDifference(ALLOCATOR, "damaged", ALLOCATOR),)


def test_a_truncated_file(tree: Path) -> None:
    (tree / CONV).write_bytes((tree / CONV).read_bytes()[:-100])
    assert recognized(tree).differs == (FileDifference(CONV, "changed", CONV),)


@pytest.mark.parametrize("name", ["allocator.cc", "conv.h"])
def test_special_files_are_not_opened_forever(tree: Path, name: str) -> None:
    (tree / "lib/micro/kernels/conv.h").rename(tree / "lib/micro/conv.h")
    path = tree / "lib/micro" / name
    path.unlink()
    os.mkfifo(path)
    report = recognized(tree)
    assert report.unread == (f"lib/micro/{name}: not a regular file",)
    assert not report.exact


def test_links_that_lead_outside_are_reported_and_not_followed(tree: Path, tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", {"allocator.cc": (tree / ALLOCATOR).read_bytes()})
    (tree / ALLOCATOR).unlink()
    (tree / ALLOCATOR).symlink_to(outside / "allocator.cc")
    (tree / "signal" / "more").symlink_to(outside)
    (tree / "sibling").symlink_to(tmp_path / "tflite-micro-2")
    report = recognized(tree)
    assert report.differs == (FileDifference(ALLOCATOR, "missing"),)
    assert sorted(report.unread) == [
        f"{link}: not followed, because it leads outside" for link in (ALLOCATOR, "sibling", "signal/more")
    ]


def test_loops_of_links_end(tree: Path) -> None:
    (tree / "self").symlink_to(tree)
    (tree / "lib" / "up").symlink_to("..")
    (tree / "a").symlink_to("b")
    (tree / "b").symlink_to("a")
    assert recognized(tree) == TreeReport("tflite-micro", LibraryMatch(LIBRARY, "v-2024-06", 6))


def test_a_link_to_the_folder_itself_is_followed(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tree)
    assert recognized(tmp_path / "link") == recognized(tree)


def test_an_unreadable_folder_and_file(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scan, read = os.scandir, runtime_tree._regular_file

    def scandir(path: str) -> Iterator[os.DirEntry[str]]:
        if path.endswith("signal"):
            raise PermissionError(13, "Permission denied")
        return scan(path)

    def regular_file(path: str) -> bytes:
        if path.endswith(ALLOCATOR):
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(runtime_tree, "_regular_file", regular_file)
    report = recognized(tree)
    assert report.unread == ("signal: Permission denied", f"{ALLOCATOR}: Permission denied")
    assert report.differs == (FileDifference(ALLOCATOR, "damaged", ALLOCATOR),)


@pytest.mark.parametrize(
    ("limit", "what"),
    [
        ("MAX_ENTRIES", "has more than 3 entries"),
        ("MAX_FOLDERS", "has more than 3 folders"),
        ("MAX_FILES", "has more than 3 files with names of TFLM's"),
        ("MAX_LINKS", "has more than 3 links"),
        ("MAX_BYTES", "has more than 3 bytes in files with names of TFLM's"),
    ],
)
def test_too_much_is_refused(tree: Path, monkeypatch: pytest.MonkeyPatch, limit: str, what: str) -> None:
    for number in range(4):
        (tree / f"link{number}").symlink_to(tree)
    monkeypatch.setattr(runtime_tree, limit, 3)
    with pytest.raises(UsageError) as caught:
        recognized(tree)
    assert (caught.value.what, caught.value.where) == (what, str(tree))
    assert caught.value.fix == "give the folder of TFLM's source code"


def test_the_walk_stops_at_the_limit(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a million files is not read to its end."""
    (tree / "many").mkdir()
    for number in range(100):
        (tree / "many" / f"{number}").touch()
    counted = 0

    class Counted:
        def __init__(self, entries: Iterator[os.DirEntry[str]]) -> None:
            self._entries = entries

        def __enter__(self) -> Counted:
            return self

        def __exit__(self, *_: object) -> None:
            self._entries.close()  # type: ignore[attr-defined]

        def __iter__(self) -> Iterator[os.DirEntry[str]]:
            nonlocal counted
            for entry in self._entries:
                counted += 1
                yield entry

    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: Counted(scan(path)))
    monkeypatch.setattr(runtime_tree, "MAX_ENTRIES", 50)
    with pytest.raises(UsageError, match="has more than 50 entries"):
        recognized(tree)
    assert counted == 51


def test_the_list_of_unread_files_is_bounded(tree: Path) -> None:
    for number in range(MAX_UNREAD + 2):
        (tree / f"link{number}").symlink_to("/")
    unread = recognized(tree).unread
    assert len(unread) == MAX_UNREAD + 1
    assert unread[-1] == "and 2 more"


def test_long_paths_are_shortened(tree: Path) -> None:
    folder = tree.joinpath(*["folder"] * 40)
    folder.mkdir(parents=True)
    (folder / "link").symlink_to("/")
    (unread,) = recognized(tree).unread
    assert unread == f"{('folder/' * 40)[:200]}...: not followed, because it leads outside"


def test_not_tflm(tmp_path: Path) -> None:
    write(tmp_path, {"main.c": b"int main(void) { return 0; }", "reference/conv.h": b"int Conv(int a);\n"})
    (tmp_path / "tflm").symlink_to("/")
    with pytest.raises(UsageError, match="contains no TFLM: of the files in lib/micro, none is there") as caught:
        recognized(tmp_path)
    assert caught.value.details == ("tflm: not followed, because it leads outside",)


@pytest.mark.parametrize(("name", "why"), [("absent", "No such file or directory"), ("file", "Not a directory")])
def test_no_folder(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=f"{name}: cannot be read: {why}"):
        recognized(tmp_path / name)


def test_two_versions_in_one_folder(tree: Path) -> None:
    write(tree / "old", checkout("v-2025-06"))
    with pytest.raises(
        UsageError, match=f"contains {ALLOCATOR} of Small in two versions: {ALLOCATOR} and old/"
    ) as caught:
        recognized(tree)
    assert caught.value.where == str(tree)


def test_names_in_other_encodings_are_escaped(tree: Path) -> None:
    folder = tree / os.fsdecode(b"\xff")
    folder.mkdir()
    (tree / ALLOCATOR).rename(folder / "allocator.cc")
    (folder / os.fsdecode(b"\xfe")).symlink_to("/")
    report = recognized(tree)
    assert report.exact
    assert report.unread == ("\\udcff/\\udcfe: not followed, because it leads outside",)


def test_the_packaged_tables_refuse_a_folder_without_tflm(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="contains no TFLM: of the files in tensorflow/lite/micro, none is there"):
        recognize_tree(tmp_path)


DIFFERS = (
    FileDifference("a.cc", "changed", "a.cc"),
    FileDifference("b.cc", "other-version", "b.cc", ("tflm-2025-06",)),
    FileDifference("c.cc", "other-version", "c.cc", ("tflm-2024-06", "tflm-2024-10", "tflm-2025-01")),
    FileDifference("d.cc", "added", "d.cc"),
    FileDifference("e.cc", "missing"),
    FileDifference("f.cc", "damaged", "f.cc"),
)


def test_a_tree_differs_from_the_runtime_of_a_target() -> None:
    kernels = (
        LibraryMatch(CMSIS_NN, "2025-02-18-e096196a0c49", 118, (FileDifference("Source/g.c", "missing"),)),
        LibraryMatch(ESP_NN, "1.1.2-596b08401a63", 45, (FileDifference("src/h.c", "missing"),)),
    )
    report = TreeReport("tflm", LibraryMatch(TFLM, "tflm-2026-08", 300, DIFFERS), kernels, ("x: Permission denied",))
    target = load_target("cortex-m7")
    assert runtime_tree_of(report, target) == RuntimeTree(
        "tree:tflm",
        (
            "a.cc is as in no known version",
            "b.cc is as in tflm-2025-06",
            "c.cc is as in tflm-2024-06 to tflm-2025-01",
            "d.cc is not in tflm-2026-08",
            "e.cc is missing",
            "f.cc is not a readable text file",
            "CMSIS-NN is 2025-02-18-e096196a0c49, not 4ab83cc3cc98",
            "Source/g.c of CMSIS-NN is missing",
        ),
        ("x: Permission denied",),
    )
    reference = runtime_tree_of(report, target.with_overrides(kernels="reference"))
    assert reference.differs[-1] == "f.cc is not a readable text file"


def test_the_kernel_library_of_a_target() -> None:
    target = load_target("cortex-m7")
    match = LibraryMatch(TFLM, "tflm-2026-08", 300)
    beside = TreeReport("tflm", match, (LibraryMatch(CMSIS_NN, "2026-06-17-4ab83cc3cc98", 195),))
    assert runtime_tree_of(beside, target) == RuntimeTree("tree:tflm", (), ("CMSIS-NN is 2026-06-17-4ab83cc3cc98",))
    assert runtime_tree_of(TreeReport("tflm", match), target).notes == (
        "CMSIS-NN is not there, so that 4ab83cc3cc98 is assumed",
    )


def test_versions_that_are_as_near_are_noted() -> None:
    match = LibraryMatch(TFLM, "tflm-2026-08", 1, DIFFERS[:1], ties=("tflm-2025-12", "tflm-2026-03"))
    tree = runtime_tree_of(TreeReport("tflm", match), load_target("cortex-m7").with_overrides(kernels="reference"))
    assert tree.notes == ("tflm-2025-12 is as near", "tflm-2026-03 is as near")


def test_the_report_of_a_model_with_a_tree(tmp_path: Path) -> None:
    build = Builder()
    x, z = build.activation([1, 4, 4, 2]), build.activation([1, 4, 4, 2])
    build.operator("RELU", [x], [z])
    path = tmp_path / "relu.tflite"
    path.write_bytes(write_model(build.model([x], [z])))
    target = load_target("cortex-m7")
    tree = RuntimeTree("tree:tflm", tuple(f"{name}.cc is missing" for name in "abcde"), ("CMSIS-NN is 4ab83cc3cc98",))
    report = plan_model(path, replace(target, runtime_tree=tree))
    assert report.runtime == LinkedRuntime("tree:tflm", "tflm-2026-08", tree.differs)
    assert not report.is_native
    findings = {finding.rule: finding for finding in report.findings}
    assert findings["runtime-differs"].message == (
        "the nearest runtime is tflm-2026-08, whose arena, outputs and time may be others: a.cc is missing, b.cc is "
        "missing, c.cc is missing, and 2 more differences"
    )
    assert (findings["runtime-recognized"].message, findings["runtime-recognized"].where) == (tree.notes[0], tree.name)
    exact = plan_model(path, replace(target, runtime_tree=RuntimeTree("tree:tflm")))
    assert exact.runtime is None
    assert [finding.message for finding in exact.findings if finding.rule.startswith("runtime")] == [
        "the files of TFLM are those of tflm-2026-08"
    ]


def test_a_target_with_a_tree(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="contains no TFLM"):
        resolve_named("cortex-m7", runtime_tree=tmp_path)
    with pytest.raises(UsageError, match="--runtime and --runtime-tree are mutually exclusive"):
        resolve_named("cortex-m7", runtime="native", runtime_tree=tmp_path)
    with pytest.raises(UsageError, match="override a target"):
        resolve_named(None, runtime_tree=tmp_path)


def test_the_nearest_runtime_is_that_of_the_target(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = replace(KNOWN, versions=("tflm-2023-06", "tflm-2026-08", "tflm-2027-06"))
    monkeypatch.setattr(
        runtime_tree,
        "load_fingerprints",
        lambda library: known if library is TFLM else replace(KERNELS, library=library),
    )
    write(tree, {ALLOCATOR: b"int Allocate();", "Source/sizes.c": SIZES})
    target = resolve_named("cortex-m7", kernels="reference", runtime_tree=tree)
    assert target is not None
    assert (target.runtime.name, target.kernels) == ("tflm-2026-08", "reference")
    assert target.runtime_tree == RuntimeTree("tree:tflite-micro", (f"{ALLOCATOR} is as in no known version",))
    (tree / ALLOCATOR).unlink()
    optimized = resolve_named("cortex-m7", kernels="cmsis-nn", runtime_tree=tree)
    assert optimized is not None
    assert optimized.runtime_tree == RuntimeTree(
        "tree:tflite-micro",
        (f"{ALLOCATOR} is missing", "CMSIS-NN is 2024-05-0123456789ab, not 4ab83cc3cc98"),
    )
