// The sections of one report.
import { el, type Child } from "./dom";
import { count, digits, duration, energy, grouped, percent, plural, shortSize, size, visible } from "./format";
import { graph } from "./graph";
import { memoryMap, range, type Block, type MapOptions } from "./map";
import { key, liveBytes, type Model } from "./model";
import { scatter, type Limit, type Point } from "./scatter";
import { bar, table, type Column, type Table } from "./table";
import type { Band, LayerLoss, OperatorInfo, Report } from "./types";

export interface Section { id: string; title: string; content: HTMLElement[] }

/** What sections share: the tables that must show all rows in print, and how to get to an operator. */
export class Context {
  readonly tables: Table[] = [];
  scale: MapScale | null = null; // of all memory maps

  open = (id: string): void => {
    this.tables.some((item) => item.reveal(id));
    const row = document.getElementById(id);
    if (!row) return;
    row.scrollIntoView({ block: "center" });
    row.focus({ preventScroll: true });
    for (const other of document.querySelectorAll("tr.target")) other.classList.remove("target");
    row.classList.add("target");
  };

  table<T>(...parameters: Parameters<typeof table<T>>): HTMLElement {
    const made = table(...parameters);
    this.tables.push(made);
    return made.element;
  }
}

export function sections(model: Model, context: Context, command: string): Section[] {
  const made: (Section | null)[] = [
    { id: "verdict", title: "Verdict", content: verdict(model) },
    memory(model, context),
    operators(model, context),
    quantization(model, context),
    graphSection(model, context),
    { id: "findings", title: "Findings and provenance", content: provenance(model, command) },
  ];
  return made.filter((item): item is Section => item !== null && item.content.length > 0)
    .map((item) => ({ ...item, id: model.prefix + item.id }));
}

// ---- 1. the verdict

const needed = (report: Report): number | null => report.arena?.bytes ?? report.arena?.layout_bytes ?? null;

export function flashBytes(report: Report): number {
  return report.flash?.model_bytes ?? report.model.output?.bytes ?? report.model.bytes;
}

function fact(name: string, value: string, detail: Child, state = ""): HTMLElement {
  return el("div", { class: `fact ${state}` }, el("dt", {}, name), el("dd", {}, el("span", { class: "big" }, value), el("span", { class: "detail" }, detail)));
}

function limited(name: string, bytes: number, limit: number | null, where: string, fits: boolean | null, prefix = "", more = ""): HTMLElement {
  const detail = el("span", {}, `${grouped(bytes)} B`,
    limit ? ` of ${shortSize(limit)} in ${visible(where)}` : "", more);
  if (limit) detail.append(bar(bytes / limit, percent(bytes / limit), fits === false ? "bad" : "good"));
  return fact(name, `${prefix}${shortSize(bytes)}`, detail, fits === false ? "bad" : fits ? "good" : "");
}

const bandText = (band: Band, text: (value: number) => string): string => `${text(band.low)} to ${text(band.high)}`;

