"""Models whose generated C has every part that the templates of native code have."""

from __future__ import annotations

from dataclasses import replace

from edgetool.codegen.native.files import constant_bytes, native_files, run_source
from edgetool.codegen.native.loads import block_bytes, with_loads, with_transfers
from edgetool.codegen.native.lower import lower
from edgetool.codegen.native.plan import memory_in_parts, native_problem, place_buffers
from edgetool.codegen.spec import HeaderSpec, IoSpec, PlacedSpec
from edgetool.memory.problem import Memory, SeveralLayout, SeveralProblem
from edgetool.memory.several import solve_several
from edgetool.model.types import DType, Model
from tests.codegen.header_specs import KWS
from tests.memory.account_net import Net


def layer() -> Model:
    """Return a dense layer of ten weights, with a fused RELU."""
    net = Net(seed=1)
    x = net.arena(1, 5, zero_point=3)
    y = net.op(
        "FULLY_CONNECTED", [x, net.filter(2, 5, like=x, axis=None)], 1, 2, scale=1 / 8, fused_activation_function="RELU"
    )
    return net.model([x], [y])


def delays() -> Model:
    """Return two delays by one invocation: the first output of one is its zero point, of the other 1, 2, 3.

    A constant and an integer without a scale are outputs, too.
    """
    net = Net(seed=2)
    x = net.arena(3, zero_point=-7)
    count = net.arena(2, dtype=DType.INT32)
    handles = [net.arena(dtype=DType.RESOURCE) for _ in range(2)]
    for number, handle in enumerate(handles):
        net.give("VAR_HANDLE", [], [handle], container="", shared_name=f"total {number}")
    net.give("CALL_ONCE", [], [], init_subgraph_index=1)
    outputs = [net.arena(3, zero_point=-7) for _ in handles]
    for handle, output in zip(handles, outputs, strict=True):
        net.give("READ_VARIABLE", [handle], [output])
        net.give("ASSIGN_VARIABLE", [handle, x], [])
    fixed = net.constant([5, -6], dtype=DType.INT8, scale=1 / 2)
    net.end_graph([x, count], [*outputs, count, fixed])
    handle = net.arena(dtype=DType.RESOURCE)
    net.give("VAR_HANDLE", [], [handle], container="", shared_name="total 1")
    net.give("ASSIGN_VARIABLE", [handle, net.constant([1, 2, 3], dtype=DType.INT8)], [])
    net.end_graph([], [])
    return net.whole()


def nothing() -> Model:
    """Return a model without tensors and operators."""
    net = Net()
    net.end_graph([], [])
    return net.whole()


MODELS = {"layer": layer, "delays": delays, "nothing": nothing}


def spec_of(name: str, model: Model, arena_bytes: int = 0) -> HeaderSpec:
    """Return the contents of a model's header for the board of header_specs.KWS."""
    return replace(
        KWS,
        name=name,
        arena_bytes=arena_bytes,
        tensors=(),
        inputs=_io(model, model.main.inputs),
        outputs=_io(model, model.main.outputs),
    )


def _io(model: Model, indices: tuple[int, ...]) -> tuple[IoSpec, ...]:
    tensors = [model.main.tensors[index] for index in indices]
    return tuple(
        IoSpec(
            tensor.index,
            tensor.name,
            tensor.shape,
            tensor.dtype,
            tensor.quantization.scales[0] if tensor.quantization and tensor.quantization.scales else None,
            tensor.quantization.zero_points[0] if tensor.quantization and tensor.quantization.scales else None,
        )
        for tensor in tensors
    )


def texts(name: str, *, spec: HeaderSpec | None = None, profile: bool = False) -> dict[str, str]:
    """Return all files of a model by name, with main.c, CMakeLists.txt and run.c, on request with NAME_profile.c."""
    model = MODELS[name]()
    program = lower(model)
    memory = place_buffers(program)
    spec = spec or spec_of(name, model, memory.arena_bytes)
    files = native_files(spec, program, memory, main=True, cmake=True, profile=profile, clock_hz=480_000_000)
    files["run.c"] = run_source(spec, program)
    return {file: data.decode("ascii") for file, data in files.items()}


def placed_texts(name: str, line_bytes: int | None = None) -> dict[str, str]:
    """Return the texts of a model's C files with its buffers in turn in two memories, and its constants in another.

    line_bytes: the lines of a data cache, for code whose constants are copied with DMA.
    """
    model = MODELS[name]()
    program = lower(model)
    if line_bytes is not None:
        loaded = [position for position, step in enumerate(program.steps) if block_bytes(step)]
        program = with_transfers(with_loads(program, loaded), line_bytes)
    problem = native_problem(program)
    names, count = ("fast", "slow"), len(problem.buffers)
    costs = tuple((None, 0) if index % 2 else (0, None) for index in range(count))
    several = SeveralProblem(problem, tuple(Memory(memory, 1 << 20) for memory in names), costs)
    choice = solve_several(several)
    assert isinstance(choice, SeveralLayout)
    memory = memory_in_parts(program, problem, choice, names)
    places = [PlacedSpec("arena", part.memory, 1 << 20, part.size_bytes) for part in memory.parts]
    places.append(PlacedSpec("constants", "qspi", 1 << 24, constant_bytes(program), 0x9000_0000))
    spec = replace(spec_of(name, model, memory.arena_bytes), places=tuple(places))
    files = {**native_files(spec, program, memory, main=True), "run.c": run_source(spec, program)}
    return {file: data.decode("ascii") for file, data in files.items()}
