"""Generated C on this machine: many models in one executable, with sanitizers, and TFLM's outputs to compare with.

Kernels are compiled once and kept in build/native, by the hash of their text and flags. The models of a group are one
translation unit. Each model runs on all its samples twice, in a block of exactly its arena's size with different
contents. TFLM runs all models of a call in one child process, which is forked from a server that has imported it.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import numpy as np

from edgetool.codegen.native.emit import kernel_files
from edgetool.codegen.native.files import native_files, row_files
from edgetool.codegen.native.incremental import incremental_program
from edgetool.codegen.native.lower import NativeProgram, lower
from edgetool.codegen.native.plan import NativeMemory, place_buffers
from edgetool.codegen.native.program import RowInput
from edgetool.codegen.native.row_plan import smallest_rows
from edgetool.codegen.native.rows import row_problem
from edgetool.codegen.quantizers import C_TYPES
from edgetool.codegen.spec import HeaderSpec, HeaderTarget, IoSpec, PlacedSpec
from edgetool.errors import UnsupportedModelError
from edgetool.execute.quantize import numpy_dtype, random_inputs
from edgetool.execute.worker import Tflm
from edgetool.memory.problem import ArenaPart
from edgetool.memory.streaming.checker import require_valid_rows
from edgetool.memory.streaming.problem import RowPlan, RowProblem
from edgetool.model.reader import read_model
from edgetool.model.types import DType, Model, Tensor
from edgetool.model.writer import write_model
from edgetool.operators.call import zero_point
from edgetool.operators.legality import unsupported_operators
from edgetool.passes.time_axis import time_as_rows
from edgetool.pipeline.targets import NATIVE
from edgetool.target.load import load_runtime
from tests.codegen.native import stored_rows
from tests.codegen.native.stored_rows import StoredRows

ROOT = Path(__file__).resolve().parents[3]
OBJECTS = ROOT / "build" / "native"
BANDS = Path(__file__).with_name("bands.c")
SANITIZERS = "-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer".split()
ENVIRONMENT = {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
FILLS = (0, 0xA5)
GROUP = 40
SECONDS = 900
# Groups that are compiled at once need the same kernels: each is compiled by one of them.
COMPILING = Lock()
# Forks the processes in which TFLM runs, and has imported what they need.
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload([__name__, "tflite_micro"])
Array = np.ndarray[Any, np.dtype[Any]]
# The generated code as it is; or with bands of random sizes from scattered rows; or with a look at each row of a plan.
Driver = Literal["run", "bands", "rows"]


@dataclass(frozen=True, slots=True)
class Build:
    """How a group is compiled. level: the optimization of the kernels."""

    driver: Driver = "run"
    sanitize: bool = True
    level: str = "-O1"
    flags: tuple[str, ...] = ()
    compiler: str = "gcc"

    @property
    def all_flags(self) -> list[str]:
        """The flags of kernels and models."""
        return ["-std=c99", "-g1", *(SANITIZERS if self.sanitize else ()), *self.flags]


@dataclass(frozen=True, slots=True)
class Trial:
    """A model, its native program in a layout, and its samples.

    rows: the plan that replaces the layout, if rows are planned. fed, taken: the positions of inputs that are fed by
    rows, and of outputs that are taken by rows. stored: the rows that the driver "rows" compares.
    """

    blob: bytes
    program: NativeProgram
    memory: NativeMemory
    inputs: tuple[Array, ...]
    rows: tuple[RowProblem, RowPlan] | None = None
    fed: tuple[int, ...] = ()
    taken: tuple[int, ...] = ()
    stored: StoredRows | None = None

    @property
    def runtime(self) -> str:
        """The file that calls the kernels."""
        several = "_several" if self.parts else ""
        return f"edgetool_run{several}" if self.rows is None else f"edgetool_rows{several}"

    @property
    def parts(self) -> tuple[ArenaPart, ...]:
        """Those of an arena in several memories, each of which is an array of its own."""
        return self.memory.parts if self.rows is None else self.rows[1].parts

    @property
    def arena_bytes(self) -> int:
        """The size of the arena."""
        return self.memory.arena_bytes if self.rows is None else self.rows[1].memory_bytes

    @property
    def count(self) -> int:
        """The number of samples: 1 for a model without inputs."""
        return len(self.inputs[0]) if self.inputs else 1

    @property
    def samples(self) -> bytes:
        """The bytes of all inputs, sample by sample."""
        return b"".join(np.ascontiguousarray(array[i]).tobytes() for i in range(self.count) for array in self.inputs)

    @property
    def fed_samples(self) -> bytes:
        """The bytes that the native code gets: of a stream, the rows that fill the first window, then those of hops."""
        stream = self.program.stream
        if stream is None:
            return self.samples
        (windows,) = self.inputs
        rows = windows.reshape(len(windows), stream.window_rows, -1)
        before = np.zeros((stream.window_hops * stream.hop_rows - stream.window_rows, rows.shape[2]), rows.dtype)
        return b"".join(part.tobytes() for part in (before, rows[0], rows[1:, -stream.hop_rows :]))

    @property
    def output_bytes(self) -> int:
        """The size of all outputs of one sample."""
        return sum(self.program.graph.tensors[index].size_bytes for index in self.program.graph.outputs)


def prepare(
    model: Model | bytes,
    samples: int = 8,
    seed: int = 0,
    inputs: Sequence[Array] | None = None,
    *,
    row_wise: bool = False,
    vector: bool = False,
    dsp: bool = True,
    lean: bool = False,
    plain: bool = False,
    place: Callable[[NativeProgram], NativeMemory] = place_buffers,
) -> Trial:
    """Lower and place a model, and draw its samples: random ones, and those of extremes().

    Raises:
        UnsupportedModelError: TFLM's reference kernels or the native runtime do not support the model.
    """
    blob = write_model(model) if isinstance(model, Model) else model
    read = read_model(blob)
    program = lowered(read, row_wise=row_wise, vector=vector, dsp=dsp, lean=lean, plain=plain)
    if inputs is None:
        drawn = random_inputs(read, samples, seed)
        inputs = [
            np.concatenate([array, extremes(read.main.tensors[index], array)])
            for array, index in zip(drawn, read.main.inputs, strict=True)
        ]
    return Trial(blob, program, place(program), tuple(inputs))


def with_rows(
    trial: Trial, plan: Callable[[RowProblem], RowPlan], fed: Collection[int] = (), taken: Collection[int] = ()
) -> Trial:
    """Return a trial of a row-wise program with a plan of its rows.

    fed, taken: the inputs to feed and the outputs to take by rows, by position.
    """
    graph = trial.program.graph
    inputs = [trial.program.places[graph.inputs[position]].root for position in fed]
    problem = row_problem(trial.program, inputs, taken=[graph.outputs[position] for position in taken])
    made = plan(problem)
    require_valid_rows(problem, made)
    return replace(trial, rows=(problem, made), fed=tuple(fed), taken=tuple(taken))


def with_stream(
    model: Model | bytes, hop: int, windows: int = 8, seed: int = 0, *, lean: bool = False, passes: int = 20
) -> Trial:
    """Return a trial of a step of a stream, whose samples are windows that are a hop apart.

    The stream consists of random rows, with some of the lowest and highest codes.
    """
    blob = write_model(model) if isinstance(model, Model) else model
    read = read_model(blob)
    lowered(read)  # refused before the rewrite
    program = incremental_program(lower(time_as_rows(read), row_wise=True, lean=lean), hop)
    assert program.stream is not None
    rows = smallest_rows(program, program.graph.inputs, passes=passes)
    (source,) = (read.main.tensors[index] for index in read.main.inputs)
    generator = np.random.default_rng(seed)
    kind = np.iinfo(numpy_dtype(source.dtype))
    count = program.stream.window_rows
    shape = (count + (windows - 1) * hop, source.element_count // count)
    frames = generator.integers(kind.min, kind.max + 1, shape)
    frames = np.where(
        generator.random(shape) < 0.1, kind.min, np.where(generator.random(shape) < 0.1, kind.max, frames)
    )
    inputs = np.stack([frames[i * hop : i * hop + count] for i in range(windows)]).astype(numpy_dtype(source.dtype))
    memory = place_buffers(program)
    trial = Trial(blob, program, memory, (inputs.reshape(windows, *source.shape),), (rows.problem, rows.plan), (0,))
    require_valid_rows(rows.problem, rows.plan)
    return trial


def lowered(
    model: Model,
    *,
    row_wise: bool = False,
    vector: bool = False,
    dsp: bool = True,
    lean: bool = False,
    plain: bool = False,
) -> NativeProgram:
    """Return the native program of a model that TFLM's reference kernels accept.

    Raises:
        UnsupportedModelError: TFLM's reference kernels or the native runtime do not support the model.
    """
    for item in unsupported_operators(model, load_runtime(NATIVE), kernels="reference"):
        raise UnsupportedModelError(f"TFLM cannot run {item.operator.label}: {item.why}")
    return lower(model, row_wise=row_wise, vector=vector, dsp=dsp, lean=lean, plain=plain)


def extremes(tensor: Tensor, drawn: Array) -> Array:
    """Return five samples: all minima, all maxima, both in turn from either one, and the zero point.

    Indices, which are integers without scales, and booleans are 0 or 1; floats are -4 to 4.
    """
    low, high, zero = 0.0, 1.0, 0.0
    if drawn.dtype.kind == "f":
        low, high = -4.0, 4.0
    elif tensor.dtype in (DType.INT8, DType.UINT8, DType.INT16):
        limits = np.iinfo(drawn.dtype)
        low, high = limits.min, limits.max
        zero = zero_point(tensor) if tensor.quantization and tensor.quantization.zero_points else 0
    odd = (np.arange(tensor.element_count) % 2).reshape(tensor.shape)
    rows = [np.full(tensor.shape, value) for value in (low, high, zero)]
    rows[2:2] = [np.where(odd, low, high), np.where(odd, high, low)]
    return np.stack(rows).astype(drawn.dtype)


def differences(trials: Mapping[str, Trial], build: Build | None = None) -> list[str]:
    """Return a line for each model whose outputs differ from those of TFLM."""
    results = compare_all(list(trials.values()), build)
    return [f"{name}: {result}" for name, result in zip(trials, results, strict=True) if result is not None]


def compare_all(trials: Sequence[Trial], build: Build | None = None, group: int = GROUP) -> list[str | None]:
    """Return how the outputs of each model differ from those of TFLM; None if they are equal."""
    build = build or Build()
    of_rows = build.driver == "rows"
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(3) as pool:
        folder = Path(name)
        asked = [replace(trial, blob=stored_of(trial).observed) for trial in trials] if of_rows else trials
        references = pool.submit(run_references, asked, folder)
        starts = range(0, len(trials), group)
        results = list(pool.map(lambda start: run_group(trials[start : start + group], folder, start, build), starts))
        actual = [item for result in results for item in result]
        compare = _row_difference if of_rows else _difference
        return [
            compare(trial, expected, native)
            for trial, expected, native in zip(trials, references.result(), actual, strict=True)
        ]


def stored_of(trial: Trial) -> StoredRows:
    """Return the rows of a trial that the driver "rows" compares: by default, those of its plan."""
    assert trial.rows is not None
    return trial.stored or StoredRows(trial.blob, trial.program, *trial.rows)


def _row_difference(trial: Trial, expected: bytes | str, native: bytes | str) -> str | None:
    """Return how the rows and the outputs of a plan of rows differ from those of TFLM."""
    if isinstance(native, str) or isinstance(expected, str):
        return _difference(trial, expected, native)
    stored = stored_of(trial)
    if len(native) != trial.count * (stored.row_bytes + trial.output_bytes):
        return f"the native code wrote {len(native)} bytes"
    tensors = np.frombuffer(expected, np.uint8).reshape(trial.count, -1)
    written = np.frombuffer(native, np.uint8).reshape(trial.count, -1)
    outputs, values = stored.outputs_of(tensors)
    inputs = {
        index: np.frombuffer(array.tobytes(), np.uint8).reshape(trial.count, -1)
        for index, array in zip(trial.program.graph.inputs, trial.inputs, strict=True)
    }
    different = stored.difference(inputs, values, written[:, : stored.row_bytes])
    return different or _difference(trial, outputs.tobytes(), written[:, stored.row_bytes :].tobytes())


def _difference(trial: Trial, expected: bytes | str, native: bytes | str) -> str | None:
    """Return how two results differ; a str is the reason why one has none."""
    if isinstance(native, str):
        return f"the native code fails: {native}"
    if isinstance(expected, str):
        return f"TFLM fails: {expected}"
    if native == expected:
        return None
    if len(native) != len(expected):
        return f"the native code wrote {len(native)} bytes, TFLM {len(expected)}"
    shape = (trial.count, trial.output_bytes)
    first, second = (np.frombuffer(data, np.uint8).reshape(shape) for data in (expected, native))
    start = 0
    for number, index in enumerate(trial.program.graph.outputs):
        tensor = trial.program.graph.tensors[index]
        columns = slice(start, start + tensor.size_bytes)
        start += tensor.size_bytes
        if not np.array_equal(first[:, columns], second[:, columns]):
            kind = numpy_dtype(tensor.dtype)
            a, b = (np.ascontiguousarray(array[:, columns]).view(kind) for array in (first, second))
            wrong = np.argwhere(np.not_equal(a, b) & ~((a != a) & (b != b)))
            if not len(wrong):
                return f"output {number} differs in the bits of NaN"
            sample, element = wrong[0]
            return (
                f"output {number} differs in {len(wrong)} of {a.size} elements, first in sample {sample}, "
                f"element {element}: {b[sample, element]} instead of {a[sample, element]}"
            )
    return "the outputs differ"


def run_references(trials: Sequence[Trial], folder: Path) -> list[bytes | str]:
    """Return TFLM's outputs of each model, or why there are none; equal models with equal samples run once."""
    numbers: dict[bytes, int] = {}
    keys = [hashlib.sha256(trial.blob + b"|" + trial.samples).digest() for trial in trials]
    for key, trial in zip(keys, trials, strict=True):
        if key not in numbers:
            number = numbers[key] = len(numbers)
            (folder / f"{number}.tflite").write_bytes(trial.blob)
            (folder / f"{number}.samples").write_bytes(trial.samples)
    first, count = 0, len(numbers)
    crashed: dict[int, str] = {}
    while first < count:
        child = SERVER.Process(target=_serve, args=(folder, first, count))
        child.start()
        child.join(SECONDS * 4)
        if child.exitcode is None:
            child.kill()
            raise TimeoutError(f"TFLM runs the models from {first} on for more than {SECONDS * 4} s")
        finished = max((int(path.stem) for path in folder.glob("*.ref")), default=-1)
        if child.exitcode == 0:
            break
        first = finished + 1
        printed = (folder / "stderr").read_text(errors="replace")
        crashed[first] = f"exit status {child.exitcode}: {printed[-300:]}"
        (folder / f"{first}.ref").write_bytes(b"!")
        first += 1
    return [_read_reference(folder / f"{numbers[key]}.ref", crashed.get(numbers[key])) for key in keys]


