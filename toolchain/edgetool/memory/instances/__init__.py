"""Layout problems as text: MiniMalloc's CSV and a JSON form of a graph, read and answered."""
