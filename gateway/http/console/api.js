// Every call the console makes, by name. The same API as everybody else's, and the same client.

import { Gateway, ProblemError } from "../client/index.js";

// The origin, because a page opened with user:password@ in its address must not fetch relatively.
const ORIGIN = location.origin;
const ADMIN = "/v1/admin";
const ONCE = { retries: 0 };
const part = encodeURIComponent;
const { requests } = new Gateway(ORIGIN, ONCE);

const at = (vhost) => new Gateway(ORIGIN, { vhost, ...ONCE });

// Whether this gateway, or this listener of it, has no such operation.
const absent = (error) => error.status === 405 || error.kind === "not-found";

function told(error) {
  if (error instanceof ProblemError && absent(error)) error.message = `This gateway does not offer this operation here (${error.status}).`;
  else if (error instanceof ProblemError) error.message = `${error.status} ${error.message}`;
  return error;
}

// Methods of an object, whose errors are in the console's words.
function worded(methods) {
  return Object.fromEntries(Object.entries(methods).map(([name, method]) => [name, async (...given) => {
    try {
      return await method(...given);
    } catch (error) {
      throw told(error);
    }
  }]));
}

const get = (path) => requests.call("GET", path);
const put = (path, body) => requests.call("PUT", path, { body });
const post = (path, body) => requests.call("POST", path, { body });
const remove = (path) => requests.call("DELETE", path);
const host = (vhost) => `${ADMIN}/vhosts/${part(vhost)}`;
const user = (name) => `${ADMIN}/users/${part(name)}`;
const move = (name) => `${ADMIN}/moves/${part(name)}`;
const letters = (vhost, name) => `/v1/${part(vhost)}/dead-letters/${part(name)}`;

const pageOf = ({ limit, after, crossings }) =>
  `?view=full&limit=${limit}${after ? `&after=${part(after)}` : ""}${crossings ? "&crossings=true" : ""}`;

// The data plane shows a user's own where administration is not offered.
async function either(first, second) {
  try {
    return await first();
  } catch (error) {
    if (!absent(error)) throw error;
    return second();
  }
}

export const api = worded({
  async health() {
    const answer = await requests.fetch("GET", "/readyz");
    return { ok: answer.ok, ...(await answer.json()) };
  },
  vhosts: () => get(`${ADMIN}/vhosts`),
  putVhost: (name) => put(host(name)),
  deleteVhost: (name) => remove(host(name)),

  queues: (vhost) => either(() => at(vhost).queues(), async () => (await get(`/v1/${part(vhost)}/queues`)).queues),
  queue: (vhost, name) => at(vhost).queue(name),
  putQueue: (vhost, name, body) => at(vhost).declareQueue(name, body),
  deleteQueue: (vhost, name) => at(vhost).deleteQueue(name),
  purgeQueue: (vhost, name) => at(vhost).purgeQueue(name),
  browse: (vhost, name, page) => at(vhost).browse(name, { view: "full", ...page }),
  consumers: (vhost) => at(vhost).consumers(),

  exchanges: (vhost) => at(vhost).exchanges(),
  exchange: (vhost, name) => at(vhost).exchange(name),
  putExchange: (vhost, name, body) => at(vhost).declareExchange(name, body),
  deleteExchange: (vhost, name) => at(vhost).deleteExchange(name),

  bindings: (vhost) => at(vhost).bindings(),
  postBinding: (vhost, body) => at(vhost).bind(body),
  deleteBinding: (vhost, id) => at(vhost).unbind(id),

  connections: () => either(() => get(`${ADMIN}/connections`), () => get("/v1/connections")),
  closeConnection: (id) => remove(`${ADMIN}/connections/${part(id)}`),

  session: () => get("/v1/session"),
  endSession: () => remove("/v1/session"),
  overview: () => get(`${ADMIN}/overview`),
  // Probes that are under way are not waited for: the view asks again.
  capabilities: () => get("/v1/capabilities?wait=0"),
  upstreams: () => get(`${ADMIN}/upstreams`),
  facades: () => get(`${ADMIN}/facades`),
  modes: (vhost) => get(`${ADMIN}/facades/${part(vhost)}/modes`),
  changeModes: (vhost, body) => post(`${ADMIN}/facades/${part(vhost)}/modes`, body),
  shovels: () => get(`${ADMIN}/shovels`),
  moves: () => get(`${ADMIN}/moves`),
  move: (name) => get(move(name)),
  countMove: (body) => post(`${ADMIN}/move-counts`, body),
  makeMove: (body) => post(`${ADMIN}/moves`, body),
  changeMove: (name, action, body) => post(`${move(name)}/${action}`, body),
  forgetMove: (name) => remove(move(name)),
  changeShovel: (name, action) => post(`${ADMIN}/shovels/${part(name)}/${action}`),

  journal: (vhost) => get(`/v1/${part(vhost)}/journal/overview`),
  journalEntries: (vhost, start, limit, columns) =>
    get(`/v1/${part(vhost)}/journal?start=${start}&limit=${limit}&columns=${columns.join(",")}`),
  forgetConsumer: (vhost, name) => remove(`/v1/${part(vhost)}/journal/consumers/${part(name)}`),

  users: () => get(`${ADMIN}/users`),
  putUser: (name, body) => put(user(name), body),
  deleteUser: (name) => remove(user(name)),
  permissions: () => get(`${ADMIN}/permissions`),
  putPermission: (name, vhost, body) => put(`${user(name)}/permissions/${part(vhost)}`, body),
  deletePermission: (name, vhost) => remove(`${user(name)}/permissions/${part(vhost)}`),

  deadLetters: (vhost, name, page) => get(letters(vhost, name) + pageOf(page)),
  redrive: (vhost, name, body) => post(`${letters(vhost, name)}/redrive`, body),
  purgeDead: (vhost, name) => remove(letters(vhost, name)),

  publish(vhost, { kind, target, key }, headers, body) {
    const to = kind === "exchange" ? { exchange: target, routing_key: key } : { queue: target };
    return at(vhost).publishBody(to, body, headers);
  },
});

// Events with their messages in full, for as long as the loop goes on.
export async function* follow(vhost, source, options) {
  try {
    yield* at(vhost).follow(source, { format: "full", ...options });
  } catch (error) {
    throw told(error);
  }
}
