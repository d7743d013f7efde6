import { Controllers } from "./controllers.js";
import { attr, copyButton, el, link, show, sync, text } from "./dom.js";
import { bytes, local, number, plural, rate, seconds, since } from "./format.js";
import { Pipeline, facts } from "./pipeline.js";
import { Mean, Rate } from "./rates.js";
import { Sparkline } from "./sparkline.js";
import { colour } from "./yaml.js";

// Overview is the first view: problems, three sparklines, the pipeline of each mirror and the
// controllers.
export class Overview {
  constructor() {
    this.title = "Pipeline";
    this.problems = new Problems();
    this.vitals = new Vitals();
    this.pipeline = new Pipeline();
    this.controllers = new Controllers();
    this.node = el("div", { class: "view" }, el("h1", { class: "hidden", tabindex: "-1" }, "Pipeline"),
      this.problems.node, this.vitals.node, this.pipeline.node, this.controllers.node);
  }

  show(params) {
    if (params.mirror) this.pipeline.focus(params.mirror);
    if (params.controller) this.controllers.focus(params.controller);
  }

  status(status) {
    this.problems.update(status);
    this.vitals.update(status);
    this.pipeline.update(status);
    this.controllers.update(status);
  }
}

const maxProblems = 30; // that are shown; they are sorted by severity

// Problems is what is unhealthy, with what to do. It announces changes to screen readers; nothing
// else on the page does.
class Problems {
  constructor() {
    this.summary = el("p", { class: "calm" });
    this.list = el("ul", { class: "problems" });
    this.announce = document.getElementById("announce");
    this.more = el("p", { class: "note", hidden: true });
    this.node = el("section", { "aria-label": "Health" }, this.summary, this.list, this.more);
  }

  update(status) {
    const { problems } = status;
    const live = status.mirrors.filter((m) => m.state === "live").length;
    const all = [plural(status.mirrors.length, "mirror") + (live === status.mirrors.length ? " live" : `, ${number(live)} live`)];
    if (status.controllers.length) all.push(plural(status.controllers.length, "controller"));
    text(this.summary, status.stopped ? "The cluster has been stopped; the page shows its last state." :
      !status.running ? "The cluster is not running yet." :
      live === status.mirrors.length ? `Everything is in order: ${all.join(", ")}.` : `Getting ready: ${all.join(", ")}.`);
    show(this.summary, problems.length === 0);
    attr(this.summary, "data-health", status.running && live === status.mirrors.length ? "ok" : "busy");
    const seen = {}; // sentences have figures that change; the place among those of its subject does not
    const keyOf = (p) => `${p.subject} ${(seen[p.subject] = (seen[p.subject] || 0) + 1)}`;
    show(this.more, problems.length > maxProblems);
    text(this.more, `and ${plural(problems.length - maxProblems, "more problem")}`);
    sync(this.list, problems.slice(0, maxProblems), keyOf, (p) => new Problem(p), (view, p) => view.update(p));
    const errors = problems.map((p) => p.subject).join(", ");
    if (errors !== this.before) {
      if (errors || this.before) text(this.announce, errors ? problems.slice(0, maxProblems).map((p) => `${p.severity}: ${local(p.what)}`).join(" ") : "All problems are resolved.");
      this.before = errors;
    }
  }
}

class Problem {
  constructor(p) {
    const [, kind, name] = /^(mirror|controller)\/(.*)$/s.exec(p.subject) || []; // a name may have slashes
    this.severity = el("span", { class: "severity" });
    this.what = el("h2");
    this.advice = el("p", { class: "advice" });
    const where = kind ? el("a", { href: link("", { [kind]: name }) }, p.subject) : el("span", {}, p.subject);
    this.affected = el("p", { class: "affected links" });
    this.controller = kind === "controller" ? name : "";
    this.node = el("li", { class: "problem" }, el("div", {}, el("p", { class: "subject" }, this.severity, " ", where), this.what, this.affected, this.advice));
    this.code = el("code");
    this.block = el("div", { class: "code" }, copyButton(() => this.yaml, "the YAML for " + p.subject),
      el("pre", { tabindex: "0", role: "group", "aria-label": "YAML for " + p.subject }, this.code));
  }

