// The read-out: what the pointer is on.

const $ = (id) => document.getElementById(id);

// `view`: the times that are shown; `sourceOf`: the source of a panel; `onTime` is called with the time that is read.
export function makeCursor({ view, sourceOf, onTime }) {
  let pointing = 0;

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

  return { leave, pointAt };
}
