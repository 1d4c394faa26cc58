// Numbers and moments for people.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function octets(number) {
  let at = 0;
  while (number >= 1024 && at < UNITS.length - 1) {
    number /= 1024;
    at += 1;
  }
  return `${at ? number.toFixed(1) : Math.round(number)} ${UNITS[at]}`;
}

export function count(number, noun) {
  return `${number.toLocaleString()} ${noun}${number === 1 ? "" : "s"}`;
}

export function rate(number) {
  return number >= 100 ? Math.round(number).toLocaleString() : number.toFixed(1);
}

export function clock(moment = new Date()) {
  return moment.toLocaleTimeString([], { hour12: false });
}

export function since(ms) {
  const seconds = Math.max(0, Math.round((Date.now() - ms) / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds / 60) % 60} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor(seconds / 3600) % 24} h`;
}

// Queues and exchanges that the gateway makes for itself.
export const internal = (name) => name.startsWith("amq.events-");
