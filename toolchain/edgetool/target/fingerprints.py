"""Which version of a library a set of its files is, by fingerprints of their contents in the known versions.

A fingerprint is a hash of a C or C++ file that is the same in every layout in which the library is
published: it ignores white space, line endings, comments and #include lines, and the macros that the scripts of the
Arduino and Pico libraries replace in conditions. targets/runtimes/files/ has a table per library: a row per file that
our rules cite, a column per version.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from operator import eq
from types import MappingProxyType
from typing import Literal

from edgetool.errors import TargetError
from edgetool.target.tables import targets_folder

FOLDER = "targets/runtimes/files"
DIGITS = 16  # of a fingerprint: 64 bits
ABSENT = "-"  # in a cell: the version does not have the file
_CELL = re.compile(rf"[0-9a-f]{{{DIGITS}}}|{ABSENT}")

# Literals, so that what is in them is no comment, and comments. Each may be unclosed, which keeps matching linear.
_LITERALS_AND_COMMENTS = re.compile(
    rb"""
    "[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?
    | '[^'\\\n]*+(?:\\.[^'\\\n]*+)*+'?
    | //[^\\\n]*+(?:\\.[^\\\n]*+)*+
    | /\*[^*]*+(?:\*(?!/)[^*]*+)*+(?:\*/)?
    """,
    re.DOTALL | re.VERBOSE,
)
_DIRECTIVES = re.compile(rb"#[ \t]*(include|if|ifdef|ifndef|elif)\b[^\\\n]*+(?:\\.[^\\\n]*+)*+", re.DOTALL)
# The macros that a Makefile defines and the Arduino IDE cannot, so that the Arduino and Pico libraries use its own.
_BUILD_MACROS = re.compile(rb"\b(?:CMSIS_NN|NDEBUG|TF_LITE_STATIC_MEMORY|TF_LITE_USE_GLOBAL_CMATH_FUNCTIONS)\b")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_RENAMED = re.compile(r"\.(?:cpp|cxx)\Z")


def fingerprint(source: bytes) -> str:
    """Return the fingerprint of a C or C++ file: the first DIGITS hex digits of a SHA-256."""
    return hashlib.sha256(significant_text(source)).hexdigest()[:DIGITS]


def significant_text(source: bytes) -> bytes:
    """Return a C or C++ file without what differs between the layouts of a library."""
    text = source.removeprefix(_BYTE_ORDER_MARK).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    text = _LITERALS_AND_COMMENTS.sub(_without_comment, text)
    return b"".join(_DIRECTIVES.sub(_canonical_directive, text).split())


def _without_comment(match: re.Match[bytes]) -> bytes:
    return b" " if match[0].startswith(b"/") else match[0]


def _canonical_directive(match: re.Match[bytes]) -> bytes:
    return b"" if match[1] == b"include" else _BUILD_MACROS.sub(b"ARDUINO", match[0])


def upstream_name(name: str) -> str:
    """Return the name of a file as its library's repository spells it: the Arduino IDE compiles .cpp, not .cc."""
    return _RENAMED.sub(".cc", name)


@dataclass(frozen=True, slots=True)
class Library:
    """A library that firmware links, and the table of its files in FOLDER.

    core: the folder of its repository without which a tree does not have the library. optional: the folders that some
    layouts leave out. kernels: the kernel set to which it belongs, "" if it belongs to all.
    """

    name: str
    table: str
    core: str
    optional: tuple[str, ...] = ()
    kernels: str = ""


KERNELS = "tensorflow/lite/micro/kernels"
TFLM = Library("TFLM", "tflm.csv", "tensorflow/lite/micro", ("signal", f"{KERNELS}/cmsis_nn"))
CMSIS_NN = Library("CMSIS-NN", "cmsis_nn.csv", "Source", kernels="cmsis-nn")
ESP_NN = Library("ESP-NN", "esp_nn.csv", "src", kernels="esp-nn")
# The kernels that call ESP-NN, which are not in TFLM's own repository.
ESP_TFLITE_MICRO = Library("esp-tflite-micro", "esp_tflite_micro.csv", f"{KERNELS}/esp_nn", kernels="esp-nn")
KERNEL_LIBRARIES = (CMSIS_NN, ESP_NN, ESP_TFLITE_MICRO)


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """The fingerprints of a library's files, by path in its repository: one per version, None if it has no such file.

    versions: oldest first. TFLM's are names of runtimes; those of kernel libraries end with digits of their commits.
    """

    library: Library
    versions: tuple[str, ...]
    files: Mapping[str, tuple[str | None, ...]]


@dataclass(frozen=True, slots=True)
class TreeFile:
    """A file of a user's tree: its path there, and its fingerprint, None if it is not text."""

    path: str
    fingerprint: str | None


def is_version_of(version: str, commit: str) -> bool:
    """Return whether the version of a kernel library is this commit."""
    return commit.startswith(version.rpartition("-")[2])


DifferenceKind = Literal["changed", "other-version", "added", "missing", "damaged"]


@dataclass(frozen=True, slots=True)
class FileDifference:
    """A file that a tree does not have as a version of its library has it.

    file: the path in the library's repository. kind: its contents are in no known version (changed), in another one
    (other-version) or no text (damaged), the version does not have it (added), or the tree does not (missing). path:
    the path in the tree. versions: those with the same contents.
    """

    file: str
    kind: DifferenceKind
    path: str | None = None
    versions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LibraryMatch:
    """The known version from which the fewest of a tree's files differ.

    ties: other versions from which as few differ; nearest is the newest of all these. files: how many files of the
    library are in the tree. differs: the files in the library's core first, by path.
    """

    library: Library
    nearest: str
    files: int
    differs: tuple[FileDifference, ...] = ()
    ties: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether every file is as in the nearest version."""
        return not self.differs


def match_library(known: Fingerprints, files: Iterable[TreeFile]) -> LibraryMatch | None:
    """Return the version that is nearest to the files, or None if they do not contain the library.

    A file is identified by its contents, wherever it is; if no version has these, by its name and its folder's name.
    Of versions from which equally many files differ, the nearest is the one of which fewer are missing. A kernel is not
    missing if the tree has an optimized one instead: a .cc file of the same name in a folder below.

    Raises TargetError if the tree has a file as in two known versions.
    """
    present = _identify(known, files)
    if not any(_is_below(path, known.library.core) for path in present):
        return None
    absent = _absent(known, present)
    scores = [
        (
            sum(file.fingerprint != known.files[path][index] for path, file in present.items()),
            sum(known.files[path][index] is not None for path in absent),
        )
        for index in range(len(known.versions))
    ]
    *ties, nearest = [index for index, score in enumerate(scores) if score == min(scores)]
    differs = [
        *(_difference(known, path, file, nearest) for path, file in present.items()),
        *(FileDifference(path, "missing") for path in absent if known.files[path][nearest] is not None),
    ]
    return LibraryMatch(
        library=known.library,
        nearest=known.versions[nearest],
        files=len(present),
        differs=tuple(sorted((item for item in differs if item is not None), key=_core_first(known.library))),
        ties=tuple(known.versions[index] for index in ties),
    )


def _identify(known: Fingerprints, files: Iterable[TreeFile]) -> dict[str, TreeFile]:
    """Return the tree's file for each path of the library's repository. Raises TargetError.

    Of several files for a path, that in the place where most files of the library are is the library's, then one with
    known contents, then that whose path is most similar.
    """
    by_contents, by_name = _candidates(known, files)
    copies = Counter(_place(path, file) for path, found in by_contents.items() for file in found)
    main, most = max(copies.items(), key=lambda copy: copy[1], default=(("", ""), 0))
    identified = {}
    for path in {**by_contents, **by_name}:
        identical = by_contents.get(path, [])
        ranks = [
            (_place(path, file) == main, file in identical, _common_end(path, file.path), file.path, file)
            for file in (*identical, *by_name.get(path, []))
        ]
        *_, file = max(ranks, key=lambda rank: rank[:-1])
        for other in identical:
            if other.fingerprint != file.fingerprint and 2 * copies[_place(path, other)] >= most:
                where = " and ".join(sorted([file.path, other.path]))
                raise TargetError(
                    f"contains {path} of {known.library.name} in two versions: {where}",
                    fix="give the folder of the one that your firmware links",
                )
        identified[path] = file
    return identified


def _candidates(
    known: Fingerprints, files: Iterable[TreeFile]
) -> tuple[dict[str, list[TreeFile]], dict[str, list[TreeFile]]]:
    """Return the files with known contents, and the others with the names of a file and its folder, by path."""
    paths_of = defaultdict(list)
    for path in known.files:
        paths_of[_name(path)].append(path)
    by_contents, by_name = defaultdict(list), defaultdict(list)
    unknown = []
    for file in files:
        paths = paths_of[upstream_name(_name(file.path))]
        same = [path for path in paths if file.fingerprint is not None and file.fingerprint in known.files[path]]
        for path in same:
            by_contents[path].append(file)
        if paths and not same:
            unknown.append((file, paths))
    for file, paths in unknown:
        common, _, path = max((_common_end(path, file.path), path not in by_contents, path) for path in paths)
        if common >= 2:
            by_name[path].append(file)
    return by_contents, by_name


def _place(path: str, file: TreeFile) -> tuple[str, str]:
    """Return the folder of the tree that has the library, and which folder of the library it is."""
    common = _common_end(path, file.path)
    return "/".join(file.path.split("/")[:-common]), "/".join(path.split("/")[:-common])


def _core_first(library: Library) -> Callable[[FileDifference], tuple[bool, str]]:
    return lambda item: (not _is_below(item.file, library.core), item.file)


def _absent(known: Fingerprints, present: Mapping[str, TreeFile]) -> list[str]:
    """Return the paths that are missing if a version has them."""
    replaced = {f"{_folder(_folder(path))}/{_name(path)}" for path in present if path.endswith(".cc")}
    left_out = tuple(
        folder for folder in known.library.optional if not any(_is_below(path, folder) for path in present)
    )
    return [
        path
        for path in known.files
        if path not in present and path not in replaced and not any(_is_below(path, folder) for folder in left_out)
    ]


def _difference(known: Fingerprints, path: str, file: TreeFile, nearest: int) -> FileDifference | None:
    fingerprints = known.files[path]
    if file.fingerprint is None:
        return FileDifference(path, "damaged", file.path)
    if file.fingerprint == fingerprints[nearest]:
        return None
    versions = tuple(
        version for version, other in zip(known.versions, fingerprints, strict=True) if other == file.fingerprint
    )
    kind: DifferenceKind = "added" if fingerprints[nearest] is None else "other-version" if versions else "changed"
    return FileDifference(path, kind, file.path, versions)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")


def _common_end(path: str, tree_path: str) -> int:
    """Return how many of the last parts of two paths are equal, where the names are."""
    folders = zip(reversed(path.split("/")[:-1]), reversed(tree_path.split("/")[:-1]), strict=False)
    return 1 + sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], folders))


@cache
def load_fingerprints(library: Library) -> Fingerprints:
    """Return the packaged table of a library. Raises TargetError if it is invalid."""
    text = targets_folder().joinpath("runtimes", "files", library.table).read_text(encoding="utf-8")
    return parse_fingerprints(library, text, where=f"{FOLDER}/{library.table}")


def parse_fingerprints(library: Library, text: str, *, where: str) -> Fingerprints:
    """Return the table of a CSV text: a row per file and a column per version, oldest first.

    A cell is a fingerprint, ABSENT, or empty if the file is as in the version before. Raises TargetError with file and
    line; also if a file has the contents of another one of its name, because they would identify neither.
    """
    header, *rows = [line.split(",") for line in text.splitlines()] or [[""]]
    versions = tuple(header[1:])
    if header[:1] != ["file"] or not all(versions) or not versions or len(set(versions)) < len(versions):
        raise TargetError("the header must be file and the names of versions", where=f"{where}:1")
    files: dict[str, tuple[str | None, ...]] = {}
    owners: dict[tuple[str, str], str] = {}
    for line, (path, *cells) in enumerate(rows, 2):
        place = f"{where}:{line}"
        if len(cells) != len(versions):
            raise TargetError(f"a row must have {len(versions) + 1} cells", where=place)
        if path in files:
            raise TargetError(f"{path} is listed twice", where=place)
        fingerprints: list[str | None] = []
        for cell in cells:
            if not cell and fingerprints:
                cell = fingerprints[-1] or ABSENT
            if not _CELL.fullmatch(cell):
                raise TargetError(f"{cell[:80]!r} is neither {DIGITS} hex digits nor {ABSENT}", where=place)
            fingerprints.append(None if cell == ABSENT else cell)
        for cell in filter(None, fingerprints):
            owner = owners.setdefault((_name(path), cell), path)
            if owner != path:
                raise TargetError(f"{path} has the contents of {owner}", where=place)
        files[path] = tuple(fingerprints)
    return Fingerprints(library, versions, MappingProxyType(files))


def format_fingerprints(known: Fingerprints) -> str:
    """Return the table as CSV, which parse_fingerprints reads. Files are sorted."""
    rows = [["file", *known.versions]]
    for path, fingerprints in sorted(known.files.items()):
        cells = [cell or ABSENT for cell in fingerprints]
        unchanged = map(eq, cells, ["", *cells])
        rows.append([path, *("" if same else cell for cell, same in zip(cells, unchanged, strict=True))])
    return "".join(f"{','.join(row)}\n" for row in rows)
