import { request, sentence } from "./access.js";

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

// Stream follows the server's events while the tab is visible, and reconnects after a failure. It
// reads the response itself, because an EventSource cannot send a token and hides why it failed.
export class Stream {
  // The listeners: status(object), objects({mirror}) and state(name, sentence) with the states
  // "reconnecting", "paused" and "stopped". A status means that the connection works.
  constructor(listeners) {
    this.listeners = listeners;
    this.mirror = "";
    this.failures = 0;
    document.addEventListener("visibilitychange", () => this.open());
  }

  // follow also asks for changes of a mirror; "" asks for none.
  follow(mirror) {
    if (this.abort && mirror === this.mirror) return;
    this.mirror = mirror;
    this.open();
  }

  // open replaces the connection, or closes it if the tab is hidden.
  async open() {
    clearTimeout(this.timer);
    this.abort?.abort();
    const { signal } = (this.abort = new AbortController());
    if (document.hidden) {
      this.listeners.state("paused", "The tab is hidden.");
      return;
    }
    try {
      const response = await request("events" + (this.mirror ? "?mirror=" + encodeURIComponent(this.mirror) : ""), { signal });
      if (!response.ok) throw new Error(await sentence(response));
      await this.read(response.body.pipeThrough(new TextDecoderStream()).getReader());
      throw new Error("the server closed the connection");
    } catch (err) {
      if (signal.aborted) return;
      if (!this.stopped) this.listeners.state("reconnecting", `The page shows the last state: ${err.message}.`);
      const wait = this.stopped ? waits.at(-1) : waits[Math.min(this.failures++, waits.length - 1)];
      this.timer = setTimeout(() => this.open(), wait); // a new process may listen by then
    }
  }

  async read(reader) {
    let buffer = "";
    for (let chunk = await reader.read(); !chunk.done; chunk = await reader.read()) {
      const events = (buffer + chunk.value).split("\n\n");
      buffer = events.pop();
      for (const event of events) {
        const [name, data] = ["event: ", "data: "].map((field) => event.split("\n").find((line) => line.startsWith(field))?.slice(field.length));
        try {
          this.take(name, data);
        } catch (err) {
          reportError(err); // a bug of the page, not of the connection
        }
      }
    }
  }

  take(event, data) {
    this.stopped = event === "end";
    if (event === "status") {
      this.failures = 0;
      this.listeners.status(complete(JSON.parse(data)));
    } else if (event === "objects") {
      this.listeners.objects(JSON.parse(data));
    } else if (event === "end") {
      this.listeners.state("stopped", "The program has stopped its cluster; the page shows the last state.");
    }
  }
}
