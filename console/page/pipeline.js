import { button } from "./admin.js";
import { attr, el, link, show, sync, text } from "./dom.js";
import { age, bytes, number, plural, rate, seconds, setAge } from "./format.js";
import { Rate } from "./rates.js";
import { Sparkline } from "./sparkline.js";

const words = { ok: "in order", busy: "in progress", warn: "needs attention", error: "failing", none: "not in use" };
const controllerPrefix = "controller "; // of the name of a controller's subscription

// A lane has about a hundred elements, so only some of many exist.
const step = 20;

// Pipeline is the picture of each mirror: a line from the API server to its controllers with the
// figures of every stage.
export class Pipeline {
  constructor() {
    this.most = step;
    this.first = ""; // a mirror that is shown before the others
    this.filter = el("input", { id: "mirror-filter", type: "search", placeholder: "part of a name", autocomplete: "off", spellcheck: "false", oninput: () => this.again() });
    this.search = el("div", { class: "filters", hidden: true }, el("div", { class: "field wide" }, el("label", { for: "mirror-filter" }, "Filter mirrors"), this.filter));
    this.list = el("div", { class: "lanes" });
    this.count = el("span", { class: "note" });
    this.more = el("p", { class: "actions", hidden: true }, this.count, el("button", { type: "button", class: "quiet", onclick: () => this.again((this.most += step)) }, "Show more"));
    this.empty = el("p", { class: "empty" }, "The program has declared no mirrors.");
    this.node = el("section", { "aria-labelledby": "lanes-title" }, el("h2", { id: "lanes-title" }, "Mirrors"), this.search, this.list, this.more, this.empty);
  }

  again() {
    if (this.last) this.update(this.last);
  }

  update(status) {
    this.last = status;
    const at = Date.parse(status.time);
    show(this.empty, status.mirrors.length === 0);
    const many = status.mirrors.length > step;
    show(this.search, many);
    let mirrors = status.mirrors;
    if (many) {
      // Those that need attention come first, in their order.
      const rank = (m) => (m.name === this.first ? 0 : { error: 1, busy: 2, ok: 3 }[healthOf(m)]);
      const part = this.filter.value.trim();
      mirrors = mirrors.filter((m) => m.name.includes(part)).sort((a, b) => rank(a) - rank(b));
    }
    const shown = many ? mirrors.slice(0, this.most) : mirrors;
    show(this.more, shown.length < mirrors.length);
    text(this.count, `${number(shown.length)} of ${number(mirrors.length)}`);
    const byName = new Map(status.controllers.map((c) => [c.name, c]));
    sync(this.list, shown, (m) => m.name, (m) => new Lane(m), (lane, m) => lane.update(m, byName, at, status));
  }

  // focus moves to the lane of a mirror.
  focus(name) {
    this.first = name;
    this.filter.value = "";
    this.again();
    const lane = [...this.list.children].find((n) => n.dataset.mirror === name);
    lane?.scrollIntoView({ block: "start" });
    lane?.querySelector("h3").focus();
  }
}

// reflector sums up the sources of a mirror: one per namespace that it covers.
function reflector(mirror) {
  const states = new Set(mirror.sources.map((s) => s.state));
  const watching = mirror.sources.filter((s) => s.state === "watching").length;
  return {
    state: states.size === 1 ? [...states][0] : states.size ? `${watching} of ${mirror.sources.length} watching` : mirror.state,
    connected: mirror.sources.some((s) => s.connected),
    lastEvent: mirror.sources.map((s) => s.lastEvent || "").sort().at(-1),
    until: mirror.sources.map((s) => s.until || "").filter(Boolean).sort()[0],
    version: mirror.sources.length === 1 ? mirror.sources[0].version : "",
  };
}

const healthOf = (mirror) =>
  mirror.state === "live" ? "ok" : mirror.cause || mirror.state === "stale" || mirror.state === "waiting" ? "error" : "busy";

class Lane {
  constructor(mirror) {
    const id = "lane-" + mirror.name;
    this.rate = new Rate();
    this.spark = new Sparkline();
    this.perSecond = el("b");
    this.state = el("span", { class: "badge" });
    this.about = el("p", { class: "about" });
    this.cause = el("p", { class: "cause" });
    this.stops = ["API server", "Reflector", "Delta", "Store", "Subscribers", "Queue", "Controller"].map((label) => new Stop(label));
    this.line = el("ol", { class: "line", "aria-label": `Pipeline of ${mirror.name}` }, this.stops.map((s) => s.node));
    this.details = new Details(mirror);
    this.node = el("article", { class: "lane", "data-mirror": mirror.name, "aria-labelledby": id },
      el("header", {},
        el("div", { class: "title" }, el("h3", { id, tabindex: "-1" }, mirror.name), this.state, this.about),
        el("p", { class: "flow" }, this.spark.node, el("span", {}, this.perSecond, " events/s"))),
      this.cause, this.line, this.details.node);
  }

