"use strict";

// Shows /asyncapi.json, which is the caller's own: the browser asks for a password. All of it
// becomes text, never HTML.

function element(name, ...inner) {
  const made = document.createElement(name);
  made.append(...inner.filter((one) => one !== undefined && one !== ""));
  return made;
}

function resolved(whole, given) {
  let found = given;
  while (found && found.$ref) {
    found = found.$ref
      .slice(2)
      .split("/")
      .reduce((at, part) => at[part.replaceAll("~1", "/").replaceAll("~0", "~")], whole);
  }
  return found;
}

function shownServer(name, server) {
  const address = `${server.protocol}://${server.host}${server.pathname ?? ""}`;
  return element("li", element("code", address), ` ${server.description ?? name}`);
}

function shownMessage(whole, given) {
  const message = resolved(whole, given);
  const title = [message.title ?? message.name, message.contentType].filter(Boolean).join(", ");
  const parts = [element("summary", title), element("p", message.summary ?? "")];
  for (const part of ["headers", "payload"]) {
    if (message[part]) {
      const schema = JSON.stringify(resolved(whole, message[part]), null, 2);
      parts.push(element("h4", part), element("pre", schema));
    }
  }
  return element("details", ...parts);
}

function shownChannel(whole, name, channel) {
  const operations = Object.values(whole.operations ?? {})
    .filter((one) => one.channel.$ref === `#/channels/${name}`)
    .map((one) => element("li", `${one.action}: `, element("code", one.summary)));
  const messages = Object.values(channel.messages ?? {}).map((one) => shownMessage(whole, one));
  return element(
    "section",
    element("h3", channel.address),
    element("p", channel.description ?? channel.title ?? ""),
    element("ul", ...operations),
    ...messages,
  );
}

function shown(whole) {
  const channels = Object.entries(whole.channels ?? {});
  const servers = Object.entries(whole.servers).map((one) => shownServer(...one));
  const none = "There is no queue, exchange or route that you may use.";
  return [
    element("h2", "Servers"),
    element("ul", ...servers),
    element("h2", "Queues, exchanges and routes"),
    ...(channels.length ? channels.map((one) => shownChannel(whole, ...one)) : [element("p", none)]),
  ];
}

async function load() {
  const place = document.getElementById("channels");
  try {
    const answer = await fetch("../asyncapi.json", { cache: "no-store" });
    if (!answer.ok) throw new Error(`asyncapi.json: ${answer.status} ${answer.statusText}`);
    place.replaceChildren(...shown(await answer.json()));
  } catch (error) {
    const told = element("p", String(error.message ?? error));
    told.className = "wrong";
    place.replaceChildren(told);
  }
}

load();
