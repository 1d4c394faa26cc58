// What the gateway has done lately: one look at its figures per tick of the clock, the last ones kept.

import { api } from "./api.js";
import { may } from "./session.js";

export const MOST = 151; // five minutes of looks every two seconds
const COUNTERS = ["published", "delivered", "acked"];

// Points: {at (ms), figures, rates}. A rate is null where it is not known, as after a restart.
const points = [];
let failure = null;

// Users who may not see the whole gateway see their own virtual hosts.
async function figures() {
  if (may.monitor()) return api.overview();
  const { vhosts } = await api.vhosts();
  const names = ["queues", "exchanges", "consumers", "clients", "ready", "unacknowledged", ...COUNTERS];
  const sum = (name) => vhosts.reduce((total, one) => total + one[name], 0);
  return { vhosts: vhosts.length, ...Object.fromEntries(names.map((name) => [name, sum(name)])) };
}

function ratesOf(before, found, seconds) {
  return Object.fromEntries(COUNTERS.map((name) => {
    const more = before ? found[name] - before[name] : -1;
    return [name, more < 0 || seconds <= 0 ? null : more / seconds];
  }));
}

export async function look() {
  try {
    const found = await figures();
    const at = Date.now();
    const last = points.at(-1);
    points.push({ at, figures: found, rates: ratesOf(last?.figures, found, (at - (last?.at ?? at)) / 1000) });
    if (points.length > MOST) points.shift();
    failure = null;
  } catch (error) {
    failure = error;
  }
}

export const past = () => ({ points, failure });
