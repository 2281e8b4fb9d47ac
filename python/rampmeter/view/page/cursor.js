// The read-out: what the pointer is on, or the event that the arrow keys have come to.

const $ = (id) => document.getElementById(id);

// The event before or after the one that is read, or after the begin or before the end of the view.
const STEPS = { ArrowRight: [1, "from"], ArrowLeft: [-1, "to"], Home: [1, "from"], End: [-1, "to"] };

// `view`: the times that are shown; `off`: series that are not; `sourceOf`: the source of a panel; `moveTo` shows other
// times; `onTime` is called with the time that is read.
export function makeCursor({ view, off, sourceOf, moveTo, onTime }) {
  let pointing = 0, isStepping = false;
  let reached = null; // { plot, time, series, row }: the event of the keys

  function leave() {
    clearTimeout(pointing);
    pointing = 0;
    $("under").hidden = $("ring").hidden = true;
    document.body.append($("ring"));
  }

  function show({ lines, at }, plot, left, top) {
    const box = $("under"), ring = $("ring");
    ring.hidden = !at;
    if (at) {
      plot.over.append(ring);
      ring.style.left = `${plot.valToPos(at[0], "x")}px`;
      ring.style.top = `${plot.valToPos(at[1], "y")}px`;
    }
    box.hidden = lines.length === 0;
    box.textContent = lines.join("\n");
    box.style.left = `${Math.max(Math.min(left + 16, innerWidth - box.offsetWidth - 8), 8)}px`;
    box.style.top = `${Math.max(top + 18 + box.offsetHeight > innerHeight ? top - box.offsetHeight - 12 : top + 18, 8)}px`;
  }

  function pointAt(column, panel, plot, event) {
    clearTimeout(pointing);
    const [left, top] = [event.clientX, event.clientY], time = plot.posToVal(event.offsetX, "x");
    const asked = new URLSearchParams({
      panel: panel.key,
      source: sourceOf(column, panel),
      time,
      value: plot.posToVal(event.offsetY, "y"),
      perX: (view.to - view.from) / plot.over.clientWidth,
      perY: (plot.scales.y.max - plot.scales.y.min) / plot.over.clientHeight,
    });
    onTime(time);
    pointing = setTimeout(async () => {
      const mine = pointing;
      const answer = await fetch(`under?${asked}`).catch(() => null);
      const found = answer?.ok ? await answer.json() : null;
      if (found && mine === pointing) show(found, plot, left, top);
    }, 15);
  }

  function press(column, panel, plot, event) {
    if (event.shiftKey || event.ctrlKey || event.metaKey || event.altKey || event.target !== event.currentTarget) return;
    if (event.key === "Escape") return leave();
    if (!(event.key in STEPS)) return;
    event.preventDefault();
    if (!isStepping) step(column, panel, plot, event.key);
  }

  async function step(column, panel, plot, key) {
    const [way, edge] = STEPS[key];
    const isOn = key.startsWith("Arrow") && reached?.plot === plot && reached.time >= view.from && reached.time <= view.to;
    const asked = new URLSearchParams({ panel: panel.key, source: sourceOf(column, panel), way, time: isOn ? reached.time : view[edge] });
    if (isOn) asked.set("series", reached.series), asked.set("row", reached.row);
    for (const { label } of panel.series) if (off.has(`${panel.key}:${label}`)) asked.append("off", label);
    isStepping = true;
    try {
      const answer = await fetch(`step?${asked}`).catch(() => null);
      const found = answer?.ok ? await answer.json() : null;
      if (!found) return;
      if (found.lines.length === 0) return void ($("said").textContent = way > 0 ? "no later event" : "no earlier event");
      if (found.time < view.from || found.time > view.to) {
        const half = (view.to - view.from) / 2;
        moveTo(found.time - half, found.time + half);
        await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      }
      reached = { plot, time: found.time, series: found.series, row: found.row };
      const box = plot.over.getBoundingClientRect(), left = plot.valToPos(found.time, "x");
      const top = Math.max(0, Math.min(found.at ? plot.valToPos(found.at[1], "y") : box.height / 2, box.height));
      plot.setCursor({ left, top });
      show(found, plot, box.left + left, box.top + top);
      $("said").textContent = found.lines.filter(Boolean).join(". ");
      onTime(found.time);
    } finally {
      isStepping = false;
    }
  }

  return { leave, pointAt, press };
}
