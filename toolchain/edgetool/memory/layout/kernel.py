"""Branch and bound that places or postpones buffers, over flat arrays and loops only: numba compiles the function
unchanged.

It considers only layouts in which no buffer can be moved down; every layout can be turned into one of these, which is
not higher. `low` is the minimum offset that a buffer can still have. A node takes an unplaced buffer whose `low` is not
above that of any other buffer live with it. It either places the buffer there, which raises those that would overlap
it, or postpones it: then one of the others must be placed below its end there (below `wait`), and it lies at least as
high as the lowest end that they can have.

The order in which cliques are completed is free, and has the greatest effect on the time: cliques in which the search
failed come first. If no unplaced buffer is live on both sides of a moment, the ranges on the two sides are solved one
after the other, and the failure of one is the failure of the decision that separated them.
"""

from __future__ import annotations

from typing import Any

# The status that a call returns. STACK_FULL: a stack must be enlarged.
RUNNING, SOLVED, EXHAUSTED, STACK_FULL = range(4)
# Scalars of the state, by index.
DEPTH, TRAIL, RANGE, RANGES, FAILED, NODES = range(6)
# Higher than any buffer.
UNPLACED = 1 << 60
# Columns of the stack of decisions.
BUFFER, STAGE, TRAIL_MARK, RANGE_MARK, RANGES_MARK = range(5)
# Stages of a decision: placed, and may still be postponed; postponed; pinned, without an alternative.
PLACED, POSTPONED, GIVEN = range(3)
# Columns of a range: first and last clique, the next range, the decision that created it, and the depth at which its
# own decisions begin.
BEGIN, END, NEXT, OWNER, BASE = range(5)
# The rule for the next clique. FEWEST: of those with the lowest floor, the one with the fewest buffers that can lie
# there. The others choose the clique that failed most often, counted in steps of 2**shift; of these, the one with the
# lowest floor (LOWEST) or the smallest slack (FAILING), or also with the most to place (TIGHTEST).
FEWEST, LOWEST, TIGHTEST, FAILING = range(4)
# The maximum count of failures, so that grades fit into 64 bits (sizes are scaled as well).
MAX_FAILURES = 1 << 18


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
    """Continue the search for `budget` nodes; the arrays contain the whole state, and the next call continues from
    there.

    plain: no buffer is pinned and every alignment is 1. scale: the number of bits by which sizes are scaled down for
    grades. size is the space that a buffer takes from its neighbours, top the highest offset that it may have. floor:
    the minimum `low` in a clique; spare: the highest floor above which all that is unplaced in the clique still fits;
    cross: the number of unplaced buffers that are live in the clique and in the next one. near, pinned_near: the
    buffers live together with a buffer, and the pinned ones by offset; alone: the buffer itself; members: the buffers
    of a clique by priority. Rows may be padded with n. Returns one of the statuses above.
    """
    depth, trail, current, range_count = state[DEPTH], state[TRAIL], state[RANGE], state[RANGES]
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
            # Undo decisions down to one that has an alternative. If the first decision of a range fails, the range's
            # owner is undone.
            target = depth - 1
            b = -1
            while depth > 0:
                depth -= 1
                b = stack[depth][BUFFER]
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
                    size_b = size[b]
                    end = last[b]
                    for s in range(first[b], end + 1):
                        spare[s] -= size_b
                        if s < end:
                            cross[s] += 1
                        grade[s] = (
                            ((failures[s] >> shift) << 41)
                            - (floor[s] >> scale) * by_floor
                            - ((spare[s] - floor[s]) >> scale) * by_spare
                            - (spare[s] >> scale) * by_rest
                        )
                current = stack[depth][RANGE_MARK]
                range_count = stack[depth][RANGES_MARK]
                if depth > target:
                    continue
                if stage == PLACED:
                    break
                b = -1
                target = depth - 1
                if ranges[current][BASE] == depth:
                    target = ranges[current][OWNER]
                if target < 0:
                    break
            if b < 0:
                status = EXHAUSTED
                break
            failed = False
            is_placement = False
        else:
            if nodes >= budget:
                break
            if trail >= trail_room or range_count >= range_room or depth >= depth_room:
                status = STACK_FULL
                break
            begin, end = ranges[current][BEGIN], ranges[current][END]
            highest_grade = -UNPLACED
            chosen = -1
            for s in range(begin, end + 1):
                if grade[s] > highest_grade:
                    highest_grade = grade[s]
                    chosen = s
            if chosen < 0:
                current = ranges[current][NEXT]
                if current < 0:
                    status = SOLVED
                    break
                ranges[current][BASE] = depth
                continue
            minimum = floor[chosen]
            b = -1
            if rule == FEWEST:
                fewest = n + 1
                for s in range(begin, end + 1):
                    if floor[s] < minimum:
                        minimum = floor[s]
                for s in range(begin, end + 1):
                    if floor[s] == minimum:
                        candidates = 0
                        candidate = -1
                        for j in members[s]:
                            if low[j] == minimum:
                                if candidates == 0:
                                    candidate = j
                                candidates += 1
                                if candidates >= fewest:
                                    break
                        if candidates < fewest:
                            fewest = candidates
                            b = candidate
            else:
                # Go from the lowest buffer of the clique to a lower neighbour, until there is none.
                searching = True
                while searching:
                    for j in members[chosen]:
                        if low[j] == minimum:
                            b = j
                            break
                    searching = False
                    for s in range(first[b], last[b] + 1):
                        if floor[s] < minimum:
                            minimum = floor[s]
                            chosen = s
                            searching = True
            nodes += 1
            is_placement = wait[b] == 0

        at = low[b]
        stack[depth][BUFFER] = b
        stack[depth][TRAIL_MARK] = trail
        stack[depth][RANGE_MARK] = current
        stack[depth][RANGES_MARK] = range_count
        depth += 1
        left, right = first[b], last[b]
        placed_left, placed_right = left, right
        separated = False
        size_b = size[b]
        if is_placement:
            stack[depth - 1][STAGE] = PLACED if pin[b] < 0 else GIVEN
            placed[b] = at
            trail_what[trail] = b
            trail_old[trail] = at
            trail += 1
            low[b] = UNPLACED
            lifted = at + size_b
            for s in range(left, right + 1):
                spare[s] += size_b
                if lifted > spare[s]:
                    failed = True
                    if failures[s] < MAX_FAILURES:
                        failures[s] += 1
                if s < right:
                    cross[s] -= 1
                    if cross[s] == 0:
                        separated = True
            if failed:
                continue
            row = near[b]
            resolved = at
        else:
            stack[depth - 1][STAGE] = POSTPONED
            # The buffers that can be placed where b would be: b rests on the lowest of them, or higher.
            limit = wait[b]
            if limit == 0:
                limit = at + size_b
            lifted = UNPLACED
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
            resolved = UNPLACED
        for j in row:
            old = low[j]
            if old == UNPLACED:
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
            # The buffer, and its twins above it.
            while low[t] < x:
                if not plain:
                    # The lowest multiple of its alignment that is clear of the pinned buffers.
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
        # Raise the floors, and fail if the unplaced buffers of a clique no longer fit above its floor.
        for s in range(left, right + 1):
            f = floor[s]
            if f == UNPLACED:
                continue
            lowest = f
            if is_placement and placed_left <= s <= placed_right:
                lowest = lifted
            m = UNPLACED
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
            if m == UNPLACED:
                grade[s] = -UNPLACED
            elif m > spare[s]:
                failed = True
                if failures[s] < MAX_FAILURES:
                    failures[s] += 1
                break
            else:
                grade[s] = (
                    ((failures[s] >> shift) << 41)
                    - (m >> scale) * by_floor
                    - ((spare[s] - m) >> scale) * by_spare
                    - (spare[s] >> scale) * by_rest
                )
        if failed or not separated:
            continue
        # Ranges between which no unplaced buffer is live are solved one by one.
        begin, end = ranges[current][BEGIN], ranges[current][END]
        following = ranges[current][NEXT]
        count = range_count
        since = -1
        for s in range(begin, end + 1):
            if floor[s] == UNPLACED:
                continue
            if since < 0:
                since = s
            if s == end or cross[s] == 0:
                ranges[range_count][BEGIN] = since
                ranges[range_count][END] = s
                range_count += 1
                since = -1
        if range_count == count + 1:
            ranges[count][NEXT] = following
            ranges[count][OWNER] = ranges[current][OWNER]
            ranges[count][BASE] = ranges[current][BASE]
            current = count
        elif range_count > count:
            for r in range(count, range_count):
                ranges[r][NEXT] = r + 1 if r + 1 < range_count else following
                ranges[r][OWNER] = depth - 1
                ranges[r][BASE] = depth
            current = count
    state[DEPTH], state[TRAIL], state[RANGE], state[RANGES] = depth, trail, current, range_count
    state[FAILED] = 1 if failed else 0
    state[NODES] += nodes
    return status
