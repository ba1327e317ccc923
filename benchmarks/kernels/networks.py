"""Compare the outputs of planned networks with those of the same networks without a plan, on an emulated core.

    python -m benchmarks.kernels.networks CORE --reference COMMAND --optimised COMMAND [--count 500]
        [--into benchmarks/kernels/measured/networks.csv] [--note LINE...]

The networks are drawn at random (random_network.py). For each of them edgetool writes a plan for the core, as
`edgetool plan --target` does. The optimised kernels run both files, the reference kernels the one without a plan. A
CORE such as m7 is that of the target cortex-m7. The commands are those of `python -m benchmarks.kernels`.

Columns of the CSV for each core:

- planner: "edgetool", or "runtime" if TFLM's own planner is as good, so that both files are equal.
- stock: the outcome of the file without a plan, compared with itself under other previous contents of the memory.
- planned: the outcome of the planned file, compared with the file without a plan.
- reference: the outcome of the file without a plan, compared with that of the reference kernels.
- wrong: the operators whose results differ from those of the reference kernels, or depend on the previous contents,
  although their inputs are the same; measured on a file in which every result is an output. "overwritten" follows if
  the result is right without the reported operators, one of which writes over it.
- rest: the outcome of all other operators than those of the findings and those that depend on them, compared with the
  reference kernels; every result is an output. Empty if there are none.
- findings: what edgetool reports about the kernels: "RULE OPERATOR INDEX", or "kernel-fault FAULT OPERATOR INDEX".
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from benchmarks.kernels.__main__ import inputs_of
from benchmarks.kernels.batch import Run, run_batch, write_batch
from benchmarks.kernels.cases import Case
from benchmarks.kernels.compare import alone, compare
from benchmarks.kernels.random_network import random_network

from edgetool.memory.planner import PlanRequest
from edgetool.model.reader import read_model
from edgetool.model.types import Model, Operator
from edgetool.model.writer import write_model
from edgetool.operators.legality import UnsupportedKind, kernel_faults, unsupported_operators
from edgetool.pipeline.analysis import UNSUPPORTED_RULES, Analysis, analyse
from edgetool.pipeline.planning import Deadline, planned_source
from edgetool.pipeline.source import Source
from edgetool.pipeline.targets import resolve_target
from edgetool.target.platform import platform_of
from edgetool.target.types import Target

MEASURED = Path(__file__).parent / "measured" / "networks.csv"
RULES: dict[UnsupportedKind, str] = {
    "missing": "operator-not-in-runtime",
    **{kind: rule for kind, (rule, _) in UNSUPPORTED_RULES.items()},
}
REFUSALS = frozenset(["kernel-refuses", *(RULES[kind] for kind in ("missing", "type", "limit"))])
OUTCOMES = ("stock", "planned", "reference")
SHA_DIGITS = 12
NOTES = (
    "TFLM 90b983c2b3f1480642e040bbd2ddb37b998f3424, its CMSIS-NN 4ab83cc3; arm-none-eabi-gcc 12.2.1 -O2; QEMU 7.2",
    'network NUMBER: random_network(Random("network/random/NUMBER")); inputs: Random("network/random/NUMBER/inputs")',
)


@dataclass(frozen=True, slots=True)
class Network:
    """One network, drawn from its number, and its file without a plan."""

    number: int
    source: Source

    @classmethod
    def drawn(cls, number: int) -> Network:
        """Return the network, which is the same on every machine."""
        blob = write_model(random_network(Random(_case(number).seed)))
        return cls(number, Source(f"network_{number}.tflite", blob, read_model(blob)))

    @property
    def case(self) -> Case:
        """The seeds of the network and of its inputs."""
        return _case(self.number)

    @property
    def model(self) -> Model:
        return self.source.model

    @property
    def sha256(self) -> str:
        """The first digits of the file's hash."""
        return self.source.sha256[:SHA_DIGITS]


def _case(number: int) -> Case:
    return Case("network", "random", number)


def exposed(model: Model) -> Model:
    """Return the model with the results of all operators as its outputs."""
    results = tuple(index for operator in model.main.operators for index in operator.outputs)
    return replace(model, subgraphs=(replace(model.main, outputs=results),), signatures=())


