import { attr, text } from "./dom.js";
import { Explain } from "./explain.js";
import { setClock } from "./format.js";
import { Obj } from "./object.js";
import { Objects } from "./objects.js";
import { Overview } from "./overview.js";
import { Stream } from "./stream.js";

const main = document.getElementById("main");
const makers = { overview: Overview, objects: Objects, object: Obj, explain: Explain };
const views = {}; // made when first shown, and kept: going back finds them unchanged
let current = null;
let status = null;

// route returns the view and the parameters of the hash.
function route() {
  const [, path, query = ""] = /^#?\/?([^?]*)\??(.*)$/s.exec(location.hash);
  return { name: Object.hasOwn(makers, path) ? path : "overview", params: Object.fromEntries(new URLSearchParams(query)) };
}

function navigate() {
  const { name, params } = route();
  const first = current === null;
  if (!views[name]) main.append((views[name] = new makers[name]()).node);
  const view = views[name];
  if (view !== current) {
    if (current) {
      current.hide?.();
      current.node.hidden = true;
    }
    current = view;
    view.node.hidden = false;
    if (status) view.status?.(status);
  }
  for (const a of document.querySelectorAll("nav a")) {
    attr(a, "aria-current", a.dataset.view === name ? "page" : a.dataset.view === "objects" && name === "object" ? "true" : undefined);
  }
  enter(params);
  if (first || (document.activeElement !== document.body && view.node.contains(document.activeElement))) return;
  window.scrollTo(0, 0);
  view.node.querySelector("h1").focus({ preventScroll: true });
}

function enter(params) {
  current.show(params, status);
  document.title = `${current.title} · Tarn`;
  stream.follow(status?.mirrors.some((m) => m.name === current.mirror) ? current.mirror : "");
}

const states = { connecting: "Connecting", live: "Live", stale: "Not live", syncing: "Syncing", reconnecting: "Reconnecting", paused: "Paused", stopped: "Stopped" };
const linkNode = document.getElementById("link");

// drawLink shows the state of the page's connection or, while that works, of the mirrors behind it.
function drawLink(name, why) {
  if (name === "live" && status) {
    const behind = status.mirrors.filter((m) => m.state !== "live");
    if (behind.length) {
      name = behind.some((m) => m.cause || m.state === "stale" || m.state === "waiting") ? "stale" : "syncing";
      why = `${behind.length} of ${status.mirrors.length} mirrors are not live.`;
    }
  }
  attr(linkNode, "data-state", name);
  attr(linkNode, "title", why || undefined);
  text(document.getElementById("link-text"), states[name]);
}

const stream = new Stream({
  status(st) {
    const first = status === null;
    status = st;
    drawLink("live", "");
    setClock(st.time);
    text(document.getElementById("server"), st.server);
    text(document.getElementById("version"), st.version && st.version !== "unknown" ? `Tarn ${st.version}` : "");
    // The overview sees every status, so that its sparklines have no gaps.
    if (current !== views.overview) views.overview?.status(st);
    current.status?.(st);
    if (first) enter(route().params);
  },
  objects: (event) => current.objects?.(event),
  state: drawLink,
});

// The button switches to the scheme that is not shown.
const theme = document.getElementById("theme");
const system = matchMedia("(prefers-color-scheme: dark)");
const shown = () => document.documentElement.dataset.theme || (system.matches ? "dark" : "light");
function label() {
  text(theme, shown() === "dark" ? "Light" : "Dark");
  attr(theme, "aria-label", `Switch to the ${shown() === "dark" ? "light" : "dark"} theme`);
}
theme.addEventListener("click", () => {
  const next = shown() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("tarn-theme", next);
  } catch {
    // Storage may be disabled; the choice then lasts until a reload.
  }
  label();
});
system.addEventListener("change", label);
label();

document.getElementById("skip").addEventListener("click", (e) => {
  e.preventDefault(); // the hash belongs to the routes
  main.focus();
});

document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]")) return;
  const typing = e.target.closest("input, textarea, select");
  if (e.key === "/" && !typing) {
    e.preventDefault();
    if (current !== views.objects) location.hash = "#/objects";
    // The hash is handled in a task of its own.
    setTimeout(() => views.objects.search.focus());
  } else if (e.key === "Escape" && typing) {
    typing.blur();
  } else if (e.key === "Escape") {
    current.close?.();
  }
});

addEventListener("hashchange", navigate);
navigate();
