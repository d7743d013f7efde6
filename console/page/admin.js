import { prompt, sentence } from "./access.js";
import { attr, el, show, text } from "./dom.js";

// The token stays in this variable: it is in no storage and no URL, and a reload forgets it.
let token = "";

// button returns a button for an action of the admin, which is shown only where the server allows
// it. get returns the action and its parameters.
export function button(label, name, get) {
  const said = el("span", { class: "said", role: "status" });
  const control = el("button", { type: "button", class: "quiet", "aria-label": name, onclick: () => run(control, said, ...get()) }, label);
  const node = el("span", { class: "admin", hidden: true }, control, said);
  const update = (status, newLabel = label, newName = name) => {
    show(node, status?.admin);
    text(control, newLabel);
    attr(control, "aria-label", newName);
  };
  return { node, update };
}

async function run(control, said, action, params) {
  control.disabled = true;
  try {
    text(said, (await post(action, params)) ? "Done" : "");
  } catch (err) {
    text(said, err.message);
  }
  control.disabled = false;
  setTimeout(() => text(said, ""), 6000);
}

// post reports whether the action was done; it was not if the user closed the prompt.
async function post(action, params, complaint = "") {
  if (!token && !(token = await prompt("Admin token", "The page keeps it until it is reloaded.", complaint))) return false;
  const response = await fetch(`admin/${action}?${new URLSearchParams(params)}`, {
    method: "POST", body: "{}", headers: { "Content-Type": "application/json", Authorization: "Bearer " + token },
  });
  if (response.status === 401 || response.status === 403) {
    token = "";
    return post(action, params, `The token was refused: ${await sentence(response)}`);
  }
  if (!response.ok) throw new Error(await sentence(response));
  return true;
}
