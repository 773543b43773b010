// What the page is drawn with: elements, numbers as words, charts as SVG. Text is put in as text and never as markup:
// hosts, news and reasons come from other machines.
"use strict";

const SVG = "http://www.w3.org/2000/svg";

function put(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children.map(child => child instanceof Node ? child : String(child)));
  return node;
}
const tag = (name, attributes = {}, ...children) => put(document.createElement(name), attributes, children);
const shape = (name, attributes = {}, ...children) => put(document.createElementNS(SVG, name), attributes, children);
const words = (x, y, text, kind = "") => shape("text", {x, y, class: kind}, text);

// ---- Numbers

const known = x => typeof x === "number" && Number.isFinite(x);
const whole = x => known(x) ? Math.round(x).toLocaleString("en") : "–";
function short(x) {
  if (!known(x)) return "–";
  return Math.abs(x) >= 1000 ? whole(x) : String(Number(x.toPrecision(3)));
}
const percent = x => known(x) ? `${Math.round(100 * x)}%` : "–";
function span(s) {
  if (!known(s) || s < 0) return "–";
  if (s < 10) return `${s.toFixed(1)} s`;
  const two = n => String(Math.floor(n)).padStart(2, "0");
  const minutes = s / 60 % 60;
  if (s < 3600) return `${Math.floor(minutes)}:${two(s % 60)}`;
  return `${Math.floor(s / 3600)}:${two(minutes)}:${two(s % 60)}`;
}
const cut = (text, most) => text.length > most ? text.slice(0, most - 1) + "…" : text;

// ---- Charts. `width`: of their place, so that words keep their size on a narrow screen.

function chart(width, height, label, children) {
  const box = `0 0 ${width} ${height}`;
  return shape("svg", {viewBox: box, width, height, role: "img", "aria-label": label}, ...children);
}

// Points [second, number or null] as a line; where a number is missing it is broken. Null: fewer than two.
function lineChart(width, points, label, fromZero) {
  const good = points.filter(([, y]) => known(y));
  if (good.length < 2) return null;
  const [left, right, top, height] = [58, 14, 12, 160];
  const bottom = height - 24;
  const ys = good.map(([, y]) => y);
  let [low, high] = [fromZero ? 0 : Math.min(...ys), Math.max(...ys)];
  if (!(high > low)) [low, high] = [low - Math.abs(low || 1) / 2, high + Math.abs(high || 1) / 2];
  const [first, last] = [points[0][0], points[points.length - 1][0]];
  const px = x => left + (x - first) / (last - first || 1) * (width - left - right);
  const py = y => bottom - (y - low) / (high - low) * (bottom - top);
  const parts = [];
  for (const y of [low, (low + high) / 2, high]) {
    parts.push(shape("path", {class: "grid", d: `M${left} ${py(y)}H${width - right}`}),
               words(left - 6, py(y) + 4, short(y), "right faint"));
  }
  parts.push(words(left, height - 6, span(first), "faint"),
             words(width - right, height - 6, span(last), "right faint"));
  let run = [];
  const flush = () => {
    if (run.length > 1) parts.push(shape("polyline", {class: "line", points: run.join(" ")}));
    run = [];
  };
  for (const [x, y] of points) {
    if (known(y)) run.push(`${px(x).toFixed(1)},${py(y).toFixed(1)}`);
    else flush();
  }
  flush();
  const [x, y] = good[good.length - 1];
  parts.push(shape("circle", {class: "dot", cx: px(x), cy: py(y), r: 4}));
  return chart(width, height, label, parts);
}

// Whole numbers between two, at most six of them.
function ticks(low, high) {
  let step = 1;
  while ((high - low) / step > 6) step *= String(step)[0] === "2" ? 2.5 : 2;
  const found = [];
  for (let x = Math.ceil(low / step) * step; x <= high; x += step) found.push(x);
  return found;
}

// A lane for each of [{name, clock, waits}], over `band` = {from, to}, where clocks may be. `frontier` may be null.
function laneChart(width, lanes, band, frontier, label) {
  const [row, top, left, right] = [24, 26, Math.min(150, width * 0.34), 78];
  const height = top + row * lanes.length + 22;
  const clocks = lanes.map(lane => lane.clock);
  const [least, most] = [Math.min(...clocks), Math.max(...clocks)];
  // A band that reaches far beyond all of them would leave no room to tell them apart.
  const reach = band === null ? most : Math.min(band.to, most + Math.max(20, 3 * (most - least)));
  const low = Math.min(least, frontier ?? least) - 1;
  const high = Math.max(most, reach) + 1;
  const px = x => left + (x - low) / (high - low) * (width - left - right);
  const parts = [];
  if (band !== null) {
    parts.push(shape("rect", {class: "bound", fill: "url(#band)", x: px(band.from), y: top - 6,
                              width: Math.max(px(reach) - px(band.from), 2), height: row * lanes.length + 6,
                              "data-from": band.from, "data-to": band.to}));
    const middle = (px(band.from) + px(reach)) / 2;
    parts.push(words(Math.max(left, Math.min(middle, width - 90)), 14, `${band.from} to ${band.to}`, "middle faint"));
  }
  for (const x of ticks(low, high)) {
    parts.push(shape("path", {class: "grid", d: `M${px(x)} ${top - 6}V${height - 18}`}),
               words(px(x), height - 4, x, "middle faint"));
  }
  if (frontier !== null) {
    parts.push(shape("path", {class: "frontier", d: `M${px(frontier)} ${top - 6}V${height - 18}`}));
  }
  lanes.forEach((lane, i) => parts.push(oneLane(lane, top + row * i + row / 2, left, width, px, low)));
  return chart(width, height, label, parts);
}

function oneLane(lane, y, left, width, px, low) {
  const x = px(lane.clock);
  const dot = lane.waits ? shape("rect", {class: "dot waits", x: x - 5, y: y - 5, width: 10, height: 10})
                         : shape("circle", {class: "dot", cx: x, cy: y, r: 5});
  return shape("g", {class: "lane", "data-name": lane.name, "data-clock": lane.clock},
               words(0, y + 4, cut(lane.label, Math.floor(left / 7))),
               shape("path", {class: "track", d: `M${px(low)} ${y}H${x}`}), dot,
               words(width - 72, y + 4, `${lane.clock}${lane.waits ? " waits" : ""}`));
}

// A bar for each of [{label, parts: [[kind, share]], words}], of patterns by kind.
function barChart(width, bars, label) {
  const [row, left, right] = [24, Math.min(150, width * 0.34), 6];
  const across = width - left - right;
  const parts = [];
  bars.forEach((bar, i) => {
    const y = row * i;
    const lane = shape("g", {class: "bar"}, shape("title", {}, bar.words),
                       words(0, y + 16, cut(bar.label, Math.floor(left / 7))));
    let from = left;
    for (const [kind, share] of bar.parts) {
      const wide = across * share;
      if (wide < 0.3) continue;
      lane.append(shape("rect", {class: "edge", fill: `url(#${kind})`, x: from, y: y + 3, width: wide, height: row - 6,
                                 "data-kind": kind, "data-share": share.toFixed(4)}));
      from += wide;
    }
    parts.push(lane);
  });
  return chart(width, row * bars.length + 2, label, parts);
}

function legend(kinds) {
  return tag("ul", {class: "legend"}, ...kinds.map(([kind, text]) => tag(
      "li", {}, shape("svg", {width: 16, height: 14, "aria-hidden": "true"},
                      shape("rect", {fill: `url(#${kind})`, width: 16, height: 14})), text)));
}