function verdict(model: Model): HTMLElement[] {
  const { document: report, verdict: sentence, negative } = model.page;
  const { arena, memory, estimate, quantization: loss } = report;
  const fits = memory?.arena_fits && memory.model_fits;
  const facts: HTMLElement[] = [];
  const bytes = needed(report);
  if (arena && bytes !== null) {
    const prefix = arena.bytes === null ? "> " : arena.is_lower_bound ? "\u2265 " : "";
    const stock = arena.stock_bytes;
    const saved = stock !== null && arena.bytes !== null && stock > arena.bytes
      ? `, ${percent((stock - arena.bytes) / stock)} less than TFLM\u2019s own plan` : "";
    facts.push(limited("Arena", bytes, memory?.sram_bytes ?? null, memory?.region ?? "SRAM", memory?.arena_fits ?? null, prefix, saved));
  }
  facts.push(limited(report.flash ? "Flash (constants)" : "Flash (model)", flashBytes(report), memory?.flash_bytes ?? null, "flash", memory?.model_fits ?? null));
  const latency = estimate?.latency_ms ?? null;
  facts.push(latency
    ? fact("Latency", duration(latency.value), `${bandText(latency, duration)}, ${estimate!.validation}`)
    : fact("Latency", "not known", estimate ? "the target has no timing" : "no target"));
  const power = estimate?.energy_uj ?? null;
  facts.push(power ? fact("Energy", energy(power.value), bandText(power, energy)) : fact("Energy", "not known", "the power of the board is unknown"));
  const accuracy = loss?.accuracy;
  const worst = loss ? Math.min(...loss.outputs.map((item) => item.sqnr_db ?? Infinity)) : Infinity;
  facts.push(accuracy
    ? fact("Accuracy", percent(accuracy.quantized), `${percent(accuracy.float)} in float`)
    : loss && loss.outputs.length ? fact("SQNR", Number.isFinite(worst) ? `${digits(worst, 3)} dB` : "equal", "of the worst output")
      : fact("Accuracy", "not measured", "the report of the conversion states it, if there is one"));
  const help = [
    ...(estimate?.verdict.advice ?? []),
    ...(report.check?.judgements ?? []).flatMap((item) => item.advice),
    ...report.findings.filter((item) => ["native-code-smaller", "shrunk"].includes(item.rule)).map((item) => item.message),
  ];
  const state = negative ? "bad" : fits ? "good" : "open";
  return [
    el("p", { class: `headline ${state}` }, el("span", { class: "mark", "aria-hidden": "true" }, negative ? "\u2715" : fits ? "\u2713" : "?"), el("span", {}, visible(sentence))),
    omission(model),
    el("dl", { class: "facts" }, ...facts),
    el("div", { class: "advice" },
      estimate ? el("div", {}, el("h3", {}, "What limits the speed"), el("p", {}, visible(estimate.verdict.text))) : null,
      help.length ? el("div", {}, el("h3", {}, "What would help"), el("ul", {}, ...[...new Set(help)].map((item) => el("li", {}, visible(item))))) : null),
  ].filter((item): item is HTMLElement => item !== null);
}

function omission(model: Model): HTMLElement | null {
  const { omitted, document: report } = model.page;
  if (!omitted) return null;
  const left = [
    ...([[omitted.operators, "operator", ""], [omitted.buffers, "buffer", ""], [omitted.entries, "part", " of the arena"], [omitted.layers, "layer", ""],
      [omitted.others, "item", " of other lists"]] as const).flatMap(([number, what, where]) => (number ? [`${plural(number, what)}${where}`] : [])),
    "how operators are connected",
  ];
  return el("p", { class: "note", role: "note" },
    `The model has ${plural(report.model.operators, "operator")} and ${plural(report.model.tensors, "tensor")}: this page is a summary. It lists the ` +
    "operators with the most time, the largest buffers, the largest parts of the arena and the layers with the largest loss. " +
    `Left out are ${left.join(", ")}. They are in the JSON documents of \u2018edgetool plan\u2019, \u2018edgetool estimate\u2019 and ` +
    "\u2018edgetool convert\u2019. There are no drawings of the graph, of rows and of TFLM\u2019s own plan, and no list of inputs and outputs.");
}

// ---- 2. memory

const MIN_HEAD = 3; // the head has at least this part of the height

export interface MapScale { domain: number; tailDomain: number | null }

/** Returns one scale for the maps of all models. A head that would be hardly visible below its tail gets a scale of its own. */
export function mapScale(models: Model[]): MapScale {
  let [head, tail, arena] = [1, 1, 1];
  for (const model of models) {
    const { document: report, view } = model.page;
    const planned = view?.rows ? 0 : Math.max(0, ...model.blocks.map((block) => block.offset + block.bytes));
    head = Math.max(head, report.arena?.layout_bytes ?? 0, view?.stock?.head_bytes ?? 0, view?.rows?.memory_bytes ?? 0, planned);
    tail = Math.max(tail, report.arena?.tail_bytes ?? 0, view?.stock?.tail_bytes ?? 0);
    arena = Math.max(arena, head, report.arena?.bytes ?? 0, view?.stock?.arena_bytes ?? 0);
  }
  return head < arena / MIN_HEAD ? { domain: head * 1.1, tailDomain: tail } : { domain: arena, tailDomain: null };
}

