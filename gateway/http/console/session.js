// The user of the console and the user's rights, so that a view offers nothing that is refused.
// The gateway decides; where it does not say, everything is offered.

import { api } from "./api.js";

const NOBODY = ["signed out", "-"];
let me = null;

export async function learn() {
  try {
    me = await api.session();
  } catch {
    me = null;
  }
  return me;
}

const tagged = (...tags) => !me?.tags || tags.some((one) => me.tags.includes(one));

// A permission is a regular expression, searched for anywhere in a name; an empty one matches
// nothing. Without a name: whether there may be one that it matches.
function permitted(right, vhost, name) {
  if (!me?.permissions) return true;
  const pattern = me.permissions.find((one) => one.vhost === vhost)?.[right];
  if (!pattern) return false;
  try {
    return name === undefined || new RegExp(pattern, "u").test(name);
  } catch {
    return true; // Python's syntax has more
  }
}

export const may = {
  administer: () => tagged("administrator"),
  monitor: () => tagged("administrator", "monitoring"),
  configure: (vhost, name) => permitted("configure", vhost, name),
  write: (vhost, name) => permitted("write", vhost, name),
  read: (vhost, name) => permitted("read", vhost, name),
};

// Queues are published to through the default exchange.
export const mayPublish = (vhost, exchange = "amq.default") => may.write(vhost, exchange);

// End the session of a cookie. A browser forgets a password only when it is refused, and then takes
// the one that this request brings: nobody's. `fetch` has no place for that.
export async function signOut() {
  await api.endSession();
  await new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("GET", `${location.origin}/console/sign-out`, true, ...NOBODY);
    request.onload = () => (request.status === 204 ? resolve() : reject(new Error("The browser keeps the password: close it to sign out.")));
    request.onerror = () => reject(new Error("The gateway cannot be reached."));
    request.send();
  });
  me = null;
}
