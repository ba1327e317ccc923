"""The report as one page for browsers: what its drawings need besides the document, and its text.

`page/` has the page's own code, which `make page` bundles into `page/page.html`: the page without data. All that
differs between two pages is one JSON value, which is escaped here, and nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from edgetool.errors import InternalError

# Where the bundled page has no data yet.
PLACEHOLDER = '<script type="application/json" id="data">null</script>'


def page(bundle: str, data: Mapping[str, Any]) -> str:
    """Return the page with its data.

    Args:
        bundle: The page without data.
        data: JSON values. NaN and infinity raise ValueError.

    Raises:
        InternalError: The bundle does not have exactly one place for data.
    """
    if bundle.count(PLACEHOLDER) != 1:
        raise InternalError("the page has no place for its data", where="page.html")
    before, after = bundle.split(PLACEHOLDER)
    return f"{before}{PLACEHOLDER.replace('null', script_text(data))}{after}"


def script_text(value: object) -> str:
    """Return JSON for a script element, in ASCII: without < and &, it can neither end the element nor begin another."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026").replace("##", r"#\u0023")


def page_data(documents: Sequence[Mapping[str, Any]], command: str) -> dict[str, Any]:
    """Return the data of the page of some reports. command: what reproduces them."""
    return {"kind": "reports", "documents": [*documents], "command": command}