function memory(model: Model, context: Context): Section | null {
  const { document: report, view } = model.page;
  const { arena, plan } = report;
  if (!arena || !plan) return null;
  const content: HTMLElement[] = [];
  const scale = context.scale ?? mapScale([model]);
  const limit = report.memory?.sram_bytes ? { bytes: report.memory.sram_bytes, text: `${visible(report.memory.region ?? "SRAM")} ${shortSize(report.memory.sram_bytes)}` } : null;
  const hint = `${model.prefix}map-keys`;
  const shared = { ...scale, limit, hint, positionName: (position: number) => model.positionName(position), open: context.open, lanes: [] };
  const bytes = needed(report)!;
  const proof = arena.optimal ? "no layout of these buffers is smaller" : `a bound of ${size(arena.lower_bound_bytes)} is known`;
  const rows = view?.rows;
  const maps: MapOptions[] = [];
  if (rows && report.rows) {
    if (rows.boxes.length) maps.push({ ...shared, ...rowMap(model), title: "Rows over time" });
    else content.push(el("p", { class: "note" }, "The plan has more rows than a page can draw: the tables below describe them."));
  } else if (model.blocks.length) {
    const peak = plan.peak;
    maps.push({
      ...shared, title: plan.constants_in_ram ? "Plan with constants" : model.native ? "Arena of native code" : "Planned arena", end: model.end,
      note: `${size(bytes)}; ${proof}.`, blocks: model.blocks, unit: model.positionUnit,
      arena: bytes, head: arena.head_bytes ?? arena.layout_bytes, parts: model.native ? [] : model.tailParts(),
      peak: peak && {
        position: Math.max(0, peak.position), short: `peak ${shortSize(peak.bytes)}`,
        text: `peak ${shortSize(peak.bytes)}${peak.operator === null ? " before the first operator" : `, ${model.operatorName(peak.subgraph ?? 0, peak.operator, peak.label)}`}`,
      },
    });
  }
  if (view?.stock) {
    const blocks = model.stockBlocks();
    const end = Math.max(1, ...blocks.map((block) => block.end));
    const live = liveBytes(blocks.map((block) => ({ ...block, bytes: 16 * Math.ceil(block.bytes / 16) })), end);
    const at = live.indexOf(Math.max(...live));
    for (const block of blocks) block.peak = block.first <= at && at < block.end;
    const peak = `peak ${shortSize(live[at])}`;
    const tail = view.stock.tail_bytes;
    maps.push({
      ...shared, title: "TFLM\u2019s own plan", note: `${size(view.stock.arena_bytes)}${model.native ? " with reference kernels" : ""}, to the same scale.`, blocks,
      end, unit: "operators as in the file", positionName: String,
      arena: view.stock.arena_bytes, head: view.stock.head_bytes, peak: blocks.length ? { position: at, text: peak, short: peak } : null,
      parts: tail > 0 ? [{ name: "tail", bytes: tail, operator: null, lines: [["size", size(tail)]] }] : [],
    });
  }
  if (maps.length) {
    content.push(
      legend(model, maps),
      el("div", { class: maps.length > 1 ? "maps several" : "maps" }, ...maps.map(memoryMap)),
      el("p", { id: hint, class: "hint" }, "Hover or tap a buffer; a click leads to its operator. To zoom, use the buttons, two fingers, " +
        "Ctrl and the wheel, or click into the map first: then the wheel and the keys + \u2212 0 zoom, arrows move, and N and P go from buffer to buffer."),
    );
  }
  content.push(...peakList(model), ...tailTable(model, context), ...rowTables(model, context), ...bufferTable(model, context));
  return { id: "memory", title: "Memory", content };
}

function legend(model: Model, maps: MapOptions[]): HTMLElement {
  const blocks = maps.flatMap((item) => item.blocks);
  const kinds: [string, string][] = [["tensor", "tensor"], ["input", "input"], ["output", "output"], ["variable", "variable"], ["constant", "constant"], ["scratch", "scratch"]];
  const keys = kinds.filter(([kind]) => blocks.some((block) => block.kind === kind)).map(([kind, text]) => el("span", { class: `key ${kind}` }, text));
  if (model.page.view?.rows) keys.unshift(el("span", { class: "key c0" }, "rows, a colour for each tensor"));
  if (model.native) keys.push(el("span", { class: "key overlap" }, "bytes that two buffers share"));
  if (blocks.some((block) => block.peak)) keys.push(el("span", { class: "key at-peak" }, "live at the peak"));
  if (maps.some((item) => item.parts.length)) keys.push(el("span", { class: "key part" }, "tail"));
  return el("p", { class: "legend" }, ...keys);
}

