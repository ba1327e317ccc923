// Memory over time: time to the right, addresses upwards, a rectangle for each buffer; zoomed by wheel, keys and touch.
import { scaleLinear } from "d3-scale";
import { select } from "d3-selection";
import { zoom, zoomIdentity, type D3ZoomEvent, type ZoomTransform } from "d3-zoom";
import { el, svg } from "./dom";
import { grouped, shortSize } from "./format";
import { hide, show, type Lines } from "./tooltip";

/** A buffer from position `first` up to position `end`, exclusive. operator: the id of the row that a click leads to. */
export interface Block {
  name: string; kind: string; first: number; end: number; offset: number; bytes: number; lines: Lines;
  operator: string | null; peak: boolean;
}

/** A part of the tail, from the top down. */
export interface Part { name: string; bytes: number; operator: string | null; lines: Lines }

export interface MapOptions {
  title: string;
  hint: string; // the id of the text that explains the keys
  note: string;
  blocks: Block[];
  end: number; // behind the last position
  unit: string; // of positions
  positionName: (position: number) => string;
  domain: number; // the bytes at the top
  tailDomain: number | null; // the bytes of a column of full height, if the tail has a scale of its own
  arena: number; // the bytes of the arena
  head: number;
  parts: Part[];
  peak: { position: number; text: string; short: string } | null;
  limit: { bytes: number; text: string } | null;
  lanes: { first: number; end: number; text: string; operator: string | null }[];
  open: (operator: string) => void;
}

const LEFT = 62;
const TOP = 24;
const BOTTOM = 40;
const LANE = 12;
const TAIL = 64;
const DENSE = 300; // blocks, whose borders would hide them
const LETTER = 6.3; // pixels per character of a label
let maps = 0;

