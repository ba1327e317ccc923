"""What NAME.h says of a model that remembers something between invocations."""

from __future__ import annotations

import textwrap

from edgetool.firmware.c_names import comment_text
from edgetool.firmware.c_text import comment, defines
from edgetool.firmware.spec import HeaderSpec

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
            f"Invoke again and again for the frames of one stream. {name}_runner::reset(), or Reset of TFLM's "
            "MicroInterpreter, begins the next stream; AllocateTensors does so as well. The state lies in the arena, "
            "whose contents must therefore stay as they are between invocations."
        )
        if state.resources:
            reset += " After TFLM's own Reset, resource variables do not get their first values again."
    else:
        reset = "The firmware sets it to its zero before the first frame of a stream."
    text = f"State: each invocation goes on where the last one ended. What is kept: {', '.join(told)}. {reset}"
    values = [(f"{macro}_STATE_TENSORS", len(state.tensors)), (f"{macro}_STATE_BYTES", state.tensor_bytes)]
    return [comment(textwrap.wrap(text, width=100)) + defines(*values)]
