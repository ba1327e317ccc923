"""How the program ends, and what it says then."""

from __future__ import annotations

import signal

import pytest

from edgetool.cli.errors import BUG, INTERRUPTED, Terminated, exit_code_of, raise_on_signals


def fail_to_load() -> None:
    raise ImportError("initialization failed")


@pytest.mark.parametrize(("arrived", "code", "said"), [(True, INTERRUPTED, "interrupted"), (False, BUG, "a bug")])
def test_what_fails_after_a_signal_was_interrupted(
    arrived: bool, code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Terminated, "arrived", arrived)
    assert exit_code_of(fail_to_load, tracebacks=False) == code
    assert said in capsys.readouterr().err


def test_a_signal_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Terminated, "arrived", False)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        raise_on_signals()
        with pytest.raises(Terminated):
            signal.raise_signal(signal.SIGTERM)
        assert Terminated.arrived
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
