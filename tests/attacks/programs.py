"""Hostile PyTorch programs (.pt2): archives that PyTorch would unpickle, import, evaluate or unpack without end."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.attacks.base import Attack

# What a payload would create if anything ran it.
MARK = "edgetool-attack-ran"
SOUND = Path(__file__).parents[1] / "convert" / "foreign" / "images.pt2"
GRAPH = "models/model.json"
WEIGHTS = "data/weights/model_weights_config.json"
CONSTANTS = "data/constants/model_constants_config.json"


class _Payload:
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, str]]:
        return open, (MARK, "w")


PICKLED = pickle.dumps(_Payload())


def archive(
    *, replaced: Mapping[str, bytes] | None = None, added: Mapping[str, bytes] | None = None, deflate: bool = False
) -> bytes:
    """The sound program with some entries replaced and others added; names are without the top folder."""
    output = io.BytesIO()
    with zipfile.ZipFile(SOUND) as old, zipfile.ZipFile(output, "w") as new:
        for info in old.infolist():
            name = info.filename.partition("/")[2]
            new.writestr(_entry(info.filename), (replaced or {}).get(name, old.read(info)))
        for name, content in (added or {}).items():
            method = zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED
            new.writestr(_entry(name), content, method)
    return output.getvalue()


def _entry(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))


def text(name: str) -> Any:
    """A JSON entry of the sound program."""
    with zipfile.ZipFile(SOUND) as old:
        return json.loads(old.read(f"images/{name}"))


def changed(name: str, change: Callable[[Any], Any], message: str) -> Attack:
    """The sound program after a change of one JSON entry."""

    def make() -> bytes:
        value = text(name)
        change(value)
        return archive(replaced={name: json.dumps(value).encode()})

    return Attack(make, message)


def node(**fields: Any) -> Callable[[Any], None]:
    """A change of the first node."""
    return lambda program: program["graph_module"]["graph"]["nodes"][0].update(fields)


def first_weight(**fields: Any) -> Callable[[Any], None]:
    """A change of the first weight."""
    return lambda config: next(iter(config["config"].values())).update(fields)


def _deep(program: Any) -> None:
    program["metadata"] = nested = {}
    for _ in range(300):
        nested["a"] = nested = {}


def _training(program: Any) -> None:
    for one in program["graph_module"]["graph"]["nodes"]:
        for argument in one["inputs"]:
            if argument["name"] == "training":
                argument["arg"] = {"as_bool": True}


def _in_spec(kind: str) -> Callable[[Any], None]:
    spec = json.dumps([1, {"type": kind, "context": '{"default_factory_module": "antigravity"}', "children_spec": []}])
    return lambda program: program["graph_module"]["module_call_graph"][0]["signature"].update(in_spec=spec)


def _size(expression: str) -> Callable[[Any], None]:
    def change(program: Any) -> None:
        values = program["graph_module"]["graph"]["tensor_values"]
        next(iter(values.values()))["sizes"] = [{"as_expr": {"expr_str": expression, "hint": None}}]

    return change


def _bomb() -> bytes:
    """An entry that claims to unpack to 2 GiB."""
    content = bytearray(archive(added={"images/extra/zeros": bytes(2**10)}, deflate=True))
    struct.pack_into("<I", content, content.rindex(b"PK\x01\x02") + 24, 2**31 - 1)
    return bytes(content)


def _damaged() -> bytes:
    """A compressed graph that cannot be unpacked."""
    output = io.BytesIO()
    with zipfile.ZipFile(SOUND) as old, zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            new.writestr(info.filename, old.read(info))
        graph = next(info for info in new.infolist() if info.filename.endswith(GRAPH))
    content = bytearray(output.getvalue())
    start = graph.header_offset + 30 + len(graph.filename)
    content[start : start + 100] = b"\xff" * 100
    return bytes(content)


def _encrypted() -> bytes:
    """Entries that need a password."""
    content = bytearray(archive())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = content.find(signature)
        while place >= 0:
            content[place + offset] |= 1
            place = content.find(signature, place + 4)
    return bytes(content)


ATTACKS: dict[str, Attack] = {
    "program-pickled-module": Attack(lambda: archive(added={"images/data.pkl": PICKLED}), "is a pickled Python object"),
    "program-torchscript": Attack(
        lambda: archive(added={"images/code/__torch__.py": b"def forward(self): pass"}), "is a pickled Python object"
    ),
    "program-pickled-weights": Attack(
        lambda: archive(added={"images/data/weights/model.pt": PICKLED, "images/data/x": b""}),
        "is not part of a program",
    ),
    "program-pickled-weight": changed(WEIGHTS, first_weight(use_pickle=True), "weight '.*' is a pickled|is a pickled"),
    "program-custom-object": changed(
        CONSTANTS,
        lambda config: config["config"].update(c={"path_name": "custom_obj_0", "use_pickle": True}),
        "is a pickled Python object",
    ),
    "program-opaque-object": changed(
        CONSTANTS,
        lambda config: config["config"].update(c={"path_name": "opaque_obj_0", "use_pickle": False}),
        "is a pickled Python object",
    ),
    "program-compiled-code": Attack(
        lambda: archive(added={"images/data/aotinductor/model/a.so": b"\x7fELF"}), "is not part of a program"
    ),
    "program-calls-a-function": changed(
        GRAPH, node(target="torch.serialization.os.system"), "which is not an operator of PyTorch"
    ),
    "program-calls-hub": changed(GRAPH, node(target="torch.hub.load"), "which is not an operator of PyTorch"),
    "program-reads-a-file": changed(
        GRAPH, node(target="torch.ops.aten.from_file.default"), "is the custom operator aten.from_file"
    ),
    "program-custom-operator": changed(
        GRAPH, node(target="torch.ops.mylib.evil.default"), "is the custom operator mylib.evil.default"
    ),
    "program-loop": changed(GRAPH, node(target="torch.ops.higher_order.while_loop"), "control flow"),
    "program-in-training": changed(GRAPH, _training, "in training mode"),
    "program-imports-a-module": changed(GRAPH, _in_spec("collections.defaultdict"), "of type collections.defaultdict"),
    "program-evaluates-a-size": changed(
        GRAPH, _size("__import__('os').system('true')"), "not an arithmetic expression"
    ),
    "program-enormous-power": changed(GRAPH, _size("9**9**9**9"), "not an arithmetic expression"),
    "program-size-of-many-digits": changed(GRAPH, _size("1" * 1500 + "!"), "not an arithmetic expression"),
    "program-nested": changed(GRAPH, _deep, "nested more than"),
    "program-not-json": Attack(lambda: archive(replaced={GRAPH: b"[" * 100_000}), "is not valid JSON"),
    "program-enormous-weight": changed(
        WEIGHTS,
        lambda config: next(iter(config["config"].values()))["tensor_meta"].update(sizes=[{"as_int": 10**9}]),
        "declares 4000000000 bytes",
    ),
    "program-weight-beyond-its-file": changed(
        WEIGHTS,
        lambda config: next(iter(config["config"].values()))["tensor_meta"].update(sizes=[{"as_int": 10**7}]),
        "but the file contains only",
    ),
    "program-weight-elsewhere": changed(WEIGHTS, first_weight(path_name="../../../../etc/passwd"), "there is no entry"),
    "program-without-weights": changed(WEIGHTS, first_weight(path_name="weight_99"), "there is no entry"),
    "program-entry-outside": Attack(lambda: archive(added={"../outside": b"x"}), "points outside the archive"),
    "program-bomb": Attack(_bomb, "declares 2147483647 bytes but occupies only"),
    "program-twice": Attack(lambda: archive(added={"images/models/model.json": b"{}"}), "occurs twice"),
    "program-cut": Attack(lambda: archive()[:2000], "is not a readable archive"),
    "program-damaged": Attack(_damaged, "is not a readable archive"),
    "program-encrypted": Attack(_encrypted, "is encrypted"),
    "program-empty": Attack(lambda: b"", "the file is empty"),
    "program-git-lfs": Attack(lambda: b"version https://git-lfs.github.com/spec/v1\n", "fetch it with 'git lfs pull'"),
}
