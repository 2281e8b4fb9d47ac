// The page: columns of panels with one time axis, the view in the address, and what the keys and the mouse do.

import { makeCursor } from "./cursor.js";
import { unpack, valueRanges } from "./data.js";
import { canvasPen, drawSeries, tintOf } from "./draw.js";
import { makeNetwork } from "./network.js";
import { svgOf } from "./svg.js";

const $ = (id) => document.getElementById(id);
const UNITS = {
  "b/s": [[1e9, "Gb/s"], [1e6, "Mb/s"], [1e3, "kb/s"], [1, "b/s"]],
  B: [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]],
  s: [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]],
};
const AXIS = 128; // the width of vertical axes, so that the times of all panels are aligned
const MIN_RANGE = 1e-6; // seconds

let sources = [];
const columns = []; // { flow, links: Set, data: Map of source to answer, plots: Map of panel to plot, element }
const hidden = new Set(); // panels, by key
const off = new Set(); // series, as panel:label
const view = { from: 0, to: 0 };
let isWhole = true; // whether the view follows the ends of the traces

const nameOf = (index) => `${sources[index].group}/${sources[index].name}`;
const linksOf = (flow) => sources.flatMap((s, i) => (s.isLink && i !== flow && s.group === sources[flow].group ? [i] : []));

// ---- The address ----

function readAddress() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const find = (name) => sources.findIndex((_, index) => nameOf(index) === name);
  const [from, to] = (asked.get("t") ?? "").split(",").map(parseFloat);
  if (to > from) Object.assign(view, { from, to }), (isWhole = false);
  for (const name of asked.getAll("hide")) hidden.add(name);
  for (const name of asked.getAll("off")) off.add(name);
  for (const text of asked.getAll("c")) {
    const [flow, ...links] = text.split("|");
    if (find(flow) >= 0) addColumn(find(flow), links.map(find).filter((index) => index >= 0));
  }
}

function writeAddress() {
  const parts = new URLSearchParams();
  if (!isWhole) parts.set("t", `${+view.from.toFixed(9)},${+view.to.toFixed(9)}`);
  for (const column of columns) parts.append("c", [column.flow, ...column.links].map(nameOf).join("|"));
  for (const name of hidden) parts.append("hide", name);
  for (const name of off) parts.append("off", name);
  history.replaceState(null, "", `#${parts}`);
}

// ---- Columns and their data ----

function addColumn(flow, links = linksOf(flow).slice(0, 2)) {
  const column = { flow, links: new Set(links), data: new Map(), plots: new Map(), element: document.createElement("section") };
  column.element.className = "column";
  column.element.innerHTML = '<div class="bar"></div><p class="about" role="status"></p><section class="panel network" aria-label="Network" hidden></section><div class="stack"></div>';
  $("columns").append(column.element);
  column.network = makeNetwork(column.element.querySelector(".network"), (index) => sources[index].name, (change) => (waiting += change, requestFrame()));
  columns.push(column);
  showBar(column);
  return column;
}

// The flows of each argument of the command that send, one for each.
function addFirst() {
  for (const run of new Set(sources.map((source) => source.run))) {
    const own = sources.flatMap((source, index) => (source.run === run ? [index] : []));
    addColumn(own.find((index) => sources[index].sends) ?? own[0]);
  }
}

function showBar(column) {
  const bar = column.element.querySelector(".bar");
  const groups = Map.groupBy(sources.map((source, index) => ({ ...source, index })), (source) => source.group);
  const select = document.createElement("select");
  select.setAttribute("aria-label", "Flow");
  for (const [group, members] of groups) {
    const list = document.createElement("optgroup");
    list.label = group;
    for (const { name, index, isLink } of members) list.append(new Option(isLink ? `link ${name}` : name, index, false, index === column.flow));
    select.append(list);
  }
  select.onchange = () => {
    column.flow = +select.value;
    column.links = new Set(linksOf(column.flow).slice(0, 2));
    showBar(column);
    update();
  };
  const toggles = linksOf(column.flow).map((index) =>
    button(`link ${sources[index].name}`, column.links.has(index), () => {
      toggle(column.links, index);
      showBar(column);
      update();
    }));
  const close = button("×", null, () => {
    columns.splice(columns.indexOf(column), 1);
    column.element.remove();
    showColumns();
  });
  close.className = "close";
  close.setAttribute("aria-label", "remove this column");
  bar.replaceChildren(select, ...toggles, close);
  showColumns();
}

