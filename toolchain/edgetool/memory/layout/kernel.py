"""The place/postpone search, over flat arrays and loops only: plain Python runs it, and numba compiles it as it is.

It looks at layouts in which nothing can sink; every layout can be turned into such a one, which is no higher. `low` is
the least offset that a piece can still have. A node takes an unplaced piece whose `low` is not above that of any other
alive with it, and either places it there, which lifts those above its end, or postpones it: then one of those must come
to lie where it would have lain (below `wait`), and it lies at least as high as the least end that they can have.

The order in which sections are settled is free, and decides everything: those in which the search failed come first.
Where none of the unplaced pieces crosses a moment, the ranges on both sides are solved one after the other, and the
failure of one is the failure of the decision that parted them.
"""

from __future__ import annotations

from typing import Any

# What a call ends with. MORE_ROOM: a stack is full and must be enlarged.
RUNNING, FOUND, EXHAUSTED, MORE_ROOM = range(4)
# Scalars of the state, by index.
DEPTH, TRAIL, RANGE, RANGES, FAILED, NODES = range(6)
# No piece is as high as this.
NOWHERE = 1 << 60
# Columns of the stack of decisions.
PIECE, STAGE, TRAIL_MARK, RANGE_MARK, RANGES_MARK = range(5)
# Stages of a decision: placed, and may still be postponed; postponed; pinned, and there is nothing else.
PLACED, POSTPONED, GIVEN = range(3)
# Columns of a range: first and last section, the range that follows, the decision that made it, and the depth at which
# its own decisions begin.
BEGIN, END, NEXT, OWNER, BASE = range(5)
# Which section is next. FEWEST: of those with the lowest floor, the one with the fewest pieces that can lie there.
# Else where it failed most, counted in steps of 2**shift; of these the lowest floor, or the least to spare, or also the
# most to place.
FEWEST, LOWEST, TIGHTEST, FAILING = range(4)
# Failures are counted up to this, and amounts of memory scaled below it, so that grades fit into 64 bits.
MOST_FAILURES = 1 << 18


