// Tables that sort, filter, and become cards on narrow screens. Long ones begin with their first rows, and say so.
import { el, type Child } from "./dom";
import { grouped } from "./format";

export interface Column<T> {
  title: string;
  value: (row: T) => number | string | null;
  cell?: (row: T) => Child;
  numeric?: boolean;
  long?: boolean; // names, which may break anywhere
}

export interface TableOptions<T> {
  caption: string;
  text?: (row: T) => string; // what the filter searches; without it there is no filter
  id?: (row: T) => string;
  sort?: [number, "ascending" | "descending"];
  choices?: { label: string; of: (row: T) => string };
}

export interface Table { element: HTMLElement; reveal: (id: string) => boolean; showAll: () => void }

const FIRST = 60;
let tables = 0;

export function table<T>(rows: T[], columns: Column<T>[], options: TableOptions<T>): Table {
  const name = `table${tables++}`;
  const body = el("tbody", { role: "rowgroup" });
  const more = el("p", { class: "more" });
  let [sorted, direction] = options.sort ?? [-1, "ascending"];
  let everything = false;
  let needle = "";
  let choice = "";

  const heads = columns.map((column, number) => {
    const press = el("button", { type: "button" }, column.title);
    press.addEventListener("click", () => {
      direction = sorted === number && direction === "descending" ? "ascending" : column.numeric && sorted !== number ? "descending" : sorted === number ? "descending" : "ascending";
      sorted = number;
      fill();
    });
    return el("th", { scope: "col", role: "columnheader", class: column.numeric ? "number" : null }, press);
  });

  function fill(): void {
    const matching = rows.filter((row) =>
      (!needle || (options.text?.(row) ?? "").toLowerCase().includes(needle)) && (!choice || options.choices?.of(row) === choice));
    if (sorted >= 0) {
      const sign = direction === "ascending" ? 1 : -1;
      const value = columns[sorted].value;
      matching.sort((a, b) => compare(value(a), value(b), sign));
    }
    const shown = everything ? matching : matching.slice(0, FIRST);
    body.replaceChildren(...shown.map((row) =>
      el("tr", { id: options.id?.(row), tabindex: options.id ? -1 : null, role: "row" }, ...columns.map((column) =>
        el("td", { role: "cell", class: column.numeric ? "number" : column.long ? "long" : null, "data-title": column.title }, column.cell ? column.cell(row) : text(column.value(row)))))));
    heads.forEach((head, number) => {
      if (number === sorted) head.setAttribute("aria-sort", direction);
      else head.removeAttribute("aria-sort");
    });
    const left = matching.length - shown.length;
    const all = el("button", { type: "button" }, `Show all ${grouped(matching.length)}`);
    all.addEventListener("click", showAll);
    more.replaceChildren(...(left ? [`${grouped(left)} more rows. `, all] : matching.length ? [] : ["No row matches the filter."]));
  }

  function showAll(): void {
    everything = true;
    fill();
  }

  function reveal(id: string): boolean {
    if (!rows.some((row) => options.id?.(row) === id)) return false;
    if (!document.getElementById(id)) {
      [needle, choice] = ["", ""];
      for (const field of element.querySelectorAll<HTMLInputElement | HTMLSelectElement>(".tools .filter")) field.value = "";
      showAll();
    }
    return true;
  }

  const tools = el("div", { class: "tools" });
  if (options.text) {
    const field = el("input", { type: "search", id: `${name}-filter`, class: "filter", autocomplete: "off" });
    field.addEventListener("input", () => { needle = field.value.trim().toLowerCase(); fill(); });
    tools.append(el("span", { class: "field" }, el("label", { for: `${name}-filter` }, "Filter "), field));
  }
  if (options.choices) {
    const of = options.choices.of;
    const field = el("select", { id: `${name}-choice`, class: "filter" }, el("option", { value: "" }, "all"),
      ...[...new Set(rows.map(of))].sort().map((item) => el("option", { value: item }, item)));
    field.addEventListener("change", () => { choice = field.value; fill(); });
    tools.append(el("span", { class: "field" }, el("label", { for: `${name}-choice` }, `${options.choices.label} `), field));
  }
  const order = el("select", { id: `${name}-order` }, el("option", { value: -1 }, "as listed"),
    ...columns.map((column, number) => el("option", { value: number }, column.title)));
  order.value = String(sorted);
  order.addEventListener("change", () => {
    sorted = Number(order.value);
    direction = columns[sorted]?.numeric ? "descending" : "ascending";
    fill();
  });
  tools.append(el("span", { class: "narrow" }, el("label", { for: `${name}-order` }, "Sort by "), order));

  const element = el("div", { class: "table" }, tools,
    el("table", { role: "table" }, el("caption", { class: "visually-hidden" }, options.caption),
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...heads)), body), more);
  fill();
  return { element, reveal, showAll };
}

function compare(a: number | string | null, b: number | string | null, sign: number): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  return sign * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
}

const text = (value: number | string | null): string =>
  value === null ? "\u2013" : typeof value === "number" ? grouped(value) : value;

/** Returns a bar as long as the share, with the text beside it. low and high: the ends of a band around it. */
export function bar(share: number, text: string, kind = "", low?: number, high?: number): HTMLElement {
  const fill = el("span", { class: `fill ${kind}` });
  fill.style.setProperty("width", `${100 * Math.min(1, share)}%`);
  const track = el("span", { class: "track", "aria-hidden": "true" }, fill);
  if (low !== undefined && high !== undefined) {
    const band = el("span", { class: "band" });
    band.style.setProperty("left", `${100 * low}%`);
    band.style.setProperty("width", `${100 * Math.max(0, high - low)}%`);
    track.append(band);
  }
  return el("span", { class: "bar" }, track, el("span", { class: "value" }, text));
}