function showColumns() {
  for (const { element } of columns) element.querySelector(".close")?.toggleAttribute("hidden", columns.length < 2);
  requestFrame();
}

function button(text, isPressed, act) {
  const made = document.createElement("button");
  made.textContent = text;
  if (isPressed !== null) made.setAttribute("aria-pressed", isPressed);
  made.onclick = act;
  return made;
}

const toggle = (set, key) => (set.delete(key) || set.add(key), undefined);

const plotWidth = (column) => Math.max(column.element.clientWidth - 20 - AXIS, 100);
let waiting = 0; // requests without an answer

// Fetches what a column lacks: half a view more at each side, at the resolution of the screen.
async function load(column, index) {
  const known = column.data.get(index) ?? { cover: null };
  column.data.set(index, known);
  const range = view.to - view.from;
  const cover = range > 0 ? { from: view.from - range / 2, to: view.to + range / 2 } : null;
  const isEnough = known.panels && known.cover && known.cover.from <= view.from && known.cover.to >= view.to &&
    known.cover.to - known.cover.from < 2.2 * range && !known.isOld;
  if (known.isLoading || known.error || isEnough) return;
  Object.assign(known, { isLoading: true, isOld: false });
  waiting++;
  const asked = new URLSearchParams({ source: index, columns: Math.round(plotWidth(column) * devicePixelRatio) * 2 });
  if (cover) asked.set("from", cover.from), asked.set("to", cover.to);
  try {
    const answer = await fetch(`data?${asked}`);
    if (!answer.ok) throw new Error(await answer.text());
    const end = known.span?.[1];
    Object.assign(known, unpack(await answer.arrayBuffer()), { cover });
    if (!isWhole && index === column.flow && end <= view.to) follow(known.span[1] - end);
  } catch (error) {
    known.error = error.message;
  }
  known.isLoading = false;
  waiting--;
  if (isWhole) showWhole();
  requestFrame();
}

// A view that has the end of a trace moves with it.
function follow(more) {
  if (more > 0) Object.assign(view, { from: view.from + more, to: view.to + more });
}

const wanted = (column) => [column.flow, ...column.links];
const answers = (column) => wanted(column).map((index) => column.data.get(index)).filter((answer) => answer?.panels);

function showWhole() {
  const spans = columns.flatMap((column) => column.data.get(column.flow)?.span ?? []);
  if (spans.length === 0) return;
  const from = Math.min(...spans), to = Math.max(...spans);
  const room = (to - from) * 0.01 || 0.5;
  Object.assign(view, { from: from - room, to: to + room });
}

// ---- Frames ----

let isAsked = false;
function requestFrame() {
  if (!isAsked) requestAnimationFrame(frame);
  isAsked = true;
}

function update() {
  if (isWhole) showWhole();
  requestFrame();
}

function panelsOf(column) {
  return answers(column).flatMap((answer) => answer.panels.map((panel) => ({ ...panel, end: answer.span[1] })));
}

const frameTimes = [];
let addressing = 0;
let isSent = null; // of the picture that `--picture` waits for
function frame() {
  isAsked = false;
  if (columns.length === 0) return;
  const begin = performance.now();
  for (const column of columns) for (const index of wanted(column)) load(column, index);
  const shown = columns.map((column) => panelsOf(column).filter((panel) => !hidden.has(panel.key)));
  const ranges = valueRanges(shown.flat(), view, off);
  const heightOf = heights(shown.reduce((most, panels) => (panels.length > most.length ? panels : most)));
  columns.forEach((column, index) => {
    showAbout(column);
    arrange(column, shown[index], heightOf);
    for (const panel of shown[index]) column.plots.get(panel.key).show(panel, ranges.get(panel.key));
    showNetwork(column);
  });
  showToolbar();
  clearTimeout(addressing); // browsers refuse hundreds of changes in a few seconds
  addressing = setTimeout(writeAddress, 150);
  frameTimes.push(performance.now() - begin);
  const isReady = waiting === 0 && view.to > view.from;
  document.body.dataset.ready = isReady;
  if (isReady && location.search === "?picture" && !isSent) isSent = svg().then((body) => fetch("picture", { method: "POST", body }));
}

