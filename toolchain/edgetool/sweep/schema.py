"""The tables of a store, and the marks by which a SQLite file is known for one."""

from __future__ import annotations

from collections.abc import Mapping

# In the file's header, where `file` and SQLite find them: "EDGT", and the version of the tables below.
APPLICATION_ID = 0x45444754
VERSION = 1

# JSON is ASCII text, in which no surrogate of a file's name is lost. Blobs lie in a table of their own: reading ten
# thousand results touches none of their pages.
TABLES: Mapping[str, str] = {
    "results": """(
        key TEXT PRIMARY KEY NOT NULL,
        kind TEXT NOT NULL,
        failed INTEGER NOT NULL,
        seconds REAL NOT NULL,
        reason TEXT NOT NULL,
        value TEXT NOT NULL
    )""",
    "blobs": """(
        key TEXT NOT NULL REFERENCES results(key),
        name TEXT NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (key, name)
    )""",
    "sweep": "(id INTEGER PRIMARY KEY CHECK (id = 1), record TEXT NOT NULL)",
    "variants": "(number INTEGER PRIMARY KEY, variant TEXT NOT NULL, keys TEXT NOT NULL)",
}
