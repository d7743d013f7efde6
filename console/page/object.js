import { get } from "./access.js";
import { attr, copyButton, el, link, show, sync, text } from "./dom.js";
import { age, seconds, setAge } from "./format.js";
import { facts } from "./pipeline.js";
import { colour } from "./yaml.js";

// Obj is the view of one object: what it is, what changed, whom it belongs to, who reconciled it.
export class Obj {
  constructor() {
    this.title = "Object";
    this.back = el("a", { class: "back", href: "#/objects" }, "← Objects");
    this.name = el("h1", { tabindex: "-1" });
    this.error = el("p", { class: "cause", role: "alert", hidden: true });
    this.quarantine = el("div", { class: "problem", "data-health": "warn", hidden: true });
    this.facts = el("dl", { class: "facts" });
    this.explain = el("a", { class: "button" }, "Why is it not reconciled?");
    this.code = el("code");
    this.masked = el("p", { class: "note" });
    this.history = el("ol", { class: "versions" });
    this.noHistory = el("p", { class: "note" }, "The mirror keeps no history of its objects.");
    this.tree = el("div", { class: "tree" });
    this.reconciles = el("ol", { class: "runs" });
    this.noReconciles = el("p", { class: "note" }, "It is not among the last reconciles that its controllers keep.");
    const part = (id, title, ...nodes) => el("section", { class: "part", "aria-labelledby": id }, el("h2", { id }, title), nodes);
    this.parts = el("div", { class: "columns" },
      el("div", {}, part("o-yaml", "YAML", this.masked, el("div", { class: "code" }, copyButton(() => this.data?.yaml || "", "the YAML"),
        el("pre", { tabindex: "0", role: "group", "aria-label": "YAML" }, this.code)))),
      el("div", {}, part("o-changes", "Changes", this.history, this.noHistory), part("o-tree", "Owners and dependents", this.tree),
        part("o-runs", "Reconciles", this.reconciles, this.noReconciles)));
    this.node = el("div", { class: "view" }, this.back, this.name, this.error, this.quarantine,
      el("div", { class: "summary" }, this.facts, this.explain), this.parts);
  }

  show(params) {
    const other = params.mirror !== this.mirror || params.key !== this.key;
    this.mirror = params.mirror || "";
    this.key = params.key || "";
    this.title = this.key;
    attr(this.back, "href", link("objects", { mirror: this.mirror }));
    attr(this.explain, "href", link("explain", { key: this.key }));
    if (other) {
      text(this.name, this.key);
      this.parts.hidden = true;
      this.data = null;
    }
    this.load();
  }

  hide() {
    clearTimeout(this.timer);
    this.timer = null;
    this.abort?.abort();
  }

  // close returns to the list, to where it was if the user came from there.
  close() {
    location.hash = this.back.getAttribute("href");
  }

  // objects is called when the mirror has changed.
  objects() {
    this.timer ??= setTimeout(() => {
      this.timer = null;
      this.load();
    }, this.pause || 1000);
  }

  async load() {
    this.abort?.abort();
    const { signal } = (this.abort = new AbortController());
    const begun = performance.now();
    try {
      const data = await get("object", { mirror: this.mirror, key: this.key }, signal);
      this.draw(data);
      show(this.error, false);
    } catch (err) {
      if (signal.aborted) return;
      text(this.error, err.message); // what was shown before stays below it
      show(this.error, true);
      if (!err.wrong) this.objects(); // try again
    }
    // An object that costs more is read less often, and no request is cancelled by the next.
    this.pause = Math.max(1000, 30 * (performance.now() - begun));
  }