def _read_reference(path: Path, crash: str | None) -> bytes | str:
    if crash is not None:
        return crash
    data = path.read_bytes()
    return data[1:] if data[:1] == b"=" else data[1:].decode(errors="replace")


def _serve(folder: Path, first: int, count: int) -> None:
    """Write a file for each model: "=" and its outputs, or "!" and TFLM's error. What TFLM prints goes to a file."""
    with (folder / "stderr").open("wb") as printed:
        os.dup2(printed.fileno(), 2)
    for number in range(first, count):
        try:
            result = b"=" + _invoke_all(folder / f"{number}.tflite", folder / f"{number}.samples")
        except (RuntimeError, ValueError) as error:
            result = b"!" + str(error).encode()
        (folder / "partial").write_bytes(result)
        (folder / "partial").rename(folder / f"{number}.ref")


def _invoke_all(model: Path, samples: Path) -> bytes:
    runner = Tflm(model.read_bytes(), arena_bytes=None)
    sizes = [int(np.prod(shape)) * dtype.itemsize for shape, dtype in runner.inputs]
    data, at, results = samples.read_bytes(), 0, []
    for _ in range(len(data) // sum(sizes) if sum(sizes) else 1):
        arrays = []
        for (shape, dtype), size in zip(runner.inputs, sizes, strict=True):
            arrays.append(np.frombuffer(data[at : at + size], dtype).reshape(shape))
            at += size
        results += [output.tobytes() for output in runner.invoke(tuple(arrays))]
    return b"".join(results)


def run_group(trials: Sequence[Trial], folder: Path, start: int, build: Build) -> list[bytes | str]:
    """Compile models as one program and run it; return the outputs of each model, or why there are none."""
    place = folder / f"group_{start}"
    place.mkdir()
    try:
        program = compile_group(trials, place, build)
    except RuntimeError as error:
        return [str(error)] * len(trials)
    for number, trial in enumerate(trials):
        (place / f"{number}.in").write_bytes(trial.fed_samples)
        if build.driver == "rows":
            (place / f"{number}.rows").write_bytes(stored_of(trial).file())
    results: list[bytes | str] = []
    while len(results) < len(trials):
        first = len(results)
        done = subprocess.run(
            [str(program), str(first)],
            cwd=place,
            env={**os.environ, **ENVIRONMENT},
            capture_output=True,
            check=False,
            timeout=SECONDS,
        )
        for number in range(first, len(trials)):
            outputs = [place / f"{number}.{fill}" for fill in FILLS]
            if not all(path.exists() for path in outputs):
                break
            data = [path.read_bytes() for path in outputs]
            same = data[0] == data[1]
            results.append(data[0] if same else "the outputs depend on what the arena contained before")
        if len(results) < len(trials):
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            results.append(f"exit status {done.returncode}: {' | '.join(lines[:12])}"[:1500])
    return results


def compile_group(trials: Sequence[Trial], place: Path, build: Build) -> Path:
    """Return the path of a program that runs models on the samples N.in, from the one on that it is called with."""
    kernels: dict[str, bytes] = {}
    for number, trial in enumerate(trials):
        for name, data in model_files(f"m{number}", trial).items():
            (place / name).write_bytes(data)
        kernels |= kernel_files(trial.program, trial.runtime)
        if build.driver == "rows":
            kernels |= kernel_files(trial.program, "edgetool_rows_several")
    if build.driver == "bands":
        kernels.pop("edgetool_run.c", None)
        kernels["bands.c"] = BANDS.read_bytes()
    headers = {name: data for name, data in kernels.items() if name.endswith(".h")}
    for name, data in headers.items():
        (place / name).write_bytes(data)
    (place / "group.c").write_text(group_source(trials, build.driver))
    objects = [compile_kernel(name, kernels, build) for name in kernels if name.endswith(".c")]
    command = [build.compiler, *build.all_flags, "-O0", "group.c", *map(str, objects), "-o", "program"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, timeout=SECONDS)
    if done.returncode != 0:
        raise RuntimeError(f"it does not compile: {done.stderr[:1500]}")
    return place / "program"


def compile_kernel(name: str, kernels: Mapping[str, bytes], build: Build) -> Path:
    """Return the path of a kernel's object file."""
    used, waiting = set[str](), [name]
    while waiting:
        file = waiting.pop()
        if file not in used:
            used.add(file)
            waiting += re.findall(r'#include "(\w+\.[ch])"', kernels[file].decode())
    flags = [*build.all_flags, build.level]
    text = b"".join(file.encode() + kernels[file] for file in sorted(used))
    digest = hashlib.sha256(" ".join([build.compiler, *flags]).encode() + text).hexdigest()[:24]
    target = OBJECTS / f"{Path(name).stem}-{digest}.o"
    with COMPILING:
        if target.exists():
            return target
        OBJECTS.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=OBJECTS) as folder:
            for file in used:
                (Path(folder) / file).write_bytes(kernels[file])
            command = [build.compiler, *flags, "-c", name, "-o", "kernel.o"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=SECONDS)
            if done.returncode != 0:
                raise RuntimeError(f"{name} does not compile: {done.stderr[:1500]}")
            (Path(folder) / "kernel.o").replace(target)
    return target


