// Builds the page from its data.
import { comparison } from "./comparison";
import { el } from "./dom";
import { plural, shortSize, visible } from "./format";
import { Model } from "./model";
import { Context, flashBytes, mapScale, sections, type Section } from "./report";
import { sweep } from "./sweep";
import type { Data, PageReport, Report } from "./types";

const page = document.getElementById("page")!;
const data = JSON.parse(document.getElementById("data")!.textContent!) as Data;
const context = new Context();

function targetText(report: Report): string {
  const target = report.target;
  if (!target) return report.runtime?.name === "native" ? "native code, without a target" : "without a target";
  return `on ${visible(target.board ?? target.core)} (${visible(target.core)}, ${report.runtime?.name === "native" ? "native code" : `${visible(target.kernels)} kernels`})`;
}

function header(title: string, detail: string, documents: unknown, name: string): HTMLElement {
  document.title = `${title} \u2013 edgetool`;
  const theme = el("button", { type: "button", class: "theme" }, "Light or dark");
  theme.addEventListener("click", () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
    document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
  });
  const download = el("button", { type: "button", class: "download" }, "Download JSON");
  download.addEventListener("click", () => {
    const url = URL.createObjectURL(new Blob([`${JSON.stringify(documents, null, 2)}\n`], { type: "application/json" }));
    const anchor = el("a", { href: url, download: `${name}.json` });
    anchor.click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  });
  return el("header", {}, el("div", {}, el("h1", {}, title), el("p", {}, detail)), el("div", { class: "actions" }, theme, download));
}

/** Returns the links to the sections, and the sections. */
function sectionElements(found: Section[]): HTMLElement[] {
  const links = found.map((item) => el("a", { href: `#${item.id}` }, item.title));
  const elements = found.map((item) =>
    el("section", { id: item.id, "aria-labelledby": `${item.id}-title` }, el("h2", { id: `${item.id}-title` }, item.title), ...item.content));
  return [el("nav", { "aria-label": "Sections" }, ...links), ...elements];
}

function reports(items: PageReport[], command: string): void {
  const documents = items.map((item) => item.document);
  const whole = documents.length === 1 ? documents[0] : { schema: documents[0].schema, reports: documents };
  const names = [...new Set(documents.map((item) => visible(item.model.name)))];
  const detail = documents.length === 1 ? targetText(documents[0]) : plural(documents.length, "report");
  page.append(header(names.length === 1 ? names[0] : plural(names.length, "model"), detail, whole, "report"));
  const place = el("div");
  const choose = (number: number): void => {
    context.tables.length = 0;
    const model = new Model(items[number]);
    place.replaceChildren(...sectionElements(sections(model, context, command)));
  };
  if (items.length > 1) page.append(overview(items, choose));
  page.append(place);
  choose(0);
}

/** Returns a list of all reports, one of which is chosen. */
function overview(items: PageReport[], choose: (number: number) => void): HTMLElement {
  const rows = items.map((item, number) => {
    const report = item.document;
    const radio = el("input", { type: "radio", name: "report", id: `report-${number}`, value: number, checked: number === 0 });
    radio.addEventListener("change", () => choose(number));
    const arena = report.arena ? (report.arena.bytes ?? report.arena.layout_bytes) : null;
    return el("li", { class: item.negative ? "bad" : "" }, radio, el("label", { for: `report-${number}` },
      el("strong", {}, `${visible(report.model.name)} ${targetText(report)}`), ` ${visible(item.verdict)}`,
      el("span", { class: "detail" }, `${arena === null ? "" : `arena ${shortSize(arena)}, `}flash ${shortSize(flashBytes(report))}`)));
  });
  return el("fieldset", { class: "overview" }, el("legend", {}, "Reports"), el("ul", {}, ...rows),
    el("p", { class: "printed" }, "The report that was chosen follows; choose another one in the browser to print it."));
}

function pair(items: [PageReport, PageReport]): void {
  if (data.kind !== "comparison") return;
  const models = items.map((item, number) => new Model(item, "ab"[number] + "-"));
  context.scale = mapScale(models);
  const sides = models.map((model) => sections(model, context, ""));
  page.append(header("Comparison", models.map((model, number) => `${"AB"[number]}: ${visible(model.page.document.model.name)} ${targetText(model.page.document)}`).join("; "), data.document, "comparison"));
  const titles = [...new Set(sides.flat().map((item) => item.title))];
  page.append(...sectionElements([
    { id: "differences", title: "Differences", content: comparison(data.document, context, data.command) },
    ...titles.map((title) => ({
      id: title.toLowerCase().replace(/\W+/g, "-"), title,
      content: [el("div", { class: "pair" }, ...sides.map((side, number) => {
        const found = side.find((item) => item.title === title);
        return el("div", { class: "side" }, el("h3", { class: "side-title" }, `${"AB"[number]}: ${visible(models[number].page.document.model.name)}`), ...(found?.content ?? [el("p", {}, "not known")]));
      }))],
    })),
  ]));
}

if (data.kind === "reports") reports(data.reports, data.command);
else if (data.kind === "comparison") pair(data.reports);
else {
  const { name } = data.document.sweep;
  page.append(header(`Sweep ${visible(name)}`, `${plural(data.document.sweep.variants.length, "variant")} of ${visible(data.document.sweep.model)}`, data.document, "sweep"));
  page.append(...sectionElements(sweep(data.document, context, data.command)));
}

// In print, everything is open and complete.
window.addEventListener("beforeprint", () => {
  for (const item of document.querySelectorAll("main details")) item.setAttribute("open", "");
  for (const item of context.tables) item.showAll();
});
document.documentElement.classList.add("ready");
// The frame after the one in which the drawings learn their size.
requestAnimationFrame(() => requestAnimationFrame(() => performance.mark("drawn")));
