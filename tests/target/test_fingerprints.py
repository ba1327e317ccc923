"""Versions of a library are recognized in every layout, and every changed token is noticed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import edgetool.memory.account
import edgetool.operators
from edgetool.errors import TargetError
from edgetool.target.fingerprints import (
    CMSIS_NN,
    KERNEL_LIBRARIES,
    TFLM,
    FileDifference,
    Library,
    LibraryMatch,
    TreeFile,
    fingerprint,
    format_fingerprints,
    is_version_of,
    load_fingerprints,
    match_library,
    parse_fingerprints,
    significant_text,
    upstream_name,
)
from edgetool.target.load import load_runtime
from edgetool.target.tables import profile_names
from tests.target.trees import CONTENTS, CONV, KNOWN, LIBRARY, VERSIONS, checkout, tree_files


def matched(files: dict[str, bytes]) -> LibraryMatch:
    match = match_library(KNOWN, tree_files(files))
    assert match is not None
    return match


@pytest.mark.parametrize(
    "layout",
    [
        CONV.replace("\n", "\r\n"),
        CONV.replace("\n", "\r"),
        "\ufeff" + CONV,
        CONV.replace("    ", "\t").replace("{", "{\n\n"),
        CONV.replace('"lib/micro/kernels/conv.h"', '"src/conv.h"'),
        CONV.replace("#include", "#  include <cstdint>\n#include"),
        CONV.replace("defined(CMSIS_NN)", "defined(ARDUINO)"),
        CONV.replace("// The kernel.", "/* Copyright * 2026 */"),
        CONV.replace("// The kernel.", "// It's continued \\\n here"),
    ],
)
def test_a_layout_does_not_change_the_fingerprint(layout: str) -> None:
    assert layout != CONV
    assert fingerprint(layout.encode()) == fingerprint(CONV.encode())


@pytest.mark.parametrize(
    "change",
    [
        CONV.replace("4", "5"),
        CONV.replace("int rows", "long rows"),
        CONV.replace("// no comment", "// a comment"),
        CONV.replace("nor this", "nor that"),
        CONV.replace("defined(CMSIS_NN)", "defined(XTENSA)"),
        CONV.replace("#if defined(CMSIS_NN)", "#ifndef CMSIS_NN"),
        CONV.replace("int Prepare", "int CMSIS_NN"),
        CONV.replace("#endif", ""),
        CONV[: len(CONV) // 2],
    ],
)
def test_another_token_changes_the_fingerprint(change: str) -> None:
    assert change != CONV
    assert fingerprint(change.encode()) != fingerprint(CONV.encode())


def test_the_macro_of_a_makefile_counts_outside_conditions() -> None:
    assert significant_text(b"int NDEBUG;") != significant_text(b"int ARDUINO;")


TOKENS = st.sampled_from([*"x4+(){};/*#\\", "int", '"a // b"', "'\"'", '"/*"'])


@given(st.lists(st.tuples(TOKENS, st.sampled_from([" ", "\n", "\t ", " /* c */ ", " // it's\n", "\r\n"])), max_size=20))
def test_white_space_and_comments_are_ignored_between_all_tokens(parts: list[tuple[str, str]]) -> None:
    source = "".join(token + space for token, space in parts)
    spaced = " ".join(token for token, _ in parts)
    assert significant_text(source.encode()) == significant_text(spaced.encode())


@given(st.binary(max_size=200))
def test_any_bytes_have_a_fingerprint(source: bytes) -> None:
    assert re.fullmatch("[0-9a-f]{16}", fingerprint(source))


@pytest.mark.parametrize(
    ("name", "upstream"),
    [("conv.cpp", "conv.cc"), ("conv.cxx", "conv.cc"), ("conv.cc", "conv.cc"), ("a.h", "a.h"), ("cpp", "cpp")],
)
def test_renamed_files(name: str, upstream: str) -> None:
    assert upstream_name(name) == upstream


@pytest.mark.parametrize("version", VERSIONS)
def test_a_checkout_is_its_version(version: str) -> None:
    assert matched(checkout(version)) == LibraryMatch(LIBRARY, version, len(checkout(version)))
    assert matched(checkout(version)).exact


LAYOUTS = st.fixed_dictionaries(
    {
        "folders": st.lists(st.sampled_from(["src", "third_party", "kernels", "a b", "x"]), max_size=3),
        "line_end": st.sampled_from(["\n", "\r\n", "\r"]),
        "include": st.sampled_from(["lib/", "src/lib/", "<", ""]),
        "suffix": st.sampled_from([".cc", ".cpp", ".cxx"]),
    }
)


@given(st.sampled_from(VERSIONS), st.dictionaries(st.sampled_from(sorted(CONTENTS)), LAYOUTS))
def test_no_layout_changes_the_result(version: str, layouts: dict[str, dict[str, str]]) -> None:
    files = {}
    for number, (path, content) in enumerate(checkout(version).items()):
        layout = layouts.get(path)
        if layout is not None:
            folders = [*layout["folders"], str(number)]
            path = "/".join([*folders, path.rpartition("/")[2].replace(".cc", layout["suffix"])])
            content = content.decode().replace("lib/", layout["include"]).replace("\n", layout["line_end"]).encode()
        files[path] = content
    assert matched(files) == LibraryMatch(LIBRARY, version, len(files))


@given(st.sampled_from(VERSIONS), st.data())
def test_every_changed_token_is_reported(version: str, data: st.DataObject) -> None:
    files = checkout(version)
    path = data.draw(st.sampled_from(sorted(files)))
    text = files[path].decode()
    word = data.draw(st.sampled_from(list(re.finditer(r"\b(?:int|return|rows|size|Prepare|Conv|Fft)\b", text))))
    files[path] = f"{text[: word.start()]}changed{text[word.end() :]}".encode()
    assert path in {item.file for item in matched(files).differs}


def test_local_changes_have_the_nearest_version() -> None:
    files = checkout("v-2025-06") | {"lib/micro/allocator.cc": b"int Allocate();"}
    match = matched(files)
    assert match.nearest == "v-2025-06"
    assert match.differs == (FileDifference("lib/micro/allocator.cc", "changed", "lib/micro/allocator.cc"),)


def test_a_file_of_another_version_names_it() -> None:
    conv = "lib/micro/kernels/conv.cc"
    files = checkout("v-2023-06") | {conv: checkout("v-2025-06")[conv]}
    assert matched(files).differs == (FileDifference(conv, "other-version", conv, ("v-2024-06", "v-2025-06")),)


def test_a_file_that_the_version_does_not_have() -> None:
    decode = "lib/micro/kernels/decode.cc"
    files = checkout("v-2023-06")
    assert matched(files | {decode: b"int Own();"}).differs == (FileDifference(decode, "added", decode),)
    later = matched(files | {decode: checkout("v-2025-06")[decode]})
    assert later.differs == (FileDifference(decode, "added", decode, ("v-2025-06",)),)


def test_missing_and_damaged_files_are_reported() -> None:
    files = tree_files(checkout("v-2024-06"))[1:]
    files = [TreeFile(file.path, None) if file.path.endswith("kernels/conv.h") else file for file in files]
    match = match_library(KNOWN, files)
    assert match is not None
    assert match.nearest == "v-2024-06"
    assert match.differs == (
        FileDifference("lib/micro/allocator.cc", "missing"),
        FileDifference("lib/micro/kernels/conv.h", "damaged", "lib/micro/kernels/conv.h"),
    )


def test_differences_in_the_core_come_first() -> None:
    files = dict.fromkeys(checkout("v-2023-06"), b"int changed;") | {"x/fft.cc": checkout("v-2023-06")["signal/fft.cc"]}
    paths = [item.file for item in matched(files).differs]
    assert paths == [*sorted(path for path in paths if path.startswith("lib/micro/")), "lib/reference/conv.h"]


def test_an_optimized_kernel_replaces_the_other_one() -> None:
    files = checkout("v-2024-06")
    del files["lib/micro/kernels/conv.cc"]
    assert matched(files).exact
    del files["lib/micro/kernels/fast/conv.cc"]
    assert matched(files).differs == (FileDifference("lib/micro/kernels/conv.cc", "missing"),)


def test_optional_folders_may_be_left_out() -> None:
    files = {path: content for path, content in checkout("v-2025-06").items() if not path.startswith("signal/")}
    assert matched(files).exact


def test_versions_that_are_as_near_are_named() -> None:
    match = matched({path: checkout("v-2023-06")[path] for path in ["lib/micro/allocator.cc"]})
    assert (match.nearest, match.ties) == ("v-2024-06", ("v-2023-06",))
    assert not match.exact


def test_files_without_the_core_are_not_the_library() -> None:
    assert match_library(KNOWN, []) is None
    assert match_library(KNOWN, tree_files({"lib/reference/conv.h": b"int Conv(int a);"})) is None
    assert match_library(KNOWN, tree_files({"other/conv.cc": b"int main();"})) is None


def test_another_kernel_set_is_not_taken_for_a_changed_kernel() -> None:
    files = checkout("v-2024-06") | {"lib/micro/kernels/xtensa/conv.cc": b"int Xtensa();"}
    assert matched(files) == matched(checkout("v-2024-06"))


def test_two_versions_of_a_file_are_refused() -> None:
    files = checkout("v-2023-06") | {f"old/{path}": text for path, text in checkout("v-2025-06").items()}
    with pytest.raises(TargetError, match=r"contains lib/micro/allocator\.cc of Small in two versions: lib/micro/all"):
        matched(files)


def test_a_few_files_of_another_version_elsewhere_are_not_the_library() -> None:
    files = checkout("v-2023-06")
    old = {f"backup/{path}": checkout("v-2025-06")[path] for path in ["lib/micro/allocator.cc"]}
    assert matched(files | old) == matched(files)


def test_a_copy_elsewhere_does_not_hide_a_local_change() -> None:
    allocator = "lib/micro/allocator.cc"
    files = checkout("v-2023-06")
    copy = {f"backup/{allocator}": files[allocator]}
    changed = FileDifference(allocator, "changed", allocator)
    assert matched(files | {allocator: b"int Allocate();"} | copy).differs == (changed,)


def test_two_equal_copies_are_one() -> None:
    files = checkout("v-2023-06") | {f"copy/{path}": text for path, text in checkout("v-2023-06").items()}
    assert matched(files) == matched(checkout("v-2023-06"))


def test_the_table_is_written_as_it_is_read() -> None:
    text = format_fingerprints(KNOWN)
    assert text.splitlines()[0] == f"file,{','.join(VERSIONS)}"
    assert parse_fingerprints(LIBRARY, text, where="t.csv") == KNOWN


DIGEST = "0123456789abcdef"
BAD = {
    "empty": ("", 1, "the header must be"),
    "no versions": ("file\n", 1, "the header must be"),
    "a version twice": ("file,a,a\n", 1, "the header must be"),
    "a cell too few": (f"file,a,b\nx.cc,{DIGEST}\n", 2, "a row must have 3 cells"),
    "a blank line": (f"file,a\nx.cc,{DIGEST}\n\n", 3, "a row must have 2 cells"),
    "an empty first cell": ("file,a\nx.cc,\n", 2, "'' is neither"),
    "no digest": ("file,a\nx.cc,0123\n", 2, "'0123' is neither 16 hex digits nor -"),
    "twice": (f"file,a\nx.cc,{DIGEST}\nx.cc,-\n", 3, "x.cc is listed twice"),
    "the same contents": (f"file,a\nx/y.cc,{DIGEST}\nz/y.cc,{DIGEST}\n", 3, "z/y.cc has the contents of x/y.cc"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_table_is_refused(case: str) -> None:
    text, line, what = BAD[case]
    with pytest.raises(TargetError) as caught:
        parse_fingerprints(LIBRARY, text, where="t.csv")
    assert caught.value.where == f"t.csv:{line}"
    assert what in caught.value.what


@pytest.mark.parametrize("library", [TFLM, *KERNEL_LIBRARIES], ids=lambda library: library.name)
def test_the_packaged_tables(library: Library) -> None:
    known = load_fingerprints(library)
    assert any(path.startswith(f"{known.library.core}/") for path in known.files)
    for index, version in enumerate(known.versions):
        contents = [TreeFile(path, cells[index]) for path, cells in known.files.items() if cells[index]]
        match = match_library(known, contents)
        assert match is not None
        assert match.exact
        assert version in (match.nearest, *match.ties)


def test_every_version_of_tflm_is_distinct() -> None:
    known = load_fingerprints(TFLM)
    assert len({tuple(column) for column in zip(*known.files.values(), strict=True)}) == len(known.versions)


def test_every_profile_of_tflm_has_its_fingerprints() -> None:
    profiles = [name for name in profile_names("runtimes") if name.startswith("tflm-")]
    assert set(profiles) == set(load_fingerprints(TFLM).versions)
    linked = {load_runtime(name).cmsis_nn_commit for name in profiles}
    for commit in linked:
        assert any(is_version_of(version, commit) for version in load_fingerprints(CMSIS_NN).versions)


def test_versions_of_kernel_libraries_name_their_commits() -> None:
    assert is_version_of("2026-06-17-4ab83cc3cc98", "4ab83cc3cc98fb85ed6dafb55e8ca02f1628dcae")
    assert not is_version_of("2026-06-17-4ab83cc3cc98", "e096196a0c49f065abc03d943c583cd50de424ba")


def test_every_cited_file_is_in_a_table() -> None:
    known = [f"/{path}" for library in (TFLM, *KERNEL_LIBRARIES) for path in load_fingerprints(library).files]
    sources = [*Path(edgetool.operators.__path__[0]).glob("*.py"), Path(edgetool.memory.account.__file__)]
    names = re.compile(r"(?<![\w/])[a-zA-Z][\w/]*\.(?:cc|c|h)\b")
    cited = {name for path in sources for name in names.findall(path.read_text(encoding="utf-8"))}
    assert len(cited) > 100
    # The first two are of kissfft, whose commit TFLM pins; no snapshot has the third yet.
    others = {"kiss_fft.c", "kiss_fftr.c", "basic_classifier.cc"}
    assert {name for name in cited if not any(path.endswith(f"/{name}") for path in known)} == others