def model_files(name: str, trial: Trial) -> dict[str, bytes]:
    """Return the generated files of a model without its kernels."""
    graph = trial.program.graph

    def io(indices: Iterable[int]) -> tuple[IoSpec, ...]:
        return tuple(IoSpec(i, graph.tensors[i].name, graph.tensors[i].shape, graph.tensors[i].dtype) for i in indices)

    arena = trial.arena_bytes
    spec = HeaderSpec(
        name=name,
        tool_version="0",
        model_sha256=hashlib.sha256(trial.blob).hexdigest(),
        model_bytes=len(trial.blob),
        target=HeaderTarget("host", "host", "reference"),
        arena_bytes=arena,
        arena_is_lower_bound=False,
        layout_bytes=arena,
        lower_bound_bytes=trial.memory.layout.lower_bound,
        tensors=(),
        inputs=io(graph.inputs),
        outputs=io(graph.outputs),
        places=tuple(PlacedSpec("arena", part.memory, 1 << 30, part.size_bytes) for part in trial.parts),
    )
    if trial.rows is None:
        files = native_files(spec, trial.program, trial.memory)
    else:
        files = row_files(spec, trial.program, *trial.rows)
    kernels = kernel_files(trial.program, trial.runtime)
    return {file: data for file, data in files.items() if file not in kernels}


