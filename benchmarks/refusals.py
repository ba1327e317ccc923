"""Compare what LiteRT's reference interpreter and edgetool reject, on damaged copies of real files.

    python -m benchmarks.refusals [MUTANTS] [FIRST SEED] [--show]

Prints LiteRT's reasons for rejecting a mutant, each with the number of mutants that edgetool's reader rejects, that
`edgetool check` rejects (operators that TFLM's kernels do not support), and that edgetool accepts, with the reason, and
how many of those TFLM runs. LiteRT loads and prepares each file (AllocateTensors, reference kernels) in a child process
with limits on memory and time; a crash counts as a rejection. --show lists the accepted mutants. The exit status is 1
if one is accepted for an unknown reason.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.conftest import model_files
from tests.model.builders import ALL
from tests.model.mutants import mutants

from edgetool.errors import ModelError
from edgetool.model.reader import read_model
from edgetool.model.writer import write_model
from edgetool.operators.legality import unsupported_operators
from edgetool.target.load import list_runtimes, load_runtime

MEMORY_BYTES = 4 * 2**30
SECONDS = 2.0
LARGEST_BYTES = 100_000  # of the files that are damaged
BATCH = 500
ARENA_BYTES = 4_000_000
PRELOADED = ("ai_edge_litert.interpreter", "tflite_micro.python.tflite_micro.runtime")  # once, not in every child
DIED = "died"
NO_REASON = "no reason given"  # the message of a failed allocation


@dataclass(frozen=True, slots=True)
class Reason:
    """A kind of rejection: a part of LiteRT's message, and why edgetool may accept the file; "" if it must not."""

    name: str
    message: str
    taken: str = ""


