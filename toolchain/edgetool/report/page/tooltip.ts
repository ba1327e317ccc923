// One box beside the pointer or the selected shape, with lines of text.
import { el } from "./dom";

export type Lines = [string, string][];

const box = el("div", { class: "tooltip", "aria-hidden": "true", hidden: true });

export function describe(lines: Lines): HTMLElement {
  return el("dl", {}, ...lines.flatMap(([label, text]) => [el("dt", {}, label), el("dd", {}, text)]));
}

/** Shows the title and lines at a point of the window. */
export function show(title: string, lines: Lines, x: number, y: number): void {
  if (!box.isConnected) document.body.append(box);
  box.replaceChildren(el("strong", {}, title), describe(lines));
  box.hidden = false;
  const { offsetWidth: width, offsetHeight: height } = box;
  const left = x + 14 + width > window.innerWidth ? Math.max(4, Math.min(x - width - 14, window.innerWidth - width - 4)) : x + 14;
  const top = y + 14 + height > window.innerHeight ? Math.max(4, y - height - 14) : y + 14;
  box.style.setProperty("left", `${left}px`);
  box.style.setProperty("top", `${top}px`);
}

export function hide(): void {
  box.hidden = true;
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") hide();
});