_RUN = """
static int run_{name}(FILE *samples, FILE *results, int fill)
{{
    {name}_context context;
{memory}    {prologue}
    for (uint32_t i = 0; i < {count}; i++) {{
{reads}{invoke}{writes}    }}
{release}    return 0;
}}
"""
_MEMORY = """    uint8_t *arena = malloc({macro}_ARENA_BYTES + ({macro}_ARENA_BYTES == 0));
    memset(arena, fill, {macro}_ARENA_BYTES);
    if ({name}_init(&context, arena, {macro}_ARENA_BYTES) != {name}_ok) {{
        return 3;
    }}
"""
_MEMORIES = """{fills}    if ({name}_init(&context) != {name}_ok) {{
        return 3;
    }}
"""
_INVOKE = """        if ({name}_invoke(&context) != {name}_ok) {{
            return 5;
        }}
"""
# Functions hand rows over for even samples, and the program itself for odd ones.
_HAND = """        if (i % 2 == 0 && {name}_invoke_rows(&context, {callbacks}, NULL) != {name}_ok) {{
            return 5;
        }}
        if (i % 2 == 1 && {name}_begin(&context) != {name}_ok) {{
            return 6;
        }}
        while ({waits}) {{
            if ({name}_hand_next(&context) != {name}_ok) {{
                return 7;
            }}
        }}
"""
_STREAMED = """        if ({name}_hops_missing(&context) != (i < {first}U ? {first}U - i : 0U)) {{
            return 8;
        }}
        if (i < {first}U) {{
            continue;
        }}
"""
_FETCHING = """
static const void *{name}_fetch_row(void *user, uint32_t input, uint32_t row)
{{
    (void)user;
    switch (input) {{
{fetched}    }}
    return NULL;
}}
"""
_TAKING = """
static void {name}_take_row(void *user, uint32_t output, uint32_t row, const void *elements)
{{
    (void)user;
    switch (output) {{
{taken}    }}
}}
"""
_HANDING = """
static {name}_result {name}_hand_next({name}_context *context)
{{
    uint32_t row;
{switches}    return {name}_error_order;
}}
"""
_SWITCH = """    switch ({name}_next_{kind}(context)) {{
{cases}    }}
"""
_MAIN = """
static int (*const runs[])(FILE *, FILE *, int) = {{ {runs} }};

int main(int count, char **arguments)
{{
    static const int fills[] = {{ {fills} }};
    for (int i = count > 1 ? atoi(arguments[1]) : 0; i < {models}; i++) {{
        for (int j = 0; j < {fill_count}; j++) {{
            char name[32];
            sprintf(name, "%d.in", i);
            FILE *samples = fopen(name, "rb");
            FILE *results = fopen("partial", "wb");
            const int status = samples == NULL || results == NULL ? 2 : runs[i](samples, results, fills[j]);
            if (status != 0) {{
                return status;
            }}
            fclose(samples);
            fclose(results);
            sprintf(name, "%d.%d", i, fills[j]);
            rename("partial", name);
        }}
    }}
    return 0;
}}
"""


