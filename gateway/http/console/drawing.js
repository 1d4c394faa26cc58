// Bindings as a drawing: exchanges in layers from the left, queues on the right, keys on arrows.
// Every arrow has a row of its own at its target, so keys never lie on each other.

const CHARACTER = 7.3;
const ROW = 22;
const NODE_ROWS = 40;
const GAP = 14;
const MARGIN = 8;
const SWEEPS = 8;
const WIDTHS = { node: [96, 250], label: [56, 250], curve: [36, 220] };

const clamp = (number, [low, high]) => Math.min(high, Math.max(low, number));
const mean = (numbers) => numbers.reduce((sum, one) => sum + one, 0) / numbers.length;

export function cut(text, width) {
  const most = Math.max(3, Math.floor(width / CHARACTER));
  const letters = [...text];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text;
}

export const nodeId = (kind, name) => `${kind} ${name}`;

// {nodes, edges} of what the API tells. Bindings between the same two are one arrow.
export function graphOf(exchanges, queues, bindings, { wanted = "", unbound = false } = {}) {
  const nodes = new Map();
  for (const one of exchanges) {
    if (one.name) nodes.set(nodeId("exchange", one.name), { kind: "exchange", name: one.name, note: one.type });
  }
  for (const one of queues) {
    nodes.set(nodeId("queue", one.name), { kind: "queue", name: one.name, note: `${one.messages} waiting` });
  }
  const edges = new Map();
  for (const one of bindings) {
    const from = nodeId("exchange", one.source);
    const to = nodeId(one.destination_type, one.destination);
    if (!one.source || !nodes.has(from) || !nodes.has(to)) continue;
    const key = JSON.stringify([from, to]);
    const edge = edges.get(key) ?? { from, to, keys: [] };
    edge.keys.push(one.label);
    edges.set(key, edge);
  }
  let kept = [...edges.values()];
  const low = wanted.toLowerCase();
  if (low) {
    const found = (id) => nodes.get(id).name.toLowerCase().includes(low);
    kept = kept.filter((one) => found(one.from) || found(one.to) ||
      one.keys.some((key) => key.toLowerCase().includes(low)));
  }
  const touched = new Set(kept.flatMap((one) => [one.from, one.to]));
  const ids = [...nodes.keys()].filter((id) => touched.has(id) || (unbound &&
    (!low || nodes.get(id).name.toLowerCase().includes(low))));
  return { nodes: ids.map((id) => ({ id, ...nodes.get(id) })), edges: kept };
}

function label(keys) {
  const shown = keys.filter(Boolean);
  return shown.length > 2 ? `${shown.slice(0, 2).join(", ")}, +${shown.length - 2}` : shown.join(", ");
}

// How many arrows lie at most between an exchange and the last one before queues; circles are cut.
function layersOf(nodes, edges) {
  const next = new Map();
  for (const { from, to } of edges) {
    if (to.startsWith("exchange ") && from !== to) next.set(from, [...(next.get(from) ?? []), to]);
  }
  const heights = new Map();
  const height = (id, trail) => {
    if (heights.has(id)) return heights.get(id);
    trail.add(id);
    const below = (next.get(id) ?? []).filter((one) => !trail.has(one));
    const found = below.length ? 1 + Math.max(...below.map((one) => height(one, trail))) : 1;
    trail.delete(id);
    heights.set(id, found);
    return found;
  };
  const most = Math.max(1, ...nodes.filter((one) => one.kind === "exchange").map((one) => height(one.id, new Set())));
  return (node) => (node.kind === "queue" ? most : most - heights.get(node.id));
}

// Long arrows get a place in every layer they pass, so that they go round boxes.
function split(edges, place, layers) {
  const pieces = [];
  edges.forEach((edge, number) => {
    const first = place(edge.from);
    const last = place(edge.to);
    let from = edge.from;
    for (let at = first + 1; at < last; at += 1) {
      const id = `via ${number} ${at}`;
      layers[at].push({ id, kind: "via", height: ROW, name: "" });
      pieces.push({ from, to: id, edge, last: false });
      from = id;
    }
    pieces.push({ from, to: edge.to, edge, last: true });
  });
  return pieces;
}