function rowMap(model: Model): Omit<MapOptions, "title" | keyof MapScale | "limit" | "open" | "positionName" | "hint"> & { positionName: (p: number) => string } {
  const { document: report, view } = model.page;
  const [rows, info] = [view!.rows!, report.rows!];
  const blocks: Block[] = [];
  rows.boxes.forEach((values, tensor) => {
    const about = info.tensors[tensor];
    for (let i = 0; i < values.length; i += 4) {
      const [first, end, offset, high] = values.slice(i, i + 4);
      const maker = model.operators.find((item) => item.outputs.includes(about.index));
      blocks.push({
        name: visible(about.name), kind: `row c${tensor % 8}`, first, end, offset, bytes: high - offset, peak: false,
        lines: [["offset", `${grouped(offset)} B`], ["size", `${grouped(high - offset)} B: ${plural((high - offset) / about.row_bytes, "row")} of ${grouped(about.rows)}`],
          ["live at", range(first, end - 1, "step")], ["in memory at once", `at most ${plural(about.most_rows, "row")}`],
          ...(maker ? [["written by", model.operatorName(0, maker.index, maker.label)] as [string, string]] : [])],
        operator: maker ? model.operatorId(0, maker.index) : null,
      });
    }
  });
  for (const [index, bytes, offset, steps] of rows.scratch) {
    const user = model.operators.find((item) => item.subgraph === 0 && item.index === index);
    for (let i = 0; i < steps.length; i += 2) {
      blocks.push({
        name: "scratch", kind: "scratch", first: steps[i], end: steps[i + 1], offset, bytes, peak: false,
        lines: [["offset", `${grouped(offset)} B`], ["size", `${grouped(bytes)} B`], ["live at", range(steps[i], steps[i + 1] - 1, "step")],
          ...(user ? [["scratch of", model.operatorName(0, user.index, user.label)] as [string, string]] : [])],
        operator: user ? model.operatorId(0, user.index) : null,
      });
    }
  }
  const use = new Map<number, number>();
  for (const block of blocks) {
    use.set(block.first, (use.get(block.first) ?? 0) + block.bytes);
    use.set(block.end, (use.get(block.end) ?? 0) - block.bytes);
  }
  let [live, most, at] = [0, 0, 0];
  for (const [step, change] of [...use].sort((a, b) => a[0] - b[0])) {
    live += change;
    if (live > most) [most, at] = [live, step];
  }
  for (const block of blocks) block.peak = block.first <= at && at < block.end;
  const bound = info.lower_bound_bytes === null ? "" : `; no schedule without recomputation takes less than ${size(info.lower_bound_bytes)}`;
  return {
    note: `${size(rows.memory_bytes)}${bound}.`, blocks, end: rows.steps, unit: "steps of the schedule; below, segments of operators",
    positionName: (step) => grouped(step), arena: rows.memory_bytes, head: rows.memory_bytes, parts: [],
    peak: { position: at, text: `peak at step ${grouped(at)}`, short: `peak at step ${grouped(at)}` },
    lanes: info.segments.map((segment) => ({
      first: segment.first_step, end: segment.last_step + 1, text: segmentText(segment.operators),
      operator: segment.operators.length ? model.operatorId(0, segment.operators[0]) : null,
    })),
  };
}

const segmentText = (operators: number[]): string =>
  operators.length > 1 ? `operators ${operators.join(", ")} run row by row together` : operators.length ? `operator ${operators[0]} runs alone` : "the application hands over rows";

function peakList(model: Model): HTMLElement[] {
  const entries = (model.page.document.arena?.breakdown ?? []).filter((entry) => entry.part === "head");
  if (!entries.length) return [];
  const total = entries.reduce((sum, entry) => sum + entry.bytes, 0) || 1;
  const items = entries.map((entry) => {
    const by = entry.operator === null ? "" : ` (${model.operatorName(entry.subgraph ?? 0, entry.operator, entry.label)})`;
    return el("li", {}, bar(entry.bytes / total, `${grouped(entry.bytes)} B`), " ", `${visible(entry.where)}${by}`);
  });
  return [el("h3", {}, `At the peak: ${size(total)}`), el("ul", { class: "bars" }, ...items)];
}

