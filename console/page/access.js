import { el } from "./dom.js";

// The token for reading stays in this variable: it is in no storage and no URL. The server answers
// with a cookie that scripts cannot read, so that a reload needs no token. Consoles that listen on
// a loopback address need none.
let token = "";
let asking = null; // the open prompt, which all requests share
let cancelled = false;

// request fetches a path. If the server requires a token, it asks the user for it.
export async function request(path, init = {}) {
  const used = token;
  const response = await fetch(path, { cache: "no-store", ...init, headers: used ? { Authorization: "Bearer " + used } : {} });
  if (response.status !== 401 || cancelled) return response;
  if (used === token) {
    const complaint = used ? await sentence(response.clone()) : "";
    asking ??= prompt("Token for the console", "It is in the program's log, unless it was configured. The browser stays signed in until it is closed.", complaint).finally(() => (asking = null));
    token = await asking;
    cancelled = !token;
  }
  return cancelled ? response : request(path, init);
}

// get fetches JSON. Its error is the sentence of the server; it has wrong set if the same request
// would fail again.
export async function get(path, params = {}, signal) {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) if (value !== "" && value !== undefined) q.set(name, value);
  const response = await request(path + "?" + q, { signal });
  if (!response.ok) throw Object.assign(new Error(await sentence(response)), { wrong: response.status >= 400 && response.status < 500 });
  return response.json();
}

// sentence returns the error of a response.
export async function sentence(response) {
  const body = await response.text();
  try {
    return JSON.parse(body).error;
  } catch {
    return body.trim() || `the server answered ${response.status}`; // a proxy may answer in plain text
  }
}

// prompt asks for a token and returns it, or "" if the user closed it.
export function prompt(title, about, complaint) {
  return new Promise((resolve) => {
    const input = el("input", { type: "password", autocomplete: "off", required: true, id: "token" });
    const form = el("form", { method: "dialog" },
      el("h2", {}, title),
      el("p", {}, about),
      complaint && el("p", { class: "cause", role: "alert" }, complaint),
      el("label", { for: "token" }, "Token"), input,
      el("p", { class: "actions" }, el("button", { value: "ok" }, "Continue"), el("button", { type: "button", class: "quiet", onclick: () => dialog.close("") }, "Cancel")));
    const dialog = el("dialog", { "aria-label": title, onclose: () => {
      dialog.remove();
      resolve(dialog.returnValue === "ok" ? input.value : "");
    } }, form);
    document.body.append(dialog);
    dialog.showModal();
  });
}