function order(layers, pieces) {
  const near = new Map();
  const link = (a, b) => near.set(a, [...(near.get(a) ?? []), b]);
  for (const { from, to } of pieces) {
    link(from, to);
    link(to, from);
  }
  const rank = new Map();
  const number = (layer) => layer.forEach((one, at) => rank.set(one.id, at / Math.max(1, layer.length)));
  layers.forEach(number);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    for (const layer of sweep % 2 ? [...layers].reverse() : layers) {
      const weight = new Map(layer.map((one) => {
        const others = near.get(one.id);
        return [one.id, others ? mean(others.map((id) => rank.get(id))) : rank.get(one.id)];
      }));
      layer.sort((a, b) => weight.get(a.id) - weight.get(b.id));
      number(layer);
    }
  }
}

function stack(layer, wish) {
  let y = MARGIN;
  for (const node of layer) {
    node.y = Math.max(y, wish(node) ?? y);
    y = node.y + node.height + GAP;
  }
}

// Each layer is as wide as its names need, each gap as its keys, while there is room.
function widthsOf(layers, pieces, boxes, width) {
  const text = (words) => Math.max(3, ...words.map((one) => [...one].length)) * CHARACTER + 26;
  const gaps = layers.slice(1);
  const found = {
    node: layers.map((layer) => clamp(text(layer.flatMap((one) => [one.name, one.note ?? ""])), WIDTHS.node)),
    label: gaps.map((_, at) => clamp(text(pieces.filter((one) => one.last &&
      boxes.get(one.to).layer === at + 1).map((one) => label(one.edge.keys))), WIDTHS.label)),
    curve: gaps.map(() => 120),
  };
  const sum = (list) => list.reduce((all, one) => all + one, 0);
  const total = () => sum(found.node) + sum(found.label) + sum(found.curve) + 2 * MARGIN;
  const narrowest = layers.length * WIDTHS.node[0] + gaps.length * (WIDTHS.label[0] + WIDTHS.curve[0]);
  // What must be scrolled anyway may as well be read.
  const further = narrowest > width ? [] : [["curve", WIDTHS.curve[0]], ["node", WIDTHS.node[0]],
    ["label", WIDTHS.label[0]]];
  for (const [part, least] of [["curve", 50], ["node", 150], ["label", 150], ...further]) {
    const room = sum(found[part].map((one) => Math.max(0, one - least)));
    const share = room ? clamp((total() - width) / room, [0, 1]) : 0;
    found[part] = found[part].map((one) => one - Math.max(0, one - least) * share);
  }
  const spare = Math.max(0, width - total()) / gaps.length;
  found.curve = found.curve.map((one) => Math.min(one + spare, WIDTHS.curve[1]));
  return { ...found, total: total() };
}

// Where everything lies: boxes {id, x, y, width, height...} and arrows {path, head, label...}.
export function layout({ nodes, edges }, width) {
  if (!nodes.length) return { boxes: [], arrows: [], width, height: 0 };
  const layerOf = layersOf(nodes, edges);
  const count = Math.max(...nodes.map(layerOf), 1);
  const layers = Array.from({ length: count + 1 }, () => []);
  const boxes = new Map();
  const incoming = new Map();
  for (const one of edges) incoming.set(one.to, (incoming.get(one.to) ?? 0) + 1);
  for (const one of nodes) {
    const height = Math.max(NODE_ROWS, (incoming.get(one.id) ?? 0) * ROW + 8);
    const box = { ...one, layer: layerOf(one), height };
    boxes.set(one.id, box);
    layers[box.layer].push(box);
  }
  const pieces = split(edges, (id) => boxes.get(id).layer, layers);
  for (const layer of layers) {
    layer.sort((a, b) => a.name.localeCompare(b.name));
    for (const one of layer) boxes.set(one.id, one);
  }
  order(layers, pieces);
  for (const [at, layer] of layers.entries()) for (const one of layer) one.layer = at;
  const sizes = widthsOf(layers, pieces, boxes, width);
  place(layers, pieces, boxes, sizes);
  const arrows = draw(pieces, boxes, sizes);
  const height = Math.max(...layers.flat().map((one) => one.y + one.height)) + MARGIN;
  return { boxes: nodes.map((one) => boxes.get(one.id)), arrows, width: sizes.total, height };
}

