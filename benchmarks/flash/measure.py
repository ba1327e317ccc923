"""Build the firmware of a model for a Cortex-M7 with and without type-specific kernels, and compare flash and outputs.

The flash of a firmware is what is programmed into it besides the model: code, constants and the initial values of
variables of main.cc, the model's runner, TFLM, CMSIS-NN, the C library, and the start-up code of examples/firmware.
TFLM's log prints formats as they are (log.cc). The same object files, with check.cc instead of main.cc, run on QEMU.
"""

from __future__ import annotations

import csv
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from tests.codegen.boards import EXAMPLE

from edgetool.execute.cores import MACHINES
from edgetool.execute.quantize import random_inputs
from edgetool.execute.run import run_model
from edgetool.model.types import Model
from edgetool.pipeline.emit import emit_files
from edgetool.pipeline.source import open_tflite
from edgetool.target.load import load_target

HERE = Path(__file__).parent
MEASURED = HERE / "measured" / "registrations.csv"
CORE = "cortex-m7"
SAMPLES, SEED = 8, 1
SECONDS = 600
PREFIX = "arm-none-eabi-"
CPU = MACHINES[CORE].flags
C_FLAGS = ("-Os", "-ffunction-sections", "-fdata-sections")
# As in TFLM's Makefile with BUILD_TYPE=release_with_logs and OPTIMIZED_KERNEL_DIR=cmsis_nn.
CXX_FLAGS = (
    *C_FLAGS,
    *("-std=c++17", "-fno-rtti", "-fno-exceptions", "-fno-threadsafe-statics"),
    *("-fno-unwind-tables", "-fno-asynchronous-unwind-tables"),
    *("-DNDEBUG", "-DTF_LITE_STATIC_MEMORY", "-DTF_LITE_DISABLE_X86_NEON"),
    *("-DKERNELS_OPTIMIZED_FOR_SPEED", "-DCMSIS_NN"),
)
LINK_FLAGS = ("-nostartfiles", "--specs=nosys.specs", "-Wl,--gc-sections")
# How the emitted files are compiled, by the name in the table.
REGISTRATIONS: Mapping[str, tuple[str, ...]] = {"general": ("-DNET_GENERAL_KERNELS",), "typed": ()}
OUTCOMES = {0: "equal", 1: "different", 2: "error"}


@dataclass(frozen=True, slots=True)
class Tflm:
    """TFLM: its source tree, the libraries that it downloads, and what its Makefile has built of them."""

    sources: Path
    third_party: Path
    library: Path

    @property
    def includes(self) -> list[str]:
        """The include directories, as options of the compiler."""
        folders = (self.sources, *(self.third_party / name for name in ("flatbuffers/include", "gemmlowp", "ruy")))
        return [option for folder in folders for option in ("-isystem", str(folder))]

    def commit(self) -> str:
        """Return the commit that is checked out."""
        return _output(["git", "-C", str(self.sources), "rev-parse", "HEAD"])


@dataclass(frozen=True, slots=True)
class Row:
    """A firmware. registrations: a key of REGISTRATIONS. functions: the type-specific kernels that it registers.

    outputs: how its outputs for random inputs compare with those of TFLM's reference kernels on this machine.
    """

    model: str
    sha256: str
    registrations: str
    functions: str
    flash_bytes: int
    model_bytes: int
    outputs: str


def measure(path: Path, tflm: Tflm) -> list[Row]:
    """Return the rows of a model with one input and one output."""
    source = open_tflite(path)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        emit_files(path, load_target(CORE), output=folder, name="net", force=True)
        _write_samples(folder, source.model, source.blob)
        c_files = ["net_model.c", str(EXAMPLE / "startup.c")]
        _run([f"{PREFIX}gcc", *CPU, *C_FLAGS, f"-I{EXAMPLE}", "-c", *c_files], folder)
        rows = []
        for registrations, definitions in REGISTRATIONS.items():
            _compile(folder, tflm, definitions)
            flash = _flash_bytes(_link(folder, "main", tflm)) - len(source.blob)
            status = _emulate(_link(folder, "check", tflm))
            functions = "" if definitions else " ".join(_functions((folder / "net_ops.h").read_text()))
            outputs = OUTCOMES.get(status, f"status {status}")
            rows.append(Row(path.stem, source.sha256, registrations, functions, flash, len(source.blob), outputs))
    return rows


