import { el } from "./dom.js";

const entry = /^(\s*(?:- +)*)([^\s:#'"-][^:]*|"[^"]*"|'[^']*')(:)(?:( +)(.*))?$/;

// colour returns the lines of a YAML document as nodes. It needs to know keys, comments and block
// scalars only; what it does not recognize stays plain.
export function colour(yaml) {
  const out = [];
  let block = -1; // the indentation of the key of a block scalar
  for (const line of yaml.replace(/\n$/, "").split("\n")) {
    const indent = line.search(/\S/);
    const m = block >= 0 && (indent < 0 || indent > block) ? null : entry.exec(line);
    if (block >= 0 && indent >= 0 && indent <= block) block = -1;
    if (!m) {
      out.push(line.trim().startsWith("#") ? el("span", { class: "y-note" }, line) : line, "\n");
      continue;
    }
    const [, lead, key, colon, space = "", value = ""] = m;
    out.push(lead, el("span", { class: "y-key" }, key), colon + space);
    if (/^[|>]/.test(value)) block = indent;
    if (value) out.push(el("span", { class: "y-value" }, value));
    out.push("\n");
  }
  return out;
}
