"""A build of TFLM: its kernel set, the processor's extensions, and the sizes of C structs there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from edgetool.target.types import Abi, EspNN, EspNNVariant, Kernels, Runtime, StructSize, Target, struct_size


@dataclass(frozen=True, slots=True)
class Platform:
    """The properties of a build of TFLM on which its arena depends.

    structs: sizes by name, the runtime's own and those of kernels. options: the struct that TFLM parses an
    operator's options into, by operator; op_data: the struct that its kernel allocates in Init, of this kernel
    set; "" if there is none, absent if unknown. faults: the names of the faults that the runtime's kernels have.
    missing: the names of the changes that came after the runtime's version (target/history.py).
    esp_nn: the build of ESP-NN; None in other kernel sets.
    """

    kernels: Kernels
    dsp: bool
    mve: bool
    abi: Abi
    structs: Mapping[str, StructSize]
    options: Mapping[str, StructSize]
    op_data: Mapping[str, StructSize]
    faults: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    esp_nn: EspNN | None = None

    def has(self, change: str) -> bool:
        """Return whether the runtime's version contains a change of TFLM or its kernel library."""
        return change not in self.missing

    @property
    def cmsis_nn(self) -> bool:
        """Whether the kernels are CMSIS-NN's, for the operators that it has."""
        return self.kernels == "cmsis-nn"

    def size_of(self, struct: str) -> int:
        """Return sizeof(struct). Raises KeyError if the runtime's profile does not describe it."""
        return self.structs[struct].size_bytes


def platform_of(target: Target) -> Platform:
    """Return the build of a target."""
    core = target.core
    return make_platform(
        target.runtime, core.abi, target.kernels, dsp=core.dsp, mve=core.mve, esp_nn_variant=target.esp_nn_variant
    )


@lru_cache(maxsize=64)  # a command uses its one build many times
def make_platform(
    runtime: Runtime,
    abi_name: str,
    kernels: Kernels,
    *,
    dsp: bool = False,
    mve: bool = False,
    esp_nn_variant: EspNNVariant | None = None,
) -> Platform:
    """Return a build of the runtime.

    esp_nn_variant: the kernels that ESP-NN selects, for that kernel set. Raises KeyError for an ABI that the runtime's
    profile does not describe.
    """
    abi = runtime.abi(abi_name)
    esp_nn = None
    faults = runtime.faults
    if kernels == "esp-nn" and runtime.esp_nn is not None and esp_nn_variant is not None:
        esp_nn = EspNN(runtime.esp_nn.version, esp_nn_variant, runtime.esp_nn.filter_channels)
        faults += runtime.esp_nn.faults
    structs: dict[str, StructSize] = {}
    for name, fields in runtime.structs:
        structs[name] = struct_size(fields, abi, structs)
    for name, other in abi.replaced:
        structs[name] = structs[other]
    return Platform(
        kernels=kernels,
        dsp=dsp,
        mve=mve,
        abi=abi,
        structs=structs,
        options={code: struct_size(fields, abi, structs) for code, fields in runtime.options},
        op_data={code: struct_size(fields, abi, structs) for code, fields in runtime.op_data_of(kernels)},
        missing=frozenset(runtime.missing),
        faults=frozenset(faults),
        esp_nn=esp_nn,
    )
