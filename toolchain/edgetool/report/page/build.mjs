// Bundles the page into page.html, the file that edgetool fills with data. The result depends on the sources and on
// package-lock.json alone; it has the licences of everything that is in it.
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const options = { bundle: true, minify: true, write: false, metafile: true, charset: "ascii", legalComments: "none" };
const script = await build({ ...options, entryPoints: ["main.ts"], format: "iife", target: "es2021" });
const style = await build({ ...options, entryPoints: ["style.css"], target: ["chrome100", "firefox100", "safari15"] });
const text = (result) => result.outputFiles[0].text.trim();
const hash = (content) => `sha256-${createHash("sha256").update(content).digest("base64")}`;
const escape = (content) => content.replaceAll("&", "&amp;").replaceAll("<", "&lt;");

function licences() {
  const inputs = Object.keys(script.metafile.inputs);
  const names = inputs.map((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]).filter(Boolean);
  return [...new Set(names)].sort().map((name) => {
    const folder = `node_modules/${name}`;
    const { version, license } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
    const file = ["LICENSE", "LICENSE.md", "LICENSE.txt", "LICENCE"].find((item) => existsSync(`${folder}/${item}`));
    if (file === undefined) throw new Error(`${name} has no licence text`);
    return `${name} ${version} (${license})\n\n${readFileSync(`${folder}/${file}`, "utf8").trim()}\n`;
  });
}

const parts = {
  SCRIPT: text(script),
  STYLE: text(style),
  LICENCES: escape(licences().join("\n\n").replaceAll("\r\n", "\n")),
  POLICY:
    `default-src 'none'; script-src '${hash(text(script))}'; style-src '${hash(text(style))}'; ` +
    "base-uri 'none'; form-action 'none'",
};
if (/<\/(script|style)/i.test(parts.SCRIPT + parts.STYLE)) throw new Error("a script or style would end its element");
const page = readFileSync("template.html", "utf8").replace(/\{\{(\w+)\}\}/g, (_, name) => parts[name]);
writeFileSync("page.html", page);
