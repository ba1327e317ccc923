// Points in a plane with their names, lines of limits, and a brush: the roofline of a model, and the front of a sweep.
import { scaleLinear, scaleLog } from "d3-scale";
import { el, svg } from "./dom";
import { hide, show, type Lines } from "./tooltip";

export interface Point {
  x: number; y: number; name: string; kind: string; lines: Lines; id: string; open: () => void;
}

export interface Limit { name: string; line: [number, number][]; text: string }

export interface ScatterOptions {
  title: string; points: Point[]; limits: Limit[]; log: boolean; xTitle: string; yTitle: string;
  xText: (value: number) => string; yText: (value: number) => string; path?: string[];
  along?: number[]; // what the x axis has besides the points
  brushed?: (ids: Set<string> | null) => void;
}

const LEFT = 76;
const TOP = 16;
const BOTTOM = 44;

export function scatter(options: ScatterOptions): HTMLElement {
  const stage = el("div", { class: "stage" });
  const figure = el("figure", { class: "scatter" }, el("figcaption", {}, el("strong", {}, options.title)), stage);
  let drawnAt = -1;

  function domain(values: number[]): [number, number] {
    if (!values.length) return options.log ? [1, 10] : [0, 1];
    const [low, high] = [Math.min(...values), Math.max(...values)];
    if (options.log) return [low / 1.4, high * 1.4];
    const margin = (high - low || Math.abs(high) || 1) * 0.06;
    return [low - margin, high + margin];
  }

  function build(): void {
    const width = Math.max(280, stage.clientWidth);
    const height = Math.min(400, Math.max(280, width * 0.5));
    const [right, bottom] = [width - 12, height - BOTTOM];
    const scale = options.log ? scaleLog : scaleLinear;
    const limitPoints = options.limits.flatMap((item) => item.line);
    const xs = [...options.points.map((item) => item.x), ...(options.along ?? [])];
    const ys = [...options.points.map((item) => item.y), ...limitPoints.map((item) => item[1])];
    const x = scale(domain(xs), [LEFT, right]);
    const y = scale(domain(ys.filter((value) => !options.log || value > 0)), [bottom, TOP]);
    const clip = `clip-${options.title.replace(/\W/g, "")}-${scatters++}`;
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "plot", role: "group", "aria-label": options.title });
    root.append(
      svg("defs", {}, svg("clipPath", { id: clip }, svg("rect", { x: LEFT, y: TOP, width: right - LEFT, height: bottom - TOP }))),
      svg("rect", { class: "area", x: LEFT, y: TOP, width: right - LEFT, height: bottom - TOP }),
    );
    const grid = svg("g", { class: "grid", "aria-hidden": "true" });
    const ticks = (axis: typeof x, most: number): number[] => {
      const all = axis.ticks(most);
      const decades = all.filter((value) => Number.isInteger(Math.round(Math.log10(value) * 1e6) / 1e6));
      const chosen = options.log && decades.length >= 2 ? decades : all;
      return chosen.filter((_, place) => place % Math.ceil(chosen.length / most) === 0);
    };
    for (const value of ticks(x, Math.max(2, Math.floor((right - LEFT) / 90)))) {
      grid.append(svg("path", { d: `M${x(value)} ${TOP}V${bottom}` }),
        svg("text", { x: x(value), y: bottom + 16, "text-anchor": "middle" }, options.xText(value)));
    }
    for (const value of ticks(y, Math.max(2, Math.floor((bottom - TOP) / 45)))) {
      grid.append(svg("path", { d: `M${LEFT} ${y(value)}H${right}` }),
        svg("text", { x: LEFT - 6, y: y(value), dy: "0.32em", "text-anchor": "end" }, options.yText(value)));
    }
    grid.append(svg("text", { class: "axis", x: (LEFT + right) / 2, y: height - 6, "text-anchor": "middle" }, options.xTitle),
      svg("text", { class: "axis", x: 12, y: (TOP + bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${(TOP + bottom) / 2})` }, options.yTitle));
    const inside = svg("g", { "clip-path": `url(#${clip})` });
    const start = x.domain()[0];
    for (const item of options.limits) {
      const line = item.line.map(([px, py]) => `${x(Math.max(px, options.log ? start / 10 : px))} ${y(py)}`).join("L");
      inside.append(svg("path", { class: `limit ${item.name}`, d: `M${line}` }));
    }
    const front = (options.path ?? []).map((id) => options.points.find((item) => item.id === id)!).filter(Boolean);
    if (front.length > 1) inside.append(svg("path", { class: "front-line", d: `M${front.map((item) => `${x(item.x)} ${y(item.y)}`).join("L")}` }));
    root.append(grid, inside);
    const dots = options.points.map((point) => {
      const dot = svg("circle", {
        class: `point ${point.kind}`, cx: x(point.x), cy: y(point.y), r: 5, tabindex: 0, role: "link",
        "aria-label": [point.name, ...point.lines.map((line) => line.join(" "))].join(", "), "data-x": point.x, "data-y": point.y,
      });
      const enter = (): void => {
        const { left, top } = dot.getBoundingClientRect();
        show(point.name, point.lines, left + 5, top + 5);
      };
      dot.addEventListener("pointerenter", enter);
      dot.addEventListener("focus", enter);
      dot.addEventListener("pointerleave", hide);
      dot.addEventListener("blur", hide);
      dot.addEventListener("click", () => point.open());
      dot.addEventListener("keydown", (event) => { if (event.key === "Enter") point.open(); });
      return dot;
    });
    if (options.brushed) brush(root, x, y, dots, options.brushed);
    root.append(...dots);
    stage.replaceChildren(root, el("p", { class: "legend" }, ...options.limits.map((item) => el("span", { class: `key ${item.name}` }, item.text))));
  }

  /** Lets the reader draw a rectangle: the points in it are chosen, and all others fade. */
  function brush(root: SVGSVGElement, x: (v: number) => number, y: (v: number) => number, dots: SVGCircleElement[], brushed: (ids: Set<string> | null) => void): void {
    const ground = root.querySelector<SVGRectElement>(".area")!;
    const box = svg("rect", { class: "brush" });
    let from: [number, number] | null = null;
    const place = (event: PointerEvent): [number, number] => {
      const frame = root.getBoundingClientRect();
      return [event.clientX - frame.left, event.clientY - frame.top];
    };
    root.append(box);
    ground.addEventListener("pointerdown", (event) => {
      from = place(event);
      ground.setPointerCapture(event.pointerId);
    });
    ground.addEventListener("pointermove", (event) => {
      if (!from) return;
      const to = place(event);
      const [left, top, w, h] = [Math.min(from[0], to[0]), Math.min(from[1], to[1]), Math.abs(to[0] - from[0]), Math.abs(to[1] - from[1])];
      for (const [name, value] of Object.entries({ x: left, y: top, width: w, height: h })) box.setAttribute(name, String(value));
      const chosen = new Set<string>();
      options.points.forEach((point, number) => {
        const isIn = x(point.x) >= left && x(point.x) <= left + w && y(point.y) >= top && y(point.y) <= top + h;
        dots[number].classList.toggle("faded", !isIn);
        if (isIn) chosen.add(point.id);
      });
      brushed(w + h > 6 ? chosen : null);
      if (w + h <= 6) dots.forEach((dot) => dot.classList.remove("faded"));
    });
    const end = (): void => {
      if (from && Number(box.getAttribute("width") ?? 0) + Number(box.getAttribute("height") ?? 0) <= 6) {
        dots.forEach((dot) => dot.classList.remove("faded"));
        brushed(null);
      }
      from = null;
      for (const name of ["width", "height"]) if (Number(box.getAttribute(name) ?? 0) <= 6) box.setAttribute(name, "0");
    };
    ground.addEventListener("pointerup", end);
    ground.addEventListener("click", () => {
      if (Number(box.getAttribute("width") ?? 0) > 6) return;
      dots.forEach((dot) => dot.classList.remove("faded"));
      brushed(null);
    });
  }

  new ResizeObserver(() => {
    if (stage.clientWidth === drawnAt) return;
    drawnAt = stage.clientWidth;
    build();
  }).observe(stage);
  return figure;
}

let scatters = 0;
