// The only code that creates elements. Data becomes text nodes and attribute values, never markup.

// el creates an element. An attribute that is false or undefined is left out, true is empty, and
// a function is a listener, as in {onclick: f}.
export function el(tag, attrs = {}, ...children) {
  const node = tag === "svg" || tag === "path"
    ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attrs)) {
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((c) => c !== undefined && c !== null && c !== false));
  return node;
}

// text sets a node's text if it differs, so that unchanged numbers cost no layout.
export function text(node, value) {
  const s = value === undefined || value === null ? "" : String(value);
  const first = node.firstChild;
  if (first && first.nodeType === Node.TEXT_NODE && !first.nextSibling) {
    if (first.data !== s) first.data = s;
  } else if (node.textContent !== s) {
    node.textContent = s;
  }
}

// attr sets an attribute if it differs, and removes it for undefined and false.
export function attr(node, name, value) {
  if (value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== String(value)) {
    node.setAttribute(name, value);
  }
}

// show hides or shows a node.
export function show(node, visible) {
  if (node.hidden === Boolean(visible)) node.hidden = !visible;
}

const kept = new WeakMap();

// sync makes the children of parent the items, in order. Each item has a view, which create makes
// once per key and update changes in place; create returns an object with a node.
export function sync(parent, items, keyOf, create, update) {
  let views = kept.get(parent);
  if (!views) kept.set(parent, (views = new Map()));
  const stale = new Set(views.keys());
  let next = parent.firstChild;
  for (const item of items) {
    const key = keyOf(item);
    stale.delete(key);
    let view = views.get(key);
    if (!view) views.set(key, (view = create(item)));
    update(view, item);
    if (view.node === next) next = next.nextSibling;
    else parent.insertBefore(view.node, next);
  }
  for (const key of stale) {
    views.get(key).node.remove();
    views.delete(key);
  }
}

// link returns the hash of a route with its non-empty parameters.
export function link(path, params = {}) {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) if (value) q.set(name, value);
  const s = q.toString();
  return "#/" + path + (s ? "?" + s : "");
}

// copyButton returns a button that copies what get returns.
export function copyButton(get, what) {
  const button = el("button", { type: "button", class: "quiet copy", "aria-label": "Copy " + what, onclick: copy }, "Copy");
  async function copy() {
    try {
      await navigator.clipboard.writeText(get());
      text(button, "Copied");
    } catch {
      text(button, "Select and copy");
    }
    setTimeout(() => text(button, "Copy"), 2000);
  }
  return button;
}