export function memoryMap(options: MapOptions): HTMLElement {
  const id = `map${maps++}`;
  const figure = el("figure", { class: "map" });
  const status = el("p", { class: "visually-hidden", "aria-live": "polite" });
  const stage = el("div", {
    class: options.blocks.length > DENSE ? "stage dense" : "stage", tabindex: 0, role: "application", "aria-roledescription": "memory map",
    "aria-label": `${options.title}. ${options.note}`, "aria-describedby": options.hint,
  });
  const buttons = el("div", { class: "zoom", role: "group", "aria-label": "Zoom" });
  const caption = el("figcaption", {}, el("strong", {}, options.title), " ", el("span", {}, options.note));
  figure.append(caption, buttons, stage, status);
  let selected = -1;
  let draw = (): void => {};
  const ordered = [...options.blocks].sort((a, b) => a.first - b.first || a.offset - b.offset);

  function pick(step: number): void {
    if (!ordered.length) return;
    selected = (selected + step + ordered.length) % ordered.length;
    draw();
    const block = ordered[selected];
    const shape = stage.querySelector<SVGRectElement>(`rect[data-number="${selected}"]`)!;
    const { left, top, width, height } = shape.getBoundingClientRect();
    show(block.name, block.lines, left + width / 2, top + height / 2);
    status.textContent = [block.name, ...block.lines.map(([label, text]) => `${label} ${text}`)].join(", ");
  }

  function build(): void {
    const width = Math.max(280, stage.clientWidth);
    const lanes = options.lanes.length ? LANE + 6 : 0;
    const height = Math.min(460, Math.max(300, width * 0.5)) + lanes;
    const tail = options.parts.length ? TAIL : 0;
    const [right, bottom] = [width - 10 - (tail ? tail + 10 : 0), height - BOTTOM - lanes];
    const x0 = scaleLinear([0, Math.max(1, options.end)], [LEFT, right]);
    const y0 = scaleLinear([0, Math.max(1, options.domain)], [bottom, TOP]);
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true", class: "plot" });
    root.append(
      svg("defs", {},
        svg("clipPath", { id: `${id}-clip` }, svg("rect", { x: LEFT, y: TOP, width: right - LEFT, height: bottom - TOP })),
        hatch(`${id}-scratch`, "scratch-line", 45), hatch(`${id}-overlap`, "overlap-line", -45),
      ),
      svg("rect", { class: "area", x: LEFT, y: TOP, width: right - LEFT, height: bottom - TOP }),
    );
    const grid = svg("g", { class: "grid" });
    const clip = svg("g", { "clip-path": `url(#${id}-clip)` });
    const shapes = svg("g");
    const marks = svg("g", { class: "marks" });
    const labels = svg("g", { class: "labels" });
    clip.append(shapes, marks, labels);
    root.append(grid, clip);

    if (options.peak) {
      const x = x0(options.peak.position);
      shapes.append(svg("rect", {
        class: "peak-band", x, y: TOP, width: Math.max(4, x0(options.peak.position + 1) - x), height: bottom - TOP,
      }));
    }
    const rects = ordered.map((block, number) => {
      const rect = svg("rect", {
        class: `block ${block.kind}${block.peak ? " at-peak" : ""}`, "data-number": number, "data-offset": block.offset,
        "data-bytes": block.bytes, "data-first": block.first, "data-end": block.end,
        x: x0(block.first), width: x0(block.end) - x0(block.first),
        y: y0(block.offset + block.bytes), height: y0(block.offset) - y0(block.offset + block.bytes),
        fill: block.kind === "scratch" ? `url(#${id}-scratch)` : null,
      });
      shapes.append(rect);
      return rect;
    });
    for (const common of overlaps(ordered)) {
      shapes.append(svg("rect", {
        class: "overlap", fill: `url(#${id}-overlap)`, x: x0(common.first), width: x0(common.end) - x0(common.first),
        y: y0(common.high), height: y0(common.low) - y0(common.high),
      }));
    }
    if (tail) root.append(tailColumn(y0, width - 10 - tail, tail, bottom));
    if (lanes) {
      const lane = svg("g", { "clip-path": `url(#${id}-lanes)` });
      root.append(
        svg("clipPath", { id: `${id}-lanes` }, svg("rect", { x: LEFT, y: bottom, width: right - LEFT, height: LANE + 8 })),
        lane,
      );
      shapesOfLanes(lane, bottom + 4);
    }

    function shapesOfLanes(lane: SVGGElement, y: number): void {
      const group = svg("g", { class: "lanes" });
      options.lanes.forEach((item, number) => {
        const rect = svg("rect", {
          class: number % 2 ? "lane odd" : "lane", x: x0(item.first), width: Math.max(0.5, x0(item.end) - x0(item.first)),
          y, height: LANE,
        });
        rect.addEventListener("pointermove", (event) => show(item.text, [], event.clientX, event.clientY));
        rect.addEventListener("pointerleave", hide);
        rect.addEventListener("click", () => item.operator && options.open(item.operator));
        group.append(rect);
      });
      lane.append(group);
    }

    function redraw(transform: ZoomTransform): void {
      const [x, y] = [transform.rescaleX(x0), transform.rescaleY(y0)];
      shapes.setAttribute("transform", transform.toString());
      for (const group of root.querySelectorAll<SVGGElement>(".lanes")) {
        group.setAttribute("transform", `translate(${transform.x} 0) scale(${transform.k} 1)`);
      }
      grid.replaceChildren(...axes(x, y));
      marks.replaceChildren(...lines(y));
      labels.replaceChildren(...names(x, y));
      rects.forEach((rect, number) => rect.classList.toggle("selected", number === selected));
    }

    function axes(x: typeof x0, y: typeof y0): SVGElement[] {
      const [low, high] = y.domain();
      const unit = 2 ** Math.max(0, Math.floor(Math.log2(Math.max(1, high - low) / 4)));
      const made: SVGElement[] = [];
      for (let value = Math.ceil(low / unit) * unit; value <= high; value += unit) {
        made.push(svg("path", { d: `M${LEFT} ${y(value)}H${right}` }));
        made.push(svg("text", { x: LEFT - 6, y: y(value), dy: "0.32em", "text-anchor": "end" }, value ? shortSize(value) : "0"));
      }
      const wanted = Math.max(2, Math.floor((right - LEFT) / 60));
      for (const value of x.ticks(wanted).filter(Number.isInteger)) {
        if (value >= options.end) continue;
        const centre = x(value + 0.5);
        if (centre < LEFT || centre > right) continue;
        made.push(svg("path", { d: `M${centre} ${bottom + lanes}v4` }));
        made.push(svg("text", { x: centre, y: bottom + lanes + 16, "text-anchor": "middle" }, options.positionName(value)));
      }
      made.push(svg("text", { class: "axis", x: (LEFT + right) / 2, y: height - 5, "text-anchor": "middle" }, options.unit));
      return made;
    }

    function lines(y: typeof y0): SVGElement[] {
      const made: SVGElement[] = [];
      const line = (bytes: number, name: string, text: string): void => {
        made.push(svg("path", { class: name, d: `M${LEFT} ${y(bytes)}H${right}` }));
        const below = y(bytes) < TOP + 16 ? 13 : -4;
        made.push(svg("text", { class: name, x: right - 4, y: y(bytes) + below, "text-anchor": "end" }, text));
      };
      if (options.head > 0) line(options.head, "head-line", `${options.parts.length ? "head" : "arena"} ${shortSize(options.head)}`);
      if (options.limit && options.limit.bytes <= options.domain) line(options.limit.bytes, "limit-line", options.limit.text);
      return made;
    }

    function names(x: typeof x0, y: typeof y0): SVGElement[] {
      const made: SVGElement[] = [];
      for (const block of ordered) {
        const [left, end] = [Math.max(LEFT, x(block.first)), Math.min(right, x(block.end))];
        const [top, low] = [Math.max(TOP, y(block.offset + block.bytes)), Math.min(bottom, y(block.offset))];
        const letters = Math.floor((end - left - 8) / LETTER);
        if (low - top < 13 || letters < 4) continue;
        const text = block.name.length <= letters ? block.name : `${block.name.slice(0, letters - 1)}\u2026`;
        made.push(svg("text", { x: (left + end) / 2, y: (top + low) / 2, dy: "0.32em", "text-anchor": "middle" }, text));
      }
      return made;
    }

    if (options.peak) {
      const centre = x0(options.peak.position + 0.5);
      const text = options.peak.text.length * 7.5 < width - LEFT ? options.peak.text : options.peak.short;
      const half = text.length * 3.8;
      const x = Math.max(LEFT + half, Math.min(width - 10 - half, centre));
      root.append(svg("text", { class: "peak-text", x, y: TOP - 8, "text-anchor": "middle" }, text));
    }
    const behaviour = zoom<SVGSVGElement, unknown>()
      .scaleExtent([1, 64])
      .translateExtent([[LEFT, TOP], [right, bottom]])
      .extent([[LEFT, TOP], [right, bottom]])
      .filter((event: WheelEvent & TouchEvent) => allowed(event))
      .on("zoom", (event: D3ZoomEvent<SVGSVGElement, unknown>) => {
        stage.classList.toggle("zoomed", event.transform.k > 1);
        redraw(event.transform);
      });
    let transform = zoomIdentity;
    behaviour.on("zoom.keep", (event: D3ZoomEvent<SVGSVGElement, unknown>) => (transform = event.transform));
    const selection = select(root).call(behaviour).on("dblclick.zoom", null);
    const act = {
      in: () => selection.call(behaviour.scaleBy, 1.5),
      out: () => selection.call(behaviour.scaleBy, 1 / 1.5),
      reset: () => selection.call(behaviour.transform, zoomIdentity),
      pan: (x: number, y: number) => selection.call(behaviour.translateBy, x / transform.k, y / transform.k),
    };
    function allowed(event: WheelEvent & TouchEvent): boolean {
      const zoomed = stage.classList.contains("zoomed");
      if (event.type === "wheel") return event.ctrlKey || event.metaKey || document.activeElement === stage;
      if (event.type.startsWith("touch")) return zoomed || event.touches.length > 1;
      return !event.button;
    }
    stage.onkeydown = (event) => {
      const step = 60;
      const actions: Record<string, () => unknown> = {
        "+": act.in, "=": act.in, "-": act.out, "0": act.reset,
        ArrowLeft: () => act.pan(step, 0), ArrowRight: () => act.pan(-step, 0),
        ArrowUp: () => act.pan(0, step), ArrowDown: () => act.pan(0, -step),
        n: () => pick(1), p: () => pick(-1),
        Enter: () => { const found = ordered[selected]?.operator; if (found) options.open(found); },
      };
      const action = actions[event.key];
      const zoomed = stage.classList.contains("zoomed");
      if (!action || event.ctrlKey || event.metaKey || event.altKey || (event.key.startsWith("Arrow") && !zoomed)) return;
      event.preventDefault();
      action();
    };
    buttons.replaceChildren(
      button("+", "Zoom in", act.in), button("\u2212", "Zoom out", act.out), button("Reset", "Reset: show everything", act.reset),
    );
    shapes.addEventListener("pointermove", (event) => {
      const block = blockOf(event.target);
      if (block) show(block.name, block.lines, event.clientX, event.clientY);
      else hide();
    });
    root.addEventListener("pointerleave", hide);
    shapes.addEventListener("click", (event) => {
      const block = blockOf(event.target);
      if (block?.operator) options.open(block.operator);
    });
    const blockOf = (target: EventTarget | null): Block | undefined =>
      ordered[Number((target as SVGElement).dataset.number ?? -1)];
    draw = () => redraw(transform);
    stage.replaceChildren(root);
    draw();
  }

  function tailColumn(whole: (bytes: number) => number, x: number, width: number, bottom: number): SVGGElement {
    const group = svg("g", { class: "tail" });
    const own = options.tailDomain;
    const y = own === null ? whole : scaleLinear([options.arena, options.arena - own], [TOP, bottom]);
    let top = options.arena;
    for (const [number, part] of options.parts.entries()) {
      const rect = svg("rect", {
        class: number % 2 ? "part odd" : "part", "data-bytes": part.bytes, x, width, y: y(top),
        height: Math.max(0.3, y(top - part.bytes) - y(top)),
      });
      rect.addEventListener("pointermove", (event) => show(part.name, part.lines, event.clientX, event.clientY));
      rect.addEventListener("pointerleave", hide);
      rect.addEventListener("click", () => part.operator && options.open(part.operator));
      group.append(rect);
      top -= part.bytes;
    }
    const total = options.arena - top;
    const texts = own === null ? [`tail ${shortSize(total)}`] : ["", `tail ${shortSize(total)}`, "(own scale)"];
    texts.forEach((text, line) =>
      group.append(svg("text", { x: x + width / 2, y: y(top) + 14 + 12 * line, "text-anchor": "middle" }, text)));
    return group;
  }

  let drawnAt = -1;
  new ResizeObserver(() => {
    if (stage.clientWidth === drawnAt) return;
    drawnAt = stage.clientWidth;
    build();
  }).observe(stage);
  return figure;
}

