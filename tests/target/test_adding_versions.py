"""benchmarks/runtime_trees.py adds a checkout to a table: what it lists, and where."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import runtime_trees
from benchmarks.runtime_trees import cited_files, with_version

from edgetool.target.fingerprints import CMSIS_NN, TFLM, Fingerprints, fingerprint, load_fingerprints

EMPTY = Fingerprints(TFLM, (), {})
A, B, C = (fingerprint(text) for text in (b"a", b"b", b"c"))


def test_versions_are_columns() -> None:
    known = with_version(EMPTY, "v1", {"x/a.cc": A}, after=None)
    known = with_version(known, "v3", {"x/a.cc": B, "x/c.cc": C}, after=None)
    known = with_version(known, "v2", {"x/c.cc": A}, after="v1")
    assert known.versions == ("v1", "v2", "v3")
    assert known.files == {"x/a.cc": (A, None, B), "x/c.cc": (None, A, C)}


def test_a_version_is_replaced() -> None:
    known = with_version(EMPTY, "v1", {"x/a.cc": A, "x/b.cc": B}, after=None)
    assert with_version(known, "v1", {"x/a.cc": C}, after=None) == Fingerprints(TFLM, ("v1",), {"x/a.cc": (C,)})


def test_a_moved_file_keeps_its_row() -> None:
    known = with_version(EMPTY, "v1", {"old/a.cc": A}, after=None)
    assert with_version(known, "v2", {"new/a.cc": A}, after=None).files == {"old/a.cc": (A, A)}
    assert with_version(known, "v2", {"new/a.cc": B}, after=None).files == {
        "new/a.cc": (None, B),
        "old/a.cc": (A, None),
    }


def test_tests_tools_and_other_kernel_sets_are_not_cited(tmp_path: Path) -> None:
    core = "tensorflow/lite/micro"
    cited = [f"{core}/kernels/cmsis_nn/conv.cc", f"{core}/kernels/conv.cc", f"{core}/micro_allocator.cc"]
    others = [
        f"{core}/{name}" for name in ("micro_allocator_test.cc", "micro_time.cc", "BUILD", "kernels/xtensa/conv.cc")
    ]
    for path in (*cited, *others):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    assert sorted(cited_files(TFLM, tmp_path)) == cited


def test_a_checkout_enters_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "checkout/Source/PadFunctions").mkdir(parents=True)
    (tmp_path / "checkout/Source/PadFunctions/arm_pad_s8.c").write_text("int Pad();\n")
    monkeypatch.setattr(runtime_trees, "TABLES", tmp_path)
    arguments = ["runtime_trees", "cmsis_nn", "2027-01-01-0123456789ab", str(tmp_path / "checkout")]
    monkeypatch.setattr("sys.argv", arguments)
    runtime_trees.main()
    assert (tmp_path / "cmsis_nn.csv").read_text() == (
        f"file,2027-01-01-0123456789ab\nSource/PadFunctions/arm_pad_s8.c,{fingerprint(b'int Pad();')}\n"
    )
    monkeypatch.setattr("sys.argv", [*arguments[:3], str(tmp_path)])
    with pytest.raises(SystemExit):
        runtime_trees.main()


def test_the_packaged_tables_are_as_this_program_writes_them() -> None:
    for library in (TFLM, CMSIS_NN):
        known = load_fingerprints(library)
        newest = {path: cells[-1] for path, cells in known.files.items() if cells[-1] is not None}
        assert with_version(known, known.versions[-1], newest, after=None) == known
