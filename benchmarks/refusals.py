"""What LiteRT's reference interpreter refuses, and whether edgetool refuses it too: over damaged copies of real files.

    python -m benchmarks.refusals [MUTANTS] [FIRST SEED] [--show]

Prints LiteRT's reasons for refusing a mutant, each with the number of those that edgetool's reader refuses, of those
that it reads and `edgetool check` refuses (operators that TFLM's kernels do not take), and of those that it takes, with
the reason for that. LiteRT loads and prepares each file (AllocateTensors, reference kernels) in a child process with
limits on memory and time; where it dies, it counts as a refusal. --show lists the mutants that are taken. Exit status 1
when one is taken for no reason that is known here.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.conftest import model_files
from tests.model.builders import ALL
from tests.model.mutants import mutants

from edgetool.errors import ModelError
from edgetool.model.reader import read_model
from edgetool.model.writer import write_model
from edgetool.operators.legality import illegal_operators
from edgetool.target.load import list_runtimes, load_runtime

MEMORY_BYTES = 4 * 2**30
SECONDS = 2.0
LARGEST_BYTES = 100_000  # of a file that is damaged
BATCH = 500
DIED = "died"
NO_REASON = "no reason given"  # what an allocation that fails leaves


@dataclass(frozen=True, slots=True)
class Reason:
    """A kind of refusal: what LiteRT's message holds, and why edgetool may take the file; "" when it may not."""

    name: str
    message: str
    taken: str = ""


# The first that fits counts.
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
        "a variable tensor with contents",
        r"variable tensor with buffer",
        "TFLM ignores the contents, as the account does",
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
        r"Unknown index output data type|Output shape is|quantized_bias_type",
        "the output's type counts there, and biases are of the types that its kernels take",
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
    """A damaged file: the name of the whole one, its number among that one's mutants, and its bytes."""

    name: str
    number: int
    blob: bytes


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one that LiteRT refuses. by: "reader", "check" or "" when it is taken."""

    mutant: Mutant
    message: str
    reason: Reason
    by: str


def sample(count: int, seed: int) -> Iterator[Mutant]:
    """About `count` mutants of small real files; of our own models where there are none."""
    files = [(path.stem, path.read_bytes()) for path in model_files() if path.stat().st_size <= LARGEST_BYTES]
    files = files or [(name, write_model(make())) for name, make in ALL.items()]
    for position, (name, blob) in enumerate(files):
        of_this = count * (position + 1) // len(files) - count * position // len(files)
        for number, mutant in enumerate(mutants(blob, of_this, seed + position)):
            yield Mutant(name, number, mutant)


def refusals(count: int, seed: int) -> Iterator[Outcome]:
    """Every mutant that LiteRT refuses."""
    batch: list[Mutant] = []
    for mutant in sample(count, seed):
        batch.append(mutant)
        if len(batch) == BATCH:
            yield from _refused(batch)
            batch = []
    yield from _refused(batch)


def _refused(batch: Sequence[Mutant]) -> Iterator[Outcome]:
    for mutant, message in zip(batch, judge([mutant.blob for mutant in batch]), strict=True):
        if message:
            reason = next(reason for reason in REASONS if re.search(reason.message, message))
            yield Outcome(mutant, message, reason, refused_by(mutant.blob))


def refused_by(blob: bytes) -> str:
    """Who in edgetool refuses a file: the "reader", "check" or nobody."""
    try:
        model = read_model(blob)
    except ModelError:
        return "reader"
    return "check" if illegal_operators(model, load_runtime(list_runtimes()[-1])) else ""


def judge(blobs: Sequence[bytes]) -> Iterator[str]:
    """Why LiteRT refuses each file; "" where it does not."""
    done = 0
    while done < len(blobs):
        for message in _judge_until_death(blobs[done:]):
            yield message
            done += 1
        if done < len(blobs):
            yield DIED
            done += 1


def _judge_until_death(blobs: Sequence[bytes]) -> Iterator[str]:
    from ai_edge_litert.interpreter import Interpreter  # noqa: F401  so that each child has it already

    end, begin = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(end)
        try:
            _judge_all(blobs, begin)
        finally:
            os._exit(0)
    os.close(begin)
    with os.fdopen(end, encoding="utf-8") as lines:
        yield from (json.loads(line) for line in lines if line.endswith("\n"))
    os.waitpid(child, 0)


def _judge_all(blobs: Sequence[bytes], to: int) -> None:
    """In the child: a line of JSON for each file, until one kills it."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

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
            Interpreter(
                model_content=blob, experimental_op_resolver_type=OpResolverType.BUILTIN_REF, num_threads=1
            ).allocate_tensors()
        except (RuntimeError, ValueError) as error:
            message = str(error) or NO_REASON
        os.write(to, json.dumps(message).encode() + b"\n")


def table(outcomes: Sequence[Outcome]) -> str:
    """The reasons with their counts, in Markdown."""
    counts = Counter((outcome.reason.name, outcome.by) for outcome in outcomes)
    lines = ["| what LiteRT refuses | mutants | reader | `check` | taken | why taken |", "|---|--:|--:|--:|--:|---|"]
    for reason in REASONS:
        by = [counts[reason.name, who] for who in ("reader", "check", "")]
        if any(by):
            why = reason.taken if by[2] else ""
            lines.append(f"| {reason.name} | {sum(by):,} | {by[0]:,} | {by[1]:,} | {by[2]:,} | {why} |")
    total = Counter(outcome.by for outcome in outcomes)
    lines.append(f"| all | {len(outcomes):,} | {total['reader']:,} | {total['check']:,} | {total['']:,} | |")
    return "\n".join(lines)


def main() -> int:
    """Measure and print."""
    words = [word for word in sys.argv[1:] if word != "--show"]
    count, seed = [int(word) for word in (*words, *("20000", "0")[len(words) :])][:2]
    outcomes = list(refusals(count, seed))
    print(f"{count:,} mutants of files of at most {LARGEST_BYTES:,} bytes; LiteRT refuses {len(outcomes):,}.\n")
    print(table(outcomes))
    taken = [outcome for outcome in outcomes if not outcome.by]
    unexplained = [outcome for outcome in taken if not outcome.reason.taken]
    for outcome in taken if "--show" in sys.argv else unexplained:
        print(f"taken: {outcome.mutant.name} {outcome.mutant.number}: {' '.join(outcome.message.split())[:200]}")
    print(f"\ntaken without a reason: {len(unexplained)}")
    return 1 if unexplained else 0


if __name__ == "__main__":
    raise SystemExit(main())
