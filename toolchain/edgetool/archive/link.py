"""What a linker keeps of libraries: the sections that are reachable from symbols, and the flash that they take.

As with --gc-sections of GNU ld: a library's member is loaded if a loaded file needs a symbol that the member is the
first to define, weak or not; of the loaded definitions, the first that is not weak applies. Of what is loaded, the
tables of constructors are kept, and the sections that hold the given symbols; then everything that a relocation of a
kept section names, and the unwinding of kept functions. Of equal strings and constants in mergeable sections, one is
kept, a string that ends another takes no space, and a single entry says of all functions without unwinding that they
have none. A weak reference loads nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from edgetool.archive.elf import SHT_ARM_EXIDX, SHT_INIT_ARRAY, SHT_PREINIT_ARRAY, ObjectFile, Section

CANNOT_UNWIND = b"\1\0\0\0"  # EXIDX_CANTUNWIND: Exception Handling ABI for the Arm Architecture, section 6
CONSTRUCTORS = (SHT_INIT_ARRAY, SHT_PREINIT_ARRAY)
Place = tuple[int, int]  # a file and its section


@dataclass(frozen=True, slots=True)
class Part:
    """What takes flash on its own: a section, or a string or constant of which equal ones are kept once.

    key: Equal for equal strings and constants.
    text: The bytes of a string, with its end; otherwise empty.
    kind: The flags, alignment and size of an element of the section of a string, which can share its end with others
        of the same kind.
    """

    key: Hashable
    size_bytes: int
    text: bytes = b""
    kind: tuple[int, int, int] = (0, 1, 1)


@dataclass(frozen=True, slots=True)
class Linked:
    """The kept sections of files, in their order, and the needed symbols that no file defines."""

    sections: tuple[tuple[ObjectFile, Section], ...]
    undefined: frozenset[str]

    @property
    def flash_bytes(self) -> int:
        """The bytes in flash: code, constants and the initial values of variables, each with its alignment."""
        parts = parts_of(self.sections)
        return sum(part.size_bytes for part in parts) - sum(part.size_bytes for part in suffixes(parts))


class Linker:
    """Files in the order in which a linker reads them."""

    def __init__(self, files: Sequence[ObjectFile]) -> None:
        self.files = files
        self.definitions: dict[str, int] = {}
        for number, file in enumerate(files):
            for name in file.symbols.defined:
                self.definitions.setdefault(name, number)

    def first_with(self, prefix: str) -> str | None:
        """Return the first defined symbol, in alphabetical order, that begins with these characters."""
        return min((name for name in self.definitions if name.startswith(prefix)), default=None)

    def link(self, symbols: Iterable[str]) -> Linked:
        """Return what is kept for these symbols, those that no file defines among the undefined ones."""
        symbols = list(symbols)
        loaded = self._loaded(symbols)
        definitions = self._definitions(loaded)
        described = self._described(loaded)
        undefined = {name for name in symbols if name not in definitions}
        roots = [(definitions[name], name) for name in symbols if name in definitions]
        stack = [place for number, name in roots for place in self._defined_at(number, name)]
        stack += [
            (number, section.index)
            for number in loaded
            for section in self.files[number].sections.values()
            if section.kind in CONSTRUCTORS
        ]
        kept = set(stack)
        while stack:
            place = stack.pop()
            following = [*self._next(place, definitions, undefined), *described.get(place, ())]
            stack += [each for each in dict.fromkeys(following) if each not in kept]
            kept.update(following)
        files = self.files
        sections = tuple((files[number], files[number].sections[index]) for number, index in sorted(kept))
        return Linked(sections, frozenset(undefined))

    def _definitions(self, loaded: Iterable[int]) -> dict[str, int]:
        """Return the loaded file that defines each symbol: the first one, or the first whose definition is not weak."""
        definitions: dict[str, int] = {}
        strong: dict[str, int] = {}
        for number in loaded:
            symbols = self.files[number].symbols
            for name in symbols.defined:
                definitions.setdefault(name, number)
                if name not in symbols.weak:
                    strong.setdefault(name, number)
        return definitions | strong

    def _loaded(self, symbols: Iterable[str]) -> list[int]:
        loaded: set[int] = set()
        pending = set(symbols)
        while pending:
            numbers = {self.definitions[name] for name in pending if name in self.definitions} - loaded
            loaded |= numbers
            pending = {name for number in numbers for name in self.files[number].symbols.needed}
        return sorted(loaded)

    def _described(self, loaded: Iterable[int]) -> dict[Place, list[Place]]:
        """Return the sections that describe another one, such as the unwinding of a function, by that one."""
        described = defaultdict(list)
        for number in loaded:
            for section in self.files[number].sections.values():
                if section.linked is not None:
                    described[number, section.linked].append((number, section.index))
        return described

    def _defined_at(self, number: int, name: str) -> Iterator[Place]:
        file = self.files[number]
        section = int(file.symbols.sections[file.symbols.defined[name]])
        if section in file.sections:
            yield number, section

    def _next(self, place: Place, definitions: Mapping[str, int], undefined: set[str]) -> Iterator[Place]:
        """Yield what the relocations of a kept section keep."""
        number, index = place
        file = self.files[number]
        for symbol in file.references(index).tolist():
            name = file.symbols.names[symbol]
            if not name:
                section = int(file.symbols.sections[symbol])
                if section in file.sections:
                    yield number, section
            elif name in definitions:
                yield from self._defined_at(definitions[name], name)
            elif name not in file.symbols.weak:
                undefined.add(name)


def parts_of(sections: Iterable[tuple[ObjectFile, Section]]) -> list[Part]:
    """Return the parts in flash of kept sections, equal strings and constants once."""
    return list({part.key: part for file, section in sections for part in _parts(file, section)}.values())


def _parts(file: ObjectFile, section: Section) -> Iterator[Part]:
    if not section.is_in_flash:
        return
    if section.kind == SHT_ARM_EXIDX and file.contents(section)[4:] == CANNOT_UNWIND:
        yield Part(CANNOT_UNWIND, section.size_bytes)
    elif section.are_strings or section.are_constants:
        kind = (section.flags, section.alignment, section.entry_bytes)
        for item in _items(file, section):
            text = item if section.are_strings else b""
            yield Part((kind, item), _aligned(len(item), section.alignment), text, kind)
    else:
        yield Part((file.name, section.index), _aligned(section.size_bytes, section.alignment))


def ends_with(longer: Part, part: Part) -> bool:
    """Return whether a string ends with another so that the linker gives the other no space of its own."""
    more = len(longer.text) - len(part.text)
    return longer.kind == part.kind and more % part.kind[1] == 0 and longer.text.endswith(part.text)


def suffixes(parts: Iterable[Part]) -> Iterator[Part]:
    """Yield the strings that take no space because another one ends with them."""
    strings = sorted((part for part in parts if part.text), key=lambda part: (part.kind, part.text[::-1]))
    return (part for part, longer in pairwise(strings) if ends_with(longer, part))


def _items(file: ObjectFile, section: Section) -> list[bytes]:
    contents = file.contents(section)
    if section.are_constants:
        step = section.entry_bytes
        return [contents[at : at + step] for at in range(0, len(contents), step)]
    return [text + b"\0" for text in contents.rstrip(b"\0").split(b"\0")]


def _aligned(size_bytes: int, alignment: int) -> int:
    return -(-size_bytes // alignment) * alignment
