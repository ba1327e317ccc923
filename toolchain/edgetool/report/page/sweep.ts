// The variants of a sweep: a plot of two figures that the reader chooses, and a table of all.
import { el } from "./dom";
import { figureName } from "./comparison";
import { count, digits, duration, energy, grouped, percent, plural, shortSize, size, visible } from "./format";
import { commands, type Context, type Section } from "./report";
import { scatter, type Point } from "./scatter";
import type { Sweep, Variant } from "./types";

interface Axis { text: (value: number) => string; moreIsBetter: boolean }

const AXES: Record<string, Axis> = {
  latency_ms: { text: duration, moreIsBetter: false }, accuracy: { text: percent, moreIsBetter: true },
  arena_bytes: { text: size, moreIsBetter: false }, model_bytes: { text: size, moreIsBetter: false },
  energy_uj: { text: energy, moreIsBetter: false }, macs: { text: count, moreIsBetter: false },
  model_parameters: { text: count, moreIsBetter: false }, sqnr_db: { text: (value) => `${digits(value, 3)} dB`, moreIsBetter: true },
  agreement: { text: percent, moreIsBetter: true },
};

const figure = (variant: Variant, name: string): number | null => {
  const value = variant[name];
  return typeof value === "number" ? value : null;
};

/** Returns how a variant is planned, where it is not the default. */
const planning = (item: Variant): string[] => [
  ...(item.optimize === false ? ["not optimized"] : []),
  ...(typeof item.max_extra_macs === "number" ? [`${item.max_extra_macs} % extra MACs`] : []),
];

const variantName = (item: Variant): string =>
  [`${item.precision}, level ${item.level}`, ...planning(item), ...Object.entries(item.parameters).map(([name, value]) => `${name}=${String(value)}`), item.target].map(visible).join(", ");

const state = (item: Variant): string =>
  item.status !== "done" ? item.status : item.accepted ? (item.on_front ? "front" : "accepted") : "rejected";

/** Returns the accepted variants that no other accepted variant of the target dominates, by their x. */
export function front(variants: Variant[], x: string, y: string): Variant[] {
  const sign = (name: string): number => (AXES[name].moreIsBetter ? 1 : -1);
  const candidates = variants.filter((item) => item.accepted && figure(item, x) !== null && figure(item, y) !== null);
  const dominates = (a: Variant, b: Variant): boolean => {
    const [dx, dy] = [sign(x) * (figure(a, x)! - figure(b, x)!), sign(y) * (figure(a, y)! - figure(b, y)!)];
    return a.target === b.target && dx >= 0 && dy >= 0 && (dx > 0 || dy > 0);
  };
  return candidates.filter((item) => !candidates.some((other) => dominates(other, item))).sort((a, b) => figure(a, x)! - figure(b, x)!);
}

