"""What NAME.h says of a model that remembers something between invocations."""

from __future__ import annotations

import textwrap

from edgetool.codegen.c_names import comment_text
from edgetool.codegen.c_text import comment, defines
from edgetool.codegen.spec import HeaderSpec

NAMED = 6  # tensors told by name; a model may have hundreds


def state_section(spec: HeaderSpec, name: str, macro: str) -> list[str]:
    """The section, in a list; none for a model without a state. In plain C the firmware itself begins it at zero."""
    state = spec.state
    if not state:
        return []
    told = [f"{comment_text(tensor)} ({size} bytes)" for tensor, size in state.tensors[:NAMED]]
    if len(state.tensors) > NAMED:
        told.append(f"{len(state.tensors) - NAMED} more")
    if state.resources:
        told.append(f"{state.resources} resource variables")
    if spec.buffers is None:
        reset = (
            f"Invoke once for each frame of a stream. Call {name}_runner::reset(), or TFLM's "
            "MicroInterpreter::Reset(), to start the next stream; AllocateTensors has the same effect. The state is in "
            "the arena, whose contents must therefore not change between invocations."
        )
        if state.resources:
            reset += " TFLM's own Reset does not restore the initial values of resource variables."
    else:
        reset = (
            "The firmware must set each state tensor to its zero point (0 for float) before the first frame of a "
            "stream."
        )
    text = f"State: each invocation continues where the last one ended. State kept: {', '.join(told)}. {reset}"
    values = [(f"{macro}_STATE_TENSORS", len(state.tensors)), (f"{macro}_STATE_BYTES", state.tensor_bytes)]
    return [comment(textwrap.wrap(text, width=100)) + defines(*values)]