def group_source(trials: Sequence[Trial], driver: Driver) -> str:
    """Return the text of a program that includes models and runs them."""
    parts = ["#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"]
    if driver == "bands":
        parts.append(bands_declarations())
    elif driver == "rows":
        parts.append(stored_rows.DRIVER)
    for number, trial in enumerate(trials):
        name, graph = f"m{number}", trial.program.graph
        # Without sections of their own, sanitizers report accesses behind the ends of arrays.
        parts += [f"#define {name.upper()}_IN_{part.memory.upper()}_SECTION\n" for part in trial.parts]
        parts += [f'#include "{name}.c"\n#include "{name}_weights.c"\n']
        prologue = ""
        if driver == "bands":
            parts.append(bands_table(name, trial.program, trial.memory))
            prologue = f"bands = {name}_bands;"
        elif driver == "rows":
            prologue = f"if (open_rows({number}, results)) {{\n        return 8;\n    }}"
        reads, writes = (
            "".join(
                f"        if ({call}({_address(name, kind, i, trial)}, 1, {size}, {file}) != {size}) {{\n"
                "            return 4;\n        }\n"
                for i, index in enumerate(indices)
                if (size := io_bytes(trial, index, kind))
            )
            for kind, call, file, indices in (
                ("input", "fread", "samples", graph.inputs),
                ("output", "fwrite", "results", graph.outputs),
            )
        )
        if driver == "rows":
            reads = f"        next_row = all_rows;\n{reads}"
        stream = trial.program.stream
        count = trial.count
        if stream is not None:
            # Outputs are those of a whole window only when one has been fed.
            count += stream.window_hops - 1
            writes = _STREAMED.format(name=name, first=stream.window_hops - 1) + writes
        fields = {"name": name, "macro": name.upper(), "count": count, "prologue": prologue}
        if trial.parts:
            arrays = [f"{name}_in_{part.memory}" for part in trial.parts]
            cleared = "".join(f"    memset(&{array}, fill, sizeof {array});\n" for array in arrays)
            fields |= {"memory": _MEMORIES.format(name=name, fills=cleared), "release": ""}
        else:
            fields |= {"memory": _MEMORY.format(**fields), "release": "    free(arena);\n"}
        invoke = _INVOKE.format(name=name)
        if trial.fed or trial.taken:
            fed, taken = (
                {position: io_bytes(trial, indices[position], kind) for position in positions}
                for kind, positions, indices in (
                    ("input", trial.fed, graph.inputs),
                    ("output", trial.taken, graph.outputs),
                )
            )
            parts.append(_handing(name, fed, taken))
            callbacks = [f"{name}_fetch_row"] * bool(fed) + [f"{name}_take_row"] * bool(taken)
            kinds = ["input"] * bool(fed) + ["output"] * bool(taken)
            waits = (f"{name}_next_{kind}(&context) != {name.upper()}_{kind.upper()}_COUNT" for kind in kinds)
            invoke = _HAND.format(name=name, callbacks=", ".join(callbacks), waits=" || ".join(waits))
        parts.append(_RUN.format(**fields, reads=reads, invoke=invoke, writes=writes))
    runs = ", ".join(f"run_m{number}" for number in range(len(trials)))
    fills = ", ".join(map(str, FILLS))
    parts.append(_MAIN.format(runs=runs, fills=fills, models=len(trials), fill_count=len(FILLS)))
    return "".join(parts)


