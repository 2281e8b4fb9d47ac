// The network as a graph: links with their rate, queue and drops at a time.

import { escaped } from "./draw.js";

const INK = "#1b2430", SOFT = "#4d5968", GREEN = "#0a7d4f", RED = "#c8102e", BLUE = "#0b6bcb";
const MARGIN = 70; // pixels
const QUEUE = 26; // the width of a full queue, in pixels

const rateOf = (bits) => {
  const [size, unit] = [[1e9, "Gb/s"], [1e6, "Mb/s"], [1e3, "kb/s"], [1, "b/s"]].find(([size]) => bits >= size) ?? [1, "b/s"];
  return `${+(bits / size).toPrecision(3)} ${unit}`;
};

// Places nodes: layers from left to right, the nodes of a layer below each other.
function placed(nodes, row, width) {
  const layers = 1 + Math.max(...nodes.map(({ layer }) => layer));
  const members = Map.groupBy(nodes, ({ layer }) => layer);
  const rows = Math.max(...[...members.values()].map(({ length }) => length));
  const at = nodes.map((node) => {
    const beside = members.get(node.layer);
    const x = layers > 1 ? MARGIN + (node.layer * (width - 2 * MARGIN)) / (layers - 1) : width / 2;
    return { x, y: (row * rows * (beside.indexOf(node) + 0.5)) / beside.length + 8 };
  });
  return { at, height: row * rows + 12 };
}

// The graph as SVG. `states`: what links do, by the number of their source.
function networkSvg({ nodes, edges }, names, states, width) {
  const ends = (edge) => [edge.near, edge.far].sort().join();
  const beside = Map.groupBy(edges, ends);
  const hasPairs = [...beside.values()].some(({ length }) => length > 1);
  const { at, height } = placed(nodes, hasPairs ? 90 : 62, width), out = [], words = [];
  const text = (said, x, y, colour, weight = "normal") =>
    said && words.push(`<text x="${x}" y="${y}" fill="${colour}" text-anchor="middle" font-weight="${weight}" stroke="#fff" ` +
      `stroke-width="3" paint-order="stroke">${escaped(said)}</text>`);
  for (const edge of edges) {
    const [from, to] = [at[edge.near], at[edge.far]];
    const [dx, dy] = [to.x - from.x, to.y - from.y], length = Math.hypot(dx, dy) || 1;
    if (edge.source === null) {
      out.push(`<path d="M${from.x} ${from.y}L${to.x} ${to.y}" stroke="#8995a3" stroke-dasharray="4 4"/>`);
      continue;
    }
    // The two directions of a link are beside each other, with their words above and below.
    const isPair = beside.get(ends(edge)).length > 1, isBack = dx < 0;
    const [aside, up] = isPair ? [(-dy / length) * 7, (dx / length) * 7] : [0, 0];
    const point = (share, across = 0) => [from.x + dx * share - (dy / length) * across - aside, from.y + dy * share + (dx / length) * across - up];
    const state = states?.[edge.source];
    const load = state && edge.max_rate ? Math.min(state.rate / edge.max_rate, 1) : 0;
    const colour = state?.drops ? RED : GREEN;
    const near = 10 / length, far = 1 - 12 / length;
    out.push(`<path d="M${point(near)}L${point(far)}" stroke="${colour}" stroke-width="${1.5 + 5 * load}"/>`);
    out.push(`<path d="M${point(1 - 8 / length)}L${point(1 - 18 / length, -6)}L${point(1 - 18 / length, 6)}z" fill="${colour}"/>`);
    if (state?.queue) {
      const long = (QUEUE * Math.min(state.queue / edge.max_queue, 1)) / length;
      out.push(`<path d="M${point(near)}L${point(near + long)}" stroke="${BLUE}" stroke-width="10"/>`);
    }
    // Words of the two directions are not at the same place.
    const [x, y] = point(isPair ? 0.3 : 0.5), way = isPair && isBack ? 1 : -1;
    text(`${names(edge.source)}${state ? ` ${rateOf(state.rate)}` : ""}`, x, y + (way > 0 ? 17 : -9), INK, "600");
    const more = [state?.queue ? `${state.queue} queued` : "", state?.marks ? `${state.marks} marked` : "", state?.all_drops ? `${state.drops} dropped, ${state.all_drops} so far` : ""];
    text(more.filter(Boolean).join(", "), x, y + (way > 0 ? 29 : isPair ? -21 : 17), state?.drops ? RED : SOFT);
  }
  nodes.forEach(({ name }, index) => {
    const { x, y } = at[index];
    out.push(`<circle cx="${x}" cy="${y}" r="${name ? 7 : 5}" fill="${name ? INK : "#fff"}" stroke="${INK}" stroke-width="2"/>`);
    if (name) text(name, x, y + 22, INK);
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" fill="none" font-size="11" ` +
    `font-family='system-ui, "DejaVu Sans", sans-serif'>${[...out, ...words].join("")}</svg>`;
}

// The same in words, for those who do not see it.
const networkWords = ({ edges }, names, states) =>
  edges.filter(({ source }) => source !== null && states?.[source]).map(({ source }) => {
    const { rate, queue, drops, all_drops, marks } = states[source];
    return `${names(source)}: ${rateOf(rate)}, ${queue} queued, ${marks} marked, ${drops} dropped, ${all_drops} so far`;
  }).join("; ");

// A panel of a column. `nameOf` names the link with this number.
export function makeNetwork(element, nameOf, report) {
  let source = null, graph = null, states = null, asked = null, time = null, width = 0, isAsking = false;
  element.innerHTML = '<div class="head"><h2></h2></div><div class="graph" role="img"></div>';
  const [title, picture] = [element.querySelector("h2"), element.querySelector(".graph")];

  function draw() {
    element.hidden = !graph?.edges.length;
    if (element.hidden) return;
    title.textContent = `Network${states ? ` at ${+time.toFixed(6)} s` : ""}`;
    picture.innerHTML = networkSvg(graph, nameOf, states, width);
    picture.setAttribute("aria-label", networkWords(graph, nameOf, states));
  }

  const get = async (name) => {
    const answer = await fetch(`${name}`);
    if (!answer.ok) throw new Error(await answer.text());
    return answer.json();
  };

  // One request at a time: the pointer moves faster than answers come.
  async function ask() {
    const isDone = () => !asked || (asked.source === source && asked.time === time);
    if (isAsking || isDone()) return;
    isAsking = true;
    report(1);
    try {
      while (!isDone()) {
        const now = asked;
        if (now.source !== source) [graph, source] = [await get(`network?source=${now.source}`), now.source];
        if (graph.edges.length) states = await get(`states?source=${now.source}&time=${now.time}`);
        time = now.time;
        draw();
      }
    } catch (error) {
      [graph, asked] = [null, null]; // the panels of the link say what is wrong with its file
      draw();
    }
    isAsking = false;
    report(-1);
  }

  return {
    show(nextSource, nextTime, nextWidth) {
      asked = { source: nextSource, time: nextTime };
      if (width !== nextWidth || (element.hidden && graph)) (width = nextWidth), draw();
      ask();
    },
    hide: () => void (element.hidden = true),
    discard: () => void (source = null),
  };
}
