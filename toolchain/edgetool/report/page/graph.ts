// The operators and the tensors between them, laid out by dagre when the drawing comes into view.
import dagre from "@dagrejs/dagre";
import { select } from "d3-selection";
import { zoom, zoomIdentity, type D3ZoomEvent } from "d3-zoom";
import { el, svg } from "./dom";
import { visible } from "./format";
import type { Model, Operator } from "./model";
import { hide, show } from "./tooltip";

const LETTER = 6.6;
const MAX_NODES = 1_000;
export type Colour = "time" | "memory" | "error";

export function graph(model: Model, errors: Map<string, number>, open: (operator: string) => void): HTMLElement | null {
  const operators = model.operators;
  if (!model.page.view || !operators.length || operators.length > MAX_NODES) return null;
  const stage = el("div", { class: "stage graph", tabindex: 0, role: "application", "aria-label": "Graph of the operators", "aria-describedby": `${model.prefix}graph-hint` });
  const buttons = el("div", { class: "zoom", role: "group", "aria-label": "Zoom" });
  const choice = el("select", { id: `${model.prefix}colour` }, el("option", { value: "time" }, "time"), el("option", { value: "memory" }, "memory"),
    errors.size ? el("option", { value: "error" }, "error") : null);
  const hint = el("span", { class: "hint", id: `${model.prefix}graph-hint` }, "the stronger the colour, the more; a click leads to the operator");
  const figure = el("figure", {}, el("div", { class: "tools" }, el("label", { for: `${model.prefix}colour` }, "Colour by "), choice, hint), buttons, stage);
  let drawn = false;
  const draw = (): void => {
    if (drawn) return;
    drawn = true;
    build();
  };

  function share(item: Operator, colour: Colour): number {
    if (colour === "error") return errors.get(model.operatorId(item.subgraph, item.index)) ?? 0;
    return colour === "time" ? (item.info?.ms.value ?? 0) : item.live;
  }

  function build(): void {
    const layout = new dagre.graphlib.Graph({ multigraph: true });
    layout.setGraph({ rankdir: "TB", nodesep: 14, ranksep: 26, ranker: operators.length > 150 ? "longest-path" : "network-simplex" });
    layout.setDefaultEdgeLabel(() => ({}));
    const makers = new Map<string, string>();
    const texts = new Map<string, string>();
    for (const item of operators) {
      const id = model.operatorId(item.subgraph, item.index);
      const label = visible(item.label);
      const text = `${item.subgraph ? `${item.subgraph}:` : ""}${item.index} ${label.length > 26 ? `${label.slice(0, 25)}\u2026` : label}`;
      texts.set(id, text);
      layout.setNode(id, { width: text.length * LETTER + 16, height: 24 });
      for (const output of item.outputs) makers.set(`${item.subgraph}:${output}`, id);
    }
    for (const item of operators) {
      const id = model.operatorId(item.subgraph, item.index);
      for (const input of item.inputs) {
        const maker = makers.get(`${item.subgraph}:${input}`);
        if (maker !== undefined && maker !== id) layout.setEdge(maker, id, {}, String(input));
      }
    }
    dagre.layout(layout);
    const { width = 1, height = 1 } = layout.graph();
    const view = Math.min(620, Math.max(240, height + 20));
    const frame = Math.max(280, stage.clientWidth);
    const root = svg("svg", { viewBox: `0 0 ${frame} ${view}`, width: frame, height: view, class: "plot", "aria-hidden": "true" });
    const content = svg("g");
    root.append(svg("rect", { class: "area", width: frame, height: view }), content);
    for (const edge of layout.edges()) {
      const points = layout.edge(edge).points as { x: number; y: number }[];
      content.append(svg("path", { class: "edge", d: `M${points.map(({ x, y }) => `${x} ${y}`).join("L")}` }));
    }
    const boxes: [SVGRectElement, Operator][] = [];
    for (const item of operators) {
      const id = model.operatorId(item.subgraph, item.index);
      const node = layout.node(id);
      const box = svg("rect", { class: "node", x: node.x - node.width / 2, y: node.y - 12, width: node.width, height: 24, rx: 4 });
      const group = svg("g", { class: "operator" }, box, svg("text", { x: node.x, y: node.y, dy: "0.35em", "text-anchor": "middle" }, texts.get(id)));
      group.addEventListener("pointermove", (event) => show(model.operatorName(item.subgraph, item.index, item.label), model.operatorLines(item), event.clientX, event.clientY));
      group.addEventListener("pointerleave", hide);
      group.addEventListener("click", () => open(id));
      boxes.push([box, item]);
      content.append(group);
    }
    const paint = (): void => {
      const colour = choice.value as Colour;
      const most = Math.max(...operators.map((item) => share(item, colour)), Number.MIN_VALUE);
      for (const [box, item] of boxes) {
        const level = Math.min(6, Math.ceil((6 * share(item, colour)) / most));
        box.setAttribute("class", `node level${level}`);
      }
    };
    choice.addEventListener("change", paint);
    paint();
    const behaviour = zoom<SVGSVGElement, unknown>().scaleExtent([Math.min(0.9, frame / width, view / height), 4])
      .filter((event: WheelEvent & TouchEvent) =>
        event.type === "wheel" ? event.ctrlKey || event.metaKey || document.activeElement === stage
          : event.type.startsWith("touch") ? event.touches.length > 1 : !event.button)
      .on("zoom", (event: D3ZoomEvent<SVGSVGElement, unknown>) => content.setAttribute("transform", event.transform.toString()));
    const selection = select(root).call(behaviour).on("dblclick.zoom", null);
    const fit = Math.min(1, (frame - 20) / width, (view - 20) / height);
    const start = (scale: number): unknown =>
      selection.call(behaviour.transform, zoomIdentity.translate(frame / 2 - (scale * width) / 2, 10).scale(scale));
    const actions: Record<string, () => unknown> = {
      "+": () => selection.call(behaviour.scaleBy, 1.4), "=": () => selection.call(behaviour.scaleBy, 1.4),
      "-": () => selection.call(behaviour.scaleBy, 1 / 1.4), "0": () => start(Math.max(fit, Math.min(1, (frame - 20) / width))),
      ArrowLeft: () => selection.call(behaviour.translateBy, 60, 0), ArrowRight: () => selection.call(behaviour.translateBy, -60, 0),
      ArrowUp: () => selection.call(behaviour.translateBy, 0, 60), ArrowDown: () => selection.call(behaviour.translateBy, 0, -60),
    };
    stage.onkeydown = (event) => {
      const action = actions[event.key];
      if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      action();
    };
    for (const [text, label, action] of [["+", "Zoom in", actions["+"]], ["\u2212", "Zoom out", actions["-"]], ["Reset", "Reset: back to the start", actions["0"]], ["All", "All: show the whole graph", () => start(fit)]] as const) {
      const made = el("button", { type: "button", "aria-label": label }, text);
      made.addEventListener("click", () => void action());
      buttons.append(made);
    }
    stage.replaceChildren(root);
    actions["0"]();
  }

  new IntersectionObserver((entries, observer) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    observer.disconnect();
    draw();
  }, { rootMargin: "200px" }).observe(stage);
  window.addEventListener("beforeprint", draw);
  return figure;
}
