"""Pages in Chromium: what they show is what the document says, they ask for nothing, and everybody can use them."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgetool.model.reader import read_model
from tests.report import pages
from tests.report.browser import DESKTOP, PHONE, Browser, started

pytestmark = pytest.mark.slow

KINDS = tuple(pages.COMMANDS)
# The elements that pages are made of; a name of a model adds none.
ELEMENTS = frozenset(
    "html head meta title style body noscript main header div h1 h2 h3 p button nav a section span dl dt dd ul li "
    "strong figure figcaption svg defs clippath rect pattern path g text circle table caption thead tbody tr th td "
    "details summary label input select option footer pre script fieldset legend".split()
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started() as running:
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    pages.write_inputs(folder)
    return folder


def grouped(number: int) -> str:
    return f"{number:,}"


def visible(name: str) -> str:
    """A name as pages show it."""
    hidden = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    text = "".join(f"\\u{{{ord(c):04x}}}" if unicodedata.category(c) in hidden else c for c in name)
    return text if text.strip() else f'"{text}"'


def rectangles(browser: Browser, figure: int) -> list[tuple[int, int, int, int]]:
    """The (first position, end, offset, bytes) of all rectangles of a map."""
    script = """
        const map = document.querySelectorAll("figure.map")[arguments[0]];
        return [...map.querySelectorAll("rect.block")].map(
            (item) => ["first", "end", "offset", "bytes"].map((name) => Number(item.dataset[name])));
    """
    return sorted(tuple(item) for item in browser.run(script, figure))


@pytest.mark.parametrize("kind", KINDS)
def test_pages_are_silent_accessible_and_as_wide_as_the_screen(browser: Browser, folder: Path, kind: str) -> None:
    page = pages.write_page(folder, kind)
    for size in (DESKTOP, PHONE):
        for dark in (False, True):
            browser.open(page, size, dark=dark)
            assert browser.run("return document.documentElement.classList.contains('ready')")
            # Everything that is drawn only when it comes into view.
            browser.run("for (const item of document.querySelectorAll('details')) item.open = true; scrollTo(0, 1e6)")
            browser.settle()
            assert browser.run("return document.documentElement.scrollWidth") <= size[0]
            assert browser.run("return document.querySelectorAll('section').length") >= 3
            assert browser.requested() == [page.as_uri()]
            assert browser.logged() == []
            if size == DESKTOP or not dark:
                assert browser.violations() == []
                browser.logged()


@pytest.mark.parametrize("kind", ["planned", "native", "without-target", "subgraphs", *pages.HOSTILE])
def test_rectangles_are_those_of_the_document(browser: Browser, folder: Path, kind: str) -> None:
    page = pages.write_page(folder, kind)
    browser.open(page)
    (shown,) = pages.data_of(page)["reports"]
    plan = shown["document"]["plan"]
    expected = [
        (item["first_op"], item["last_op"] + 1, item["offset"], item["bytes"])
        for item in (*plan["tensors"], *plan["scratch"])
        if item["last_op"] >= 0
    ]
    assert rectangles(browser, 0) == sorted(expected)
    if shown["view"]["stock"]:
        buffers = shown["view"]["stock"]["buffers"]
        assert rectangles(browser, 1) == sorted((b[5], b[6] + 1, b[4], b[3]) for b in buffers if b[6] >= 0)


@pytest.mark.parametrize("kind", ["planned", "native", "rows", "compared", "many-names"])
def test_rectangles_of_all_maps_are_to_one_scale(browser: Browser, folder: Path, kind: str) -> None:
    browser.open(pages.write_page(folder, kind))
    script = """
        return [...document.querySelectorAll("figure.map")].map((map) => {
            const area = map.querySelector(".area").getBoundingClientRect();
            return [area.height, [...map.querySelectorAll("rect.block")].map((item) => {
                const {bottom, height} = item.getBoundingClientRect();
                return [Number(item.dataset.offset ?? -1), Number(item.dataset.bytes), area.bottom - bottom, height];
            })];
        });
    """
    maps = browser.run(script)
    assert len(maps) >= 2
    scales = []
    for area, items in maps:
        largest = max(items, key=lambda item: item[1])
        scale = largest[3] / largest[1] / area
        scales.append(scale)
        for offset, size, low, height in items:
            assert height / area == pytest.approx(size * scale, abs=2 / area)
            assert offset < 0 or low / area == pytest.approx(offset * scale, abs=2 / area)
    assert max(scales) == pytest.approx(min(scales), rel=0.02)
    tails = browser.run("""
        return [...document.querySelectorAll("rect.part")].map(
            (item) => [Number(item.dataset.bytes), item.getBoundingClientRect().height]);
    """)
    for size, height in tails:
        largest = max(tails)
        assert height == pytest.approx(size * largest[1] / largest[0], abs=1)
    highest = max(offset + size for _, items in maps for offset, size, _, _ in items)
    assert highest * min(scales) > 0.3


def test_rows_are_those_of_the_plan(browser: Browser, folder: Path) -> None:
    page = pages.write_page(folder, "rows")
    browser.open(page)
    (shown,) = pages.data_of(page)["reports"]
    rows, info = shown["view"]["rows"], shown["document"]["rows"]
    boxes = [values[i : i + 4] for values in rows["boxes"] for i in range(0, len(values), 4)]
    scratch = [
        (*steps[i : i + 2], offset, size) for _, size, offset, steps in rows["scratch"] for i in range(0, len(steps), 2)
    ]
    expected = [(first, end, low, high - low) for first, end, low, high in boxes] + scratch
    assert rectangles(browser, 0) == sorted(expected)
    assert max(offset + size for _, _, offset, size in expected) <= info["memory_bytes"]
    assert max(end for _, end, _, _ in expected) == info["steps"]
    body = browser.run("return document.body.textContent")
    assert f"The schedule has {grouped(info['steps'])} steps" in body
    assert f"{grouped(info['memory_bytes'])} B" in body
    assert browser.run("return document.querySelectorAll('.lane').length") == len(info["segments"])


@pytest.mark.parametrize("kind", ["planned", "native", "without-target", "checked"])
def test_numbers_are_those_of_the_document(browser: Browser, folder: Path, kind: str) -> None:
    page = pages.write_page(folder, kind)
    browser.open(page)
    browser.run("for (const item of document.querySelectorAll('details')) item.open = true")
    shown = pages.data_of(page)["reports"][0]
    document = shown["document"]
    assert browser.find(".headline").text.replace("\n", " ").endswith(shown["verdict"])
    arena = document["arena"]["bytes"] or document["arena"]["layout_bytes"]
    facts = browser.run("return document.querySelector('.facts').textContent")
    assert f"{grouped(arena)} B" in facts
    cells = browser.run(
        "return [...document.querySelectorAll('tr[id*=\"op-\"]')].map("
        "(row) => [row.id, Object.fromEntries([...row.cells].map((cell) => [cell.dataset.title, cell.textContent]))])"
    )
    estimate = document["estimate"]
    operators = [] if estimate is None else estimate["operators"]
    if estimate is not None:
        assert [row for row, _ in cells] == [f"op-{item['subgraph']}-{item['index']}" for item in operators]
        assert f"{grouped(estimate['bytes_moved'])} B" in browser.run("return document.body.textContent")
    for item, (_, shown_cells) in zip(operators, cells, strict=estimate is not None):
        assert shown_cells["MACs"] == grouped(item["macs"])
        assert shown_cells["bytes"] == grouped(item["memory_bytes"])
        assert shown_cells["bound by"] == item["bound"]
        number, unit = re.match(r"([\d.,]+) (\S+),", shown_cells["time"]).groups()  # type: ignore[union-attr]
        scale = {"s": 1e3, "ms": 1, "\u00b5s": 1e-3, "ns": 1e-6}[unit]
        assert float(number.replace(",", "")) * scale == pytest.approx(item["ms"]["value"], rel=0.006)
    for finding in document["findings"]:
        assert visible(finding["message"]) in browser.run("return document.body.textContent")
    buffers = browser.run(
        "return [...document.querySelectorAll('#memory details:last-of-type tr')].map((i) => i.innerText)"
    )
    for item in (*document["plan"]["tensors"], *document["plan"]["scratch"])[:60]:
        first, last = item["first_op"], item["last_op"]
        live = "never" if first < 0 else f"{first}" if first == last else f"{first} to {last}"
        end = f"{grouped(item['offset'])}\t{grouped(item['bytes'])}\t{live}"
        assert any(visible(item["name"]) in row and row.endswith(end) for row in buffers), (item, buffers)
    tail = [entry["bytes"] for entry in document["arena"]["breakdown"] if entry["part"] == "tail"]
    drawn = browser.run(
        "return [...document.querySelector('figure.map').querySelectorAll('rect.part')].map((i) => +i.dataset.bytes)"
    )
    assert sum(drawn) == (0 if document["runtime"] else sum(tail))


def test_a_buffer_is_explained_and_leads_to_its_operator(browser: Browser, folder: Path) -> None:
    page = pages.write_page(folder, "planned")
    browser.open(page)
    (shown,) = pages.data_of(page)["reports"]
    plan = shown["document"]["plan"]
    largest = max(plan["tensors"], key=lambda item: item["bytes"])
    block = browser.find(f"rect.block[data-offset='{largest['offset']}'][data-bytes='{largest['bytes']}']")
    browser.hover(block)
    tip = browser.find(".tooltip").text
    row = next(row for row in shown["view"]["tensors"] if row[:2] == [largest["subgraph"], largest["index"]])
    maker = next(item for item in shown["view"]["operators"] if largest["index"] in item[4])
    for part in (
        largest["name"],
        f"{grouped(largest['offset'])} B",
        f"{grouped(largest['bytes'])} B",
        "\u00d7".join(map(str, row[3])),
        row[4],
        f"operator {maker[1]} {maker[2]}",
    ):
        assert part in tip
    block.click()
    assert browser.run("return document.activeElement.id") == f"op-0-{maker[1]}"
    browser.keys("\ue00c")  # Escape
    assert not browser.find(".tooltip").is_displayed()


def test_maps_obey_keys_wheel_and_buttons(browser: Browser, folder: Path) -> None:
    browser.open(pages.write_page(folder, "planned"))
    scale = "return document.querySelector('figure.map g[transform]').getAttribute('transform')"
    first = browser.run(scale)
    stage = browser.find("figure.map .stage")
    browser.run("arguments[0].scrollIntoView(); arguments[0].focus()", stage)
    browser.keys("+")
    assert browser.run(scale) != first
    moved = browser.run(scale)
    browser.keys("\ue012")  # left
    assert browser.run(scale) != moved
    browser.keys("0")
    assert browser.run(scale) == first
    browser.keys("n", "n")
    tip = browser.find(".tooltip")
    assert tip.is_displayed()
    assert browser.run("return document.querySelector('[aria-live]').textContent").startswith(tip.text.split("\n")[0])
    assert browser.run("return document.querySelectorAll('rect.selected').length") == 1
    browser.keys("\ue007")  # Enter
    assert browser.run("return document.activeElement.id").startswith("op-")
    browser.run("document.querySelector('figure.map .zoom button').click()")
    assert browser.run(scale) != first
    browser.run("document.querySelectorAll('figure.map .zoom button')[2].click(); document.activeElement.blur()")
    wheel = """
        const event = new WheelEvent("wheel", {deltaY: -200, ctrlKey: arguments[0], bubbles: true, cancelable: true});
        document.querySelector("figure.map svg.plot").dispatchEvent(event);
        return event.defaultPrevented;
    """
    assert not browser.run(wheel, False)  # the page scrolls
    assert browser.run(scale) == first
    assert browser.run(wheel, True)
    assert browser.run(scale) != first


def test_a_finger_scrolls_the_page_and_two_zoom_the_map(browser: Browser, folder: Path) -> None:
    browser.open(pages.write_page(folder, "planned"), PHONE)
    script = """
        const svg = document.querySelector("figure.map svg.plot");
        const {left, top} = svg.getBoundingClientRect();
        const touch = (id, x, y) => new Touch({identifier: id, target: svg, clientX: left + x, clientY: top + y});
        const fire = (type, touches) => svg.dispatchEvent(new TouchEvent(
            type, {touches, targetTouches: touches, changedTouches: touches, bubbles: true, cancelable: true}));
        if (arguments[0] === 1) {
            fire("touchstart", [touch(1, 150, 100)]); fire("touchmove", [touch(1, 150, 160)]);
            fire("touchend", [touch(1, 150, 160)]);
        } else {
            fire("touchstart", [touch(1, 140, 100), touch(2, 180, 140)]);
            fire("touchmove", [touch(1, 100, 60), touch(2, 220, 180)]);
            fire("touchend", [touch(1, 100, 60), touch(2, 220, 180)]);
        }
        return document.querySelector("figure.map .stage").classList.contains("zoomed");
    """
    assert browser.run(script, 1) is False
    assert browser.run("return getComputedStyle(document.querySelector('.stage')).touchAction") == "pan-y"
    assert browser.run(script, 2) is True


def test_tables_sort_and_filter(browser: Browser, folder: Path) -> None:
    browser.open(pages.write_page(folder, "planned"))
    times = "return [...document.querySelectorAll('#operators tbody tr')].map((row) => row.cells[4].textContent)"
    before = browser.run(times)
    header = next(
        item for item in browser.driver.find_elements("css selector", "#operators th button") if item.text == "MACs"
    )
    header.click()
    after = browser.run(times)
    numbers = [int(text.replace(",", "")) for text in after]
    assert numbers == sorted(numbers, reverse=True)
    assert sorted(before) == sorted(after)
    assert (
        browser.run("return document.querySelector('#operators [aria-sort]').getAttribute('aria-sort')") == "descending"
    )
    browser.find("#operators input").send_keys("depthwise")
    labels = browser.run(
        "return [...document.querySelectorAll('#operators tbody tr')].map((r) => r.cells[1].textContent)"
    )
    assert labels
    assert all(label.startswith("DEPTHWISE") for label in labels)
    assert len(labels) < len(before)
    # A buffer of an operator that the filter hides leads to it all the same.
    browser.run(
        "document.querySelector('rect.block[data-first=\"0\"]').dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    assert browser.run("return document.activeElement.id").startswith("op-0-")


def test_the_document_can_be_downloaded(browser: Browser, folder: Path) -> None:
    for kind in ("planned", "compared", "swept"):
        page = pages.write_page(folder, kind)
        browser.open(page)
        script = """
            const done = arguments[0];
            URL.createObjectURL = (blob) => { blob.text().then(done); return "blob:none"; };
            HTMLAnchorElement.prototype.click = () => {};
            document.querySelector("button.download").click();
        """
        data = pages.data_of(page)
        expected = data["document"] if "document" in data else data["reports"][0]["document"]
        assert json.loads(browser.driver.execute_async_script(script)) == expected


def test_the_reader_chooses_the_theme(browser: Browser, folder: Path) -> None:
    browser.open(pages.write_page(folder, "planned"))
    ground = "return getComputedStyle(document.documentElement).backgroundColor"
    light = browser.run(ground)
    browser.find("button.theme").click()
    dark = browser.run(ground)
    assert light != dark
    assert browser.violations() == []
    browser.find("button.theme").click()
    assert browser.run(ground) == light


@pytest.mark.parametrize("kind", ["planned", "rows", "compared", "swept", "many-names"])
def test_print_is_complete_and_not_cut_off(browser: Browser, folder: Path, kind: str) -> None:
    page = pages.write_page(folder, kind)
    browser.open(page, (720, 1000), dark=True)
    browser.media(kind="print", dark=True)
    browser.run("dispatchEvent(new Event('beforeprint'))")
    browser.settle()
    assert browser.run("return getComputedStyle(document.documentElement).color") == "rgb(26, 31, 38)"
    assert browser.run("return [...document.querySelectorAll('main details')].every((item) => item.open)")
    outside = browser.run("""
        return [...document.querySelectorAll("main *")].filter((item) => {
            const {right, width, height} = item.getBoundingClientRect();
            return width && height && !item.closest("svg, .visually-hidden") && right > innerWidth + 1;
        }).map((item) => item.outerHTML.slice(0, 100));
    """)
    assert outside == []
    data = pages.data_of(page)
    for report in data.get("reports", []):
        for name in ("tensors", "scratch"):
            for item in report["document"]["plan"][name]:
                assert visible(item["name"]) in browser.run("return document.querySelector('main').textContent")
    browser.media()


@pytest.mark.parametrize("kind", pages.HOSTILE)
def test_hostile_names_are_text(browser: Browser, folder: Path, kind: str) -> None:
    page = pages.write_page(folder, kind)
    browser.open(page)
    browser.run("dispatchEvent(new Event('beforeprint'))")
    browser.settle()
    shown = browser.run("return document.querySelector('main').textContent")
    data = pages.data_of(page)["reports"][0]
    names = {item["name"] for item in data["document"]["plan"]["tensors"]}
    names |= {row[2] for row in data["view"]["operators"]}
    model = read_model((folder / str(pages.COMMANDS[kind][1])).read_bytes(), name="m")
    ends = {model.main.tensors[index].name for index in (*model.main.inputs, *model.main.outputs)}
    assert len(names) > 15
    missing = [name for name in names | ends if visible(name) not in shown]
    assert missing == []
    elements = set(
        browser.run("return [...new Set([...document.querySelectorAll('*')].map((i) => i.tagName.toLowerCase()))]")
    )
    assert elements <= ELEMENTS
    assert browser.run("return document.scripts.length") == 2
    handlers = """
        return [...document.querySelectorAll("*")].some(
            (item) => item.getAttributeNames().some((name) => name.startsWith("on")));
    """
    assert not browser.run(handlers)
    assert browser.run(
        "return [...document.querySelectorAll('a')].every((i) => i.getAttribute('href').startsWith('#'))"
    )
    hidden = [c for c in shown if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp") and c != "\n"]
    assert hidden == []
    assert browser.logged() == []


def test_a_comparison_shows_both_sides_and_their_differences(browser: Browser, folder: Path) -> None:
    page = pages.write_page(folder, "compared")
    browser.open(page)
    data = pages.data_of(page)
    text = browser.run("return document.querySelector('#differences').textContent")
    for item in data["document"]["compare"]["figures"]:
        if item["unit"] == "B" and item["a"] is not None:
            assert f"{grouped(item['a'])} B" in text
            assert f"{grouped(abs(item['change']))} B" in text
    for number, report in enumerate(data["reports"]):
        headline = browser.driver.find_elements("css selector", ".headline")[number].text
        assert headline.replace("\n", " ").endswith(report["verdict"])
    left, right = browser.run(
        "return [...document.querySelectorAll('#verdict .side')].map((i) => i.getBoundingClientRect().toJSON())"
    )
    assert left["right"] <= right["left"]
    assert left["top"] == right["top"]


def test_a_variant_says_how_it_is_planned(browser: Browser, folder: Path) -> None:
    page = pages.write_page(folder, "swept")
    first = pages.data_of(page)["document"]["sweep"]["variants"][0]
    assert (first["optimize"], first["max_extra_macs"]) == (True, None)
    text, count = re.subn(
        r'"optimize": ?true, ?"max_extra_macs": ?null',
        '"optimize": false, "max_extra_macs": 2.5',
        page.read_text(encoding="utf-8"),
        count=1,
    )
    assert count == 1
    changed = folder / "planned-variants.html"
    changed.write_text(text, encoding="utf-8")
    browser.open(changed)
    browser.run(f"location.hash = '#variant-{first['number']}'")
    browser.settle()
    assert ", not optimized, 2.5 % extra MACs, " in browser.find("#variant h3").text


def test_a_sweep_has_the_front_of_the_axes_that_the_reader_chooses(browser: Browser, folder: Path) -> None:
    page = pages.write_page(folder, "swept")
    browser.open(page)
    variants = pages.data_of(page)["document"]["sweep"]["variants"]
    fronts = "return [...document.querySelectorAll('circle.front')].map((i) => [+i.dataset.x, +i.dataset.y])"

    def expected(x: str, y: str, sign: int) -> list[list[float]]:
        points: list[list[float]] = []
        for target in {item["target"] for item in variants}:
            own = [(v[x], v[y]) for v in variants if v["target"] == target and v["accepted"]]
            points += [
                [a, b] for a, b in own if not any(p <= a and sign * q >= sign * b and (p, q) != (a, b) for p, q in own)
            ]
        return sorted(points)

    assert sorted(browser.run(fronts)) == expected("latency_ms", "accuracy", 1)
    choose = """
        for (const [id, value] of [["axis-x", "arena_bytes"], ["axis-y", "model_bytes"]]) {
            const field = document.getElementById(id);
            field.value = value;
            field.dispatchEvent(new Event("change"));
        }
    """
    browser.run(choose)
    browser.settle()
    assert sorted(browser.run(fronts)) == expected("arena_bytes", "model_bytes", -1)
    assert len(browser.driver.find_elements("css selector", "circle.point")) == len(variants)
    dot = browser.find("circle.front")
    browser.hover(dot)
    assert "Variant" in browser.find(".tooltip").text
    browser.run("arguments[0].focus()", dot)
    browser.keys("\ue007")
    number = re.search(r"Variant (\d+)", browser.find("#variant h3").text)
    assert number is not None
    item = next(item for item in variants if item["number"] == int(number[1]))
    assert f"{grouped(item['arena_bytes'])} B" in browser.find("#variant").text
    assert browser.run("return location.hash") == f"#variant-{number[1]}"
    browser.run("location.hash = '#variant-2'")
    browser.settle()
    assert browser.find("#variant h3").text.startswith("Variant 2: ")
    area = browser.find(".scatter .area")
    size = area.size
    browser.drag(area, (-size["width"] / 2 + 3, -size["height"] / 2 + 3), (size["width"] - 8, size["height"] / 3))
    listed = browser.run("return document.querySelectorAll('#variants tbody tr').length")
    faded = browser.run("return document.querySelectorAll('.scatter svg')[0].querySelectorAll('.faded').length")
    assert 0 < listed < len(variants)
    assert listed + faded == len(variants) // 3


def test_a_model_of_very_many_operators_gets_a_summary(browser: Browser, folder: Path) -> None:
    page = pages.large_page(folder)
    assert page.stat().st_size < 5_000_000
    browser.open(page)
    note = browser.find(".note").text
    (shown,) = pages.data_of(page)["reports"]
    assert f"{grouped(pages.LARGE)} operators" in note
    assert grouped(shown["omitted"]["operators"]) in note
    assert browser.run("return document.querySelectorAll('rect.block').length") == len(
        shown["document"]["plan"]["tensors"]
    )
    assert browser.logged() == []
    assert browser.requested() == [page.as_uri()]
    assert browser.violations() == []


def test_a_model_without_operators_and_one_with_subgraphs(browser: Browser, folder: Path) -> None:
    browser.open(pages.write_page(folder, "no-operators"))
    assert "The model has no operators." in browser.run("return document.body.textContent")
    page = pages.write_page(folder, "subgraphs")
    browser.open(page)
    operators = pages.data_of(page)["reports"][0]["view"]["operators"]
    rows = browser.run("return [...document.querySelectorAll('tr[id]')].map((row) => row.id)")
    assert rows == [f"op-{item[0]}-{item[1]}" for item in operators]
    assert len({item[0] for item in operators}) > 1


def test_an_unknown_arena_is_a_lower_bound(browser: Browser, folder: Path) -> None:
    for kind, sign in (("custom-operators", "\u2265 "), ("without-target", "> ")):
        browser.open(pages.write_page(folder, kind))
        assert browser.find(".fact .big").text.startswith(sign)


def test_the_loss_of_each_layer_is_listed_and_colours_the_graph(browser: Browser, folder: Path) -> None:
    page = pages.quantized_page(folder)
    browser.open(page)
    loss = pages.data_of(page)["reports"][0]["document"]["quantization"]
    browser.run("dispatchEvent(new Event('beforeprint'))")
    text = browser.run("return document.querySelector('#quantization').textContent")
    assert len(loss["layers"]) > 50
    for layer in loss["layers"]:
        assert visible(layer["name"]) in text
        assert f"{layer['sqnr_db']:.1f}" in text
    assert "cosine 0.9999" in text
    assert "97.0 %" in browser.run("return document.querySelector('.facts').textContent")
    browser.run("document.querySelector('#graph').scrollIntoView()")
    browser.settle()
    levels = "return [...document.querySelectorAll('.node')].map((node) => node.getAttribute('class'))"
    by_time = browser.run(levels)
    assert len(by_time) == pages.data_of(page)["reports"][0]["document"]["model"]["operators"]
    assert len(set(by_time)) > 2
    browser.run(
        "const field = document.getElementById('colour'); field.value = 'error';"
        "field.dispatchEvent(new Event('change'))"
    )
    assert browser.run(levels).count("node level6") == 1
    browser.run("document.querySelector('.operator').dispatchEvent(new MouseEvent('click', {bubbles: true}))")
    assert browser.run("return document.activeElement.id") == "op-0-0"
    assert browser.violations() == []
    assert browser.logged() == []


def test_both_limits_of_the_roofline_are_in_the_plot(browser: Browser, folder: Path) -> None:
    browser.open(pages.write_page(folder, "planned"))
    shown = browser.run("""
        const inside = document.querySelector('#operators .scatter .area').getBoundingClientRect();
        return [...document.querySelectorAll('#operators .scatter path.limit')].map((line) => {
            const box = line.getBoundingClientRect();
            return Math.min(box.right, inside.right) - Math.max(box.left, inside.left);
        });""")
    assert len(shown) == 2
    assert min(shown) > 10


@pytest.mark.parametrize("kind", ["planned", "swept"])
def test_labels_are_beside_their_fields_on_a_phone(browser: Browser, folder: Path, kind: str) -> None:
    browser.open(pages.write_page(folder, kind), PHONE)
    distances = browser.run("""
        const box = (item) => item.getBoundingClientRect();
        return [...document.querySelectorAll('.tools label')].filter((label) => box(label).height).map((label) => {
            const [own, field] = [box(label), box(document.getElementById(label.htmlFor))];
            return [own.right - field.left, Math.abs(own.top + own.bottom - field.top - field.bottom)];
        });""")
    assert len(distances) > 2
    assert all(across <= 0 and down < 10 for across, down in distances)
