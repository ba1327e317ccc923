// What the drawings of a report have in common: its buffers as blocks, operators by id, tensors by id.
import { count, duration, grouped, shape, size, visible } from "./format";
import { range, type Block, type Part } from "./map";
import type { Lines } from "./tooltip";
import type { OperatorInfo, PageReport, Peak, TensorRow } from "./types";

export interface Tensor {
  id: string; name: string; shape: string; type: string; kind: string; scale: number | null; zeroPoint: number | null;
  channels: number; constant: boolean;
}

export interface Operator {
  subgraph: number; index: number; label: string; inputs: number[]; outputs: number[]; first: number; last: number;
  info: OperatorInfo | null; live: number;
}

/** A report with its operators and tensors; `prefix` distinguishes the ids of two reports on one page. */
export class Model {
  readonly operators: Operator[] = [];
  readonly tensors = new Map<string, Tensor>();
  readonly blocks: Block[];
  readonly end: number;

  constructor(readonly page: PageReport, readonly prefix = "") {
    const { document: report, view } = page;
    const names = new Map((report.plan?.tensors ?? []).map((item) => [key(item.subgraph, item.index), item.name]));
    for (const row of view?.tensors ?? []) this.tensors.set(key(row[0], row[1]), tensorOf(row, names));
    const infos = new Map((report.estimate?.operators ?? []).map((item) => [key(item.subgraph, item.index), item]));
    if (view) {
      for (const [subgraph, index, label, inputs, outputs, first, last] of view.operators) {
        const info = infos.get(key(subgraph, index)) ?? null;
        this.operators.push({ subgraph, index, label, inputs, outputs, first, last, info, live: 0 });
      }
    } else {
      const place = new Map((report.plan?.order ?? []).map((index, position) => [index, position]));
      for (const info of infos.values()) {
        const first = info.subgraph ? -1 : (place.get(info.index) ?? -1);
        const { subgraph, index, operator: label } = info;
        this.operators.push({ subgraph, index, label, inputs: [], outputs: [], first, last: first, info, live: 0 });
      }
    }
    this.blocks = this.plannedBlocks();
    this.end = Math.max(0, ...this.blocks.map((block) => block.end), ...this.operators.map((item) => item.last + 1));
    const live = liveBytes(this.blocks, this.end);
    for (const item of this.operators) {
      for (let position = Math.max(0, item.first); position <= item.last; position++) {
        item.live = Math.max(item.live, live[position] ?? 0);
      }
    }
  }

  get native(): boolean {
    return this.page.document.runtime?.name === "native";
  }

  operatorId(subgraph: number, index: number): string {
    return `${this.prefix}op-${subgraph}-${index}`;
  }

  /** Returns "operator 3 CONV_2D"; with the subgraph if it is not the main one. */
  operatorName(subgraph: number, index: number, label: string | null): string {
    return `${subgraph ? `subgraph ${subgraph}: ` : ""}operator ${index} ${visible(label ?? "")}`.trim();
  }

  at(position: number): Operator | undefined {
    const running = this.operators.filter((item) => item.first <= position && position <= item.last);
    return running.find((item) => item.first === position && item.last === position) ?? running[0];
  }

  positionName(position: number): string {
    const index = this.page.document.plan?.order[position];
    return String(this.sequential && index !== undefined ? index : position);
  }

  /** Whether each position is that of one operator of the main graph. */
  get sequential(): boolean {
    return this.page.document.plan?.order.length === this.end || this.operators.every((item) => item.subgraph === 0);
  }

  get positionUnit(): string {
    if (!this.sequential) return "steps, at which operators of all subgraphs run";
    return this.page.document.plan?.moved ? "operators by index, in the order in which they run" : "operators by index";
  }

  tensorLines(subgraph: number, index: number): Lines {
    const tensor = this.tensors.get(key(subgraph, index));
    return tensor ? [["shape", `${tensor.shape} ${tensor.type}`]] : [];
  }

  private plannedBlocks(): Block[] {
    const plan = this.page.document.plan;
    if (!plan) return [];
    return [...plan.tensors.map((item) => [item, false] as const), ...plan.scratch.map((item) => [item, true] as const)]
      .filter(([item]) => item.last_op >= 0)
      .map(([item, scratch]) =>
        this.block(item.subgraph, scratch ? -1 : item.index, scratch ? item.index : -1, item.name, item.bytes, item.offset,
          item.first_op, item.last_op, plan.peak));
  }

