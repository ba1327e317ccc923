// The data of a page: documents as report/document.py defines them, and views as report/html.py does.

export interface Band { value: number; low: number; high: number }

export interface OperatorInfo {
  index: number; subgraph: number; operator: string; macs: number; parameter_bytes: number; activation_bytes: number;
  memory_bytes: number; footprint_bytes: number; instructions: number | null; cycles: number; stall_cycles: number;
  ms: Band; bound: string; basis: string; runs: number;
}

export interface Verdict { verdict: string; text: string; advice: string[] }

export interface Estimate {
  latency_ms: Band | null; energy_uj: Band | null; macs: number; instructions: number; bytes_moved: number;
  configured_bandwidth_gbps: number; bandwidth_utilization: number | null; bound: string; validation: string;
  basis: string; energy_basis: string | null; verdict: Verdict; operators: OperatorInfo[]; not_modelled: string[];
}

export interface BreakdownEntry {
  part: string; where: string; operator: number | null; bytes: number; subgraph: number | null; label: string | null;
  count: number; requested_bytes: number | null;
}

export interface Arena {
  bytes: number | null; used_bytes: number | null; head_bytes: number | null; tail_bytes: number | null;
  layout_bytes: number; lower_bound_bytes: number; optimal: boolean; proof: string; stock_bytes: number | null;
  is_lower_bound: boolean; breakdown: BreakdownEntry[];
}

export interface PlannedTensor {
  subgraph: number; index: number; name: string; offset: number; bytes: number; first_op: number; last_op: number;
}

export interface Peak {
  position: number; subgraph: number | null; operator: number | null; label: string | null; bytes: number;
}

export interface Plan {
  order: number[]; tensors: PlannedTensor[]; scratch: PlannedTensor[]; moved: number; live_bytes: number | null;
  live_lower_bound_bytes: number | null; order_proof: string; constants_in_ram: boolean; peak: Peak | null;
}

export interface Memory {
  region: string | null; sram_bytes: number | null; flash_bytes: number | null; arena_fits: boolean | null;
  model_fits: boolean | null;
}

export interface Finding { rule: string; level: string; message: string; where: string | null }

export interface Judgement {
  rule: string; passed: boolean | null; level: string; message: string; causes: string[]; advice: string[];
}

export interface LayerLoss {
  name: string; layer_class: string; operator: string; sqnr_db: number | null; rmse_over_scale: number; scale: number;
  minimum: number; maximum: number; channels: number; widest_over_median: number;
  histogram: { low: number; high: number; counts: number[] };
}

export interface Quantization {
  scheme: string; calibrated: boolean; samples: number;
  outputs: { name: string; sqnr_db: number | null; cosine: number | null; top1_agreement: number | null }[];
  accuracy: { float: number; quantized: number } | null; layers: LayerLoss[];
}

export interface Rows {
  memory_bytes: number; lower_bound_bytes: number | null; steps: number; table_bytes: number; row_inputs: string[];
  row_outputs: string[]; segments: { operators: number[]; first_step: number; last_step: number }[];
  tensors: { name: string; index: number; rows: number; row_bytes: number; most_rows: number }[];
  extra_macs: number; extra_macs_percent: number;
}

export interface Report {
  schema: string;
  provenance: {
    tool: string; versions: Record<string, string>; options: Record<string, unknown>; trust_model_code: boolean;
  };
  model: {
    name: string; sha256: string; bytes: number; operators: number; tensors: number; parameters: number;
    output: { sha256: string; bytes: number } | null;
  };
  quantization: Quantization | null;
  target: { name: string; core: string; board: string | null; runtime: string; kernels: string } | null;
  arena: Arena | null; plan: Plan | null; memory: Memory | null; estimate: Estimate | null;
  check: { passed: boolean; path: string; judgements: Judgement[] } | null;
  findings: Finding[];
  runtime: { name: string; nearest: string; differs: string[] } | null;
  flash: { model_bytes: number } | null;
  stack: { compiler: string; core: string; level: string; bytes: number }[];
  kernel_choices: {
    arena_bytes: number; scratch_bytes: number; instructions: number | null; chosen: boolean; rows: boolean;
  }[];
  rows: Rows | null;
}

export type TensorRow = [number, number, string | null, number[], string, string, number | null, number | null, number];
export type OperatorRow = [number, number, string, number[], number[], number, number];
export type BufferRow = [number, number, number, number, number, number, number];

export interface View {
  tensors: TensorRow[]; operators: OperatorRow[]; inputs: number[]; outputs: number[];
  stock: { head_bytes: number; tail_bytes: number; arena_bytes: number; buffers: BufferRow[] } | null;
  rows: {
    memory_bytes: number; steps: number; boxes: number[][]; scratch: [number, number, number, number[]][];
  } | null;
  device: { clock_hz: number; macs_per_cycle: number | null; basis: string } | null;
}

export interface PageReport {
  document: Report; verdict: string; negative: boolean; view: View | null;
  omitted: { operators: number; buffers: number; entries: number; layers: number; others: number } | null;
}

export interface FigureChange {
  figure: string; unit: string; a: number | null; b: number | null; change: number | null;
  change_percent: number | null; certain: boolean | null; a_band: [number, number | null] | null;
  b_band: [number, number | null] | null;
}

export interface OperatorChange {
  operator: string; a: string | null; b: string | null; a_ms: number | null; b_ms: number | null;
  a_macs: number | null; b_macs: number | null; a_memory_bytes: number | null; b_memory_bytes: number | null;
}

export interface Comparison {
  provenance: Report["provenance"];
  compare: { figures: FigureChange[]; operators: OperatorChange[] | null };
  findings: Finding[];
}

export interface Variant {
  number: number; target: string; level: number; precision: string; parameters: Record<string, unknown>;
  optimize: boolean; max_extra_macs: number | null;
  status: string; reason: string | null; accepted: boolean | null; on_front: boolean; causes: string[];
  rejected: string[]; notes: string[]; [figure: string]: unknown;
}

export interface Sweep {
  provenance: Report["provenance"];
  sweep: {
    name: string; model: string; strategy: string; objectives: string[]; targets: { label: string; name: string }[];
    warnings: { message: string; variants: number[] }[]; variants: Variant[];
  };
}

export type Data =
  | { kind: "reports"; command: string; reports: PageReport[] }
  | { kind: "comparison"; command: string; reports: [PageReport, PageReport]; document: Comparison }
  | { kind: "sweep"; command: string; document: Sweep };