export function sweep(document: Sweep, context: Context, command: string): Section[] {
  const { variants, warnings, targets } = document.sweep;
  const known = Object.keys(AXES).filter((name) => variants.some((item) => figure(item, name) !== null));
  const content: HTMLElement[] = [];
  const counts = ["front", "accepted", "rejected", "failed", "pending"].map((name) => [name, variants.filter((item) => state(item) === name).length] as const).filter(([, number]) => number);
  content.push(el("p", {}, counts.map(([name, number]) => `${grouped(number)} ${name === "front" ? "on the front" : name}`).join(", ") || "There are no variants yet."));
  for (const item of warnings) content.push(el("p", { class: "note" }, `${visible(item.message)} (${plural(item.variants.length, "variant")})`));

  const listed = el("div");
  let chosen: Set<string> | null = null;
  const columns = [
    { title: "no", value: (item: Variant) => item.number, numeric: true, cell: (item: Variant) => anchor(item) },
    { title: "variant", long: true, value: variantName },
    { title: "state", value: state },
    ...known.map((name) => ({ title: figureName(name), value: (item: Variant) => figure(item, name), numeric: true, cell: (item: Variant) => { const value = figure(item, name); return value === null ? "\u2013" : (name.endsWith("bytes") ? shortSize : AXES[name].text)(value); } })),
  ];
  const anchor = (item: Variant): HTMLElement => {
    const made = el("a", { href: `#variant-${item.number}` }, String(item.number));
    made.addEventListener("click", (event) => { event.preventDefault(); open(item.number); });
    return made;
  };
  function list(): void {
    context.tables.length = 0;
    const rows = variants.filter((item) => !chosen || chosen.has(String(item.number)));
    listed.replaceChildren(
      el("p", { class: "hint" }, chosen ? `${plural(rows.length, "variant")} in the rectangle; a click into the plot shows all.` : ""),
      context.table(rows, columns, { caption: "Variants", text: (item) => `${variantName(item)} ${state(item)}`, id: (item) => `row-${item.number}`, choices: { label: "State", of: state } }));
  }

  const place = el("div", { class: "variant", id: "variant" });
  function open(number: number): void {
    const item = variants.find((other) => other.number === number);
    if (!item) return;
    const facts: [string, string][] = [["state", state(item)], ["target", visible(item.target)], ...known.flatMap((name) => {
      const value = figure(item, name);
      return value === null ? [] : [[figureName(name), `${AXES[name].text(value)}${bandOf(item, name)}`] as [string, string]];
    })];
    const remarks = [item.reason, ...item.rejected, ...item.causes, ...item.notes].filter((text): text is string => !!text);
    place.replaceChildren(el("h3", { id: `variant-${number}`, tabindex: -1 }, `Variant ${number}: ${variantName(item)}`),
      el("dl", { class: "provenance" }, ...facts.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)])),
      remarks.length ? el("ul", {}, ...[...new Set(remarks)].map((text) => el("li", {}, visible(text)))) : "");
    history.replaceState(null, "", `#variant-${number}`);
    const title = place.querySelector<HTMLElement>("h3")!;
    title.scrollIntoView({ block: "nearest" });
    title.focus({ preventScroll: true });
  }

  if (known.length >= 2) {
    const plots = el("div", { class: "maps several" });
    const select = (id: string, value: string): HTMLSelectElement => {
      const made = el("select", { id }, ...known.map((name) => el("option", { value: name }, figureName(name))));
      made.value = value;
      made.addEventListener("change", draw);
      return made;
    };
    const x = select("axis-x", known[0]);
    const y = select("axis-y", known.includes("accuracy") && known[0] !== "accuracy" ? "accuracy" : known[1]);
    function draw(): void {
      const [nx, ny] = [x.value, y.value];
      chosen = null;
      list();
      plots.replaceChildren(...targets.map(({ label }) => {
        const own = variants.filter((item) => item.target === label && figure(item, nx) !== null && figure(item, ny) !== null);
        const best = nx === ny ? [] : front(own, nx, ny);
        const points: Point[] = own.map((item) => ({
          x: figure(item, nx)!, y: figure(item, ny)!, name: `Variant ${item.number}`, id: String(item.number), open: () => open(item.number),
          kind: best.includes(item) ? "front" : item.accepted ? "accepted" : "rejected",
          lines: [["variant", variantName(item)], [figureName(nx), AXES[nx].text(figure(item, nx)!)], [figureName(ny), AXES[ny].text(figure(item, ny)!)], ["state", item.accepted ? (best.includes(item) ? "on the front" : "accepted") : "rejected"]],
        }));
        const short = (name: string) => (value: number): string => AXES[name].text(value).replace(/^.*\((.*)\)$/, "$1");
        return points.length
          ? scatter({ title: visible(label), points, limits: [], log: false, xTitle: figureName(nx), yTitle: figureName(ny), xText: short(nx), yText: short(ny), path: best.map((item) => String(item.number)), brushed: (ids) => { chosen = ids; list(); } })
          : el("p", {}, `${visible(label)}: no variant has both figures.`);
      }));
    }
    content.push(el("div", { class: "tools" }, el("span", { class: "field" }, el("label", { for: "axis-x" }, "X "), x), el("span", { class: "field" }, el("label", { for: "axis-y" }, "Y "), y)),
      el("p", { class: "legend" }, el("span", { class: "key front" }, "on the front"), el("span", { class: "key accepted" }, "accepted"), el("span", { class: "key rejected" }, "rejected")),
      el("p", { class: "hint" }, "Hover or tab to a variant; a click shows it. Draw a rectangle to list only the variants in it."), plots);
    draw();
  } else list();
  content.push(place);
  const openWanted = (): void => {
    const wanted = /^#variant-(\d+)$/.exec(location.hash)?.[1];
    if (wanted) open(Number(wanted));
  };
  requestAnimationFrame(openWanted);
  window.addEventListener("hashchange", openWanted);
  return [
    { id: "front", title: "Pareto front", content },
    { id: "variants", title: "Variants", content: [listed] },
    { id: "provenance", title: "Provenance", content: [el("p", {}, visible(document.provenance.tool)), ...commands(command)] },
  ];
}

function bandOf(item: Variant, name: string): string {
  const [low, high] = [name.replace(/_(ms|uj)$/, "_low_$1"), name.replace(/_(ms|uj)$/, "_high_$1")].map((part) => (part === name ? null : figure(item, part)));
  return low === null || high === null ? "" : ` (${AXES[name].text(low)} to ${AXES[name].text(high)})`;
}