  update(m, controllers, at, status) {
    const r = this.rate.add(at, m.eventsTotal || 0);
    if (r !== undefined) this.spark.add(at, (this.last = r));
    const flow = this.last || 0;
    const health = healthOf(m);
    text(this.perSecond, rate(flow));
    text(this.state, m.state);
    attr(this.state, "data-health", health);
    attr(this.node, "data-health", health);
    const api = m.resource.group ? `${m.resource.group}/${m.resource.version}` : m.resource.version;
    const scope = m.namespaces?.length ? plural(m.namespaces.length, "namespace") : m.resource.namespaced ? "all namespaces" : "cluster";
    text(this.about, [m.resource.kind, api, scope, m.form + (m.compact ? ", compact" : ""), m.labels, m.fields].filter(Boolean).join(" · "));
    text(this.cause, m.cause);
    show(this.cause, m.cause);
    const used = m.subscribers.filter((s) => s.name.startsWith(controllerPrefix)).map((s) => controllers.get(s.name.slice(controllerPrefix.length)));
    this.draw(m, [...new Set(used)].filter(Boolean), flow, health);
    this.details.update(m, status);
  }

  draw(m, controllers, flow, health) {
    attr(this.line, "data-flow", flow > 0);
    const r = reflector(m);
    const lag = Math.max(0, ...m.subscribers.map((s) => s.lag));
    const panics = m.subscribers.some((s) => s.panics);
    const queued = controllers.reduce((n, c) => n + c.queue.waiting + c.queue.dirty, 0);
    const delayed = controllers.reduce((n, c) => n + c.queue.delayed, 0);
    const bad = m.quarantined.length;
    const [api, refl, delta, store, subs, queue, ctrl] = this.stops;
    api.set(r.connected ? "ok" : health === "busy" ? "busy" : "error", rate(flow) + "/s", r.connected ? "connected" : "not connected");
    if (r.until && !r.connected) refl.set(health, r.state, "retries ", r.until);
    else refl.set(health, r.state, r.lastEvent ? "last event " : "no event yet", r.lastEvent);
    delta.set("ok", number(m.pending.changes), m.pending.changes === 1 ? "change pending" : "changes pending");
    store.set(bad ? "warn" : m.objects || health === "ok" ? "ok" : "none", number(m.objects),
      (m.objects === 1 ? "object" : "objects") + (m.bytes ? `, ${bytes(m.bytes)}` : "") + (bad ? `, ${number(bad)} in quarantine` : ""));
    subs.set(!m.subscribers.length ? "none" : panics || lag > 1000 ? "warn" : "ok", number(m.subscribers.length),
      panics ? "has panicked" : !m.subscribers.length ? "no subscriber" : lag ? `${number(lag)} behind` : "up to date");
    if (!controllers.length) {
      queue.set("none", "–", "no controller");
      ctrl.set("none", "–", "no controller");
      return;
    }
    queue.set("ok", number(queued), "waiting" + (delayed ? `, ${number(delayed)} delayed` : ""));
    const failed = controllers.some((c) => c.cause);
    const odd = controllers.some((c) => c.paused || c.fenced || c.failures.length);
    const p99 = Math.max(...controllers.map((c) => c.latency.p99));
    ctrl.set(failed ? "error" : odd ? "warn" : "ok", controllers.length === 1 ? controllers[0].name : plural(controllers.length, "controller"),
      controllers.some((c) => c.paused) ? "paused" : p99 ? `p99 ${seconds(p99)}` : "no reconcile yet");
  }
}

class Stop {
  constructor(label) {
    this.word = el("span", { class: "hidden" });
    this.value = el("b", { class: "value" });
    this.said = el("span");
    this.time = age();
    this.node = el("li", { class: "stop" }, el("i", { class: "dot", "aria-hidden": "true" }),
      el("span", { class: "label" }, label, this.word), this.value, el("span", { class: "note" }, this.said, this.time));
  }

  // set shows a value and a note that may end with a time.
  set(health, value, note, time) {
    attr(this.node, "data-health", health);
    text(this.word, ` (${words[health]})`);
    text(this.value, value);
    attr(this.value, "title", value);
    text(this.said, note);
    if (time) setAge(this.time, time);
    show(this.time, time);
  }
}