def io_bytes(trial: Trial, index: int, kind: str) -> int:
    """Return the size of an input or output in each sample: of the input of a stream, that of a hop."""
    size, stream = trial.program.graph.tensors[index].size_bytes, trial.program.stream
    return size if stream is None or kind == "output" else stream.hop_rows * stream.row_bytes


def _address(name: str, kind: str, position: int, trial: Trial) -> str:
    """Return the address of an input or output in C."""
    if position in (trial.fed if kind == "input" else trial.taken):
        return f"{name}_rows_of_{kind}_{position}"
    return f"{name}_{kind}_{position}(&context)"


def _handing(name: str, fed: Mapping[int, int], taken: Mapping[int, int]) -> str:
    """Return blocks for inputs and outputs of these sizes, and the functions that hand their rows over."""
    macro = name.upper()
    sizes = {("input", i): size for i, size in fed.items()} | {("output", i): size for i, size in taken.items()}
    # The next row of each, and what a row of it is.
    rows = {
        key: f"{name}_rows_of_{key[0]}_{key[1]} + row * ({size} / {_count_of(macro, *key)})"
        for key, size in sizes.items()
    }
    text = "".join(f"static uint8_t {name}_rows_of_{kind}_{i}[{size}];\n" for (kind, i), size in sizes.items())
    switches = ""
    if fed:
        fetched = "".join(f"    case {i}:\n        return {rows['input', i]};\n" for i in fed)
        text += _FETCHING.format(name=name, fetched=fetched)
        cases = "".join(
            f"    case {i}:\n        row = {_count_of(macro, 'input', i)} - {name}_rows_left_{i}(context);\n"
            f"        return {name}_feed_row_{i}(context, (const void *)({rows['input', i]}));\n"
            for i in fed
        )
        switches += _SWITCH.format(name=name, kind="input", cases=cases)
    if taken:
        copied = "".join(
            f"    case {i}:\n        memcpy({rows['output', i]}, elements, {size} / {_count_of(macro, 'output', i)});\n"
            "        break;\n"
            for i, size in taken.items()
        )
        text += _TAKING.format(name=name, taken=copied)
        cases = "".join(
            f"    case {i}:\n        row = {_count_of(macro, 'output', i)} - {name}_rows_to_take_{i}(context);\n"
            f"        return {name}_take_row_{i}(context, (void *)({rows['output', i]}));\n"
            for i in taken
        )
        switches += _SWITCH.format(name=name, kind="output", cases=cases)
    return text + _HANDING.format(name=name, switches=switches)


