import { get } from "./access.js";
import { attr, el, link, show, sync, text } from "./dom.js";
import { age, number, setAge } from "./format.js";
import { List } from "./list.js";

// What is neither of these has no colour: an unknown word is not good news.
const good = /^(running|succeeded|ready|available|complete|completed|established|active|bound|healthy)$/i;
const bad = /^not ?ready$|^unavailable$|fail|error|crash|evicted|unknown|false|lost|unhealthy/i;
const waiting = /pending|terminating|creating|progress|init|released/i;

// Objects browses what a mirror holds. Its filters are in the URL.
export class Objects {
  constructor() {
    this.title = "Objects";
    this.filters = {};
    const input = (name, label, hint, type = "text") => {
      this.filters[name] = el("input", { id: "f-" + name, type, placeholder: hint, autocomplete: "off", spellcheck: "false", oninput: () => this.typed() });
      return el("div", { class: "field" }, el("label", { for: "f-" + name }, label), this.filters[name]);
    };
    const select = (name, label) => {
      this.filters[name] = el("select", { id: "f-" + name, onchange: () => this.typed(0) });
      return el("div", { class: "field" }, el("label", { for: "f-" + name }, label), this.filters[name]);
    };
    this.form = el("form", { class: "filters", role: "search", "aria-label": "Objects", onsubmit: (e) => e.preventDefault(), onkeydown: (e) => this.leave(e) },
      select("mirror", "Resource"), input("search", "Search", "part of a name", "search"), input("namespace", "Namespace", "all"),
      input("labels", "Labels", "app=web,tier!=back"), select("index", "Index"), input("value", "Value", "node-7"));
    this.search = this.filters.search;
    this.count = el("p", { class: "count" });
    this.error = el("p", { class: "cause", role: "alert", hidden: true });
    this.list = new List({
      columns: [{ title: "Name", class: "c-name" }, { title: "Status", class: "c-status" }, { title: "Owner", class: "c-owner" }, { title: "Labels", class: "c-labels" }, { title: "Age", class: "c-age" }],
      fetch: (token, limit, signal) => this.fetch(token, limit, signal),
      make: () => this.row(), open: (item) => { location.hash = this.href(item); }, changed: () => this.changed(),
    });
    this.node = el("div", { class: "view objects" }, el("h1", { tabindex: "-1" }, "Objects"), this.form, this.error, this.count, this.list.node);
  }

  show(params, status) {
    for (const [name, node] of Object.entries(this.filters)) {
      if (name !== "mirror" && name !== "index" && !this.own) node.value = params[name] || "";
    }
    this.wanted = params;
    if (status) this.choices(status);
    if (!this.query()) this.list.refresh(); // it has not followed the mirror while it was hidden
    if (this.scroll) this.list.node.scrollTop = this.scroll;
    this.list.draw();
  }

  hide() {
    this.scroll = this.list.node.scrollTop;
    clearTimeout(this.timer);
    this.timer = null;
  }

  status(status) {
    this.choices(status);
  }

  // choices fills the resources and their indexes.
  choices(status) {
    const option = (value) => ({ node: el("option", { value }, value || "none") });
    sync(this.filters.mirror, status.mirrors.map((m) => m.name), (n) => n, option, () => {});
    if (this.wanted?.mirror) this.filters.mirror.value = this.wanted.mirror;
    const mirror = status.mirrors.find((m) => m.name === this.filters.mirror.value);
    sync(this.filters.index, ["", ...(mirror ? mirror.indexes : []).map((i) => i.name)], (n) => n, option, () => {});
    if (this.wanted) this.filters.index.value = this.wanted.index || "";
    this.filters.value.disabled = !this.filters.index.value;
    this.wanted = null;
  }

  // leave moves from a field to the list.
  leave(e) {
    if (e.target.tagName !== "INPUT" || (e.key !== "Enter" && e.key !== "ArrowDown")) return;
    e.preventDefault();
    this.list.node.focus();
  }

  values() {
    const values = {};
    for (const [name, node] of Object.entries(this.filters)) values[name] = node.value.trim();
    if (!values.index) values.value = "";
    return values;
  }

  // typed puts the filters into the URL, without a step of the browser's history for each letter.
  typed(wait = 200) {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => {
      this.filters.value.disabled = !this.filters.index.value;
      history.replaceState(null, "", link("objects", this.values()));
      this.own = true; // the fields are as the user typed them
      dispatchEvent(new HashChangeEvent("hashchange"));
      this.own = false;
    }, wait);
  }

  // query starts over if the filters differ from those of the list, and reports whether it does.
  query() {
    const values = this.values();
    const q = JSON.stringify(values);
    this.mirror = values.mirror;
    if (q === this.shown || !values.mirror || (values.index && !values.value)) return false;
    this.shown = q;
    this.scroll = 0;
    this.list.reset();
    this.list.draw();
    return true;
  }

  async fetch(token, limit, signal) {
    const begun = performance.now();
    const values = this.values();
    let page = await get("objects", { ...values, limit, continue: token }, signal);
    // The server stops looking for labels after some objects, before the page is full. Its total
    // does not know of labels.
    while (values.labels && page.continue && page.items.length < limit) {
      const next = await get("objects", { ...values, limit: limit - page.items.length, continue: page.continue }, signal);
      page = { ...next, items: [...page.items, ...next.items] };
    }
    if (values.labels) delete page.total;
    // A search that costs the server more is repeated less often.
    this.pause = Math.max(1000, 30 * (performance.now() - begun));
    return page;
  }

  // objects is called when the mirror has changed.
  objects() {
    if (this.timer) return;
    this.timer = setTimeout(() => {
      this.timer = null;
      this.list.refresh();
    }, this.pause || 1000);
  }

  changed() {
    text(this.error, this.list.error?.message);
    show(this.error, this.list.error);
    const filtered = Object.entries(this.values()).some(([name, v]) => v && name !== "mirror");
    text(this.count, !this.list.loaded ? "" : this.list.total ? `${this.list.more ? "More than " : ""}${number(this.list.known)} ${filtered ? "match" : "objects"}` :
      filtered ? "No object matches. Clear a filter to see more." : "The mirror holds no objects.");
  }

  href(item) {
    return link("object", { mirror: this.filters.mirror.value, key: item.key });
  }

  row() {
    const space = el("span", { class: "ns" });
    const name = el("span");
    const open = el("a", { tabindex: "-1" }, space, name);
    const status = el("span", { class: "word" });
    const owner = el("span");
    const labels = el("span");
    const created = age();
    return {
      nodes: [open, status, owner, labels, created],
      set: (item) => {
        text(space, item.namespace ? item.namespace + "/" : "");
        text(name, item.name);
        attr(open, "href", item.key ? this.href(item) : undefined);
        attr(open, "title", item.key);
        const word = item.deleted ? "deleting" : item.status || "";
        text(status, word);
        attr(status, "data-health", bad.test(word) ? "error" : item.deleted || waiting.test(word) ? "warn" : good.test(word) ? "ok" : undefined);
        text(owner, item.owner);
        const pairs = Object.entries(item.labels || {}).map(([k, v]) => `${k}=${v}`).join("  ");
        text(labels, pairs);
        attr(labels, "title", pairs);
        setAge(created, item.created);
        show(created, item.created);
      },
    };
  }
}
