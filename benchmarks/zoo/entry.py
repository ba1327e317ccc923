"""What a model of the zoo is, and the list that its modules fill."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchmarks.zoo.samples import Sampler

# "keras2" is what tf_keras, the last of the Keras 2 line, writes.
Format = Literal["keras", "h5", "keras2 .keras", "keras2 .h5", "saved_model"]
Builder = Callable[[Any], Any]
CI, BENCHMARK = "ci", "benchmark"


@dataclass(frozen=True, slots=True)
class Entry:
    """One model and how it is converted.

    build: from the module keras (or tf_keras) to a model, on fixed seeds. group: the table's heading.
    samplers: inputs whose samples are not those that their shape suggests, by name; "" is the only input.
    options: of edgetool.convert.request.ConvertRequest, as keywords. refused: what the refusal must name, for a model
    that no microcontroller runs. stateful: the samples are one sequence. save: instead of model.save or model.export.
    runs: where it is tried; slow ones only in the benchmark.
    """

    name: str
    build: Builder
    group: str
    about: str
    format: Format = "keras"
    samplers: Mapping[str, Sampler] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    refused: str | None = None
    stateful: bool = False
    save: Callable[[Any, Any, Path], None] | None = None
    runs: str = CI

    @property
    def file_name(self) -> str:
        """What the saved model is called."""
        suffix = {"keras": ".keras", "h5": ".h5", "keras2 .keras": ".keras", "keras2 .h5": ".h5", "saved_model": ""}
        return f"{self.name}{suffix[self.format]}"

    @property
    def keras2(self) -> bool:
        """Whether tf_keras writes it."""
        return self.format.startswith("keras2")


def collection(group: str) -> tuple[list[Entry], Callable[..., Callable[[Builder], Builder]]]:
    """An empty list of entries, and the decorator that adds the function below it under the name it gives."""
    entries: list[Entry] = []

    def zoo(name: str, **details: Any) -> Callable[[Builder], Builder]:
        def add(build: Builder) -> Builder:
            about = (build.__doc__ or "").strip().rstrip(".")
            entries.append(Entry(name, build, group, about, **details))
            return build

        return add

    return entries, zoo