function tailTable(model: Model, context: Context): HTMLElement[] {
  const parts = model.tailParts();
  if (!parts.length) return [];
  const total = parts.reduce((sum, part) => sum + part.bytes, 0);
  const columns: Column<(typeof parts)[number]>[] = [
    { title: "part", long: true, value: (part) => part.name, cell: (part) => (part.operator ? link(part.name, part.operator, context) : part.name) },
    { title: "bytes", value: (part) => part.bytes, cell: (part) => bar(part.bytes / Math.max(...parts.map((item) => item.bytes)), grouped(part.bytes)), numeric: true },
    { title: "contents", long: true, value: (part) => part.lines.map(([name, text]) => `${text} ${name}`).join(", ") },
  ];
  return [details(`Tail: ${size(total)} in ${plural(parts.length, "part")}`, context.table(parts, columns, { caption: "The tail by part and operator", text: (part) => part.name }))];
}

function rowTables(model: Model, context: Context): HTMLElement[] {
  const rows = model.page.document.rows;
  if (!rows) return [];
  const tensors = context.table(rows.tensors, [
    { title: "tensor", long: true, value: (item) => visible(item.name) },
    { title: "rows", value: (item) => item.rows, numeric: true },
    { title: "bytes per row", value: (item) => item.row_bytes, numeric: true },
    { title: "most rows in memory", value: (item) => item.most_rows, numeric: true },
    { title: "most bytes in memory", value: (item) => item.most_rows * item.row_bytes, numeric: true },
    { title: "bytes as a whole", value: (item) => item.rows * item.row_bytes, numeric: true },
  ], { caption: "Tensors as rows", text: (item) => item.name });
  const segments = context.table(rows.segments, [
    { title: "first step", value: (item) => item.first_step, numeric: true },
    { title: "last step", value: (item) => item.last_step, numeric: true },
    { title: "operators", long: true, value: (item) => segmentText(item.operators) },
  ], { caption: "Segments of the schedule" });
  return [
    el("p", {}, `The schedule has ${plural(rows.steps, "step")}; its table and the offsets take ${size(rows.table_bytes)} of flash.` +
      (rows.extra_macs ? ` ${count(rows.extra_macs)} multiply-accumulates (${digits(rows.extra_macs_percent, 3)} %) are computed again.` : "") +
      (rows.row_inputs.length ? ` The application hands over ${rows.row_inputs.map(visible).join(", ")} row by row.` : "") +
      (rows.row_outputs.length ? ` It takes ${rows.row_outputs.map(visible).join(", ")} row by row.` : "")),
    details(`Tensors as rows: ${grouped(rows.tensors.length)}`, tensors),
    details(`Schedule: ${plural(rows.segments.length, "segment")}`, segments),
  ];
}

function bufferTable(model: Model, context: Context): HTMLElement[] {
  const plan = model.page.document.plan!;
  const all = [...plan.tensors.map((item) => ({ ...item, scratch: false })), ...plan.scratch.map((item) => ({ ...item, scratch: true }))];
  if (!all.length) return [el("p", {}, "There are no tensors in the arena.")];
  const about = (item: (typeof all)[number]) => (item.scratch ? undefined : model.tensors.get(key(item.subgraph, item.index)));
  const made = context.table(all, [
    { title: "buffer", long: true, value: (item) => (item.scratch ? `scratch: ${visible(item.name)}` : visible(item.name)) },
    { title: "shape", value: (item) => about(item)?.shape ?? null },
    { title: "type", value: (item) => about(item)?.type ?? null },
    { title: "offset", value: (item) => item.offset, numeric: true },
    { title: "bytes", value: (item) => item.bytes, numeric: true },
    { title: "live at", value: (item) => item.first_op, cell: (item) => range(item.first_op, item.last_op) },
  ], { caption: "Tensors and scratch buffers", text: (item) => item.name });
  const title = model.page.document.rows ? "Buffers at the peak" : "Buffers";
  return [details(`${title}: ${grouped(all.length)}`, made)];
}

// ---- 3. operators