function button(text: string, label: string, action: () => unknown): HTMLButtonElement {
  const made = el("button", { type: "button", "aria-label": label }, text);
  made.addEventListener("click", () => void action());
  return made;
}

function hatch(id: string, name: string, angle: number): SVGPatternElement {
  return svg("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: `rotate(${angle})` },
    svg("rect", { class: `${name} ground`, width: 6, height: 6 }), svg("path", { class: name, d: "M0 0V6" }));
}

/** Returns the bytes that two buffers share while both are live. blocks are sorted by their first position. */
function overlaps(blocks: Block[]): { first: number; end: number; low: number; high: number }[] {
  const found = [];
  let live: Block[] = [];
  for (const block of blocks) {
    live = live.filter((other) => other.end > block.first);
    for (const other of live) {
      const [low, high] = [Math.max(block.offset, other.offset), Math.min(block.offset + block.bytes, other.offset + other.bytes)];
      if (low < high) found.push({ first: block.first, end: Math.min(block.end, other.end), low, high });
    }
    live.push(block);
  }
  return found;
}

/** Returns "3", "3 to 5" or "never"; with a word, "step 3" or "steps 3 to 5". */
export function range(first: number, last: number, word = ""): string {
  if (first < 0) return "never";
  const numbers = first === last ? grouped(first) : `${grouped(first)} to ${grouped(last)}`;
  return word ? `${word}${first === last ? "" : "s"} ${numbers}` : numbers;
}
