"""Small files that stand for enormous ones."""

from __future__ import annotations

from struct import pack

from tests.attacks.base import Attack, changed
from tests.attacks.places import INPUT
from tests.model.attacks import alias_bomb


def _with_tensors(vtables: bytes, tensors: list[bytes], tail: bytes) -> bytes:
    """A file of one subgraph with these tensors, each a table of as many bytes as the others; `tail` lies behind them.

    vtables: those of the tensors, from byte 48 on.
    """
    head = pack("<I4s", 48 + len(vtables), b"TFL3")
    head += pack("<HHHHHHH", 14, 16, 4, 0, 8, 0, 12) + pack("<HHH", 6, 8, 4) + pack("<HH", 4, 4)  # 8, 22, 28
    head += bytes(48 - len(head))
    root = len(head) + len(vtables)
    graphs, graph = root + 16, root + 24
    buffers, buffer, vector = graph + 8, graph + 16, graph + 20
    first = vector + 4 + 4 * len(tensors)
    body = pack("<iIII", root - 8, 3, graphs - root - 8, buffers - root - 12)
    body += pack("<II", 1, graph - graphs - 4)
    body += pack("<iI", graph - 22, vector - graph - 4)
    body += pack("<IIi", 1, buffer - buffers - 4, buffer - 28)
    body += pack("<I", len(tensors))
    size = len(tensors[0])
    body += b"".join(pack("<I", first + size * i - (vector + 4 + 4 * i)) for i in range(len(tensors)))
    return head + vtables + body + b"".join(tensors) + tail


def _first_tensor(count: int, vtables: int) -> int:
    """Where _with_tensors puts the first of so many tensors behind so many bytes of vtables."""
    return 48 + vtables + 48 + 4 * count


def vector_bomb(tensors: int, dimensions: int) -> bytes:
    """Tensors that all have the same enormous shape."""
    vtable = pack("<HHHH", 6, 8, 4, 0)
    first = _first_tensor(tensors, len(vtable))
    shape = first + 8 * tensors
    tables = [pack("<iI", first + 8 * i - 48, shape - (first + 8 * i + 4)) for i in range(tensors)]
    return _with_tensors(vtable, tables, pack(f"<{dimensions + 1}I", dimensions, *[1] * dimensions))


def vtable_bomb(tensors: int, stride: int = 32) -> bytes:
    """Tensors of 4 bytes with vtables that lie in one another, each as long as all of them together."""
    reach = tensors * stride
    vtables = (pack("<HH", reach, 4) + bytes(stride - 4)) * tensors + bytes(reach)
    first = _first_tensor(tensors, len(vtables))
    return _with_tensors(vtables, [pack("<i", first + 4 * i - (48 + stride * i)) for i in range(tensors)], b"")


ATTACKS = {
    # The 96 KB that stand for 144 million tables.
    "alias-bomb": Attack(lambda: alias_bomb(12000, 12000), "overlap", large=True),
    "alias-bomb-of-subgraphs": Attack(lambda: alias_bomb(24000, 1), "overlap", large=True),
    "alias-bomb-of-tensors": Attack(lambda: alias_bomb(1, 24000), "overlap", large=True),
    "alias-bomb-of-8-kb": Attack(lambda: alias_bomb(1000, 1000), "its tables overlap"),
    "alias-bomb-of-1-mb": Attack(lambda: alias_bomb(16, 260_000), "overlap", large=True),
    "alias-bomb-of-4-mb": Attack(lambda: alias_bomb(1, 1_000_000), "more than 1000000 tables", large=True),
    "alias-bomb-of-vectors": Attack(lambda: vector_bomb(800, 6000), "overlap"),
    "alias-bomb-of-vtables": Attack(lambda: vtable_bomb(600), "overlap"),
    "dimensions-by-the-thousand": changed(INPUT, "shape", (2,) * 5000, "more than"),
}