function operators(model: Model, context: Context): Section | null {
  if (!model.operators.length) {
    return { id: "operators", title: "Operators", content: [el("p", {}, model.page.document.model.operators ? "The document lists no operators." : "The model has no operators.")] };
  }
  const { estimate, arena } = model.page.document;
  const timed = model.operators.filter((item) => item.info);
  const longest = Math.max(...timed.map((item) => item.info!.ms.high), Number.MIN_VALUE);
  const total = timed.reduce((sum, item) => sum + item.info!.ms.value, 0);
  const whole = Math.max(arena?.bytes ?? arena?.layout_bytes ?? 0, 1);
  const bound = (info: OperatorInfo): string => (info.bound === "memory" ? "memory" : info.bound === "compute" ? "compute" : "other");
  const columns: Column<(typeof model.operators)[number]>[] = [
    { title: "#", value: (item) => item.subgraph * 1e6 + item.index, cell: (item) => (item.subgraph ? `${item.subgraph}:${item.index}` : String(item.index)), numeric: true },
    { title: "operator", long: true, value: (item) => visible(item.label), cell: (item) => el("span", {}, visible(item.label), connections(model, item)) },
  ];
  if (timed.length) {
    columns.push(
      {
        title: "time", value: (item) => item.info?.ms.value ?? null, numeric: true,
        cell: (item) => item.info
          ? bar(item.info.ms.value / longest, `${duration(item.info.ms.value)}, ${percent(total ? item.info.ms.value / total : 0)}`, bound(item.info), item.info.ms.low / longest, item.info.ms.high / longest) : "\u2013",
      },
      { title: "bound by", value: (item) => item.info?.bound ?? null },
      { title: "MACs", value: (item) => item.info?.macs ?? null, numeric: true },
      { title: "bytes", value: (item) => item.info?.memory_bytes ?? null, numeric: true },
    );
  }
  if (model.blocks.length && !model.page.document.rows) {
    columns.push({ title: "arena in use", value: (item) => item.live, numeric: true, cell: (item) => bar(item.live / whole, `${grouped(item.live)} B`, "live") });
  }
  const content: HTMLElement[] = [];
  if (estimate && timed.length) {
    content.push(
      el("p", {}, `One inference takes ${count(estimate.macs)} multiply-accumulates and moves ${size(estimate.bytes_moved)}. `, `Times are ${estimate.validation}: ${visible(estimate.basis)}.`),
      el("p", { class: "legend" }, el("span", { class: "key compute" }, "bound by computing"), el("span", { class: "key memory" }, "bound by memory"), el("span", { class: "key band" }, "error band")),
    );
  }
  content.push(context.table(model.operators, columns, {
    caption: "Operators", text: (item) => `${item.index} ${item.label}`, id: (item) => model.operatorId(item.subgraph, item.index),
    choices: timed.length ? { label: "Bound by", of: (item) => item.info?.bound ?? "unknown" } : undefined,
  }));
  const drawn = roofline(model, context);
  if (drawn) content.push(drawn);
  return { id: "operators", title: "Operators", content };
}

function connections(model: Model, item: (typeof model.operators)[number]): HTMLElement | null {
  const text = (indices: number[], word: string): string | null => {
    const found = indices.filter((index) => index >= 0).map((index) => model.tensors.get(key(item.subgraph, index)));
    return found.length ? `${word} ${found.map((tensor) => tensor ? `${tensor.constant ? "constant " : ""}${tensor.shape} ${tensor.type}` : "?").join(", ")}` : null;
  };
  const parts = [text(item.inputs, "in"), text(item.outputs, "out")].filter(Boolean);
  return parts.length ? el("span", { class: "detail" }, parts.join("; ")) : null;
}

