import { attr, el, show, text } from "./dom.js";

const rowHeight = 40;
const pageSize = 200;
const keptPages = 12; // the pages held at most; others are fetched again by their token
const maxHeight = 15_000_000; // browsers do not lay out elements that are much taller

// List shows any number of rows with as many elements as fit on the screen. Rows come in pages;
// the token of a page is known once the page before it has been read, so a jump walks there. The
// focus stays on the list, and the active row is its descendant, as in an ARIA grid.
export class List {
  // The options: columns are {title, class}; fetch(token, limit, signal) returns a page;
  // make() returns the cells of a row as {nodes, set(item)}; open(item) and changed() are called.
  constructor(options) {
    this.options = options;
    this.pool = [];
    this.body = el("div", { class: "rows", role: "rowgroup" });
    this.node = el("div", {
      class: "grid", role: "grid", tabindex: "0", "aria-label": "Objects",
      onscroll: () => this.draw(), onkeydown: (e) => this.key(e), onclick: (e) => this.click(e),
    }, el("div", { role: "rowgroup", class: "heads" },
      el("div", { class: "row", role: "row", "aria-rowindex": "1" }, options.columns.map((c) => el("span", { role: "columnheader", class: c.class }, c.title)))),
    this.body);
    new ResizeObserver(() => this.draw()).observe(this.node);
    this.reset();
    this.ready = false;
  }

  // reset forgets all rows; the next draw reads the first page. Without it the list reads nothing.
  reset() {
    this.ready = true;
    clearTimeout(this.retry);
    this.abort?.abort();
    this.abort = null;
    this.pages = new Map();
    this.tokens = [""];
    this.total = 0;
    this.known = 0;
    this.active = 0;
    this.error = null;
    this.loaded = false;
    this.node.scrollTop = 0;
  }

  // refresh reads the visible pages again.
  refresh() {
    clearTimeout(this.retry);
    for (const p of this.pages.values()) p.stale = true;
    this.error = null;
    this.draw();
  }

  item(index) {
    return this.pages.get(Math.floor(index / pageSize))?.items[index % pageSize];
  }

  // visible returns the first and last row on the screen, with two more on each side.
  visible() {
    const from = Math.max(0, Math.floor(this.node.scrollTop / rowHeight) - 2);
    const rows = Math.ceil(this.node.clientHeight / rowHeight) + 4;
    return [from, Math.min(this.total, from + rows) - 1];
  }

  draw() {
    if (!this.node.clientHeight) return; // hidden
    this.body.style.height = Math.min(this.total * rowHeight, maxHeight) + "px";
    attr(this.node, "aria-rowcount", this.total + 1);
    const [from, to] = this.visible();
    while (this.pool.length < to - from + 1) this.grow();
    this.pool.forEach((row, i) => this.place(row, from + i, from + i <= to));
    attr(this.node, "aria-activedescendant", this.active >= from && this.active <= to ? "row-" + this.active : undefined);
    this.load(from, to);
  }

  grow() {
    const cells = this.options.make();
    const node = el("div", { class: "row", role: "row" }, cells.nodes.map((n, i) => el("span", { role: "gridcell", class: this.options.columns[i].class }, n)));
    this.pool.push({ node, cells });
    this.body.append(node);
  }

  place(row, index, used) {
    show(row.node, used);
    if (!used) return;
    const item = this.item(index);
    if (row.index !== index) {
      row.index = index;
      row.node.id = "row-" + index;
      row.node.style.transform = `translateY(${index * rowHeight}px)`;
      attr(row.node, "aria-rowindex", index + 2);
    }
    attr(row.node, "aria-selected", index === this.active ? "true" : "false");
    attr(row.node, "data-loading", item ? undefined : "");
    if (row.item !== item) row.cells.set((row.item = item) || {});
  }

