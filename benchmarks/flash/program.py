"""The firmware whose flash is measured: start-up code, main.cc, a runner with given registrations, and a model.

Flash is what is programmed besides the model: code, constants and the initial values of variables. TFLM's log prints
formats as they are (log.cc), so that no printf is part of it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.codegen.boards import EXAMPLE

from edgetool.archive.ar import read_members
from edgetool.archive.elf import ObjectFile, read_object
from edgetool.codegen.spec import ProgramSpec, Registration
from edgetool.codegen.tflm.runner import ops_header
from edgetool.execute.cores import MACHINES
from edgetool.memory.planner import PlanRequest
from edgetool.pipeline.analysis import analyse
from edgetool.pipeline.emit import emit_files
from edgetool.pipeline.firmware import header_spec, program_spec
from edgetool.pipeline.source import open_tflite
from edgetool.target.load import load_target

HERE = Path(__file__).parent
PREFIX = "arm-none-eabi-"
SECONDS = 600
C_FLAGS = ("-Os", "-ffunction-sections", "-fdata-sections")
# As in TFLM's Makefile with BUILD_TYPE=release_with_logs.
CXX_FLAGS = (
    *C_FLAGS,
    *("-std=c++17", "-fno-rtti", "-fno-exceptions", "-fno-threadsafe-statics"),
    *("-fno-unwind-tables", "-fno-asynchronous-unwind-tables"),
    *("-DNDEBUG", "-DTF_LITE_STATIC_MEMORY", "-DTF_LITE_DISABLE_X86_NEON", "-DKERNELS_OPTIMIZED_FOR_SPEED"),
)
KERNEL_FLAGS = {"reference": (), "cmsis-nn": ("-DCMSIS_NN",)}
LINK_FLAGS = ("-nostartfiles", "--specs=nosys.specs", "-Wl,--gc-sections")
C_LIBRARIES = {"newlib": (), "newlib-nano": ("--specs=nano.specs",)}
LIBRARIES = {
    "newlib": ("libstdc++.a", "libm.a", "libc.a", "libnosys.a", "libgcc.a"),
    "newlib-nano": ("libstdc++_nano.a", "libm.a", "libc_nano.a", "libnosys.a", "libgcc.a"),
}
"""The libraries of a program in the order in which the compiler's driver passes them to the linker."""


@dataclass(frozen=True, slots=True)
class Sources:
    """TFLM's source tree, and the folder with the libraries that it includes: flatbuffers, gemmlowp, ruy."""

    tflm: Path
    third_party: Path

    @property
    def includes(self) -> list[str]:
        """The include directories, as options of the compiler."""
        folders = (self.tflm, *(self.third_party / name for name in ("flatbuffers/include", "gemmlowp", "ruy")))
        return [option for folder in folders for option in ("-isystem", str(folder))]


@dataclass(frozen=True, slots=True)
class Firmware:
    """The files of a model's firmware in a folder, compiled for a core except what depends on the registrations.

    model: the .tflite, whose size is no part of the flash of the code.
    """

    folder: Path
    core: str
    kernels: str
    sources: Sources
    model: Path
    spec: ProgramSpec

    @property
    def cpu(self) -> tuple[str, ...]:
        """The flags of the core."""
        return MACHINES[self.core].flags

    def compile(self, *files: str, flags: Sequence[str] = ()) -> None:
        """Compile C++ files of the folder, each to its own object file."""
        own = [*self.cpu, *CXX_FLAGS, *KERNEL_FLAGS[self.kernels], *flags, f"-I{EXAMPLE}", "-I."]
        run([f"{PREFIX}g++", *own, *self.sources.includes, "-c", *files], self.folder)

    def register(self, registrations: Sequence[Registration]) -> None:
        """Compile the runner with these registrations in place of the model's."""
        text = ops_header(replace(self.spec, registrations=tuple(registrations)))
        (self.folder / "net_ops.h").write_text(text, encoding="ascii")
        self.compile("net_runner.cc")

    def link(self, library: Path, c_library: str, *, main: str = "main") -> Path:
        """Return the program with the object file of this name as its main."""
        (self.folder / "machine.ld").write_text(MACHINES[self.core].script, encoding="ascii")
        script = ["-T", "machine.ld", f"-L{EXAMPLE}"]
        objects = ["startup.o", "net_model.o", "net_runner.o", "log.o", f"{main}.o"]
        flags = [*self.cpu, *LINK_FLAGS, *C_LIBRARIES[c_library], *script]
        run([f"{PREFIX}g++", *flags, *objects, str(library), "-lm", "-o", f"{main}.elf"], self.folder)
        return self.folder / f"{main}.elf"

    def flash_bytes(self, program: Path) -> int:
        """Return the bytes that are programmed into flash besides the model."""
        text, data = output([f"{PREFIX}size", str(program)]).splitlines()[1].split()[:2]
        return int(text) + int(data) - self.model.stat().st_size

    def object_files(self, *names: str) -> list[ObjectFile]:
        """Return compiled files of the folder."""
        return [read_object(memoryview((self.folder / name).read_bytes()), name) for name in names]

    def c_library_files(self, c_library: str) -> list[ObjectFile]:
        """Return the members of the compiler's libraries."""
        names = LIBRARIES[c_library]
        paths = [output([f"{PREFIX}gcc", *self.cpu, f"-print-file-name={name}"]) for name in names]
        return [file for path in paths for file in library_files(Path(path))]


def firmware(model: Path, core: str, kernels: str, sources: Sources, folder: Path) -> Firmware:
    """Emit a model's firmware into a folder and compile what does not depend on its registrations."""
    target, source = load_target(core), open_tflite(model)
    emit_files(model, target, output=folder, name="net", force=True)
    plan = analyse(source, target, PlanRequest(file_plan="only"), with_estimate=False).plan
    spec = program_spec(source, header_spec("net", source, plan, target, uncalibrated=False), target, None)
    result = Firmware(folder, core, kernels, sources, model, spec)
    c_files = ["net_model.c", str(EXAMPLE / "startup.c")]
    run([f"{PREFIX}gcc", *result.cpu, *C_FLAGS, f"-I{EXAMPLE}", "-c", *c_files], folder)
    result.compile("main.cc", str(HERE / "log.cc"))
    return result


def library_files(path: Path) -> list[ObjectFile]:
    """Return the object files of a static library."""
    members = read_members(path.read_bytes(), str(path))
    return [read_object(member.data, f"{path.name}({member.name})") for member in members]


def run(command: Sequence[str], folder: Path) -> None:
    """Run a command in a folder. Raises RuntimeError with its messages if it fails."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=SECONDS)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)[:400]}: {done.stderr[:3000]}")


def output(command: Sequence[str]) -> str:
    """Return what a command prints."""
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS).stdout.strip()
