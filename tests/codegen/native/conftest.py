"""Tests that compile and run generated code are slow: the quick ones compare random networks and bands only."""

from __future__ import annotations

import pytest

# Functions that compile generated code, by the names that tests call.
COMPILING = {"compare", "compare_all", "compile_checked", "run_native"}
QUICK_MODULES = ("test_networks", "test_bands", "test_overlaps")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of operators that compile code as slow."""
    for item in items:
        function = getattr(item, "function", None)
        module = item.path.stem
        if function is None or item.path.parent.name != "native" or module in QUICK_MODULES:
            continue
        if COMPILING & set(function.__code__.co_names):
            item.add_marker(pytest.mark.slow)
