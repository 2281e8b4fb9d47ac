// Draws series with a pen: on a canvas, or into the text of an SVG.

const TINTS = ["#cfe3fa", "#fbdfc4", "#cdebdc", "#ead6f3", "#f9d0d6", "#cfeaee", "#efe5bd", "#dfe3e8"];
const tints = new Map(); // a state has the same tint in all columns

export function tintOf(state) {
  if (!tints.has(state)) tints.set(state, TINTS[tints.size % TINTS.length]);
  return tints.get(state);
}

export function canvasPen(context, scale) {
  return {
    scale,
    stroke(colour, width, build) {
      context.beginPath();
      build(context);
      context.strokeStyle = colour;
      context.lineWidth = width * scale;
      context.stroke();
    },
    fill(colour, build) {
      context.fillStyle = colour; // rectangle by rectangle: drawing one path of thousands takes ten times as long
      build({ rect: (x, y, w, h) => context.fillRect(x, y, w, h) });
    },
    text(words, x, y, colour) {
      context.fillStyle = colour;
      context.font = `${11 * scale}px system-ui, "DejaVu Sans", sans-serif`;
      context.textAlign = "left";
      context.textBaseline = "middle";
      context.fillText(words, x, y);
    },
  };
}

export const escaped = (text) => text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);

export function svgPen(out) {
  const n = (number) => Math.round(number * 10) / 10;
  const path = (build) => {
    const parts = [];
    build({
      moveTo: (x, y) => parts.push(`M${n(x)} ${n(y)}`),
      lineTo: (x, y) => parts.push(`L${n(x)} ${n(y)}`),
      rect: (x, y, w, h) => parts.push(`M${n(x)} ${n(y)}h${n(w)}v${n(h)}h${n(-w)}z`),
    });
    return parts.join("");
  };
  return {
    scale: 1,
    stroke: (colour, width, build) =>
      out.push(`<path fill="none" stroke="${colour}" stroke-width="${width}" d="${path(build)}"/>`),
    fill: (colour, build) => out.push(`<path fill="${colour}" d="${path(build)}"/>`),
    text: (words, x, y, colour, anchor = "start", extra = "") =>
      out.push(`<text x="${n(x)}" y="${n(y)}" fill="${colour}" text-anchor="${anchor}" dominant-baseline="central" ${extra}>${escaped(words)}</text>`),
  };
}

// The first row at or after a time.
export function rowAt(times, time) {
  let low = 0, high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The rows that are visible, and one more at each side.
export const visible = (times, from, to) => [Math.max(rowAt(times, from) - 1, 0), Math.min(rowAt(times, to) + 1, times.length)];

// A line that has several values for each column of pixels: a rectangle for each column. Antialiased strokes of so many
// steps take longer than a frame has.
function drawColumns(pen, { colour, time, value }, [first, last], x, y, until) {
  const wide = 1.5 * pen.scale;
  pen.fill(colour, (path) => {
    let column = Math.floor(x(time[first])), before = y(value[first]), low = before, high = before;
    for (let row = first + 1; row <= last; row++) {
      const across = Math.floor(x(row < last ? time[row] : Math.max(until, time[last - 1])));
      if (across !== column) {
        path.rect(column, low - wide / 2, wide, high - low + wide);
        if (across > column + 1) path.rect(column + 1, before - wide / 2, across - column - 1, wide);
        column = across;
        low = high = before;
      }
      if (row === last) break;
      before = y(value[row]);
      if (before < low) low = before;
      if (before > high) high = before;
    }
    path.rect(column, low - wide / 2, wide, high - low + wide);
  });
}

// `x` and `y` turn times and values into pixels; `box` is the area in pixels; `end` is where the trace ends.
export function drawSeries(pen, series, view, x, y, box, end) {
  const { time, value, height } = series;
  const [first, last] = visible(time, view.from, view.to);
  if (first >= last) return;
  const few = last - first < 300 ? 1.6 : 1; // marks are larger where there is room
  const kinds = {
    line() {
      if (last - first > box.width) return drawColumns(pen, series, [first, last], x, y, Math.min(end, view.to));
      pen.stroke(series.colour, 1.5, (path) => {
        path.moveTo(x(time[first]), y(value[first]));
        for (let row = first + 1; row < last; row++) {
          const across = x(time[row]);
          path.lineTo(across, y(value[row - 1]));
          path.lineTo(across, y(value[row]));
        }
        path.lineTo(x(Math.max(Math.min(end, view.to), time[last - 1])), y(value[last - 1]));
      });
    },
    dots() {
      const size = 2.5 * few * pen.scale;
      pen.fill(series.colour, (path) => {
        for (let row = first; row < last; row++) path.rect(x(time[row]) - size / 2, y(value[row]) - size / 2, size, size);
      });
    },
    bars() {
      const size = 2.2 * few * pen.scale;
      pen.fill(series.colour, (path) => {
        for (let row = first; row < last; row++) {
          const top = y(value[row] + height[row]), bottom = y(value[row]);
          path.rect(x(time[row]) - size / 2, Math.min(top, bottom - size), size, Math.max(bottom - top, size));
        }
      });
    },
    cross() {
      const arm = (last - first > 150 ? 2 : 4) * pen.scale;
      pen.stroke(series.colour, 1.8, (path) => {
        for (let row = first; row < last; row++) {
          const across = x(time[row]), up = y(value[row] + (height ? height[row] / 2 : 0));
          path.moveTo(across - arm, up - arm);
          path.lineTo(across + arm, up + arm);
          path.moveTo(across - arm, up + arm);
          path.lineTo(across + arm, up - arm);
        }
      });
    },
    lanes() {
      series.names.forEach((name, lane) => {
        const colour = /expired|lost|retrans/.test(name) ? "#c8102e" : /mark/.test(name) ? "#8a3ea8" : "#5f6b7a";
        const half = / set$/.test(name) ? 0.12 : 0.36; // timers are set all the time, and that they expire matters
        const top = y(lane + half), tall = y(lane - half) - top, wide = 1.6 * pen.scale;
        pen.fill(colour, (path) => {
          for (let row = first; row < last; row++) if (value[row] === lane) path.rect(x(time[row]) - wide / 2, top, wide, tall);
        });
      });
    },
    band() {
      for (let row = first; row < last; row++) {
        const left = Math.max(x(time[row]), box.left);
        const right = Math.min(row + 1 < time.length ? x(time[row + 1]) : x(Math.min(end, view.to)), box.left + box.width);
        const name = series.names[value[row]];
        if (right <= left) continue;
        pen.fill(tintOf(name), (path) => path.rect(left, box.top, right - left, box.height));
        if (right - left > (6.4 * name.length + 8) * pen.scale)
          pen.text(name, left + 4 * pen.scale, box.top + box.height / 2, "#1b2430");
      }
    },
  };
  kinds[series.kind]();
}