let pointedAt = NaN; // the time that was read last
const cursor = makeCursor({
  view,
  sourceOf: (column, { key }) => wanted(column).find((index) => column.data.get(index)?.panels?.some((panel) => panel.key === key)),
  off,
  moveTo: zoomTo,
  onTime: (time) => ((pointedAt = time), columns.forEach(showNetwork)),
});

// The network at that time, or at the end of the view.
function showNetwork(column) {
  const end = column.data.get(column.flow)?.span?.[1];
  if (end === undefined || hidden.has("network")) return column.network.hide();
  const isInView = pointedAt >= view.from && pointedAt <= view.to;
  column.network.show(column.flow, isInView ? pointedAt : Math.min(view.to, end), column.element.clientWidth - 20);
}

function showAbout(column) {
  const about = column.element.querySelector(".about");
  const states = wanted(column).map((index) => ({ ...column.data.get(index), name: nameOf(index) }));
  const errors = states.flatMap((state) => (state.error ? [state.error] : (state.remarks ?? [])));
  const reading = states.filter((state) => !state.panels && !state.error).map((state) => `reading ${state.name} …`);
  const text = [...errors, ...reading, states[0].about ?? ""].filter(Boolean).join(" · ");
  about.classList.toggle("message", errors.length > 0);
  if (about.textContent !== text) about.textContent = about.title = text;
}

// Makes the panels of a column anew when others are shown.
function arrange(column, panels, heightOf) {
  const width = column.element.clientWidth - 20;
  const keys = [width, ...panels.flatMap((panel) => [panel.key, heightOf(panel)])].join();
  if (column.keys === keys) return;
  cursor.leave();
  for (const plot of column.plots.values()) plot.destroy();
  column.plots.clear();
  const stack = column.element.querySelector(".stack");
  stack.replaceChildren();
  panels.forEach((panel, index) => {
    const hasTimes = index === panels.length - 1 || panel.key === "sequence";
    column.plots.set(panel.key, makePlot(column, panel, stack, { width, height: heightOf(panel), hasTimes }));
  });
  column.keys = keys;
}

const SHARES = { state: 0, events: 0, sequence: 1.7 };
const fixedHeight = (panel) =>
  panel.key === "state" ? 22 : panel.key === "events" ? 10 + 15 * panel.series[0].names.length : 0;

// Heights such that these panels fill the window, if that leaves enough for each.
function heights(panels) {
  const top = columns[0].element.querySelector(".stack").getBoundingClientRect().top + scrollY;
  const shares = panels.reduce((sum, { key }) => sum + (SHARES[key] ?? 1), 0);
  const fixed = panels.reduce((sum, panel) => sum + fixedHeight(panel) + 31, 0);
  const unit = Math.round(Math.max(84, Math.min(220, (innerHeight - top - fixed - 80) / shares)));
  return (panel) => fixedHeight(panel) || unit * (SHARES[panel.key] ?? 1);
}

// The decimals that tell multiples of a step apart: 1 for 2.5.
function digits(step) {
  let count = 0;
  while (count < 12 && Math.abs(step * 10 ** count - Math.round(step * 10 ** count)) > 1e-6 * step * 10 ** count) count++;
  return count;
}