function roofline(model: Model, context: Context): HTMLElement | null {
  const device = model.page.view?.device;
  const bandwidth = model.page.document.estimate?.configured_bandwidth_gbps;
  const points: Point[] = model.operators.flatMap((item) => {
    const info = item.info;
    if (!info || !info.macs || !info.memory_bytes || !info.ms.value) return [];
    const id = model.operatorId(item.subgraph, item.index);
    const rate = (info.macs / info.ms.value) * 1e3;
    return [{
      x: info.macs / info.memory_bytes, y: rate, name: model.operatorName(item.subgraph, item.index, item.label), id,
      kind: info.bound === "memory" ? "memory" : "compute", open: () => context.open(id),
      lines: [["MACs per byte", digits(info.macs / info.memory_bytes, 3)], ["rate", `${count(rate)} MAC/s`], ["time", duration(info.ms.value)]],
    }];
  });
  if (!points.length) return null;
  const limits: Limit[] = [];
  const peak = device?.macs_per_cycle ? device.macs_per_cycle * device.clock_hz : null;
  const bend = peak && bandwidth ? [peak / (bandwidth * 1e9)] : [];
  const across = [...bend, ...points.map((item) => item.x)];
  const [low, high] = [Math.min(...across) / 2, Math.max(...across) * 2];
  if (peak) limits.push({ name: "peak", line: [[low, peak], [high, peak]], text: `at most ${count(peak)} MAC/s: ${device!.basis} at ${count(device!.clock_hz)}Hz` });
  if (bandwidth) {
    const knee = bend[0] ?? high;
    limits.push({ name: "bandwidth", line: [[low, low * bandwidth * 1e9], [knee, knee * bandwidth * 1e9]], text: `memory bandwidth ${digits(bandwidth, 3)} GB/s` });
  }
  return scatter({
    title: "Roofline: how much each operator computes per byte, and how fast", points, limits, along: bend, log: true, xTitle: "multiply-accumulates per byte",
    yTitle: "MAC/s", xText: (value) => digits(value, 1), yText: (value) => count(value),
  });
}

// ---- 4. quantization

const EXACT_DB = 100; // beyond it, only the rounding of float32 differs

function quantization(model: Model, context: Context): Section | null {
  const loss = model.page.document.quantization;
  const view = model.page.view;
  const content: HTMLElement[] = [];
  const ends = [...(view?.inputs ?? []).map((index) => ["input", index] as const), ...(view?.outputs ?? []).map((index) => ["output", index] as const)]
    .flatMap(([role, index]) => { const tensor = model.tensors.get(key(0, index)); return tensor ? [{ role, tensor }] : []; });
  if (ends.length) {
    content.push(context.table(ends, [
      { title: "end", value: (item) => item.role },
      { title: "tensor", long: true, value: (item) => item.tensor.name },
      { title: "shape", value: (item) => item.tensor.shape },
      { title: "type", value: (item) => item.tensor.type },
      { title: "scale", value: (item) => item.tensor.scale, numeric: true },
      { title: "zero point", value: (item) => item.tensor.zeroPoint, numeric: true },
    ], { caption: "Inputs and outputs" }));
  }
  if (loss) {
    const outputs = loss.outputs.map((item) => `${visible(item.name)}: SQNR ${item.sqnr_db === null ? "equal" : `${digits(item.sqnr_db, 3)} dB`}` +
      (item.cosine === null ? "" : `, cosine ${(Math.floor(item.cosine * 1e4) / 1e4).toFixed(4)}`) + (item.top1_agreement === null ? "" : `, same top-1 class in ${percent(item.top1_agreement)}`));
    content.push(el("p", {}, `${visible(loss.scheme)}, ${loss.calibrated ? "calibrated on" : "uncalibrated:"} ${plural(loss.samples, "sample")}. ${outputs.join("; ")}`));
  }
  if (loss?.layers.length) {
    const most = Math.max(...loss.layers.map((item) => item.rmse_over_scale));
    content.push(el("h3", {}, "Loss of each layer, the worst first"), context.table(loss.layers, [
      { title: "layer", long: true, value: (item) => visible(item.name) || "?", cell: (item) => el("span", {}, visible(item.name), el("span", { class: "detail" }, `${visible(item.operator)} ${visible(item.layer_class)}`)) },
      { title: "SQNR in dB", value: (item) => item.sqnr_db, cell: (item) => (item.sqnr_db === null || item.sqnr_db > EXACT_DB ? "exact" : digits(item.sqnr_db, 3)), numeric: true },
      { title: "error in steps", value: (item) => item.rmse_over_scale, cell: (item) => bar(item.rmse_over_scale / most, digits(item.rmse_over_scale, 3)), numeric: true },
      { title: "range", value: (item) => item.maximum - item.minimum, cell: (item) => `${digits(item.minimum, 3)} to ${digits(item.maximum, 3)}`, numeric: true },
      { title: "values by step", value: () => null, cell: histogram },
    ], { caption: "Loss per layer", text: (item) => `${item.name} ${item.operator}` }));
  } else if (loss || ends.length) {
    content.push(el("p", { class: "hint" }, "\u2018edgetool convert --debug-quantization\u2019 measures the loss of each layer."));
  }
  return content.length ? { id: "quantization", title: "Quantization", content } : null;
}