def rest_of(model: Model, reported: Collection[int]) -> Model | None:
    """Return the model without the reported operators and what depends on them, or None if nothing is left."""
    main, missing = model.main, set[int]()
    kept: list[Operator] = []
    for operator in main.operators:
        if operator.index in reported or missing.intersection(operator.inputs):
            missing.update(operator.outputs)
        else:
            kept.append(replace(operator, index=len(kept)))
    read = {index for operator in kept for index in operator.inputs}
    inputs = tuple(index for index in main.inputs if index in read)
    main = replace(main, operators=tuple(kept), inputs=inputs)
    return exposed(replace(model, subgraphs=(main,))) if kept else None


def wrong_operators(model: Model, reference: Run, optimised: Run) -> list[Operator]:
    """Return the operators that differ in two runs of the exposed model, or from fill to fill, for the same inputs."""
    main, at, differing = model.main, 0, set()
    for index in (index for operator in main.operators for index in operator.outputs):
        end = at + main.tensors[index].size_bytes
        if len({output[at:end] for output in (*reference.outputs, *optimised.outputs)}) != 1:
            differing.add(index)
        at = end
    return [
        operator
        for operator in main.operators
        if differing.intersection(operator.outputs) and not differing.intersection(operator.inputs)
    ]


@dataclass(frozen=True, slots=True)
class Planned:
    """A network with its plan for a target."""

    network: Network
    analysis: Analysis
    source: Source

    @classmethod
    def of(cls, network: Network, target: Target) -> Planned:
        """Plan the network. The search ends at its node limit, so that the plan is always the same."""
        analysis = analyse(network.source, target, PlanRequest(), Deadline(None).effort())
        return cls(network, analysis, planned_source(network.source, analysis.plan, target))

    def findings(self) -> list[str]:
        """Return what edgetool reports about the kernels, as "RULE OPERATOR INDEX"; for a fault with its name."""
        model, target, account = self.network.model, self.analysis.target, self.analysis.plan.account
        assert target is not None
        assert account is not None
        assert self.analysis.estimate is not None
        refused = [(item.label, item.operator) for item in account.unaccounted if item.refusal is not None]
        found = [f"kernel-refuses {label} {index}" for label, index in refused]
        for item in unsupported_operators(model, target.runtime, kernels=target.kernels):
            if (item.operator.label, item.operator.index) not in refused:
                found.append(f"{RULES[item.kind]} {item.operator.label} {item.operator.index}")
        for silent in self.analysis.estimate.operators:
            if silent.gives_up:
                found.append(f"kernel-gives-up {silent.operator} {silent.index}")
        for _, operator, fault in kernel_faults(model, platform_of(target)):
            found.append(f"kernel-fault {fault.name} {operator.label} {operator.index}")
        return found

    def rest(self) -> Model | None:
        """Return the network without the operators that the findings name."""
        return rest_of(self.network.model, {int(finding.split()[-1]) for finding in self.findings()})

    def row(self, runs: Runs) -> dict[str, str]:
        """Return the columns of a core."""
        model, rest = self.network.model, self.rest()
        outcome, right = "", set[int]()  # the results that are right without the reported operators
        if rest is not None:
            outcome = str(compare(rest, runs.rest_reference, runs.rest))
            right.update(rest.main.outputs if outcome == "equal" else ())
        wrong = [
            f"{operator.code} {operator.index}" + " overwritten" * (operator.outputs[0] in right)
            for operator in wrong_operators(model, runs.exposed_reference, runs.exposed)
        ]
        return {
            "planner": self.analysis.plan.planner,
            "stock": str(alone(model, runs.stock)),
            "planned": str(compare(model, runs.stock, runs.planned)),
            "reference": str(compare(model, runs.reference, runs.stock)),
            "wrong": "; ".join(wrong),
            "rest": outcome,
            "findings": "; ".join(self.findings()),
        }


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of a network by the optimised kernels and by the reference kernels."""

    stock: Run
    exposed: Run
    rest: Run
    planned: Run
    reference: Run
    exposed_reference: Run
    rest_reference: Run


def measure(plans: Sequence[Planned], reference: str, optimised: str) -> dict[int, dict[str, str]]:
    """Return the columns of a core by the numbers of the networks."""
    models = [plan.network.model for plan in plans]
    stock = [(plan.network.source.blob, inputs_of(plan.network.case, plan.network.model)) for plan in plans]
    planned = [(plan.source.blob, given) for plan, (_, given) in zip(plans, stock, strict=True)]
    exposing = [(write_model(exposed(model)), given) for model, (_, given) in zip(models, stock, strict=True)]
    rest = [_file(plan.network.case, plan.rest() or plan.network.model) for plan in plans]
    actual = _run(optimised, [stock, exposing, rest, planned])
    expected = _run(reference, [stock, exposing, rest])
    return {plan.network.number: plan.row(Runs(*runs)) for plan, *runs in zip(plans, *actual, *expected, strict=True)}


def _file(case: Case, model: Model) -> tuple[bytes, bytes]:
    return write_model(model), inputs_of(case, model)


def _run(command: str, groups: Sequence[Sequence[tuple[bytes, bytes]]]) -> list[list[Run]]:
    """Return the runs of groups of files with their inputs."""
    with tempfile.TemporaryDirectory() as folder:
        batch = Path(folder) / "batch"
        files = [file for group in groups for file in group]
        write_batch(batch, files)
        runs = run_batch(command, batch, len(files), Path(folder) / "result")
        return [[next(runs) for _ in group] for group in groups]


def read_networks(path: Path) -> list[dict[str, str]]:
    """Return the rows of the CSV without its comments."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def write_networks(path: Path, notes: Iterable[str], rows: Iterable[Mapping[str, str]], columns: Iterable[str]) -> None:
    """Write the rows behind comment lines."""
    with path.open("w", newline="", encoding="utf-8") as file:
        file.writelines(f"# {note}\n" for note in notes)
        writer = csv.DictWriter(file, list(columns), restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("core", help="such as m7, for the target cortex-m7")
    parser.add_argument("--reference", required=True, metavar="COMMAND")
    parser.add_argument("--optimised", required=True, metavar="COMMAND")
    parser.add_argument("--count", type=int, default=500, help="the number of networks")
    parser.add_argument("--into", type=Path, default=MEASURED, metavar="CSV")
    parser.add_argument("--note", action="append", default=[], help="another line at the start of the CSV")
    options = parser.parse_args()
    target = resolve_target(f"cortex-{options.core}")
    plans = [Planned.of(Network.drawn(number), target) for number in range(options.count)]
    measured = measure(plans, options.reference, options.optimised)
    _print(measured)
    rows = {int(row["network"]): row for row in (read_networks(options.into) if options.into.exists() else ())}
    for plan in plans:
        network = plan.network
        columns = {f"{options.core} {name}": value for name, value in measured[network.number].items()}
        own = {
            "network": str(network.number),
            "sha256": network.sha256,
            "operators": str(len(network.model.main.operators)),
        }
        old = rows.get(network.number, {})
        rows[network.number] = {**(old if old.get("sha256") == network.sha256 else {}), **own, **columns}
    names = dict.fromkeys(name for row in rows.values() for name in row)
    options.into.parent.mkdir(exist_ok=True)
    write_networks(options.into, (*NOTES, *options.note), (rows[number] for number in sorted(rows)), names)
    return 0


def _print(measured: Mapping[int, Mapping[str, str]]) -> None:
    for name in ("planner", *OUTCOMES, "rest"):
        counts = Counter(row[name].partition(" ")[0] for row in measured.values())
        print(f"{name:<10} " + ", ".join(f"{count} {outcome or 'none'}" for outcome, count in counts.most_common()))
    for name in ("wrong", "findings"):
        print(f"{name:<10} {sum(bool(row[name]) for row in measured.values())} networks")
    for number, row in measured.items():
        if reason := unexplained(row):
            print(f"network {number}: {reason}")


def unexplained(row: Mapping[str, str]) -> str:
    """Return what no finding explains in the columns of a core, or a refusal that did not happen; "" for nothing."""
    findings = [finding.split() for finding in row["findings"].split("; ") if finding]
    if any(finding[0] in REFUSALS for finding in findings):
        return "" if row["stock"] in ("refused", "crashed", "failed") else f"no refusal, but {row['stock']}"
    names = ("rest",) if findings else (*OUTCOMES, "rest")
    outcomes = [f"{name}: {row[name]}" for name in names if row[name] not in ("", "equal")]
    reported = {" ".join(finding[-2:]) for finding in findings}
    wrong = [operator for operator in row["wrong"].split("; ") if operator and operator not in reported]
    return "; ".join([*outcomes, *(operator for operator in wrong if not operator.endswith(" overwritten"))])


if __name__ == "__main__":
    raise SystemExit(main())
