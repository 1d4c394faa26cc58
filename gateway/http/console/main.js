// The shell: which view the address names, the virtual host, the gateway's health, the clock.
// An address is #/VHOST/VIEW or #/VHOST/VIEW/NAME, each percent-encoded; `?` adds what a view takes.

import { api } from "./api.js";
import { button, closeDialogs, h, quiet, say } from "./dom.js";
import { look } from "./history.js";
import { learn, may, signOut } from "./session.js";
import * as bindings from "./view-bindings.js";
import * as bridge from "./view-bridge.js";
import * as connections from "./view-connections.js";
import * as dead from "./view-dead.js";
import * as exchanges from "./view-exchanges.js";
import * as journal from "./view-journal.js";
import * as live from "./view-live.js";
import * as overview from "./view-overview.js";
import * as publish from "./view-publish.js";
import * as queue from "./view-queue.js";
import * as queues from "./view-queues.js";
import * as users from "./view-users.js";
import * as vhosts from "./view-vhosts.js";

const REFRESH_MS = 2000;
// Id, label, how all of it and how one of its things is opened, and who is offered it.
const VIEWS = [
  ["overview", "Overview", overview.open],
  ["queues", "Queues", queues.open, queue.open],
  ["exchanges", "Exchanges", exchanges.open, exchanges.openOne],
  ["bindings", "Bindings", bindings.open],
  ["live", "Live messages", live.open, , may.read],
  ["publish", "Publish", publish.open, , may.write],
  ["dead-letters", "Dead letters", dead.open, dead.open, may.read],
  ["connections", "Connections", connections.open, , may.monitor],
  ["bridge", "Bridge", bridge.open, , may.monitor],
  ["journal", "Journal", journal.open],
  ["users", "Users", users.open, , may.administer],
  ["vhosts", "Virtual hosts", vhosts.open],
];
const byId = (id) => document.getElementById(id);
const main = byId("main");
const menu = byId("menu");
const picker = byId("vhost");

let current = null;
let place = null;
let over = false;
let ticking = null;

// --- addresses ---------------------------------------------------------------------------------

function linkIn(vhost, view, name) {
  return `#/${[vhost, view, ...(name === undefined ? [] : [name])].map(encodeURIComponent).join("/")}`;
}

function decoded(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

function readHash() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [vhost, view, name] = path.split("/").map(decoded);
  const known = VIEWS.find(([id]) => id === view) ?? VIEWS[0];
  return { vhost: vhost || "/", view: known[0], name: name && known[3] ? name : undefined, query: new URLSearchParams(query) };
}

// --- views -------------------------------------------------------------------------------------

function head(view) {
  const title = h("h1", { tabindex: "-1" }, view.kind ? h("span", { class: "kind" }, `${view.kind} `) : null, view.title,
    view.count ? [" ", view.count] : null);
  const back = view.back ? h("p", { class: "back" }, h("a", { href: linkIn(place.vhost, view.back[0]) }, `‹ ${view.back[1]}`)) : null;
  return { title, node: h("div", { class: "head" }, h("div", {}, back, title), h("div", { class: "actions" }, view.tools ?? [])) };
}

function show(first) {
  place = readHash();
  current?.close?.();
  closeDialogs();
  quiet();
  const [, , openAll, openOne] = VIEWS.find(([id]) => id === place.view);
  const { vhost } = place;
  const view = (place.name === undefined ? openAll : openOne)({
    ...place,
    link: (id, name) => linkIn(vhost, id, name),
    linkIn,
    refreshVhosts: pickable,
    go: (id, name) => { location.hash = linkIn(vhost, id, name); },
  });
  current = view;
  const { title, node } = head(view);
  main.replaceChildren(node, ...view.body.filter(Boolean));
  document.title = `${view.title} · ${vhost} · AMQP gateway`;
  navigation();
  pickable(null);
  if (!first) {
    scrollTo(0, 0);
    title.focus();
  }
  view.refresh?.();
  view.opened?.();
}

function navigation() {
  byId("views").firstElementChild.replaceChildren(...VIEWS.filter(([, , , , who]) => who?.(place.vhost) ?? true).map(([id, label]) => h("li", {},
    h("a", { href: linkIn(place.vhost, id), "aria-current": id === place.view ? (place.name === undefined ? "page" : "true") : undefined }, label))));
  openMenu(false);
}

function openMenu(open) {
  menu.setAttribute("aria-expanded", String(open));
  byId("views").classList.toggle("open", open);
}

// --- virtual hosts -----------------------------------------------------------------------------

let hosts = ["/"];

function pickable(found) {
  if (found) hosts = found.map((one) => one.name);
  const names = hosts.includes(place.vhost) ? hosts : [place.vhost, ...hosts];
  const shown = [...picker.options].map((one) => one.value);
  if (names.join("\n") !== shown.join("\n")) {
    picker.replaceChildren(...names.map((one) => h("option", { value: one }, one)));
  }
  picker.value = place.vhost;
}

async function showVhosts() {
  try {
    pickable((await api.vhosts()).vhosts);
  } catch {
    // The one in the address is there, and its view says what is wrong.
  }
}

// --- the clock ---------------------------------------------------------------------------------

async function showHealth() {
  const pill = byId("health");
  try {
    const { ok, status, checks = {} } = await api.health();
    const failing = Object.keys(checks).filter((name) => !checks[name]);
    say(pill, failing.length ? `not ready: ${failing.join(", ")}` : status, `pill ${ok ? "good" : "bad"}`);
  } catch {
    say(pill, "unreachable", "pill bad");
  }
}

async function see() {
  await look();
  if (!over) await Promise.allSettled([current.refresh?.(), showHealth()]);
}

async function tick() {
  if (over) return;
  ticking = document.hidden ? null : see();
  await ticking;
  setTimeout(tick, REFRESH_MS);
}

// --- who is here -------------------------------------------------------------------------------

async function showUser() {
  const me = await learn();
  if (!me) return;
  const tags = me.tags?.length ? `, ${me.tags.join(", ")}` : "";
  byId("me").replaceChildren(
    h("span", { title: `Signed in as ${me.user}${tags}` }, h("span", { class: "hidden" }, "Signed in as "), me.user),
    button("Sign out", leave));
}

async function leave() {
  current.close?.();
  closeDialogs();
  // A request without the password would make the browser ask for one.
  over = true;
  await ticking;
  try {
    await signOut();
  } catch (error) {
    over = false;
    tick();
    throw error;
  }
  document.querySelector("header").remove();
  document.querySelector("footer").remove();
  document.title = "Signed out · AMQP gateway";
  const title = h("h1", { tabindex: "-1" }, "Signed out");
  main.replaceChildren(title, h("section", {}, h("p", {}, h("a", { href: "/", class: "button" }, "Sign in"))));
  title.focus();
}

picker.addEventListener("change", () => {
  location.hash = linkIn(picker.value, place.view);
});
menu.addEventListener("click", () => openMenu(menu.getAttribute("aria-expanded") !== "true"));
byId("views").addEventListener("keydown", (event) => {
  if (event.key === "Escape" && menu.offsetParent) {
    openMenu(false);
    menu.focus();
  }
});
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", () => show(false));
addEventListener("resize", () => current?.resized?.());

await showUser();
show(true);
showVhosts();
tick();
