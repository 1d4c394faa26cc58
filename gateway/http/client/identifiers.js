/** A new identifier that nobody else has. */
export function newId() {
  // `crypto.randomUUID` is absent from pages over plain http, and all of `crypto` from Node 18.
  const random = globalThis.crypto?.getRandomValues(new Uint32Array(4))
    ?? [0, 0, 0, 0].map(() => Math.random() * 2 ** 32);
  return Array.from(random, (one) => (one >>> 0).toString(36)).join("-");
}
