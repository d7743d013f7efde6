import { el, sentence, show, text, attr } from "./dom.js";

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
  if (!token && !(token = await prompt(complaint))) return false;
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

function prompt(complaint) {
  return new Promise((resolve) => {
    const input = el("input", { type: "password", autocomplete: "off", required: true, id: "token" });
    const form = el("form", { method: "dialog" },
      el("h2", {}, "Admin token"),
      el("p", {}, "The page keeps it until it is reloaded."),
      complaint && el("p", { class: "cause", role: "alert" }, complaint),
      el("label", { for: "token" }, "Token"), input,
      el("p", { class: "actions" }, el("button", { value: "ok" }, "Continue"), el("button", { type: "button", class: "quiet", onclick: () => dialog.close("") }, "Cancel")));
    const dialog = el("dialog", { "aria-label": "Admin token", onclose: () => {
      dialog.remove();
      resolve(dialog.returnValue === "ok" ? input.value : "");
    } }, form);
    document.body.append(dialog);
    dialog.showModal();
  });
}
