"""LiteRT on the same files: Interpreter and AllocateTensors, in a process that may die of it."""

from __future__ import annotations

from ai_edge_litert.interpreter import Interpreter, OpResolverType
from benchmarks.fuzz.inputs import Inputs

RESOLVERS = {"litert": OpResolverType.AUTO, "litert-reference": OpResolverType.BUILTIN_REF}


def judge_number(name: str, source: Inputs, number: int) -> str:
    """ "" for what it takes, "refused" for an answer of its own; anything else is raised."""
    try:
        interpreter = Interpreter(
            model_content=source[number], experimental_op_resolver_type=RESOLVERS[name], num_threads=1
        )
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError):  # what its C++ code answers with
        return "refused"
    return ""
