// What is shown, as an SVG: every text and every mark at its place on the page.

import { escaped, svgPen, tintOf } from "./draw.js";

const INK = "#1b2430", SOFT = "#4d5968", GRID = "#e6eaef";

// `columns`: each with its name, its element and its plots; `main`: the element that has all of them.
export function svgOf(columns, main) {
  const base = main.getBoundingClientRect(), out = [], pen = svgPen(out);
  const place = (element) => {
    const box = element.getBoundingClientRect();
    return { left: box.left - base.left, top: box.top - base.top, width: box.width, height: box.height };
  };
  const words = (element, text, weight = "normal", indent = 0) => {
    const box = place(element);
    pen.text(text, box.left + indent, box.top + box.height / 2, INK, "start", `font-weight="${weight}"`);
  };
  const rect = ({ left, top, width, height }, colour) =>
    out.push(`<rect x="${left}" y="${top}" width="${width}" height="${height}" rx="2" fill="${colour}"/>`);
  for (const column of columns) {
    const about = column.element.querySelector(".about");
    words(column.element.querySelector(".bar select"), column.name, "bold");
    words(about, about.textContent);
    const network = column.element.querySelector(".network");
    if (!network.hidden) {
      words(network.querySelector("h2"), network.querySelector("h2").textContent, "bold");
      const { left, top } = place(network.querySelector("svg"));
      out.push(`<g transform="translate(${left} ${top})">${network.querySelector("svg").innerHTML}</g>`);
    }
    for (const [key, shown] of column.plots) panel(key, shown);
  }

  function panel(key, { plot, element, draw }) {
    const title = element.querySelector("h2");
    words(title, title.textContent, "bold");
    const isInside = (item) => item.getBoundingClientRect().right <= element.getBoundingClientRect().right + 1;
    for (const item of [...element.querySelectorAll('.legend [aria-pressed="true"]')].filter(isInside)) {
      rect(place(item.firstChild), item.firstChild.style.background);
      words(item, item.textContent, "normal", 25);
    }
    for (const item of [...element.querySelectorAll(".state")].filter(isInside)) {
      rect(place(item), tintOf(item.textContent));
      words(item, item.textContent, "normal", 6);
    }
    const box = place(plot.over), right = box.left + box.width, bottom = box.top + box.height;
    const [across, up] = plot.axes; // uPlot keeps the ticks that it drew last
    (across._splits ?? []).forEach((time, index) => {
      const x = box.left + plot.valToPos(time, "x");
      pen.stroke(GRID, 1, (path) => (path.moveTo(x, box.top), path.lineTo(x, bottom)));
      if (across._values[index]) pen.text(across._values[index], x, bottom + 16, SOFT, "middle");
    });
    (up._splits ?? []).forEach((value, index) => {
      const y = box.top + plot.valToPos(value, "y");
      pen.stroke(GRID, 1, (path) => (path.moveTo(box.left, y), path.lineTo(right, y)));
      pen.text(String(up._values[index] ?? ""), box.left - 8, y, SOFT, "end");
    });
    const clip = `${columns.findIndex(({ plots }) => plots.get(key)?.plot === plot)}-${key}`.replace(/[^\w-]/g, "_");
    out.push(`<clipPath id="${clip}"><rect x="${box.left}" y="${box.top}" width="${box.width}" height="${box.height}"/></clipPath>`);
    out.push(`<g clip-path="url(#${clip})">`);
    draw(pen, box, 0);
    out.push("</g>");
  }

  return `<svg xmlns="http://www.w3.org/2000/svg" width="${base.width}" height="${base.height}" ` +
    `viewBox="0 0 ${base.width} ${base.height}" font-family="DejaVu Sans, sans-serif" font-size="11">` +
    `<title>${escaped(columns.map(({ name }) => name).join(", "))}</title>` +
    `<rect width="100%" height="100%" fill="#fff"/>${out.join("\n")}</svg>\n`;
}
