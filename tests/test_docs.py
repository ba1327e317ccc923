"""The documentation hangs together: links resolve, every page can be reached, and every option exists."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from edgetool.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
INDEX = DOCS / "index.md"
README = ROOT / "README.md"
PAGES = (README, ROOT / "examples" / "README.md", *sorted(DOCS.rglob("*.md")))
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
# Options of edgetool itself, of benchmarks/ and of other programs (cmake, dask, gh, pip).
OTHER_OPTIONS = {
    "--cmake-dir", "--version",
    "--inputs", "--kills", "--markdown", "--replay", "--seed", "--update", "--verify", "--work",
    "--help", "--body-file", "--build", "--create-if-none", "--edit-last", "--no-deps", "--nthreads", "--target",
    "--native", "--node", "--gc-sections",
}  # fmt: skip


def prose(page: Path) -> str:
    """Return the text of a page without its code."""
    return CODE.sub(lambda code: "`code`" if "\n" not in code[0] else "", page.read_text(encoding="utf-8"))


def links(page: Path) -> list[str]:
    """Return the targets of a page's links to other files or headings of the project."""
    without_blocks = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return [link["target"] for link in LINK.finditer(without_blocks) if not link["target"].startswith("http")]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    without_blocks = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", without_blocks, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_and_anchors_resolve(page: Path) -> None:
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.is_relative_to(ROOT), link
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_can_be_reached_from_the_index() -> None:
    seen, waiting = set(), [INDEX]
    while waiting:
        page = waiting.pop()
        if page not in seen and page.suffix == ".md":
            seen.add(page)
            waiting += [(page.parent / link.partition("#")[0]).resolve() for link in links(page) if link[0] != "#"]
    assert set(DOCS.rglob("*.md")) <= seen
    assert "docs/index.md" in links(README)


def test_the_index_itself_lists_every_page() -> None:
    listed = {link.partition("#")[0] for link in links(INDEX)}
    assert {page.name for page in DOCS.glob("*.md")} - {INDEX.name} == listed


def options() -> set[str]:
    """Return the options of all commands."""
    found: set[str] = set()
    for module, _ in COMMANDS.values():
        waiting = [
            value for value in vars(importlib.import_module(module)).values() if isinstance(value, click.Command)
        ]
        for command in waiting:
            found.update(name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts))
            if isinstance(command, click.Group):
                context = click.Context(command)
                waiting += [
                    member for name in command.list_commands(context) if (member := command.get_command(context, name))
                ]
    return found


def test_every_option_on_every_page_exists() -> None:
    known = options() | OTHER_OPTIONS
    unknown = {
        f"{page.name}: {option}"
        for page in PAGES
        for option in OPTION.findall(
            re.sub(r"^\|?<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
        )
        if option not in known
    }
    assert unknown == set()


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_pages_have_one_title_and_no_placeholder_address(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1
    whole = page.read_text(encoding="utf-8")
    assert "OWNER/" not in whole
    if "EDGETOOL_REPOSITORY" in whole:
        assert "`EDGETOOL_REPOSITORY` stands for" in text


def test_the_memory_map_is_what_the_example_draws(tmp_path: Path) -> None:
    model = ROOT / "examples" / "person_detection" / "person_detection.tflite"
    command = [sys.executable, "-m", "edgetool", "plan", str(model), "--target", "nucleo-l476rg", "--json"]
    planned = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(planned.stdout)["arena"]["bytes"]
    (tmp_path / "plan.json").write_text(planned.stdout, encoding="utf-8")
    script = ROOT / "examples" / "memory_map" / "draw.py"
    subprocess.run([sys.executable, script, tmp_path / "plan.json", tmp_path / "map.svg"], check=True)
    assert (tmp_path / "map.svg").read_bytes() == (DOCS / "memory-map.svg").read_bytes()


def test_the_architecture_names_modules_and_functions_that_exist() -> None:
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    package = ROOT / "toolchain" / "edgetool"
    modules = [path for path in re.findall(r"`([\w/]+\.py)`", page) if "FAMILY" not in path]
    assert len(modules) > 40
    missing = [path for path in modules if not any((root / path).exists() for root in (package, ROOT))]
    assert not missing
    functions = re.findall(r"`([\w/]+\.py)` `(\w+)`", page)
    assert len(functions) > 10
    assert not [
        (path, name) for path, name in functions if not re.search(rf"^def {name}\(", (package / path).read_text(), re.M)
    ]
