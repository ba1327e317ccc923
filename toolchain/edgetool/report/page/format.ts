// Numbers as text: exact where the document is exact, with a rounded form beside it where that reads better.

const GROUPED = new Intl.NumberFormat("en-US", { maximumFractionDigits: 20 });

export const grouped = (value: number): string => GROUPED.format(value);

/** Returns "12,345 B (12.1 KiB)". */
export function size(bytes: number | null): string {
  if (bytes === null) return "unknown";
  return bytes < 1024 ? `${grouped(bytes)} B` : `${grouped(bytes)} B (${shortSize(bytes)})`;
}

/** Returns "12.1 KiB". */
export function shortSize(bytes: number): string {
  for (const [scale, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]] as const) {
    if (bytes >= scale) return `${digits(bytes / scale, 3)} ${unit}`;
  }
  return `${grouped(bytes)} B`;
}

/** Returns a number with this many significant digits, and whole numbers in full. */
export function digits(value: number, count: number): string {
  const magnitude = value === 0 ? 0 : Math.floor(Math.log10(Math.abs(value)));
  const decimals = Math.max(0, Math.min(20, count - 1 - magnitude));
  return value.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

const TIMES = [[1e3, "s"], [1, "ms"], [1e-3, "\u00b5s"], [1e-6, "ns"]] as const;
const ENERGIES = [[1e6, "J"], [1e3, "mJ"], [1, "\u00b5J"]] as const;
const COUNTS = [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]] as const;
type Units = readonly (readonly [number, string])[];

function scaled(value: number, units: Units, count: number): string {
  const [scale, unit] = units.find(([item]) => Math.abs(value) >= item) ?? units[units.length - 1];
  return `${digits(value / scale, count)} ${unit}`.trim();
}

/** Returns a time to three digits: "2.10 s", "24.3 ms". */
export const duration = (ms: number): string => (ms === 0 ? "0 ms" : scaled(ms, TIMES, 3));

export const energy = (microjoules: number): string => scaled(microjoules, ENERGIES, 3);

/** Returns "7.16 M". */
export const count = (value: number): string => (value < 1e4 ? grouped(value) : scaled(value, COUNTS, 3));

export const percent = (share: number): string => `${digits(100 * share, share >= 0.0995 || share === 0 ? 3 : 2)} %`;

export const plural = (number: number, word: string): string => `${grouped(number)} ${word}${number === 1 ? "" : "s"}`;

/** Returns "8x96x96x3", and "scalar" for no dimensions. */
export const shape = (sizes: number[]): string => (sizes.length ? sizes.join("\u00d7") : "scalar");

/** Returns a name as it can be read: without what is invisible or moves text, and never empty. */
export function visible(name: string): string {
  const text = name.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (character) => {
    const code = character.codePointAt(0)!.toString(16).padStart(4, "0");
    return `\\u{${code}}`;
  });
  return text.trim() === "" ? `"${text}"` : text;
}
