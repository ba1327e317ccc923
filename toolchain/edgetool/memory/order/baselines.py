"""Orders that need no search, for comparison and as starting points: breadth-first, longest path first, greedy."""

from __future__ import annotations

from collections import deque

from edgetool.memory.order.network import Network, bits, ready_after


def breadth_first(network: Network) -> tuple[int, ...]:
    """Return the operators in the order in which they become ready; those that do at once, in their original order."""
    waiting = [needed.bit_count() for needed in network.needs]
    queue = deque(bits(ready_after(network, 0)))
    order = []
    while queue:
        operator = queue.popleft()
        order.append(operator)
        for follower in network.followers[operator]:
            waiting[follower] -= 1
            if not waiting[follower]:
                queue.append(follower)
    return tuple(order)


def longest_path(network: Network) -> tuple[int, ...]:
    """Return the order of topological_sort_traversal_longest_path in Caffe2's memonger.py.

    All operators without followers lead to a virtual target. The longest paths from the sources to it form a tree with
    the target as its root. Its leaves, the sources, are sorted by the heights of the subtrees that contain them, level
    by level. The order is then depth-first, with the tallest subtree's sources first. If the paths of memonger depend
    on the order of a dictionary, the original order of the operators decides here.
    """
    target = network.count
    followers = [list(each) or [target] for each in network.followers]
    longest = [0] * (target + 1)
    children: list[list[int]] = [[] for _ in range(target + 1)]
    height = [0] * (target + 1)
    for operator in reversed(range(target)):
        longest[operator] = 1 + max(longest[follower] for follower in followers[operator])
    in_tree = ready_after(network, 0)
    for operator in range(target):
        if in_tree >> operator & 1:
            parent = max(followers[operator], key=lambda follower: (longest[follower], -follower))
            in_tree |= 1 << parent
            children[parent].append(operator)
            height[parent] = max(height[parent], height[operator] + 1)
    sources = []
    stack = [target]
    while stack:
        node = stack.pop()
        below = sorted(children[node], key=lambda child: height[child])
        if not below and node != target:
            sources.append(node)
        stack += reversed(below)
    return _depth_first(network, sources)


def greedy(network: Network) -> tuple[int, ...]:
    """Return the order that always runs the operator after which the fewest bytes are live, the one that needs fewest
    first.
    """
    live, done, ready = network.bytes_at_start, 0, ready_after(network, 0)
    order = []
    while ready:
        best: tuple[int, int, int] | None = None
        for operator in bits(ready):
            after = live + network.adds[operator]
            now = done | 1 << operator
            for users, size in network.ends[operator]:
                if users & now == users:
                    after -= size
            key = (after, network.during[operator], operator)
            if best is None or key < best:
                best = key
        assert best is not None
        live, _, operator = best
        order.append(operator)
        done |= 1 << operator
        ready ^= 1 << operator
        for follower in network.followers[operator]:
            if network.needs[follower] & done == network.needs[follower]:
                ready |= 1 << follower
    return tuple(order)


def _depth_first(network: Network, sources: list[int]) -> tuple[int, ...]:
    """Return the operators in reverse order of completion of a depth-first search."""
    finished: list[int] = []
    seen: set[int] = set()
    for source in sources:
        stack = [] if source in seen else [(source, list(network.followers[source]))]
        seen.add(source)
        while stack:
            operator, further = stack[-1]
            while further and further[-1] in seen:
                further.pop()
            if further:
                following = further.pop()
                seen.add(following)
                stack.append((following, list(network.followers[following])))
            else:
                finished.append(operator)
                stack.pop()
    return tuple(reversed(finished))