  draw(o) {
    const before = this.data;
    this.data = o;
    show(this.parts, true);
    facts(this.facts, [["Mirror", o.mirror], ["Version", o.version], ["UID", o.uid]]);
    if (before?.yaml !== o.yaml) this.code.replaceChildren(...colour(o.yaml || ""));
    const masked = o.masked || [];
    text(this.masked, `Masked: ${masked.join(", ")}`);
    show(this.masked, masked.length);
    this.drawQuarantine(o.quarantine);
    const history = o.history || [];
    show(this.noHistory, !history.length);
    sync(this.history, history, (v) => [v.at, v.kind, v.version].join(), version, (view, v) => setAge(view.time, v.at));
    const tree = JSON.stringify([o.owners, o.dependents, o.truncated]);
    if (tree !== this.treeShown) this.tree.replaceChildren(...this.drawTree(o));
    this.treeShown = tree;
    const runs = o.reconciles || [];
    show(this.noReconciles, !runs.length);
    sync(this.reconciles, runs, (r) => [r.controller, r.at, r.key].join(), reconcile, (view, r) => setAge(view.time, r.at));
  }

  drawQuarantine(q) {
    show(this.quarantine, q);
    if (q) this.quarantine.replaceChildren(
      el("p", { class: "subject" }, el("span", { class: "severity" }, "Quarantine"), " since ", age(q.since)),
      el("p", {}, "The newest version cannot be read; the mirror shows the last good one."), el("p", { class: "advice" }, q.cause));
  }

  // drawTree shows the owners from the top down, the object, and what depends on it.
  drawTree(o) {
    const item = (x) => el("li", {}, el("span", { class: "kind" }, x.kind), " ", x.mirror ? el("a", { href: link("object", { mirror: x.mirror, key: x.key }) }, x.key) : el("span", {}, x.key));
    const dependents = o.dependents || [];
    const self = el("li", {}, el("b", { "aria-current": "true" }, o.key));
    if (dependents.length) self.append(el("ul", {}, dependents.map(item), o.truncated && el("li", {}, "and more")));
    const root = el("ul");
    let at = root;
    for (const owner of [...(o.owners || [])].reverse()) {
      const node = item(owner);
      const below = el("ul");
      at.append(node);
      node.append(below);
      at = below;
    }
    at.append(self);
    return [root, !dependents.length && !o.owners?.length && el("p", { class: "note" }, "It has no owner, and no mirrored object belongs to it.")].filter(Boolean);
  }
}

// plain shows a value of a field: a text as it is, anything else as JSON.
const plain = (value) => (typeof value === "string" ? value : JSON.stringify(value));

// version is one entry of the history: the fields that changed, old above new.
function version(v) {
  const time = age(v.at);
  const changes = (v.changes || []).map((c) => el("tr", {}, el("th", { scope: "row" }, c.path), el("td", {},
    c.old !== undefined && el("del", {}, el("span", {}, "−"), el("span", {}, plain(c.old))), c.new !== undefined && el("ins", {}, el("span", {}, "+"), el("span", {}, plain(c.new))))));
  return { time, node: el("li", {}, el("p", { class: "head" }, el("b", {}, v.kind), v.version && [v.at ? " to version " : " at version ", el("span", { class: "mono" }, v.version)], v.at && [", ", time]),
    changes.length > 0 && el("table", { class: "diff" }, el("caption", { class: "hidden" }, `Fields changed by version ${v.version}`),
      el("thead", { class: "hidden" }, el("tr", {}, el("th", { scope: "col" }, "Field"), el("th", { scope: "col" }, "Change"))), el("tbody", {}, changes))) };
}

// reconcile is one run of a controller with its log.
export function reconcile(r) {
  const time = age(r.at);
  const log = r.log || [];
  return { time, node: el("li", { class: "run", "data-outcome": r.outcome },
    el("p", { class: "head" }, el("b", {}, r.controller), " ", el("span", { class: "word", "data-health": { success: "ok", error: "error", panic: "error" }[r.outcome] || "busy" }, r.outcome),
      `, attempt ${r.attempt}, ${seconds(r.seconds)}, `, time),
    r.error && el("p", { class: "advice" }, r.error),
    log.length > 0 && el("pre", { class: "log", tabindex: "0", role: "group", "aria-label": "Log" }, el("code", {}, log.join("\n")))) };
}
