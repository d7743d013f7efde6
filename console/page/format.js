import { el, text, attr } from "./dom.js";

const plain = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

// number formats a count: 12,345.
export const number = (n) => plain.format(n || 0);

// plural formats a count with its noun.
export const plural = (n, one, many = one + "s") => `${number(n)} ${n === 1 ? one : many}`;

// rate formats events per second, with a decimal below 10.
export const rate = (n) => (n > 0 && n < 10 ? n.toFixed(1) : number(Math.round(n)));

// bytes formats a size in decimal units.
export function bytes(n) {
  let unit = 0;
  for (n = n || 0; n >= 999.5 && unit < 4; unit++) n /= 1000;
  return `${short.format(n)} ${["B", "kB", "MB", "GB", "TB"][unit]}`;
}

// seconds formats a duration: 12 ms, 2.2 s, 4 min, 27 h, 3 d.
export function seconds(s) {
  if (!(s > 0)) return "0 s";
  if (s < 0.001) return "< 1 ms";
  if (s < 0.9995) return `${short.format(s * 1000)} ms`;
  if (s < 9.95) return `${s.toFixed(1)} s`;
  if (s < 119.5) return `${Math.round(s)} s`;
  if (s < 7170) return `${Math.round(s / 60)} min`;
  if (s < 172800) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86400)} d`;
}

// The server's clock: ages are differences of its own times, whatever the browser's clock says.
let skew = 0;

// setClock notes the server's time.
export function setClock(iso) {
  skew = Date.parse(iso) - Date.now();
}

const now = () => Date.now() + skew;

// Whole seconds, and "now" below two: finer ages would flicker without a meaning.
function relative(iso) {
  const s = Math.round((now() - Date.parse(iso)) / 1000);
  if (s < 2 && s > -1) return "now";
  const distance = Math.abs(s) < 120 ? `${Math.abs(s)} s` : seconds(Math.abs(s));
  return s < 0 ? `in ${distance}` : `${distance} ago`;
}

// age returns a time element that shows how long ago it was, and keeps showing it.
export const age = (iso) => setAge(el("time"), iso);

// setAge changes what an element of age shows.
export function setAge(node, iso) {
  attr(node, "datetime", iso || undefined);
  attr(node, "title", iso ? new Date(iso).toLocaleString() : undefined);
  text(node, iso ? relative(iso) : "never");
  return node;
}

const dateOf = (time) => new Date(time).toLocaleDateString("sv-SE"); // 2026-01-02

// local replaces the times in a sentence of the server by those of the browser, with the date unless
// that is today.
export const local = (sentence) => (sentence || "").replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, (iso) =>
  (dateOf(iso) === dateOf(now()) ? "" : dateOf(iso) + " ") + new Date(iso).toLocaleTimeString("en-GB"));

// since returns how long ago a time was, as in "4 min", without the "ago".
export const since = (iso) => seconds(Math.max(0, (now() - Date.parse(iso)) / 1000));

setInterval(() => {
  if (document.hidden) return;
  for (const node of document.querySelectorAll("time[datetime]")) {
    if (node.offsetParent) text(node, relative(node.dateTime));
  }
}, 1000);