// Queues lie close; exchanges lie opposite the middle of what they feed.
function place(layers, pieces, boxes, sizes) {
  let x = MARGIN;
  layers.forEach((layer, at) => {
    for (const one of layer) Object.assign(one, { x, width: sizes.node[at] });
    x += sizes.node[at] + (at < layers.length - 1 ? sizes.curve[at] + sizes.label[at] : 0);
  });
  const last = layers.length - 1;
  const middle = (one) => one.y + one.height / 2;
  const feeds = new Map();
  for (const { from, to } of pieces) feeds.set(from, [...(feeds.get(from) ?? []), to]);
  stack(layers[last], () => undefined);
  for (let at = last - 1; at >= 0; at -= 1) {
    stack(layers[at], (one) => {
      const targets = (feeds.get(one.id) ?? []).map((id) => boxes.get(id)).filter((box) => box.y !== undefined);
      return targets.length ? mean(targets.map(middle)) - one.height / 2 : undefined;
    });
    const overhang = Math.max(0, ...layers[at].map((one) => one.y + one.height)) -
      Math.max(0, ...layers[last].map((one) => one.y + one.height));
    if (overhang > 0) pull(layers[at], overhang);
  }
}

// Pushing down left the last ones lower than the queues: move up what has room above.
function pull(layer, overhang) {
  let limit = Infinity;
  const bottom = layer.at(-1).y + layer.at(-1).height - overhang;
  for (const one of [...layer].reverse()) {
    one.y = Math.min(one.y, Math.min(limit, bottom) - one.height);
    limit = one.y - GAP;
  }
  let y = MARGIN;
  for (const one of layer) {
    one.y = Math.max(one.y, y);
    y = one.y + one.height + GAP;
  }
}

function draw(pieces, boxes, sizes) {
  const at = (id) => boxes.get(id);
  const ports = new Map();
  const spread = (list, box, height) => list.forEach((piece, i) => {
    ports.set(piece, { ...ports.get(piece), [height]: box.y + (box.height * (i + 0.5)) / list.length });
  });
  const group = (key) => Map.groupBy(pieces, (one) => one[key]);
  for (const [id, list] of group("to")) {
    spread([...list].sort((a, b) => at(a.from).y - at(b.from).y), at(id), "y2");
  }
  for (const [id, list] of group("from")) {
    spread([...list].sort((a, b) => ports.get(a).y2 - ports.get(b).y2), at(id), "y1");
  }
  return pieces.map((piece) => arrow(piece, at(piece.from), at(piece.to), ports.get(piece), sizes));
}

function arrow({ edge, last, to }, from, target, { y1, y2 }, sizes) {
  const x1 = from.x + from.width;
  const back = target.x <= from.x;
  const end = back ? target.x + target.width : target.x;
  const room = sizes.label[target.layer - 1] ?? WIDTHS.label[0];
  const start = back ? end + 24 : end - room;
  const bend = back ? 60 : Math.max(18, (start - x1) / 2);
  const through = target.kind === "via" ? ` H ${target.x + target.width}` : "";
  const text = cut(label(edge.keys), room - 20);
  const x = back ? end + 12 : start + 4;
  return {
    edge,
    key: `${edge.from} ${to}`,
    path: `M ${x1} ${y1} C ${x1 + bend} ${y1}, ${start + (back ? bend : -bend)} ${y2}, ${start} ${y2} H ${end}${through}`,
    head: last ? (back ? `M ${end} ${y2} l 8 -4 v 8 z` : `M ${end} ${y2} l -8 -4 v 8 z`) : "",
    label: last && text ? { x, y: y2, width: [...text].length * CHARACTER, text, full: edge.keys.join(", ") } : null,
  };
}