function makePlot(column, first, stack, { width, height, hasTimes }) {
  let panel = first, range = { low: 0, high: 1 }, scale = [1, panel.unit];
  const element = document.createElement("section");
  element.className = "panel";
  element.setAttribute("aria-label", panel.title);
  element.setAttribute("role", "group");
  element.tabIndex = 0;
  element.innerHTML = '<div class="head"><h2></h2><span class="legend"></span></div>';
  stack.append(element);
  const hasValues = panel.key !== "state";
  const lanes = panel.key === "events" ? panel.series[0].names : null;
  const font = '11px system-ui, "DejaVu Sans", sans-serif';
  const grid = { stroke: "#e6eaef", width: 1 };
  const plot = new uPlot({
    width,
    height: height + (hasTimes ? 26 : 6),
    padding: [7, 26, 0, 0],
    legend: { show: false },
    scales: { x: { time: false, range: (_, low, high) => [low, high] }, y: { range: () => [range.low, range.high] } },
    axes: [
      { font, stroke: "#4d5968", grid, ticks: { show: hasTimes, stroke: "#8995a3", size: 5 }, size: hasTimes ? 26 : 6, gap: 3, space: 90,
        values: (_, splits, __, ___, step) => splits.map((time) => (hasTimes ? `${time.toFixed(digits(step))} s` : "")) },
      { font, stroke: "#4d5968", grid, ticks: { show: hasValues, stroke: "#8995a3", size: 4 }, size: AXIS, gap: 5, space: 26,
        splits: lanes ? () => lanes.map((_, lane) => lane) : hasValues ? undefined : () => [],
        values: (_, splits, __, ___, step) => splits.map((value) => lanes?.[value] ?? +(value / scale[0]).toFixed(digits(step / scale[0]))) },
    ],
    cursor: { sync: { key: "time", scales: ["x", null] }, points: { show: false }, y: false,
      drag: { x: true, y: false, setScale: false }, bind: { dblclick: () => () => press("0") } },
    series: [{}, { show: true, paths: () => null, points: { show: false } }],
    hooks: {
      draw: [(u) => draw(canvasPen(u.ctx, uPlot.pxRatio), u.bbox, uPlot.pxRatio)],
      setSelect: [(u) => {
        if (u.select.width < 3) return;
        const [from, to] = [u.select.left, u.select.left + u.select.width].map((left) => u.posToVal(left, "x"));
        u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        zoomTo(from, to);
      }],
    },
  }, [[0, 1], [null, null]], element);

  // `pixels`: those of the canvas for each of the page; 0: not a canvas.
  function draw(pen, box, pixels) {
    const perTime = box.width / (view.to - view.from), perValue = box.height / (range.high - range.low);
    const x = (time) => box.left + (time - view.from) * perTime;
    const y = (value) => box.top + box.height - (value - range.low) * perValue;
    if (pixels) plot.ctx.save(), plot.ctx.beginPath(), plot.ctx.rect(box.left, box.top, box.width, box.height), plot.ctx.clip();
    for (const series of panel.series)
      if (!off.has(`${panel.key}:${series.label}`)) drawSeries(pen, series, view, x, y, box, panel.end);
    if (pixels) plot.ctx.restore();
  }

  plot.over.addEventListener("wheel", (event) => {
    event.preventDefault();
    const [from, to] = [view.from, view.to], at = plot.posToVal(event.offsetX, "x");
    const way = event.deltaX || event.deltaY;
    if (event.shiftKey || event.deltaX) return zoomTo(from + (to - from) * Math.sign(way) * 0.1, to + (to - from) * Math.sign(way) * 0.1);
    const factor = Math.exp(Math.max(-1, Math.min(1, event.deltaY / 240)));
    zoomTo(at - (at - from) * factor, at + (to - at) * factor);
  }, { passive: false });
  plot.over.addEventListener("mousemove", (event) => cursor.pointAt(column, panel, plot, event));
  plot.over.addEventListener("mouseleave", cursor.leave);
  element.addEventListener("keydown", (event) => cursor.press(column, panel, plot, event));

  // What is scrolled out of the window is drawn when it comes back.
  let isVisible = true, isDrawn = true;
  const observer = new IntersectionObserver(([entry]) => {
    isVisible = entry.isIntersecting;
    if (isVisible) redraw();
  }, { rootMargin: "100px" });
  observer.observe(element);

  function redraw() {
    if (isDrawn) return;
    isDrawn = true;
    plot.batch(() => {
      plot.setScale("y", { min: range.low, max: range.high });
      plot.setScale("x", { min: view.from, max: view.to });
    });
    plot.redraw(false, true);
  }

  return {
    plot,
    element,
    draw,
    redraw,
    destroy: () => (observer.disconnect(), plot.destroy()),
    show(next, nextRange) {
      [panel, range] = [next, nextRange];
      const units = UNITS[panel.unit];
      scale = units?.find(([size]) => range.high >= size * 2) ?? units?.at(-1) ?? [1, panel.unit];
      showLegend(element, panel, scale[1]);
      isDrawn = false;
      if (isVisible) redraw();
    },
  };
}

function showLegend(element, panel, unit) {
  const title = panel.title.replace(/ \([^)]*\)$/, "") + (unit ? ` (${unit})` : "");
  const text = title + panel.series.map((series) => series.label + off.has(`${panel.key}:${series.label}`)).join();
  if (element.dataset.shown === text) return;
  element.dataset.shown = text;
  element.querySelector("h2").textContent = title;
  const items = panel.series.map((series) => {
    const key = `${panel.key}:${series.label}`;
    const item = button(series.label, !off.has(key), () => (toggle(off, key), requestFrame()));
    const swatch = document.createElement("i");
    swatch.style.background = series.colour;
    item.prepend(swatch);
    return item;
  });
  const states = panel.key === "state" ? panel.series[0].names.map(stateItem) : [];
  element.querySelector(".legend").replaceChildren(...(panel.series.some(({ names }) => names.length) ? states : items));
}

