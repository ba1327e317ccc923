"""What is demanded of every model of the zoo."""

from __future__ import annotations

from benchmarks.zoo.trial import Trial


def check(trial: Trial) -> None:
    """It runs on TFLM, near enough to Keras, as LiteRT does; or it is refused by the name of what stands in the way."""
    if trial.entry.refused is not None:
        assert trial.refusal is not None, "it runs: the zoo says that it is refused"
        assert trial.entry.refused in trial.refusal
        return
    assert trial.refusal is None, trial.refusal
    assert trial.arena_bytes is not None
    assert trial.unsound == ()
    assert trial.outputs
    for output in trial.outputs:
        assert output.good, f"{output.name}: {output.sqnr_db} dB where int8 allows {output.allowed_db}"
        assert output.like_litert, f"{output.name}: {output.sqnr_db} dB on TFLM, {output.litert_db} on LiteRT"
