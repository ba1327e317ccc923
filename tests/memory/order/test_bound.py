from hypothesis import given
from hypothesis import strategies as st

from edgetool.memory.order.bound import FIRST, SINK, SOURCE, FlowGraph

NODES = FIRST + 5
nodes = st.integers(0, NODES - 1)
# Paths from the source to the sink need a limited edge, such as all that leave the source.
edges = st.tuples(nodes, nodes, st.integers(0, 9) | st.none()).map(
    lambda edge: (edge[0], edge[1], edge[2] or 0) if SOURCE in edge[:2] else edge
)


@given(st.lists(edges, max_size=25))
def test_flows_from_either_end_have_the_same_minimum_cuts(edges: list[tuple[int, int, int | None]]) -> None:
    found = []
    for from_sink in (False, True):
        graph = FlowGraph(NODES)
        for start, end, capacity in edges:
            graph.add(start, end, capacity)
        flow = graph.maximum_flow(SOURCE, SINK, from_sink=from_sink)
        found.append((flow, graph.reached(SOURCE), graph.reaching(SINK)))
    assert found[0] == found[1]
    flow, reached, _ = found[0]
    crossing = [capacity for start, end, capacity in edges if reached[start] and not reached[end]]
    assert None not in crossing
    assert flow == sum(capacity or 0 for capacity in crossing)