  // load reads what the screen needs and the list does not have, one page at a time.
  async load(from, to) {
    if (!this.ready || this.abort) return; // the running request draws again
    const first = Math.floor(from / pageSize);
    const last = Math.max(first, Math.floor(to / pageSize));
    let page = -1;
    for (let p = first; p <= last && page < 0; p++) if (!this.pages.get(p) || this.pages.get(p).stale) page = p;
    if (page < 0 || this.error || (this.loaded && page * pageSize >= this.total)) return;
    const known = Math.min(page, this.tokens.length - 1);
    const limit = known < page ? 5 * pageSize : pageSize; // fewer requests on the way
    const abort = (this.abort = new AbortController());
    try {
      const before = this.item(this.active)?.key;
      const answer = await this.options.fetch(this.tokens[known], limit, abort.signal);
      this.take(known, answer, before);
    } catch (err) {
      if (this.abort !== abort) return; // another query has begun
      this.error = err; // the rows stay as they are
      if (!err.wrong) this.retry = setTimeout(() => this.refresh(), 2000);
    }
    if (this.abort !== abort) return;
    this.abort = null;
    this.evict(first);
    this.options.changed();
    this.draw();
  }

  // take notes an answer of one or more pages. A token is the key of the row before its page.
  take(page, answer, activeKey) {
    this.loaded = true;
    this.count(page, answer);
    for (let from = 0; from === 0 || from < answer.items.length; from += pageSize, page++) {
      const items = answer.items.slice(from, from + pageSize);
      this.pages.set(page, { items });
      this.chain(page + 1, from + pageSize < answer.items.length ? items.at(-1).key : answer.continue);
      const moved = items.findIndex((o) => o.key === activeKey);
      if (activeKey && moved >= 0) this.active = page * pageSize + moved;
    }
    this.active = Math.max(0, Math.min(this.active, this.total - 1));
  }

  // chain notes the token of a page. If it differs, rows were added or removed before the page: it
  // and those after it have moved.
  chain(page, token) {
    if (this.tokens[page] === token) return;
    this.tokens.length = page;
    if (token) this.tokens.push(token);
    for (const [p, held] of this.pages) if (p >= page) held.stale = true;
  }

  // count sets total, the rows to scroll through, and known, those that are certain. Without a
  // total from the server there is one page more than what has been read.
  count(page, answer) {
    const read = page * pageSize + answer.items.length;
    this.more = answer.total === undefined && Boolean(answer.continue);
    this.known = answer.total ?? (this.more ? Math.max(read, this.known) : read);
    this.total = this.known + (this.more ? pageSize : 0);
  }

  evict(near) {
    const far = [...this.pages.keys()].sort((a, b) => Math.abs(a - near) - Math.abs(b - near));
    for (const p of far.slice(keptPages)) this.pages.delete(p);
  }

  key(e) {
    const screen = Math.max(1, Math.floor(this.node.clientHeight / rowHeight) - 2);
    const to = { ArrowDown: this.active + 1, ArrowUp: this.active - 1, PageDown: this.active + screen, PageUp: this.active - screen, Home: 0, End: this.total - 1 }[e.key];
    if (to !== undefined) this.activate(Math.max(0, Math.min(to, this.total - 1)));
    else if (e.key === "Enter" && this.item(this.active)) this.options.open(this.item(this.active));
    else return;
    e.preventDefault();
  }

  activate(index) {
    this.active = index;
    const top = index * rowHeight;
    const view = this.node.clientHeight - rowHeight; // below the column titles
    if (top < this.node.scrollTop) this.node.scrollTop = top;
    else if (top + rowHeight > this.node.scrollTop + view) this.node.scrollTop = top + rowHeight - view;
    this.draw();
  }

  click(e) {
    const row = this.pool.find((r) => r.node.contains(e.target));
    if (!row?.item || e.defaultPrevented) return;
    this.active = row.index;
    this.draw();
    if (!e.target.closest("a")) this.options.open(row.item);
  }
}
