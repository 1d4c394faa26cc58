// Every call the console makes, by name. The same API as everybody else's.

// The origin, because a page opened with user:password@ in its address must not fetch relatively.
const ORIGIN = location.origin;
const ADMIN = "/v1/admin";
const part = encodeURIComponent;
const JSON_TYPE = "application/json";

export class ApiError extends Error {
  constructor(status, told) {
    const missing = status === 405 || (status === 404 && String(told.type ?? "").endsWith(":not-found"));
    super(missing ? `This gateway does not offer this operation here (${status}).`
      : `${status} ${told.title ?? "Error"}: ${told.detail ?? ""}`);
    this.status = status;
    this.told = told;
    this.missing = missing;
    this.final = !told.safe_to_retry;
  }
}

export async function refused(answer) {
  let told = {};
  try {
    told = await answer.json();
  } catch {
    told = { title: answer.statusText };
  }
  return new ApiError(answer.status, told);
}

export async function call(method, path, { body, headers, signal } = {}) {
  const options = { method, signal, headers: { ...headers }, cache: "no-store" };
  if (body instanceof Blob) {
    options.body = body;
  } else if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] ??= JSON_TYPE;
  }
  let answer;
  try {
    answer = await fetch(ORIGIN + path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The gateway cannot be reached.");
  }
  if (!answer.ok) throw await refused(answer);
  const type = answer.headers.get("content-type") ?? "";
  return answer.status !== 204 && type.includes("json") ? answer.json() : null;
}

const get = (path) => call("GET", path);
const put = (path, body) => call("PUT", path, { body });
const remove = (path) => call("DELETE", path);
const host = (vhost) => `${ADMIN}/vhosts/${part(vhost)}`;
const user = (name) => `${ADMIN}/users/${part(name)}`;
const move = (name) => `${ADMIN}/moves/${part(name)}`;
const queueOf = (vhost, name) => `${host(vhost)}/queues/${part(name)}`;
const exchangeOf = (vhost, name) => `${host(vhost)}/exchanges/${part(name)}`;
const letters = (vhost, name) => `/v1/${part(vhost)}/dead-letters/${part(name)}`;

const pageOf = ({ limit, after }) =>
  `?view=full&limit=${limit}${after ? `&after=${part(after)}` : ""}`;

// The data plane shows a user's own queues where administration is not offered.
async function either(first, second) {
  try {
    return await get(first);
  } catch (error) {
    if (!error.missing) throw error;
    return get(second);
  }
}

export const api = {
  async health() {
    const answer = await fetch(`${ORIGIN}/readyz`, { cache: "no-store" });
    return { ok: answer.ok, ...(await answer.json()) };
  },
  vhosts: () => get(`${ADMIN}/vhosts`),
  putVhost: (name) => put(host(name), undefined),
  deleteVhost: (name) => remove(host(name)),

  queues: (vhost) => either(`${host(vhost)}/queues`, `/v1/${part(vhost)}/queues`),
  queue: (vhost, name) => get(queueOf(vhost, name)),
  putQueue: (vhost, name, body) => put(queueOf(vhost, name), body),
  deleteQueue: (vhost, name) => remove(queueOf(vhost, name)),
  purgeQueue: (vhost, name) => remove(`${queueOf(vhost, name)}/messages`),
  browse: (vhost, name, page) => get(`/v1/${part(vhost)}/queues/${part(name)}/messages${pageOf(page)}`),
  consumers: (vhost) => get(`${host(vhost)}/consumers`),

  exchanges: (vhost) => get(`${host(vhost)}/exchanges`),
  exchange: (vhost, name) => get(exchangeOf(vhost, name)),
  putExchange: (vhost, name, body) => put(exchangeOf(vhost, name), body),
  deleteExchange: (vhost, name) => remove(exchangeOf(vhost, name)),

  bindings: (vhost) => get(`${host(vhost)}/bindings`),
  postBinding: (vhost, body) => call("POST", `${host(vhost)}/bindings`, { body }),
  deleteBinding: (vhost, id) => remove(`${host(vhost)}/bindings/${part(id)}`),

  connections: () => either(`${ADMIN}/connections`, "/v1/connections"),
  closeConnection: (id) => remove(`${ADMIN}/connections/${part(id)}`),

  me: () => get("/api/whoami"),
  // Probes that are under way are not waited for: the view asks again.
  capabilities: () => get("/v1/capabilities?wait=0"),
  upstreams: () => get(`${ADMIN}/upstreams`),
  facades: () => get(`${ADMIN}/facades`),
  modes: (vhost) => get(`${ADMIN}/facades/${part(vhost)}/modes`),
  changeModes: (vhost, body) => call("POST", `${ADMIN}/facades/${part(vhost)}/modes`, { body }),
  shovels: () => get(`${ADMIN}/shovels`),
  moves: () => get(`${ADMIN}/moves`),
  move: (name) => get(move(name)),
  countMove: (body) => call("POST", `${ADMIN}/move-counts`, { body }),
  makeMove: (body) => call("POST", `${ADMIN}/moves`, { body }),
  changeMove: (name, action, body) => call("POST", `${move(name)}/${action}`, { body }),
  forgetMove: (name) => remove(move(name)),
  changeShovel: (name, action) => call("POST", `${ADMIN}/shovels/${part(name)}/${action}`),

  journal: (vhost) => get(`/v1/${part(vhost)}/journal/overview`),
  forgetConsumer: (vhost, name) => remove(`/v1/${part(vhost)}/journal/consumers/${part(name)}`),

  users: () => get(`${ADMIN}/users`),
  putUser: (name, body) => put(user(name), body),
  deleteUser: (name) => remove(user(name)),
  permissions: () => get(`${ADMIN}/permissions`),
  putPermission: (name, vhost, body) => put(`${user(name)}/permissions/${part(vhost)}`, body),
  deletePermission: (name, vhost) => remove(`${user(name)}/permissions/${part(vhost)}`),

  deadLetters: (vhost, name, page) => get(letters(vhost, name) + pageOf(page)),
  redrive: (vhost, name, body) => call("POST", `${letters(vhost, name)}/redrive`, { body }),
  purgeDead: (vhost, name) => remove(letters(vhost, name)),

  publish(vhost, { kind, target, key }, headers, body) {
    const query = kind === "exchange" ? `?routing_key=${part(key)}` : "";
    const path = `/v1/${part(vhost)}/${kind}s/${part(target)}/messages${query}`;
    return call("POST", path, { headers, body });
  },
  eventsPath: (vhost, source) => `${ORIGIN}/v1/${part(vhost)}/events?source=${part(source)}&format=full`,
};