def search(
    budget: int,
    rule: int,
    plain: bool,
    scale: int,
    first: Any,
    last: Any,
    size: Any,
    align: Any,
    pin: Any,
    top: Any,
    twin: Any,
    near: Any,
    pinned_near: Any,
    alone: Any,
    members: Any,
    low: Any,
    wait: Any,
    placed: Any,
    floor: Any,
    spare: Any,
    cross: Any,
    failures: Any,
    grade: Any,
    trail_what: Any,
    trail_old: Any,
    stack: Any,
    ranges: Any,
    state: Any,
) -> int:
    """Go on for `budget` nodes; all that is known is in the arrays, and the next call goes on from there.

    plain: no piece is pinned and every alignment is 1. scale: by how many bits memory is scaled down for grades.
    size is what a piece takes from its neighbours, top the highest offset that it may have. floor: the least `low` in a
    section; spare: the highest floor above which all that is unplaced there still fits; cross: how many unplaced pieces
    are alive in it and in the next. near, pinned_near: the pieces alive with a piece, and the pinned ones by offset;
    alone: the piece itself; members: the pieces of a section by priority. Rows may be padded with n.
    """
    depth, trail, here, made = state[DEPTH], state[TRAIL], state[RANGE], state[RANGES]
    failed = state[FAILED] != 0
    nodes = 0
    n = len(first)
    trail_room = len(trail_what) - 4 * n - 2 * len(floor)
    range_room, depth_room = len(ranges) - len(floor) - 1, len(stack) - 2
    by_floor, by_spare, by_rest, shift = 0, 0, 0, 4
    if rule in (LOWEST, FEWEST):
        by_floor = 1
    else:
        by_spare = 1 << 20
        shift = 0
    if rule == TIGHTEST:
        by_rest = 1
        shift = 6
    if rule == FEWEST:
        shift = 20
    if state[NODES] == 0:
        for s in range(len(floor)):
            grade[s] = (
                ((failures[s] >> shift) << 41)
                - (floor[s] >> scale) * by_floor
                - ((spare[s] - floor[s]) >> scale) * by_spare
                - (spare[s] >> scale) * by_rest
            )
    status = RUNNING
    while True:
        if failed:
            # Undo decisions down to one with an alternative. The first of a range that fails undoes the range's owner.
            target = depth - 1
            b = -1
            while depth > 0:
                depth -= 1
                b = stack[depth][PIECE]
                stage = stack[depth][STAGE]
                mark = stack[depth][TRAIL_MARK]
                while trail > mark:
                    trail -= 1
                    what = trail_what[trail]
                    if what < n:
                        low[what] = trail_old[trail]
                    elif what < n + n:
                        wait[what - n] = trail_old[trail]
                    else:
                        s = what - n - n
                        f = trail_old[trail]
                        floor[s] = f
                        grade[s] = (
                            ((failures[s] >> shift) << 41)
                            - (f >> scale) * by_floor
                            - ((spare[s] - f) >> scale) * by_spare
                            - (spare[s] >> scale) * by_rest
                        )
                if stage != POSTPONED:
                    taken = size[b]
                    end = last[b]
                    for s in range(first[b], end + 1):
                        spare[s] -= taken
                        if s < end:
                            cross[s] += 1
                        grade[s] = (
                            ((failures[s] >> shift) << 41)
                            - (floor[s] >> scale) * by_floor
                            - ((spare[s] - floor[s]) >> scale) * by_spare
                            - (spare[s] >> scale) * by_rest
                        )
                here = stack[depth][RANGE_MARK]
                made = stack[depth][RANGES_MARK]
                if depth > target:
                    continue
                if stage == PLACED:
                    break
                b = -1
                target = depth - 1
                if ranges[here][BASE] == depth:
                    target = ranges[here][OWNER]
                if target < 0:
                    break
            if b < 0:
                status = EXHAUSTED
                break
            failed = False
            placing = False
        else:
            if nodes >= budget:
                break
            if trail >= trail_room or made >= range_room or depth >= depth_room:
                status = MORE_ROOM
                break
            begin, end = ranges[here][BEGIN], ranges[here][END]
            most = -NOWHERE
            chosen = -1
            for s in range(begin, end + 1):
                if grade[s] > most:
                    most = grade[s]
                    chosen = s
            if chosen < 0:
                here = ranges[here][NEXT]
                if here < 0:
                    status = FOUND
                    break
                ranges[here][BASE] = depth
                continue
            least = floor[chosen]
            b = -1
            if rule == FEWEST:
                fewest = n + 1
                for s in range(begin, end + 1):
                    if floor[s] < least:
                        least = floor[s]
                for s in range(begin, end + 1):
                    if floor[s] == least:
                        found = 0
                        candidate = -1
                        for j in members[s]:
                            if low[j] == least:
                                if found == 0:
                                    candidate = j
                                found += 1
                                if found >= fewest:
                                    break
                        if found < fewest:
                            fewest = found
                            b = candidate
            else:
                # From the lowest piece of the section on to a lower neighbour, until there is none.
                searching = True
                while searching:
                    for j in members[chosen]:
                        if low[j] == least:
                            b = j
                            break
                    searching = False
                    for s in range(first[b], last[b] + 1):
                        if floor[s] < least:
                            least = floor[s]
                            chosen = s
                            searching = True
            nodes += 1
            placing = wait[b] == 0

        at = low[b]
        stack[depth][PIECE] = b
        stack[depth][TRAIL_MARK] = trail
        stack[depth][RANGE_MARK] = here
        stack[depth][RANGES_MARK] = made
        depth += 1
        left, right = first[b], last[b]
        own_left, own_right = left, right
        parted = False
        taken = size[b]
        if placing:
            stack[depth - 1][STAGE] = PLACED if pin[b] < 0 else GIVEN
            placed[b] = at
            trail_what[trail] = b
            trail_old[trail] = at
            trail += 1
            low[b] = NOWHERE
            lifted = at + taken
            for s in range(left, right + 1):
                spare[s] += taken
                if lifted > spare[s]:
                    failed = True
                    if failures[s] < MOST_FAILURES:
                        failures[s] += 1
                if s < right:
                    cross[s] -= 1
                    if cross[s] == 0:
                        parted = True
            if failed:
                continue
            row = near[b]
            resolved = at
        else:
            stack[depth - 1][STAGE] = POSTPONED
            # The pieces that may come to lie where b would: it rests at least on the lowest of them.
            limit = wait[b]
            if limit == 0:
                limit = at + taken
            lifted = NOWHERE
            for j in near[b]:
                x = low[j]
                if x < limit and pin[j] < 0 and x + size[j] < lifted:
                    lifted = x + size[j]
            if lifted > top[b]:
                failed = True
                continue
            if wait[b] == 0:
                trail_what[trail] = n + b
                trail_old[trail] = 0
                trail += 1
                wait[b] = limit
            row = alone[b]
            resolved = NOWHERE
        for j in row:
            old = low[j]
            if old == NOWHERE:
                continue
            if wait[j] > resolved:
                trail_what[trail] = n + j
                trail_old[trail] = wait[j]
                trail += 1
                wait[j] = 0
            if old >= lifted:
                continue
            x = lifted
            t = j
            # The piece, and its twins above it.
            while low[t] < x:
                if not plain:
                    # The least multiple of its alignment at which it lies clear of the pinned pieces.
                    if pin[t] >= 0:
                        failed = True
                        break
                    x = -(-x // align[t]) * align[t]
                    for p in pinned_near[t]:
                        if p < n and x < pin[p] + size[p] and pin[p] < x + size[t]:
                            x = pin[p] + size[p]
                            x = -(-x // align[t]) * align[t]
                if x > top[t]:
                    failed = True
                    break
                trail_what[trail] = t
                trail_old[trail] = low[t]
                trail += 1
                low[t] = x
                if first[t] < left:
                    left = first[t]
                if last[t] > right:
                    right = last[t]
                x += size[t]
                t = twin[t]
            if failed:
                break
        if failed:
            continue
        # Lift the floors, and give up where what is unplaced no longer fits above one.
        for s in range(left, right + 1):
            f = floor[s]
            if f == NOWHERE:
                continue
            lowest = f
            if placing and own_left <= s <= own_right:
                lowest = lifted
            m = NOWHERE
            for j in members[s]:
                if low[j] < m:
                    m = low[j]
                    if m <= lowest:
                        break
            if m > f:
                trail_what[trail] = n + n + s
                trail_old[trail] = f
                trail += 1
                floor[s] = m
            elif lowest == f:
                continue
            if m == NOWHERE:
                grade[s] = -NOWHERE
            elif m > spare[s]:
                failed = True
                if failures[s] < MOST_FAILURES:
                    failures[s] += 1
                break
            else:
                grade[s] = (
                    ((failures[s] >> shift) << 41)
                    - (m >> scale) * by_floor
                    - ((spare[s] - m) >> scale) * by_spare
                    - (spare[s] >> scale) * by_rest
                )
        if failed or not parted:
            continue
        # Ranges between which nothing unplaced is alive are solved one by one.
        begin, end = ranges[here][BEGIN], ranges[here][END]
        following = ranges[here][NEXT]
        count = made
        since = -1
        for s in range(begin, end + 1):
            if floor[s] == NOWHERE:
                continue
            if since < 0:
                since = s
            if s == end or cross[s] == 0:
                ranges[made][BEGIN] = since
                ranges[made][END] = s
                made += 1
                since = -1
        if made == count + 1:
            ranges[count][NEXT] = following
            ranges[count][OWNER] = ranges[here][OWNER]
            ranges[count][BASE] = ranges[here][BASE]
            here = count
        elif made > count:
            for r in range(count, made):
                ranges[r][NEXT] = r + 1 if r + 1 < made else following
                ranges[r][OWNER] = depth - 1
                ranges[r][BASE] = depth
            here = count
    state[DEPTH], state[TRAIL], state[RANGE], state[RANGES] = depth, trail, here, made
    state[FAILED] = 1 if failed else 0
    state[NODES] += nodes
    return status
