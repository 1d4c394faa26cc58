// Elements, notices and dialogs. All text is set as text: nothing from a message becomes HTML.

const NOTICE_MS = 6000;
const SVG = document.getElementById("drawing").content.firstElementChild.namespaceURI;

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "value") made.value = value;
    else if (name === "checked") made.checked = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false));
  return made;
}

export function h(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function s(name, attributes, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

let ids = 0;
export const newId = (word) => `${word}-${++ids}`;

// Set text only when it changes, so that a screen reader hears what is new and nothing twice.
export function say(node, text, className) {
  if (node.textContent !== text) node.textContent = text;
  if (className !== undefined && node.className !== className) node.className = className;
}

// --- notices -----------------------------------------------------------------------------------

export function notify(text) {
  post("notices", text, "notice good");
}

export function complain(error) {
  post("alarms", String(error.message ?? error), "notice bad");
}

// What was wrong in the view before is no news in this one.
export function quiet() {
  document.getElementById("alarms").replaceChildren();
}

function post(where, text, className) {
  const gone = () => made.remove();
  const close = h("button", { type: "button", class: "plain", "aria-label": "Dismiss" }, "×");
  const made = h("p", { class: className }, h("span", {}, text), close);
  close.addEventListener("click", gone);
  document.getElementById(where).replaceChildren(made);
  if (where === "notices") setTimeout(gone, NOTICE_MS);
}

// Run what a button does, say what came of it, and keep the button from being pressed twice.
export async function run(button, work) {
  if (button.getAttribute("aria-disabled") === "true") return;
  button.setAttribute("aria-disabled", "true");
  try {
    await work();
  } catch (error) {
    complain(error);
  } finally {
    button.removeAttribute("aria-disabled");
  }
}

export function button(label, work, attributes = {}) {
  const made = h("button", { type: "button", ...attributes }, label);
  made.addEventListener("click", () => run(made, work));
  return made;
}

// --- fields ------------------------------------------------------------------------------------

// {name, label, type, value, options, hint, required, pattern...} to a labelled control.
export function field({ name, label, type = "text", value, options, hint, ...rest }) {
  const id = newId("field");
  const hinted = hint ? `${id}-hint` : undefined;
  const common = { id, name, "aria-describedby": hinted, ...rest };
  if (type === "checkbox") {
    return h("div", { class: "field check" },
      h("input", { ...common, type, checked: Boolean(value) }), h("label", { for: id }, label),
      hint && h("small", { id: hinted }, hint));
  }
  let control;
  if (options) {
    control = h("select", common, options.map((one) => {
      const [key, shown] = Array.isArray(one) ? one : [one, one];
      return h("option", { value: key }, shown);
    }));
    if (value !== undefined) control.value = value;
  } else if (type === "textarea") {
    control = h("textarea", { rows: 4, spellcheck: "false", ...common, value });
  } else {
    control = h("input", { type, autocomplete: "off", spellcheck: "false", ...common, value });
  }
  return h("div", { class: `field ${type}` }, h("label", { for: id }, label), control,
    hint && h("small", { id: hinted }, hint));
}

export function named(form) {
  const found = {};
  for (const control of form.elements) {
    if (!control.name) continue;
    if (control.type === "checkbox") found[control.name] = control.checked;
    else if (control.type !== "radio" || control.checked) found[control.name] = control.value;
  }
  return found;
}

// --- dialogs -----------------------------------------------------------------------------------

// Resolves with what `submit` returned, or with undefined if it was cancelled. The browser gives
// the focus back to where it was. Without `submit` there is nothing to cancel.
export function ask({ title, text, body = [], action, danger = false, wide = false, submit }) {
  return new Promise((resolve) => {
    const titled = newId("dialog");
    const wrong = h("p", { class: "bad", role: "alert" });
    const go = h("button", { type: "submit", class: danger ? "danger" : "primary" }, action);
    const cancel = h("button", { type: "button" }, "Cancel");
    const form = h("form", {}, h("h2", { id: titled }, title),
      [text ?? []].flat().map((line) => h("p", {}, line)), body, wrong,
      h("div", { class: "actions end" }, submit && cancel, go));
    const dialog = h("dialog", { "aria-labelledby": titled, class: wide ? "wide" : undefined }, form);
    let result;
    cancel.addEventListener("click", () => dialog.close());
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      say(wrong, "");
      run(go, async () => {
        try {
          result = await submit?.(named(form), form);
          dialog.close();
        } catch (error) {
          say(wrong, error.message);
        }
      });
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(result);
    });
    document.body.append(dialog);
    dialog.showModal();
    if (danger) cancel.focus();
  });
}

// A question of a page that was left is no question any more: it is cancelled.
export function closeDialogs() {
  for (const one of document.querySelectorAll("dialog[open]")) one.close();
}

export function confirmed(title, text, action) {
  return ask({ title, text, action, danger: true, submit: () => true });
}