def _write_samples(folder: Path, model: Model, blob: bytes) -> None:
    inputs = random_inputs(model, SAMPLES, SEED)
    outputs = run_model(blob, inputs, engine="tflm")
    if len(inputs) != 1 or len(outputs) != 1:
        raise ValueError("the model must have one input and one output")
    (folder / "inputs.bin").write_bytes(inputs[0].tobytes())
    (folder / "outputs.bin").write_bytes(outputs[0].tobytes())


def _compile(folder: Path, tflm: Tflm, definitions: Sequence[str]) -> None:
    own = [str(HERE / "check.cc"), str(HERE / "log.cc")]
    flags = [*CPU, *CXX_FLAGS, *definitions, f"-DSAMPLES={SAMPLES}", f"-I{EXAMPLE}", "-I.", *tflm.includes]
    _run([f"{PREFIX}g++", *flags, "-c", "net_runner.cc", "main.cc", *own], folder)


def _link(folder: Path, main: str, tflm: Tflm) -> Path:
    """Return the program with the object file of this name as its main."""
    script = ["-T", str(EXAMPLE / "mps2-an500.ld"), f"-L{EXAMPLE}"]
    objects = ["startup.o", "net_model.o", "net_runner.o", "log.o", f"{main}.o"]
    _run([f"{PREFIX}g++", *CPU, *LINK_FLAGS, *script, *objects, str(tflm.library), "-lm", "-o", f"{main}.elf"], folder)
    return folder / f"{main}.elf"


def _flash_bytes(program: Path) -> int:
    """Return the bytes that are programmed into flash: sections with contents, whether they stay there or not."""
    text, data = _output([f"{PREFIX}size", str(program)]).splitlines()[1].split()[:2]
    return int(text) + int(data)


def _functions(ops_header: str) -> list[str]:
    """Return the functions that register type-specific kernels."""
    return re.findall(r"NET_KERNEL\((Register_\w+)\)", ops_header)


def _emulate(program: Path) -> int:
    command = MACHINES[CORE].emulate(program)
    return subprocess.run(command, stdin=subprocess.DEVNULL, check=False, timeout=SECONDS).returncode


def _run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=SECONDS)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)[:400]}: {done.stderr[:3000]}")


def _output(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS).stdout.strip()


def conditions(tflm_commit: str, cmsis_nn_commit: str, library_flags: str) -> dict[str, str]:
    """Return what the figures depend on, by name."""
    version = _output([f"{PREFIX}gcc", "-dumpfullversion"])
    return {
        "tflm": tflm_commit,
        "cmsis-nn": cmsis_nn_commit,
        "compiler": f"{PREFIX}gcc {version}",
        "cpu": " ".join(CPU),
        "emitted": " ".join(CXX_FLAGS),
        "library": library_flags,
        "link": " ".join(LINK_FLAGS),
        "samples": f"{SAMPLES} per model, seed {SEED}",
    }


def write(path: Path, conditions: Mapping[str, str], rows: Sequence[Row]) -> None:
    """Write the table behind its conditions, each of which is a comment."""
    path.parent.mkdir(exist_ok=True)
    names = [field.name for field in fields(Row)]
    with path.open("w", newline="", encoding="ascii") as file:
        file.writelines(f"# {name}: {value}\n" for name, value in conditions.items())
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([[getattr(row, name) for name in names] for row in rows])


def read(path: Path = MEASURED) -> tuple[dict[str, str], list[Row]]:
    """Return the conditions and the rows of the table."""
    lines = path.read_text(encoding="ascii").splitlines()
    comments = [line.removeprefix("# ").partition(": ") for line in lines if line.startswith("# ")]
    table = csv.DictReader(line for line in lines if not line.startswith("# "))
    rows = [
        Row(
            *(row["model"], row["sha256"], row["registrations"], row["functions"]),
            flash_bytes=int(row["flash_bytes"]),
            model_bytes=int(row["model_bytes"]),
            outputs=row["outputs"],
        )
        for row in table
    ]
    return {name: value for name, _, value in comments}, rows