// Details are the figures below the line that only a closer look needs. They are updated while
// they are open.
class Details {
  constructor(mirror) {
    this.sources = el("div", { class: "cards" });
    this.subscribers = table(`Subscribers of ${mirror.name}`, ["Subscriber", "Behind", "Oldest waits", "Calls", "Per call", "Busy", "Caught up", "Panics"]);
    this.quarantined = table(`Objects of ${mirror.name} in quarantine`, ["Key", "Since", "Cause"]);
    this.store = el("dl", { class: "facts" });
    this.relist = button("Relist", `Relist ${mirror.name}`, () => ["relist", { mirror: mirror.name }]);
    this.node = el("details", { ontoggle: () => this.node.open && this.last && this.update(...this.last) },
      el("summary", {}, "Details", el("span", { class: "hidden" }, ` of ${mirror.name}`)),
      el("p", { class: "actions" }, el("a", { class: "button", href: link("objects", { mirror: mirror.name }) }, "Browse objects"), this.relist.node),
      el("h4", {}, "Store"), this.store,
      el("h4", {}, "Lists and watches"), this.sources,
      this.subscribers.node, this.quarantined.node);
  }

  update(m, status) {
    this.last = [m, status];
    if (!this.node.open) return;
    this.relist.update(status);
    facts(this.store, [
      ["Objects", number(m.objects)], ["Size", m.bytes ? bytes(m.bytes) : ""],
      ["Indexes", m.indexes.map((i) => `${i.name} (${plural(i.values, "value")})`).join(", ")],
      ["Log", plural(m.log, "change")], ["Pending writes", m.pendingWrites ? number(m.pendingWrites) : ""],
      ["History", m.history ? `${plural(m.history, "version")} per object` : ""],
      ["Dropped fields", m.dropped?.join(", ")], ["Declared at", m.handles?.join(", ")],
    ]);
    sync(this.sources, m.sources, (s) => s.scope, () => ({ node: el("dl", { class: "facts" }) }), (view, s) => facts(view.node, [
      ["Scope", s.scope || "all namespaces"], ["State", s.state, s.since], ["Version", s.version],
      ["Last event", "", s.lastEvent], ["Last list", "", s.lastList],
      ["Lists", number(s.lists)], ["Watches", number(s.watches)], ["Reconnects", number(s.reconnects)],
      ["Events", number(s.events)], ["Bookmarks", number(s.bookmarks)], ["Errors", s.errors ? number(s.errors) : ""],
      ["Reasons", Object.entries(s.reasons || {}).map(([why, n]) => `${why}: ${number(n)}`).join(", ")], ["Cause", s.cause],
    ]));
    show(this.subscribers.node, m.subscribers.length);
    this.subscribers.update(m.subscribers, (s) => s.name, (s) => [s.name, number(s.lag), s.lag ? seconds(s.lagSeconds) : "–",
      number(s.calls), s.calls ? seconds(s.busySeconds / s.calls) : "–", seconds(s.busySeconds), s.caughtUp ? plural(s.caughtUp, "time") : "–", s.panics ? number(s.panics) : "–"]);
    show(this.quarantined.node, m.quarantined.length);
    this.quarantined.update(m.quarantined, (q) => q.key, (q) => [
      q.key ? { links: [{ text: q.key, href: link("object", { mirror: m.name, key: q.key }) }] } : "unreadable key", { age: q.since }, q.cause]);
  }
}

// facts shows labels with values that are not empty. A row is [label, text, time].
export function facts(dl, rows) {
  sync(dl, rows.filter(([, value, time]) => value || time), ([label]) => label, ([label]) => {
    const value = el("span");
    const time = age();
    return { node: el("div", {}, el("dt", {}, label), el("dd", {}, value, time)), value, time };
  }, (view, [, value, time]) => {
    text(view.value, value ? value + (time ? ", " : "") : "");
    if (time) setAge(view.time, time);
    show(view.time, time);
  });
}

// table returns a captioned table whose rows are updated in place. A cell is a text, {age}, or
// {links, plain} with {text, href} as links before a text.
export function table(caption, heads) {
  const body = el("tbody");
  const node = el("div", { class: "scroll", role: "group", tabindex: "0", "aria-label": caption },
    el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, heads.map((h) => el("th", { scope: "col" }, h)))), body));
  const cell = (view, c) => {
    if (c?.age) setAge(view.time, c.age);
    sync(view.links, c?.links || [], (l) => l.href, (l) => ({ node: el("a", { href: l.href }, l.text) }), () => {});
    text(view.plain, typeof c === "string" ? c : c?.plain);
    show(view.time, c?.age);
  };
  const make = () => {
    const cells = heads.map((title, i) => ({ plain: el("span"), links: el("span", { class: "links" }), time: age(), title, head: i === 0 }));
    return { cells, node: el("tr", {}, cells.map((c) => el(c.head ? "th" : "td", c.head ? { scope: "row" } : { "data-head": c.title }, c.links, c.plain, c.time))) };
  };
  const update = (items, keyOf, row) =>
    sync(body, items, keyOf, make, (view, item) => row(item).forEach((c, i) => cell(view.cells[i], c)));
  return { node, update };
}
