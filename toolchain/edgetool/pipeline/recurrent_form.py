"""A model converted in the form of its recurrent layers that takes the least of the device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from edgetool import child
from edgetool.convert.request import Conversion, ConvertRequest, Rnn
from edgetool.errors import ConversionError, UnsupportedModelError
from edgetool.finding import Finding
from edgetool.operators.types import OperatorEntry
from edgetool.pipeline.compare import measure_quality
from edgetool.pipeline.conversion import convert_for
from edgetool.pipeline.rnn_price import cheapest, only_finding, price_of, rnn_finding
from edgetool.pipeline.source import Source
from edgetool.report.document import QuantizationInfo
from edgetool.target.types import Target


@dataclass(frozen=True, slots=True)
class Form:
    """A converted model, how far it is from the original, and what is to be said of that."""

    conversion: Conversion
    source: Source
    quality: QuantizationInfo
    findings: tuple[Finding, ...] = ()

    @property
    def sqnr_db(self) -> float | None:
        """That of the worst output; None where none is known."""
        return min((item.sqnr_db for item in self.quality.outputs if item.sqnr_db is not None), default=None)


def best_form(
    request: ConvertRequest,
    target: Target,
    *,
    name: str,
    workdir: Path,
    custom: Mapping[str, OperatorEntry] | None = None,
    progress: child.Progress,
) -> Form:
    """Convert and compare; where layers may be fused or unrolled and neither is asked for, both, and take one.

    name: of the file. workdir: an empty directory that outlives the use of the arrays. Raises as convert_for does.
    """
    first = _converted(request, target, name, workdir, custom, progress)
    if request.rnn != "auto" or not first.conversion.fused:
        return first
    layers = _own_names(first.conversion)
    unrolled: Rnn = "unrolled"
    apart = workdir / "unrolled"
    apart.mkdir()
    try:
        second = _converted(replace(request, rnn=unrolled), target, name, apart, custom, progress)
    except (ConversionError, UnsupportedModelError) as error:  # too many steps, or operators
        return replace(first, findings=(*first.findings, only_finding(layers, error.what)))
    progress("comparing the forms of recurrent layers")
    forms = {"fused": first, "unrolled": second}
    prices = [price_of(kind, form.source, target, custom=custom, sqnr_db=form.sqnr_db) for kind, form in forms.items()]
    chosen = cheapest(prices)
    others = [price for price in prices if price is not chosen]
    taken = forms[chosen.form]
    told = rnn_finding(chosen, others, layers)
    return replace(taken, findings=(*taken.findings, told))


def _own_names(conversion: Conversion) -> tuple[str, ...]:
    """The layers that were fused, as the user made them: Bidirectional has two inside."""
    around = ((scope.rpartition("/")[0], scope) for scope in conversion.fused)
    names = (outer if conversion.layers.get(outer) == "Bidirectional" else scope for outer, scope in around)
    return tuple(dict.fromkeys(names))


def _converted(
    request: ConvertRequest,
    target: Target,
    name: str,
    workdir: Path,
    custom: Mapping[str, OperatorEntry] | None,
    progress: child.Progress,
) -> Form:
    made = convert_for(
        request,
        target.runtime,
        name=name,
        workdir=workdir,
        kernels=target.kernels,
        custom=custom,
        progress=progress,
    )
    conversion = made.conversion
    progress("comparing with the float model")
    quality, findings = measure_quality(conversion, made.model, scheme=request.scheme, workdir=workdir)
    return Form(conversion, Source(name, conversion.tflite, made.model), quality, findings)