# The first match is used.
REASONS = (
    Reason(
        "versions of operators",
        r"Didn't find op for builtin opcode",
        "TFLM does not look at versions; an operator that it lacks altogether fails `check`",
    ),
    Reason("custom operators", r"unresolved custom op", "TFLM has them, LiteRT does not"),
    Reason(
        "zero points: none, or one for all scales",
        r"zero_point values and \d+ scale values|null zero_point|affine_quantization->(scale|zero_point)->size",
        "TFLM takes one for all, and a tensor without any as one without quantization",
    ),
    Reason(
        "a quantized dimension outside the shape",
        r"quantized_dimension must be|quantized_dimension !=",
        "TFLM reads it for convolutions only, and refuses it there; the reader warns",
    ),
    Reason(
        "a payload of no bytes",
        r"required_bytes <= bytes",
        "TFLM gives the tensor room in the arena; `never-written` warns where it is read",
    ),
    Reason("signatures without a key", r"method name for SignatureDef", "TFLM does not read signatures"),
    Reason("types that LiteRT lacks", r"Unsupported data type", "newer than it; no kernel of TFLM takes them"),
    Reason(
        "zero points of a convolution's filters",
        r"affine_quantization->zero_point->data",
        "TFLM takes them for 0 and never reads them; `filter-zero-points` warns",
    ),
    Reason(
        "scales and zero points that are to be equal or fixed",
        r"params\.(scale|zero_point)|scale_diff",
        "TFLM's kernel copies elements or ignores them; where it checks or errs, `check` refuses",
    ),
    Reason(
        "operands without quantization",
        r"quantization\.(type|params)",
        "TFLM computes with a scale of 0; where its kernel checks it, `check` refuses",
    ),
    Reason(
        "convolutions without a bias",
        r"has_bias was not true|was optional but was expected",
        "TFLM's kernels do without one",
    ),
    Reason(
        "a new shape that is not the output's",
        r"reshape_utils",
        "TFLM takes the output's own shape, which the reader holds against the input's",
    ),
    Reason(
        "options and types that TFLM does not read",
        r"Unknown index output data type|Output shape is|quantized_bias_type|input->dims->size - 1\] != cols",
        "what counts there are the tensors' own types and shapes, which the reader or `check` holds against each other",
    ),
    Reason("LiteRT dies", rf"^{DIED}", "a scale that is no normal number; TFLM's own rules for it are in `check`"),
    Reason(
        "more memory than LiteRT is given",
        NO_REASON,
        "sizes are within the reader's limit of a tensor; the arena's is for `check` to judge",
    ),
    Reason("the form of the file", r"not a valid Flatbuffer|identifier|Did not get|subgraph"),
    Reason("types of tensors", r"type|Type"),
    Reason("numbers of inputs and outputs", r"NumInputs|NumOutputs|inputs->size|outputs->size|both input"),
    Reason("shapes, options and contents", r""),
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A damaged file: the name of the original, its number among the mutants of the original, and its bytes."""

    name: str
    number: int
    blob: bytes


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a mutant that LiteRT rejects. by: "reader", "check", or "" if it is accepted; tflm is then the
    error of TFLM, "" if it runs."""

    mutant: Mutant
    message: str
    reason: Reason
    by: str
    tflm: str = ""


def sample(count: int, seed: int) -> Iterator[Mutant]:
    """Yield about `count` mutants of small real files, or of our own models if there are none."""
    files = [(path.stem, path.read_bytes()) for path in model_files() if path.stat().st_size <= LARGEST_BYTES]
    files = files or [(name, write_model(make())) for name, make in ALL.items()]
    for position, (name, blob) in enumerate(files):
        of_this = count * (position + 1) // len(files) - count * position // len(files)
        for number, mutant in enumerate(mutants(blob, of_this, seed + position)):
            yield Mutant(name, number, mutant)


def refusals(count: int, seed: int) -> Iterator[Outcome]:
    """Yield every mutant that LiteRT rejects."""
    batch: list[Mutant] = []
    for mutant in sample(count, seed):
        batch.append(mutant)
        if len(batch) == BATCH:
            yield from _refused(batch)
            batch = []
    yield from _refused(batch)


def _refused(batch: Sequence[Mutant]) -> Iterator[Outcome]:
    messages = in_child([mutant.blob for mutant in batch], litert)
    refused = [(mutant, message) for mutant, message in zip(batch, messages, strict=True) if message]
    by = [refused_by(mutant.blob) for mutant, _ in refused]
    runs = in_child([mutant.blob for (mutant, _), who in zip(refused, by, strict=True) if not who], tflm)
    for (mutant, message), who in zip(refused, by, strict=True):
        reason = next(reason for reason in REASONS if re.search(reason.message, message))
        yield Outcome(mutant, message, reason, who, "" if who else next(runs))


def refused_by(blob: bytes) -> str:
    """Return which part of edgetool rejects a file: the "reader", "check", or "" for none."""
    try:
        model = read_model(blob)
    except ModelError:
        return "reader"
    return "check" if unsupported_operators(model, load_runtime(list_runtimes()[-1])) else ""


def litert(blob: bytes) -> None:
    """Load and prepare the file."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    resolver = OpResolverType.BUILTIN_REF
    Interpreter(model_content=blob, experimental_op_resolver_type=resolver, num_threads=1).allocate_tensors()


def tflm(blob: bytes) -> None:
    """Load, prepare and run the file, on the host's build of TFLM."""
    from tflite_micro.python.tflite_micro import runtime

    runtime.Interpreter.from_bytes(blob, arena_size=ARENA_BYTES).invoke()


def in_child(blobs: Sequence[bytes], attempt: Callable[[bytes], None]) -> Iterator[str]:
    """Return why an attempt at each file fails; "" if it does not."""
    done = 0
    while done < len(blobs):
        for message in _until_death(blobs[done:], attempt):
            yield message
            done += 1
        if done < len(blobs):
            yield DIED
            done += 1


def _until_death(blobs: Sequence[bytes], attempt: Callable[[bytes], None]) -> Iterator[str]:
    end, begin = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(end)
        try:
            _attempt_all(blobs, attempt, begin)
        finally:
            os._exit(0)
    os.close(begin)
    with os.fdopen(end, encoding="utf-8") as lines:
        yield from (json.loads(line) for line in lines if line.endswith("\n"))
    os.waitpid(child, 0)


def _attempt_all(blobs: Sequence[bytes], attempt: Callable[[bytes], None], to: int) -> None:
    """Write a line of JSON for each file in the child, until one crashes it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for blob in blobs:
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        message = ""
        try:
            attempt(blob)
        except (RuntimeError, ValueError) as error:
            message = str(error) or NO_REASON
        signal.setitimer(signal.ITIMER_REAL, 0)
        os.write(to, json.dumps(message).encode() + b"\n")


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the reasons with their counts, in markdown."""
    lines = [
        "| what LiteRT refuses | mutants | reader | `check` | taken | run by TFLM | why taken |",
        "|---|--:|--:|--:|--:|--:|---|",
    ]
    for reason in REASONS:
        alike = [outcome for outcome in outcomes if outcome.reason is reason]
        if alike:
            lines.append(_row(reason.name, alike, reason.taken))
    return "\n".join([*lines, _row("all", outcomes, "")])


def _row(name: str, outcomes: Sequence[Outcome], why: str) -> str:
    by = Counter(outcome.by for outcome in outcomes)
    runs = sum(not outcome.by and not outcome.tflm for outcome in outcomes)
    counts = (len(outcomes), by["reader"], by["check"], by[""], runs)
    return f"| {name} | {' | '.join(f'{count:,}' for count in counts)} | {why if by[''] else ''} |"


def main() -> int:
    """Measure and print."""
    for module in PRELOADED:
        import_module(module)
    words = [word for word in sys.argv[1:] if word != "--show"]
    count, seed = [int(word) for word in (*words, *("20000", "0")[len(words) :])][:2]
    outcomes = list(refusals(count, seed))
    print(f"{count:,} mutants of files of at most {LARGEST_BYTES:,} bytes; LiteRT refuses {len(outcomes):,}.\n")
    print(table(outcomes))
    taken = [outcome for outcome in outcomes if not outcome.by]
    unexplained = [outcome for outcome in taken if not outcome.reason.taken]
    for outcome in taken if "--show" in sys.argv else unexplained:
        says = " ".join(f"{outcome.message} {outcome.tflm and 'TFLM: ' + outcome.tflm}".split())
        print(f"taken: {outcome.mutant.name} {outcome.mutant.number}: {says[:200]}")
    print(f"\ntaken without a reason: {len(unexplained)}")
    return 1 if unexplained else 0


if __name__ == "__main__":
    raise SystemExit(main())