function stateItem(name) {
  const item = document.createElement("span");
  item.className = "state";
  item.style.background = tintOf(name);
  item.textContent = name;
  return item;
}

function showToolbar() {
  const decimals = Math.max(0, Math.ceil(3 - Math.log10(view.to - view.from)));
  $("range").textContent = view.to > view.from ? `${view.from.toFixed(decimals)} to ${view.to.toFixed(decimals)} s` : "";
  const network = columns.some(({ flow }) => sources[flow].isLink || linksOf(flow).length) ? [["network", "Network"]] : [];
  const titles = new Map(columns.flatMap(panelsOf).map((panel) => [panel.key, panel.title]).concat(network));
  const text = JSON.stringify([[...titles], [...hidden]]);
  if ($("panels").dataset.shown === text) return;
  $("panels").dataset.shown = text;
  $("panels").replaceChildren(...[...titles].map(([key, title]) =>
    button(title, !hidden.has(key), () => (toggle(hidden, key), requestFrame()))));
}

// ---- Zoom and keys ----

function zoomTo(from, to) {
  if (!(to - from >= MIN_RANGE)) return;
  Object.assign(view, { from, to });
  isWhole = false;
  cursor.leave();
  requestFrame();
}

function press(key, isShifted = false) {
  const { from, to } = view, range = to - from, step = range * (isShifted ? 1 : 0.2);
  const acts = {
    ArrowLeft: () => zoomTo(from - step, to - step),
    ArrowRight: () => zoomTo(from + step, to + step),
    "+": () => zoomTo(from + range / 4, to - range / 4),
    "=": () => acts["+"](),
    "-": () => zoomTo(from - range / 2, to + range / 2),
    0: () => ((isWhole = true), update()),
    "?": () => $("help").showModal(),
  };
  return acts[key] ? (acts[key](), true) : false;
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("select, input") || $("help").open) return;
  if (press(event.key, event.shiftKey)) event.preventDefault();
});
for (const each of document.querySelectorAll("[data-key]")) each.onclick = () => press(each.dataset.key);
$("compare").onclick = () => (addColumn(columns.at(-1).flow, [...columns.at(-1).links]), update());
addEventListener("resize", () => requestFrame());

// ---- Start ----

async function svg() {
  for (const { plots } of columns) for (const plot of plots.values()) plot.redraw();
  await null; // uPlot draws in a microtask
  return svgOf(columns.map((column) => ({ ...column, name: nameOf(column.flow) })), $("columns"));
}

$("export").onclick = async () => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([await svg()], { type: "image/svg+xml" }));
  link.download = "rampmeter.svg";
  link.click();
  URL.revokeObjectURL(link.href);
};

const LOOK = 500; // milliseconds between looks at what is followed
const STATES = { waiting: "waiting for events", running: "live", ended: "the run has ended" };

// Takes the list of sources: more of them, and those that have grown.
async function look() {
  const answer = await fetch("sources").then((got) => got.json()).catch(() => null); // the command may have ended
  const known = sources.length;
  let isBehind = false;
  if (answer) sources = answer.sources;
  if (sources.length > known) columns.length ? columns.forEach(showBar) : (readAddress(), columns.length || addFirst());
  for (const column of columns) {
    const isOld = (known) => (known?.panels || known?.error) && !known.isLoading;
    const old = wanted(column).filter((index) => isOld(column.data.get(index)) && column.data.get(index).size !== sources[index].size);
    for (const index of old) Object.assign(column.data.get(index), { isOld: true, error: null });
    if (old.some((index) => sources[index].isLink)) column.network.discard();
    if (old.length) requestFrame();
    isBehind ||= wanted(column).some((index) => column.data.get(index)?.size !== sources[index].size);
  }
  const rest = isBehind && answer?.state === "ended" ? "; reading the rest" : "";
  const state = answer ? STATES[answer.state] && STATES[answer.state] + rest : "the command has ended";
  $("state").hidden = !state;
  if (state && $("state").textContent !== state) $("state").textContent = state;
  if (answer?.state) setTimeout(look, LOOK);
}

await look();
update();
window.rampmeterView = { view, frameTimes, svg }; // for tests
