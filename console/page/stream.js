// words turns the name of a state, such as BackingOff, into words.
const words = (state) => (state || "").replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();

// complete adds the lists that a status leaves out when they are empty.
function complete(status) {
  const lists = (o, ...names) => names.forEach((name) => (o[name] ??= []));
  lists(status, "problems", "mirrors", "controllers");
  for (const m of status.mirrors) lists(m, "indexes", "sources", "subscribers", "quarantined");
  for (const c of status.controllers) lists(c, "failures", "held");
  for (const s of [...status.controllers, ...status.mirrors.flatMap((m) => m.sources)]) s.state = words(s.state);
  return status;
}

const waits = [1000, 2000, 5000, 10000, 30000];

// Stream follows the server's events while the tab is visible. The browser reconnects after a
// lost connection; where it does not, because the server refused, the stream tries again itself.
export class Stream {
  // The listeners: status(object), objects({mirror, version}) and state(name, sentence) with the
  // states "connecting", "live", "reconnecting", "paused" and "stopped".
  constructor(listeners) {
    this.listeners = listeners;
    this.mirror = "";
    this.failures = 0;
    document.addEventListener("visibilitychange", () => this.open());
  }

  // follow also asks for changes of a mirror; "" asks for none.
  follow(mirror) {
    if (this.source && mirror === this.mirror) return;
    this.mirror = mirror;
    this.open();
  }

  open() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
    if (document.hidden) {
      this.listeners.state("paused", "The tab is hidden.");
      return;
    }
    const source = new EventSource("events" + (this.mirror ? "?mirror=" + encodeURIComponent(this.mirror) : ""));
    this.source = source;
    source.addEventListener("status", (e) => {
      this.failures = 0;
      this.listeners.state("live", "");
      this.listeners.status(complete(JSON.parse(e.data)));
    });
    source.addEventListener("objects", (e) => this.listeners.objects(JSON.parse(e.data)));
    source.addEventListener("end", () => {
      source.close();
      this.listeners.state("stopped", "The program has stopped its cluster; the page shows the last state.");
      this.timer = setTimeout(() => this.open(), waits.at(-1)); // a new process may listen by then
    });
    source.addEventListener("error", () => {
      if (source !== this.source) return;
      this.listeners.state("reconnecting", "The connection was lost; the page shows the last state.");
      if (source.readyState !== EventSource.CLOSED) return;
      this.timer = setTimeout(() => this.open(), waits[Math.min(this.failures++, waits.length - 1)]);
    });
  }
}
