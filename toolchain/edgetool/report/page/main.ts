import { el } from "./dom";

const page = document.getElementById("page")!;
const data = JSON.parse(document.getElementById("data")!.textContent!);
for (const { model, arena } of data.documents) {
  page.append(el("h1", {}, model.name));
  if (arena) page.append(el("p", {}, `Arena: ${(arena.bytes ?? arena.layout_bytes).toLocaleString("en")} B`));
}
