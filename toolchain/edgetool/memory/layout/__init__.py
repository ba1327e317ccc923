"""The search for the layout with the lowest peak: greedy first fit, branch and bound, ejection chains, CP-SAT."""
