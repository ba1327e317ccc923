from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edgetool.sweep.jobs import Agenda, Job, Made, Outcome

DONE, FAILED = Outcome(), Outcome(reason="it failed")


def job(key: int, needs: set[int]) -> Job:
    return Job(str(key), "convert", {}, {f"{need}": Made(str(need), "blob") for need in sorted(needs)})


@st.composite
def graphs(draw: st.DrawFn) -> list[Job]:
    """Jobs that need earlier ones, in any shape."""
    count = draw(st.integers(1, 15))
    return [job(key, draw(st.sets(st.integers(0, key - 1), max_size=3)) if key else set()) for key in range(count)]


def fated(jobs: list[Job], failing: set[str], known: set[str]) -> set[str]:
    """What cannot be done, told another way: whoever reaches a failing job over needs that are not known."""
    by_key = {item.key: item for item in jobs}

    def reaches(key: str) -> bool:
        return key not in known and any(need in failing or reaches(need) for need in by_key[key].needs)

    return {key for key in by_key if reaches(key)}


@given(graphs(), st.data())
def test_all_that_can_be_done_is_done_once_and_after_what_it_needs(jobs: list[Job], data: st.DataObject) -> None:
    keys = [item.key for item in jobs]
    failing = data.draw(st.sets(st.sampled_from(keys), max_size=3))
    known_keys = data.draw(st.sets(st.sampled_from(keys), max_size=5))
    known = {key: FAILED if key in failing else DONE for key in known_keys}
    capacity = data.draw(st.integers(1, 4))
    agenda = Agenda(known)
    parts = data.draw(st.integers(0, len(jobs)))
    agenda.add(jobs[:parts])
    agenda.add([*jobs, *jobs[:parts]])  # those that are here already are passed over
    assert len(agenda) == len(jobs)
    assert agenda.reused == len(known)
    left_out = fated(jobs, failing, known_keys)
    running: list[str] = []
    ran: list[str] = []
    ended = set(known)
    while not agenda.is_finished:
        while len(running) < capacity and (taken := agenda.take()) is not None:
            assert set(taken.needs) <= ended
            assert not set(taken.needs) & failing
            running.append(taken.key)
            ran.append(taken.key)
        assert running, "nothing runs and nothing may begin"
        key = running.pop(data.draw(st.integers(0, len(running) - 1)))
        agenda.end(key, FAILED if key in failing else DONE)
        ended.add(key)
        assert agenda.kinds["convert"] == len(jobs)
    assert sorted(ran) == sorted(set(keys) - known_keys - left_out)
    assert agenda.states["left out"] == len(left_out)
    assert agenda.states["failed"] == len(failing & (set(ran) | known_keys))
    assert sum(agenda.states.values()) == len(jobs)
    assert agenda.waiting_kinds["convert"] == 0


@given(graphs())
def test_among_those_that_may_begin_the_first_added_does(jobs: list[Job]) -> None:
    agenda = Agenda({})
    agenda.add(jobs)
    order = []
    while (taken := agenda.take()) is not None:
        order.append(int(taken.key))
        agenda.end(taken.key, DONE)
    assert order == list(range(len(jobs)))
