"""Programs to emit in the tests: the models of header_specs.py, one for each thing that C++ must say of a model."""

from __future__ import annotations

from dataclasses import replace

from edgetool.codegen.spec import IoSpec, ProgramSpec, Registration
from edgetool.model.types import DType
from tests.codegen.header_specs import COPIED, HOSTILE, HOSTILE_NAMES, KWS, PLACED, SEQUENCE

COMMIT = "90b983c2b3f1480642e040bbd2ddb37b998f3424"
KERNELS = "tensorflow/lite/micro/kernels"

KWS_PROGRAM = ProgramSpec(
    header=KWS,
    registrations=(
        Registration("CONV_2D", "AddConv2D", "Register_CONV_2D_INT8", f"{KERNELS}/conv.h"),
        Registration("RESHAPE", "AddReshape"),
        Registration("FULLY_CONNECTED", "AddFullyConnected"),
        Registration("SOFTMAX", "AddSoftmax", "Register_SOFTMAX_INT8", f"{KERNELS}/softmax.h"),
    ),
    runtime="tflm-2026-08",
    commit=COMMIT,
    events=5,
    clock_hz=480_000_000,
)

# A state in resource variables, a custom operator of the user's own, every kind of input, an arena that is a bound.
SEQUENCE_PROGRAM = replace(
    KWS_PROGRAM,
    header=SEQUENCE,
    registrations=(
        Registration("CALL_ONCE", "AddCallOnce"),
        Registration("VAR_HANDLE", "AddVarHandle"),
        Registration("FFT", None),
        Registration("MyOp", "AddMyOp"),
    ),
    resource_variables=2,
    events=None,
    clock_hz=None,
)

# Names that would like to get out of their strings and comments; the first model of a shared arena.
HOSTILE_PROGRAM = replace(
    KWS_PROGRAM,
    header=replace(HOSTILE, inputs=(*HOSTILE.inputs, IoSpec(99, "nibbles", (1, 3), DType.INT4))),
    registrations=tuple(Registration(name, None) for name in dict.fromkeys(HOSTILE_NAMES) if name),
    runtime="*/ r",
    commit="??/",
    shared_arena="joint",
)

# Nothing at all: no operator, no input, no output.
EMPTY_PROGRAM = replace(
    KWS_PROGRAM, header=replace(KWS, name="empty", tensors=(), inputs=(), outputs=()), registrations=(), events=0
)

# The second model of the shared arena: it has variables, and no way to set them anew.
STATE_PROGRAM = replace(
    SEQUENCE_PROGRAM,
    header=replace(KWS, name="state"),
    registrations=(Registration("CALL_ONCE", "AddCallOnce"),),
    resource_variables=1,
    shared_arena="joint",
)

# Every type there is, as a scalar, with no element, and with three.
_EVERY_TYPE = tuple(IoSpec(0, "t", shape, dtype) for dtype in DType for shape in ((), (0,), (1, 3)))
EVERY_TYPE_PROGRAM = replace(
    KWS_PROGRAM, header=replace(KWS, name="every", tensors=(), inputs=_EVERY_TYPE, outputs=_EVERY_TYPE)
)

PLACED_PROGRAM = replace(KWS_PROGRAM, header=PLACED)
COPIED_PROGRAM = replace(KWS_PROGRAM, header=COPIED)

ALL_PROGRAMS = {
    "kws": KWS_PROGRAM,
    "sequence": SEQUENCE_PROGRAM,
    "hostile": HOSTILE_PROGRAM,
    "empty": EMPTY_PROGRAM,
    "state": STATE_PROGRAM,
    "placed": PLACED_PROGRAM,
    "copied": COPIED_PROGRAM,
}
