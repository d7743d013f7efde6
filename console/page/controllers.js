import { button } from "./admin.js";
import { attr, el, link, show, sync, text } from "./dom.js";
import { number, plural, seconds } from "./format.js";
import { facts, table } from "./pipeline.js";

// The order of outcomes in the bar; others follow.
const order = ["success", "requeue", "conflict", "stale", "error", "panic"];

const maxLinks = 10; // keys of one error that are listed

// grouped returns the failing keys of a controller by their error: how many, links to the first ones,
// the highest attempt and the newest error.
export function grouped(c) {
  const groups = new Map();
  for (const f of c.failures) { // newest first
    let g = groups.get(f.alike);
    if (!g) groups.set(f.alike, (g = { alike: f.alike, keys: 0, links: [], attempt: 0, at: f.at, error: f.error }));
    if (g.keys++ < maxLinks) g.links.push({ text: f.key, href: link("explain", { key: f.key, controller: c.name }) });
    g.attempt = Math.max(g.attempt, f.attempt);
    g.more = g.keys - g.links.length;
  }
  return [...groups.values()].sort((a, b) => b.keys - a.keys);
}

// Controllers shows queue, outcomes, durations and failing keys of each controller.
export class Controllers {
  constructor() {
    this.list = el("div", { class: "lanes" });
    this.node = el("section", { "aria-labelledby": "controllers-title" }, el("h2", { id: "controllers-title" }, "Controllers"), this.list);
  }

  update(status) {
    show(this.node, status.controllers.length);
    sync(this.list, status.controllers, (c) => c.name, (c) => new Card(c), (card, c) => card.update(c, status));
  }

  // focus moves to the card of a controller.
  focus(name) {
    const card = [...this.list.children].find((n) => n.dataset.controller === name);
    card?.scrollIntoView({ block: "start" });
    card?.querySelector("h3").focus();
  }
}

class Card {
  constructor(c) {
    const id = "controller-" + c.name;
    this.state = el("span", { class: "badge" });
    this.about = el("p", { class: "about" });
    this.cause = el("p", { class: "cause" });
    this.figures = el("dl", { class: "figures" });
    this.bar = el("div", { class: "bar", "aria-hidden": "true" });
    this.legend = el("ul", { class: "legend", "aria-label": `Outcomes of ${c.name}` });
    this.longest = el("dl", { class: "facts" });
    this.failures = table(`Keys of ${c.name} that fail`, ["Error", "Keys", "Attempt", "Last try"]);
    this.held = table(`Keys of ${c.name} held until the cache has our own write`, ["Key", "Retries", "Since", "Cause"]);
    this.pause = button("Pause", `Pause ${c.name}`, () => [this.paused ? "resume" : "pause", { controller: c.name }]);
    this.node = el("article", { class: "lane", "data-controller": c.name, "aria-labelledby": id },
      el("header", {}, el("div", { class: "title" }, el("h3", { id, tabindex: "-1" }, c.name), this.state, this.about), this.pause.node),
      this.cause, this.figures, this.bar, this.legend, this.longest, this.failures.node, this.held.node);
  }

  update(c, status) {
    this.paused = c.paused;
    text(this.state, c.paused ? "paused" : c.fenced ? "standing by" : c.state);
    attr(this.state, "data-health", c.cause ? "error" : c.paused || c.fenced ? "warn" : c.state === "idle" ? "busy" : "ok");
    text(this.about, plural(c.workers, "worker"));
    text(this.cause, c.cause || c.fenced);
    show(this.cause, c.cause || c.fenced);
    this.pause.update(status, c.paused ? "Resume" : "Pause", `${c.paused ? "Resume" : "Pause"} ${c.name}`);
    facts(this.figures, [
      ["Waiting", number(c.queue.waiting + c.queue.dirty)], ["Running", number(c.queue.processing)],
      ["Delayed", number(c.queue.delayed)], ["Retries", number(c.queue.retries)],
      ["Reconciles", number(c.reconciles)], ["Median", c.latency.count ? seconds(c.latency.p50) : "–"],
      ["p99", c.latency.count ? seconds(c.latency.p99) : "–"], ["Longest", c.latency.count ? seconds(c.latency.max) : "–"],
    ]);
    this.outcomes(c.outcomes || {});
    facts(this.longest, c.longest ? [["Running longest", `${c.longest.key}: ${seconds(c.longest.seconds)}, attempt ${c.longest.attempt}`]] : []);
    const explain = (key) => ({ links: [{ text: key, href: link("explain", { key, controller: c.name }) }] });
    show(this.failures.node, c.failures.length);
    this.failures.update(grouped(c), (g) => g.alike, (g) => [g.error, { links: g.links, plain: g.more ? `and ${number(g.more)} more` : "" }, number(g.attempt), { age: g.at }]);
    show(this.held.node, c.held.length);
    this.held.update(c.held, (h) => h.key, (h) => [explain(h.key), number(h.retries), { age: h.since }, h.cause]);
  }

  outcomes(counts) {
    const rank = (name) => (order.includes(name) ? order.indexOf(name) : order.length);
    const all = Object.entries(counts).filter(([, n]) => n > 0).sort(([a], [b]) => rank(a) - rank(b));
    show(this.bar, all.length);
    const make = ([name]) => ({ node: el("i", { "data-outcome": name }) });
    sync(this.bar, all, ([name]) => name, make, (view, [, n]) => {
      view.node.style.flexGrow = n; // the script may set it; the policy forbids style attributes
    });
    sync(this.legend, all, ([name]) => name, ([name]) => {
      const count = el("b");
      return { count, node: el("li", {}, el("i", { "data-outcome": name, "aria-hidden": "true" }), count, " " + name) };
    }, (view, [, n]) => text(view.count, number(n)));
  }
}
