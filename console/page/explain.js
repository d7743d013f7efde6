import { get } from "./access.js";
import { button } from "./admin.js";
import { grouped } from "./controllers.js";
import { attr, el, link, show, sync, text } from "./dom.js";
import { local, plural, setAge } from "./format.js";
import { reconcile } from "./object.js";
import { facts } from "./pipeline.js";

const health = {
  running: "ok", done: "ok", queued: "busy", delayed: "busy", held: "warn", "backing off": "error",
  failed: "error", unknown: "none", "controller not working": "error",
};

// Explain answers one question: why is this key not reconciled?
export class Explain {
  constructor() {
    this.title = "Explain";
    this.key = el("input", { id: "e-key", type: "text", placeholder: "namespace/name", autocomplete: "off", spellcheck: "false", required: true });
    this.controller = el("select", { id: "e-controller" });
    this.error = el("p", { class: "cause", role: "alert", hidden: true });
    this.answers = el("div", { class: "answers" });
    this.hints = el("ul", { class: "hints" });
    this.hint = el("section", { "aria-labelledby": "hint-title", hidden: true }, el("h2", { id: "hint-title" }, "Keys in trouble now"), this.hints);
    this.heading = el("h1", { tabindex: "-1" });
    this.node = el("div", { class: "view" }, this.heading,
      el("form", { class: "filters", onsubmit: (e) => this.ask(e) },
        el("div", { class: "field wide" }, el("label", { for: "e-key" }, "Key"), this.key),
        el("div", { class: "field" }, el("label", { for: "e-controller" }, "Controller"), this.controller),
        el("button", {}, "Explain")),
      this.error, this.answers, this.hint);
  }

  show(params, status) {
    const other = params.key !== this.asked?.key || params.controller !== this.asked?.controller;
    this.asked = { key: params.key, controller: params.controller };
    this.key.value = params.key || "";
    text(this.heading, `Why is ${params.key || "a key"} not reconciled?`);
    this.title = params.key ? `Explain ${params.key}` : "Explain";
    if (other) {
      sync(this.answers, [], (x) => x, null, null);
      show(this.error, false);
      this.wrong = false;
    }
    if (status) this.status(status);
    this.controller.value = params.controller || "";
    if (params.key) this.load();
  }

  hide() {
    this.abort?.abort();
    this.loading = false;
  }

  ask(e) {
    e.preventDefault();
    const to = link("explain", { key: this.key.value.trim(), controller: this.controller.value });
    if (location.hash === to) this.load();
    else location.hash = to;
  }

  status(status) {
    this.last = status;
    const option = (value) => ({ node: el("option", { value }, value || "all") });
    sync(this.controller, ["", ...status.controllers.map((c) => c.name)], (n) => n, option, () => {});
    if (!this.chosen && this.asked?.controller) this.controller.value = this.chosen = this.asked.controller;
    const trouble = status.controllers.flatMap((c) => [
      ...grouped(c).map((g) => ({ ...g, id: c.name + " " + g.alike, why: `${c.name}: ${g.error}` })),
      ...c.held.map((h) => ({ id: `${c.name} held ${h.key}`, links: [{ text: h.key, href: link("explain", { key: h.key, controller: c.name }) }], more: 0, why: `${c.name}: ${h.cause}` })),
    ]);
    show(this.hint, trouble.length);
    sync(this.hints, trouble, (t) => t.id, () => {
      const links = el("span", { class: "links" }), more = el("span"), why = el("span", { class: "note" });
      return { links, more, why, node: el("li", {}, links, more, " ", why) };
    }, (view, t) => {
      sync(view.links, t.links, (l) => l.href, (l) => ({ node: el("a", { href: l.href }, l.text) }), () => {});
      text(view.more, t.more ? `and ${plural(t.more, "more", "more")} ` : "");
      text(view.why, t.why);
    });
    if (this.asked?.key && !this.loading && !this.wrong) this.load();
  }

  async load() {
    this.abort?.abort();
    const { signal } = (this.abort = new AbortController());
    this.loading = true;
    try {
      const answer = await get("explain", { key: this.asked.key, controller: this.asked.controller }, signal);
      sync(this.answers, answer.controllers, (a) => a.controller, (a) => new Answer(a, this.asked.key), (view, a) => view.update(a, this.last));
      show(this.error, answer.controllers.length === 0);
      text(this.error, answer.controllers.length ? "" : "No controller knows this key.");
    } catch (err) {
      if (signal.aborted) return;
      this.wrong = err.wrong; // anything else may pass: the next status asks again
      text(this.error, err.message);
      show(this.error, true);
    } finally {
      if (!signal.aborted) this.loading = false;
    }
  }
}

class Answer {
  constructor(a, key) {
    const id = "answer-" + a.controller;
    this.key = key;
    this.state = el("span", { class: "badge" });
    this.why = el("p", { class: "why" });
    this.advice = el("p", { class: "advice" });
    this.facts = el("dl", { class: "facts" });
    this.lastError = el("p", { class: "cause" });
    this.last = el("ol", { class: "runs" });
    this.objects = el("ul", { class: "hints" });
    this.retry = button("Retry now", `Retry now: ${key}`, () => ["retry", { controller: a.controller, key }]);
    this.node = el("article", { class: "answer", "aria-labelledby": id }, el("p", { class: "subject" }, el("b", { id }, a.controller), " ", this.state),
      this.why, this.advice, this.facts, this.lastError, this.last, this.objects, el("p", { class: "actions" }, this.retry.node));
  }

  update(a, status) {
    attr(this.node, "data-health", health[a.state] || "none");
    attr(this.state, "data-health", health[a.state] || "none");
    text(this.state, a.state);
    text(this.why, local(a.why));
    text(this.advice, a.do);
    show(this.advice, a.do);
    facts(this.facts, [["Since", "", a.since], ["Next attempt", "", a.due], ["Attempt", a.attempt ? String(a.attempt) : ""], ["Priority", a.priority ? String(a.priority) : ""]]);
    text(this.lastError, a.lastError);
    show(this.lastError, a.lastError && !a.why.includes(a.lastError));
    sync(this.last, a.lastReconcile ? [a.lastReconcile] : [], (r) => r.at, (r) => reconcile({ ...r, controller: "Last reconcile", error: a.lastError === r.error ? "" : r.error }), (view, r) => setAge(view.time, r.at));
    // With its state in the key, a line never changes.
    sync(this.objects, a.objects || [], (o) => [o.mirror, o.version, o.why].join(), (o) => ({ node: el("li", {}, o.exists
      ? [el("a", { href: link("object", { mirror: o.mirror, key: this.key }) }, o.mirror), ` has it in version ${o.version}`]
      : `${o.mirror} does not have it${o.why ? ": " + o.why : ""}`) }), () => {});
    this.retry.update(status);
  }
}
