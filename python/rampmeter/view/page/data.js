// What the server sends: panels of series, whose columns are floats.

import { visible } from "./draw.js";

export function unpack(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const answer = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  let at = 4 + length;
  for (const panel of answer.panels)
    for (const series of panel.series)
      ["time", "value", "height"].slice(0, series.columns).forEach((name) => {
        series[name] = new Float64Array(buffer, at, series.count);
        at += 8 * series.count;
      });
  return answer;
}

// Panels with the same key have the same range of values, so that columns compare.
export function valueRanges(panels, view, off) {
  const ranges = new Map();
  for (const panel of panels) {
    const range = ranges.get(panel.key) ?? { low: panel.fromZero ? 0 : Infinity, high: -Infinity };
    for (const series of panel.series) {
      if (off.has(`${panel.key}:${series.label}`)) continue;
      const [first, last] = visible(series.time, view.from, view.to);
      for (let row = first; row < last; row++) {
        if (series.kind !== "line" && (series.time[row] < view.from || series.time[row] > view.to)) continue;
        const value = series.value[row], top = series.height ? value + series.height[row] : value;
        if (value < range.low) range.low = value;
        if (top > range.high) range.high = top;
      }
      if (series.kind === "lanes") Object.assign(range, { low: -0.5, high: Math.max(range.high, series.names.length - 0.5) });
    }
    if (panel.key !== "events" && panel.key !== "state") range.room = 0.06;
    ranges.set(panel.key, range);
  }
  for (const range of ranges.values()) {
    if (!(range.high >= range.low)) Object.assign(range, { low: 0, high: 1 });
    const room = (range.room ?? 0) * (range.high - range.low || Math.abs(range.high) || 1);
    range.high += room;
    if (range.low !== 0) range.low -= room;
    if (range.high === range.low) range.high += 1;
  }
  return ranges;
}
