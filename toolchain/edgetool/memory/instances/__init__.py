"""Layout problems as text: MiniMalloc's CSV and a JSON form of a graph, with the layout written back in the
same form.
"""