function histogram(layer: LayerLoss): HTMLElement {
  const most = Math.max(...layer.histogram.counts, 1);
  const columns = layer.histogram.counts.map((number) => {
    const column = el("span");
    column.style.setProperty("height", `${number ? Math.max(4, (100 * Math.log1p(number)) / Math.log1p(most)) : 0}%`);
    return column;
  });
  return el("span", { class: "histogram", role: "img", "aria-label": `${digits(layer.histogram.low, 3)} to ${digits(layer.histogram.high, 3)}` }, ...columns);
}

// ---- 5. the graph

function graphSection(model: Model, context: Context): Section | null {
  const errors = new Map<string, number>();
  for (const layer of model.page.document.quantization?.layers ?? []) {
    const isOf = (tensor: number): boolean =>
      (model.tensors.get(key(0, tensor))?.name ?? "").split(/[/;]/).includes(visible(layer.name));
    for (const item of model.operators) {
      if (item.subgraph === 0 && item.label === layer.operator && item.outputs.some(isOf)) {
        errors.set(model.operatorId(0, item.index), layer.rmse_over_scale);
      }
    }
  }
  const drawn = graph(model, errors, context.open);
  if (drawn) return { id: "graph", title: "Graph", content: [drawn] };
  if (!model.page.view || !model.operators.length) return null;
  return { id: "graph", title: "Graph", content: [el("p", { class: "note" }, "The graph is too large for a drawing on a page. The table of operators lists its operators.")] };
}

// ---- 6. findings, provenance, commands

function provenance(model: Model, command: string): HTMLElement[] {
  const report = model.page.document;
  const content: HTMLElement[] = [];
  const judged = report.check?.judgements ?? [];
  if (judged.length) {
    content.push(el("ul", { class: "findings" }, ...judged.map((item) =>
      el("li", { class: item.passed === false ? "error" : item.passed ? "pass" : "warning" }, el("span", { class: "level" }, item.passed === false ? "fails" : item.passed ? "passes" : "open"), ` ${visible(item.rule)}: ${visible(item.message)}`))));
  }
  content.push(report.findings.length
    ? el("ul", { class: "findings" }, ...report.findings.map((item) =>
      el("li", { class: item.level }, el("span", { class: "level" }, item.level), ` ${visible(item.rule)}${item.where ? ` (${visible(item.where)})` : ""}: ${visible(item.message)}`)))
    : el("p", {}, "There are no findings."));
  const facts: [string, string][] = [
    ["model", `${visible(report.model.name)}, ${size(report.model.bytes)}, SHA-256 ${report.model.sha256}`],
    ["contents", `${plural(report.model.operators, "operator")}, ${plural(report.model.tensors, "tensor")}, ${plural(report.model.parameters, "parameter")}`],
    ["written by", [report.provenance.tool, ...Object.entries(report.provenance.versions).map((item) => item.join(" "))].map(visible).join(", ")],
    ...(report.target ? [["target", `${visible(report.target.name)}: ${visible(report.target.core)}, ${report.runtime?.name === "native" ? "native code" : `${visible(report.target.runtime)} with ${visible(report.target.kernels)} kernels`}`] as [string, string]] : []),
    ...report.stack.map((item) => ["stack", `at most ${grouped(item.bytes)} B with ${visible(item.compiler)} ${visible(item.level)}`] as [string, string]),
    ["options", Object.entries(report.provenance.options).filter(([, value]) => value !== null && value !== false).map(([name, value]) => `${name}=${visible(typeof value === "string" ? value : JSON.stringify(value))}`).join(", ")],
  ];
  content.push(el("dl", { class: "provenance" }, ...facts.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)])));
  content.push(...commands(command));
  return content;
}

export function commands(command: string): HTMLElement[] {
  return command ? [el("h3", {}, "Command that writes this page"), el("pre", { class: "command" }, visible(command))] : [];
}

export function details(title: string, content: HTMLElement): HTMLElement {
  return el("details", {}, el("summary", {}, title), content);
}

export function link(text: string, id: string, context: Context): HTMLElement {
  const made = el("a", { href: `#${id}` }, text);
  made.addEventListener("click", (event) => {
    event.preventDefault();
    context.open(id);
  });
  return made;
}