  /** Returns the blocks of TFLM's own plan. Its buffers have the names that the report's plan gives them. */
  stockBlocks(): Block[] {
    const scratch = new Map((this.page.document.plan?.scratch ?? []).map((item) => [`${item.subgraph}:${item.index}`, item.name]));
    return (this.page.view?.stock?.buffers ?? [])
      .filter((buffer) => buffer[6] >= 0)
      .map(([subgraph, tensor, operator, bytes, offset, first, last]) => {
        const name = tensor < 0 ? (scratch.get(key(subgraph, operator)) ?? "scratch") : (this.tensors.get(key(subgraph, tensor))?.name ?? `tensor ${tensor}`);
        return this.block(subgraph, tensor, operator, name, bytes, offset, first, last, null);
      });
  }

  private block(
    subgraph: number, tensor: number, operator: number, name: string, bytes: number, offset: number, first: number,
    last: number, peak: Peak | null,
  ): Block {
    const known = this.tensors.get(key(subgraph, tensor));
    const scratch = tensor < 0;
    const maker = scratch
      ? this.operators.find((item) => item.subgraph === subgraph && item.index === operator)
      : this.operators.find((item) => item.subgraph === subgraph && item.outputs.includes(tensor));
    const fallback = maker ?? this.at(first);
    const lines: Lines = [
      ...(known && !scratch ? [["shape", `${known.shape} ${known.type}`] as [string, string]] : []),
      ["offset", `${grouped(offset)} B`],
      ["size", size(bytes)],
      ["live at", range(first, last, this.sequential ? "position" : "step")],
      [scratch ? "scratch of" : known?.kind === "input" ? "input of" : "written by",
        known?.kind === "input" ? "the model" : fallback ? this.operatorName(fallback.subgraph, fallback.index, fallback.label) : "unknown"],
    ];
    return {
      name: scratch ? `scratch: ${visible(name)}` : visible(name),
      kind: scratch ? "scratch" : known?.kind || "tensor",
      first, end: last + 1, offset, bytes, lines,
      operator: fallback ? this.operatorId(fallback.subgraph, fallback.index) : null,
      peak: peak !== null && first <= Math.max(peak.position, 0) && Math.max(peak.position, 0) <= last,
    };
  }

  /** Returns the tail by operator, after TFLM's own structures, from the top down. */
  tailParts(): Part[] {
    const groups = new Map<string, { name: string; operator: string | null; bytes: number; lines: Lines }>();
    for (const entry of this.page.document.arena?.breakdown ?? []) {
      if (entry.part !== "tail") continue;
      const subgraph = entry.subgraph ?? 0;
      const name = entry.operator === null ? entry.where : this.operatorName(subgraph, entry.operator, entry.label);
      const id = entry.operator === null ? `part ${entry.where}` : key(subgraph, entry.operator);
      const group = groups.get(id) ?? {
        name, operator: entry.operator === null ? null : this.operatorId(subgraph, entry.operator), bytes: 0, lines: [],
      };
      group.bytes += entry.bytes;
      group.lines.push([entry.count > 1 ? `${entry.count} \u00d7 ${entry.where}` : entry.where, `${grouped(entry.bytes)} B`]);
      groups.set(id, group);
    }
    return [...groups.values()];
  }

  bandText(info: OperatorInfo): string {
    return `${duration(info.ms.low)} to ${duration(info.ms.high)}`;
  }

  operatorLines(item: Operator): Lines {
    const info = item.info;
    const lines: Lines = [["live", size(item.live)]];
    if (info) {
      lines.unshift(["time", `${duration(info.ms.value)} (${this.bandText(info)})`], ["bound by", info.bound],
        ["MACs", count(info.macs)], ["bytes", grouped(info.memory_bytes)]);
    }
    return lines;
  }
}

export const key = (subgraph: number, index: number): string => `${subgraph}:${index}`;

function tensorOf(row: TensorRow, names: Map<string, string>): Tensor {
  const [subgraph, index, name, sizes, type, kind, scale, zeroPoint, channels] = row;
  const id = key(subgraph, index);
  const given = name ?? names.get(id);
  return {
    id, name: given === undefined ? `tensor ${index}` : visible(given), shape: shape(sizes), type, kind, scale, zeroPoint,
    channels, constant: kind === "constant",
  };
}

/** Returns how many bytes are in use at each position; bytes that buffers share count once. */
export function liveBytes(blocks: Block[], end: number): number[] {
  const at: [number, number][][] = Array.from({ length: end }, () => []);
  for (const block of blocks) {
    for (let position = block.first; position < block.end; position++) {
      at[position]?.push([block.offset, block.offset + block.bytes]);
    }
  }
  return at.map((ranges) => {
    let [total, reached] = [0, 0];
    for (const [low, high] of ranges.sort((a, b) => a[0] - b[0])) {
      total += Math.max(0, high - Math.max(low, reached));
      reached = Math.max(reached, high);
    }
    return total;
  });
}