  update(p) {
    attr(this.node, "data-health", p.severity === "error" ? "error" : "warn");
    text(this.severity, p.severity === "error" ? "Error" : "Warning");
    text(this.what, local(p.what));
    const links = [...(p.mirrors || []).map((mirror) => ({ text: mirror, href: link("", { mirror }) })),
      ...(p.keys || []).map((key) => ({ text: key, href: link("explain", { key, controller: this.controller }) }))];
    sync(this.affected, links, (l) => l.href, (l) => ({ node: el("a", { href: l.href }, l.text) }), () => {});
    show(this.affected, links.length);
    text(this.advice, p.do);
    if (p.yaml === this.yaml) return;
    this.yaml = p.yaml;
    this.code.replaceChildren(...colour(p.yaml || ""));
    if (p.yaml) this.node.append(this.block);
    else this.block.remove();
  }
}

// Vitals are the figures of the process, three of them over the last two minutes.
class Vitals {
  constructor() {
    this.events = new Tile("Events");
    this.latency = new Tile("Reconcile");
    this.heap = new Tile("Heap");
    this.rest = el("dl", { class: "facts" });
    this.rates = { events: new Rate(), cpu: new Rate(), latency: new Mean() };
    this.node = el("section", { class: "vitals", "aria-label": "Process" }, this.events.node, this.latency.node, this.heap.node,
      el("div", { class: "tile" }, el("h2", {}, "Process"), this.rest));
  }

  update(status) {
    const at = Date.parse(status.time);
    const events = this.rates.events.add(at, status.mirrors.reduce((n, m) => n + (m.eventsTotal || 0), 0));
    if (events !== undefined) this.events.add(at, events, `${rate(events)} /s`, (max) => `up to ${rate(max)} /s`);
    else this.events.idle("– /s");
    const counts = status.controllers.map((c) => c.latency).filter((l) => l.count);
    const count = counts.reduce((n, l) => n + l.count, 0);
    const mean = this.rates.latency.add(count, count ? counts.reduce((s, l) => s + l.count * l.mean, 0) / count : 0);
    if (mean !== undefined) this.latency.add(at, mean, seconds(mean), (max) => `up to ${seconds(max)}`);
    else this.latency.idle(count ? undefined : "–");
    this.heap.add(at, status.heapBytes, bytes(status.heapBytes), (max) => `up to ${bytes(max)}`);
    const cpu = this.rates.cpu.add(at, status.cpuSeconds || 0);
    if (cpu !== undefined) this.cpu = cpu;
    const l = status.leader, s = status.shards;
    facts(this.rest, [
      ["Up", status.startedAt && since(status.startedAt)],
      ["CPU", this.cpu === undefined ? "–" : `${(this.cpu * 100).toFixed(1)} %`],
      ["Goroutines", number(status.goroutines)],
      ["Lists", status.listing ? `${number(status.listing)} of ${number(status.lists)} running` : "none running"],
      ["Leader", l && (l.leading ? "this process" : l.holder || l.cause || "none")],
      ["Slots", s && `${number(s.slots)} of ${number(s.total)}${s.waiting ? `, waiting for ${number(s.waiting)}` : ""}${s.idle ? `, ${number(s.idle)} idle` : ""}`],
      ["Keys", s && number(s.keys)],
      ["Members", s && s.members.map(member).join("; ")],
    ]);
  }
}

// member is who owns how many slots and keys.
function member(m) {
  const state = m.expired ? " (expired)" : m.leaving ? " (leaving)" : m.ready ? "" : " (not ready)";
  return `${m.name}: ${number(m.slots)}${m.keys ? `, ${number(m.keys)} keys` : ""}${state}`;
}

class Tile {
  constructor(label) {
    this.value = el("b", { class: "big" });
    this.note = el("span", { class: "note" });
    this.spark = new Sparkline();
    this.node = el("div", { class: "tile" }, el("h2", {}, label), this.value, this.note, this.spark.node);
  }

  add(at, value, label, upTo) {
    this.spark.add(at, value);
    text(this.value, label);
    text(this.note, upTo(this.spark.max()));
  }

  idle(label) {
    if (label !== undefined || !this.value.firstChild) text(this.value, label ?? "–");
  }
}
