// How the second of two reports differs from the first.
import { el } from "./dom";
import { count, digits, duration, energy, grouped, percent, size, visible } from "./format";
import { commands, type Context } from "./report";
import type { Comparison, FigureChange } from "./types";

const TEXTS: Record<string, (value: number) => string> = {
  B: size, ms: duration, uJ: energy, share: percent, dB: (value) => `${digits(value, 3)} dB`, "GB/s": (value) => `${digits(value, 3)} GB/s`,
  "": (value) => (Number.isInteger(value) ? grouped(value) : digits(value, 5)),
};
const MORE_IS_BETTER = new Set(["bandwidth_gbps", "accuracy", "float_accuracy", "sqnr_db", "cosine", "top1_agreement"]);
const NEUTRAL = new Set(["bandwidth_gbps", "bandwidth_utilization", "stream_utilization", "stock_arena_bytes", "float_accuracy", "operators"]);

export const figureName = (name: string): string =>
  name.replace(/_(bytes|ms|uj|db|gbps)$/, "").replaceAll("_", " ").replace("macs", "MACs").replace("sqnr", "SQNR");

export function comparison(document: Comparison, context: Context, command: string): HTMLElement[] {
  const figures = document.compare.figures.filter((item) => item.a !== null || item.b !== null);
  const text = (item: FigureChange, value: number | null, band: [number, number | null] | null): string =>
    value === null ? "\u2013" : `${band && band[1] === null ? "\u2265 " : ""}${TEXTS[item.unit](value)}`;
  const missing = document.compare.figures.filter((item) => item.a === null && item.b === null).map((item) => figureName(item.figure));
  const content: HTMLElement[] = [
    context.table(figures, [
      { title: "figure", value: (item) => figureName(item.figure) },
      { title: "A", value: (item) => item.a, cell: (item) => text(item, item.a, item.a_band), numeric: true },
      { title: "B", value: (item) => item.b, cell: (item) => text(item, item.b, item.b_band), numeric: true },
      { title: "change", value: (item) => item.change, cell: change, numeric: true },
      { title: "change in %", value: (item) => item.change_percent, cell: (item) => (item.change_percent === null ? "\u2013" : `${item.change_percent > 0 ? "+" : ""}${digits(item.change_percent, 3)} %`), numeric: true },
    ], { caption: "Figures of A and B" }),
  ];
  if (missing.length) content.push(el("p", { class: "hint" }, `Not known for either: ${missing.join(", ")}.`));
  for (const item of document.findings) content.push(el("p", { class: "note" }, visible(item.message)));
  const operators = (document.compare.operators ?? []).map((item) => ({ ...item, difference: (item.b_ms ?? 0) - (item.a_ms ?? 0) }));
  if (operators.length) {
    const cell = (value: number | null, format: (v: number) => string): string => (value === null ? "\u2013" : format(value));
    const timed = operators.some((item) => item.a_ms !== null || item.b_ms !== null);
    content.push(el("h3", {}, "Operators side by side"), context.table(operators, [
      { title: "A", value: (item) => item.a, cell: (item) => item.a?.replace(/^0:/, "") ?? "\u2013" },
      { title: "B", value: (item) => item.b, cell: (item) => item.b?.replace(/^0:/, "") ?? "\u2013" },
      { title: "operator", long: true, value: (item) => visible(item.operator) },
      ...(timed ? [
        { title: "time A", value: (item: (typeof operators)[number]) => item.a_ms, cell: (item: (typeof operators)[number]) => cell(item.a_ms, duration), numeric: true },
        { title: "time B", value: (item: (typeof operators)[number]) => item.b_ms, cell: (item: (typeof operators)[number]) => cell(item.b_ms, duration), numeric: true },
        { title: "difference", value: (item: (typeof operators)[number]) => item.difference, cell: (item: (typeof operators)[number]) => signed(item.difference, duration), numeric: true },
      ] : []),
      { title: "MACs A", value: (item) => item.a_macs, cell: (item) => cell(item.a_macs, count), numeric: true },
      { title: "MACs B", value: (item) => item.b_macs, cell: (item) => cell(item.b_macs, count), numeric: true },
    ], { caption: "Operators of A and B", text: (item) => item.operator }));
  }
  return [...content, ...commands(command)];
}

function signed(value: number, text: (v: number) => string): string {
  return value === 0 ? "=" : `${value > 0 ? "+" : "\u2212"}${text(Math.abs(value))}`;
}

function change(item: FigureChange): HTMLElement | string {
  if (item.change === null) return "\u2013";
  if (item.change === 0) return "=";
  const better = MORE_IS_BETTER.has(item.figure) === item.change > 0;
  const kind = NEUTRAL.has(item.figure) ? "" : better ? "better" : "worse";
  const word = kind ? ` ${kind}` : "";
  return el("span", { class: kind }, signed(item.change, TEXTS[item.unit]), el("span", { class: "detail" }, `${item.certain === false ? "uncertain" : ""}${word}`));
}
