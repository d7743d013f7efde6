import { el, attr } from "./dom.js";

const width = 240;
const height = 44;
const span = 120_000; // milliseconds that the width stands for at most
const start = 20_000; // and at least

// Sparkline draws the last two minutes of a value as one SVG path that is changed in place. It
// holds at most 150 points. The number beside it is its text alternative.
export class Sparkline {
  constructor() {
    this.points = [];
    this.line = el("path", { class: "spark-line" });
    this.area = el("path", { class: "spark-area" });
    this.node = el("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" }, this.area, this.line);
  }

  // add appends a value at a time in milliseconds.
  add(at, value) {
    const last = this.points.at(-1);
    if (last && at <= last.at) this.points = [];
    this.points.push({ at, value });
    while (this.points.length > 150 || this.points[0].at < at - span) this.points.shift();
    this.draw(at);
  }

  // max returns the largest value shown.
  max() {
    return this.points.reduce((m, p) => Math.max(m, p.value), 0);
  }

  draw(at) {
    const top = this.max() * 1.15 || 1;
    const shown = Math.max(start, at - this.points[0].at);
    const x = (p) => (width - ((at - p.at) / shown) * width).toFixed(1);
    const y = (p) => (height - 2 - (p.value / top) * (height - 6)).toFixed(1);
    const line = this.points.map((p, i) => `${i ? "L" : "M"}${x(p)} ${y(p)}`).join("");
    attr(this.line, "d", line);
    attr(this.area, "d", line && `${line}L${width} ${height}L${x(this.points[0])} ${height}Z`);
  }
}