def _count_of(macro: str, kind: str, position: int) -> str:
    return f"{macro}_{kind.upper()}_{position}_ROWS"


def bands_declarations() -> str:
    """Return the declarations that bands.c shares with a program: see there."""
    text = BANDS.read_text()
    return '#include "edgetool_native.h"\n' + text[text.index("/* shared") : text.index("/* end of shared")]


def bands_table(name: str, program: NativeProgram, memory: NativeMemory) -> str:
    """Return what the driver of bands needs besides the steps of a program."""
    inputs: list[str] = []
    steps = []
    for position, step in enumerate(program.steps):
        whole = int(position in memory.fields)
        alignment = _alignment(program.graph.tensors[step.output])
        updated = step.row_bytes if step.accumulates else 0
        row = f"{alignment}, {step.scratch_bytes}, {whole}, {updated}, {name}_band_inputs + {len(inputs)}"
        steps.append(f"    {{{row}}},\n")
        inputs += [_bands_input(program, item) for item in step.inputs]
    return (
        f"static const bands_input {name}_band_inputs[] = {{ {', '.join(inputs or ['{0, 1}'])} }};\n"
        f"static const bands_step {name}_bands[] = {{\n{''.join(steps) or '    {1, 0, 0, 0, NULL},'}}};\n"
    )


def _bands_input(program: NativeProgram, item: RowInput) -> str:
    """Return the size of a row, and 1 for rows of bytes, which may be anywhere, or 4."""
    if not isinstance(item.source, int):
        return f"{{{item.row_bytes}, {1 if item.source.c_type in ('int8_t', 'uint8_t') else 4}}}"
    tensor = program.graph.tensors[item.source]
    # Rows that are the same for all batches have no size: they are the whole tensor.
    return f"{{{item.row_bytes or tensor.size_bytes}, {_alignment(tensor)}}}"


def _alignment(tensor: Tensor) -> int:
    return 1 if tensor.dtype in (DType.BOOL, DType.INT8, DType.UINT8) or tensor.dtype not in C_TYPES else 4
