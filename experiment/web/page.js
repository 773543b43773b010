// Draws the report from the JSON in #data. Line charts are uPlot's; bars, scatters and small
// histograms are SVG. Every chart is a <figure data-chart=... data-series=... data-points=...>, the
// last two set when it has been drawn, to what was drawn.
(() => {
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const page = document.getElementById("page");

// Okabe and Ito's colours that can be told apart on both grounds; then the same, dashed.
const colours = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#8C8C8C"];
const dashes = [[], [8, 4], [2, 3], [10, 3, 2, 3]];
const colourOf = policy => colours[policy % colours.length];
const dashOf = policy => dashes[Math.floor(policy / colours.length) % dashes.length];
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Elements. Children: nodes, or anything else as text.
function make(name, attributes, ...children) {
  const svg = ["svg", "g", "rect", "line", "text", "circle", "path", "title"].includes(name);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", name)
                   : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) node.append(child);
  }
  return node;
}

// Numbers for people.
const known = value => value !== null && value !== undefined;
const fixed = (value, digits) => known(value) ? value.toFixed(digits) : "–";
function significant(value) {
  if (value === 0) return "0";
  const digits = Math.max(0, Math.min(6, 2 - Math.floor(Math.log10(Math.abs(value)))));
  return value.toFixed(digits);
}
const tick = value => String(Number(value.toPrecision(4)));
function seconds(value) {
  if (!known(value)) return "–";
  if (value !== 0 && value < 1) return significant(value * 1e3) + " ms";
  return value < 120 ? significant(value) + " s" : significant(value / 60) + " min";
}
function bytes(value) {
  if (!known(value)) return "–";
  if (value < 1e3) return value.toFixed(0) + " B";
  if (value < 1e6) return significant(value / 1e3) + " kB";
  return value < 1e9 ? significant(value / 1e6) + " MB" : significant(value / 1e9) + " GB";
}
const percent = value => known(value) ? (100 * value).toFixed(2) + "%" : "–";
const plural = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;

function withRange(estimate, format, none) {
  if (!known(estimate.median)) return [none || "–"];
  const end = value => known(value) ? format(value) : "∞";
  const range = known(estimate.low) || known(estimate.high)
    ? make("span", {class: "range"}, `${end(estimate.low)} to ${end(estimate.high)}`) : null;
  return [format(estimate.median), range];
}

function swatch(policy) {
  const style = dashOf(policy).length === 0 ? "solid" : "dashed";
  return make("span", {class: "swatch", style: `border-color:${colourOf(policy)};border-top-style:${style}`});
}
const nameOf = policy => data.policies[policy].spec;

// Line charts. Redrawn with other colours when the ground changes between light and dark.
const redraw = [];
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw.forEach(f => f()));

function axis(label, format, size) {
  return {label, labelSize: 22, labelFont: "12px system-ui, sans-serif", font: "11px system-ui, sans-serif",
          stroke: css("--soft"), grid: {stroke: css("--grid"), width: 1}, size: size || 42,
          ticks: {stroke: css("--line"), width: 1, size: 5},
          values: (u, splits) => splits.map(format)};
}

function targetLine(u, target) {
  if (!target) return;
  const y = u.valToPos(target, "y", true);
  const {left, width: wide} = u.bbox;
  u.ctx.save();
  u.ctx.strokeStyle = css("--soft");
  u.ctx.setLineDash([4, 4]);
  u.ctx.beginPath();
  u.ctx.moveTo(left, y);
  u.ctx.lineTo(left + wide, y);
  u.ctx.stroke();
  u.ctx.restore();
}

// How many lines and points a chart shows, for who tests it.
function countPoints(u, figure) {
  let points = 0, drawn = 0;
  for (let i = 1; i < u.data.length; i += 3) {
    const here = u.data[i].filter(known).length;
    points += here;
    drawn += here > 0 ? 1 : 0;
  }
  figure.dataset.series = drawn;
  figure.dataset.points = points;
}

// lines: [{policy, median, low, high}] over `at`; arrays with null where nothing is known.
function lineChart(figure, options) {
  const host = make("div");
  figure.append(host);
  let chart = null;
  const draw = () => {
    if (chart !== null) chart.destroy();
    const series = [{label: options.xName, value: (u, v) => known(v) ? options.xFormat(v) : "–"}];
    const columns = [options.at];
    const bands = [];
    for (const line of options.lines) {
      const colour = colourOf(line.policy);
      const first = columns.length;
      series.push({label: nameOf(line.policy), stroke: colour, width: 2, dash: dashOf(line.policy),
                   spanGaps: options.spanGaps, points: {show: options.points === true, size: 6},
                   value: (u, v) => known(v) ? options.yFormat(v) : "–"});
      for (let edge = 0; edge < 2; ++edge) {
        series.push({class: "band", stroke: "transparent", width: 0, points: {show: false},
                     spanGaps: options.spanGaps});
      }
      columns.push(line.median, line.high, line.low);
      bands.push({series: [first + 1, first + 2], fill: colour + "26"});
    }
    const width = () => Math.max(280, figure.clientWidth);
    chart = new uPlot({
      width: width(), height: options.height || 300, series, bands,
      scales: {x: {time: false, ...(options.xScale || {})}, y: options.yScale || {}},
      axes: [axis(options.xLabel, options.xFormat), axis(options.yLabel, options.yFormat, 58)],
      cursor: {focus: {prox: 24}}, focus: {alpha: 0.25},
      hooks: {
        draw: [u => targetLine(u, options.target), u => countPoints(u, figure)],
        setSeries: [(u, index, change) => {  // a policy's band goes with its line
          if (index === null || change.show === undefined || index % 3 !== 1) return;
          for (const edge of [1, 2]) u.setSeries(index + edge, {show: change.show});
        }],
      },
    }, columns, host);
  };
  draw();
  redraw.push(draw);
  new ResizeObserver(() => {
    const width = Math.max(280, figure.clientWidth);
    if (chart !== null && chart.width !== width) chart.setSize({width, height: options.height || 300});
  }).observe(figure);
}

function figure(kind, title, note) {
  return make("figure", {class: "chart", "data-chart": kind},
              make("figcaption", {}, title, note ? make("span", {}, " " + note) : null));
}
function drawn(node, series, points) {
  node.dataset.series = series;
  node.dataset.points = points;
}

function curveChart(kind, condition, target) {
  const time = kind === "time";
  const curves = condition.curves[kind];
  const node = figure(`accuracy-${kind}`, time ? "Accuracy against time" : "Accuracy against bytes sent",
                      `median and range of ${plural(data.seeds, "seed")}${target > 0 ? "; dashed: target" : ""}`);
  if (curves.series.length === 0) {
    node.dataset.absent = "true";
    node.append(make("p", {class: "soft small"}, data.mode === "real"
      ? "No run has a curve." : "No run has finished."));
    return node;
  }
  const top = Math.max(...curves.series.flatMap(s => s.high.filter(known)), target || 0);
  const bottom = Math.min(...curves.series.flatMap(s => s.low.filter(known)));
  const mount = () => lineChart(node, {
    at: curves.at, lines: curves.series, xName: time ? "time" : "bytes",
    xLabel: time ? `${data.time} (s)` : "bytes sent by all, headers included",
    xFormat: time ? tick : v => bytes(v).replace(".00 ", " "), yLabel: "test accuracy", yFormat: v => fixed(v, 3), target,
    yScale: {range: [Math.max(0, bottom - 0.02), Math.min(1, top + 0.02)]},
  });
  later.push(mount);
  return node;
}
const later = [];  // charts are mounted once the page has its widths

// Observed read lags, a small histogram for each policy.
function lagChart(row) {
  const node = figure("lags", make("span", {class: "name"}, swatch(row.policy), nameOf(row.policy)));
  const width = 240, height = 100, base = 74;
  const svg = make("svg", {viewBox: `0 0 ${width} ${height}`, role: "img",
                           "aria-label": `reads by lag of ${nameOf(row.policy)}`});
  const bars = row.lags.length;
  const step = Math.min(28, width / Math.max(1, bars));
  let count = 0;
  const most = Math.max(...row.lags.map(b => b.share), 1e-9);
  row.lags.forEach((bar, i) => {
    const tall = 52 * bar.share / most;
    if (bar.reads > 0) ++count;
    const x = i * step;
    svg.append(make("rect", {x: x + 1, y: base - tall, width: step - 2, height: tall, rx: 1.5, fill: colourOf(row.policy)},
                    make("title", {}, `lag ${bar.lag}: ${percent(bar.share)} of reads`)));
    if (bar.share === most || (bar.share >= 0.1 && step >= 26)) {
      svg.append(make("text", {x: x + step / 2, y: base - tall - 4, "text-anchor": "middle", class: "value"},
                      Math.round(100 * bar.share) + "%"));
    }
    if (bar.lag.length === 1 || (bars - 1 - i) % 2 === 0) {
      svg.append(make("text", {x: x + step / 2, y: base + (bar.lag.length === 1 ? 13 : 24), "text-anchor": "middle"}, bar.lag));
    }
  });
  svg.append(make("line", {x1: 0, x2: width, y1: base, y2: base, class: "axis"}));
  node.append(svg, make("div", {class: "soft small"}, `mean ${fixed(row.lag_mean, 2)}, greatest ${row.lag_max}` +
    (row.violations > 0 ? `, guarantee broken ${row.violations} times` : "")));
  drawn(node, 1, count);
  return node;
}

// Where the workers' time goes.
function waitChart(condition) {
  const node = figure("waits", "Where the workers' time goes", "share of worker time until the last worker's end");
  const rows = condition.rows.filter(row => row.shares);
  const names = ["computing", "waiting for reads", "idle or in transfer"];
  const fills = ["var(--compute)", "var(--waiting)", "var(--other)"];
  const left = 16 + 6.3 * Math.max(...rows.map(row => nameOf(row.policy).length)), width = 560, line = 26;
  const svg = make("svg", {viewBox: `0 0 ${width} ${rows.length * line + 26}`, role: "img",
                           "aria-label": "shares of time by policy"});
  rows.forEach((row, i) => {
    const y = i * line + 4;
    svg.append(make("text", {x: left - 8, y: y + 13, "text-anchor": "end", class: "value"}, nameOf(row.policy)));
    let x = left;
    row.shares.forEach((share, k) => {
      const wide = (width - left) * share;
      svg.append(make("rect", {x, y, width: Math.max(0, wide), height: 18, fill: fills[k]},
                      make("title", {}, `${nameOf(row.policy)}: ${percent(share)} ${names[k]}`)));
      if (wide > 34 && k < 2) {
        svg.append(make("text", {x: x + 6, y: y + 13, style: `fill:${k === 0 ? "#fff" : "#1d1f21"};font-weight:600`}, Math.round(100 * share) + "%"));
      }
      x += wide;
    });
  });
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    const x = left + (width - left) * share;
    svg.append(make("text", {x, y: rows.length * line + 20, "text-anchor": share === 1 ? "end" : share === 0 ? "start" : "middle"},
                    100 * share + "%"));
  }
  const key = make("div", {class: "key"}, names.map((name, k) =>
    make("span", {}, make("span", {class: "swatch box", style: `background:${fills[k]}`}), name)));
  node.append(key, svg);
  drawn(node, rows.length, rows.reduce((sum, row) => sum + row.shares.filter(s => s > 0).length, 0));
  return node;
}

// Ticks at 1, 2, 5 times a power of ten.
function ticksOf(top) {
  const rough = top / 4, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= rough);
  const ticks = [];
  for (let i = 0; i * step <= top * 1.0001; ++i) ticks.push(i * step);
  return ticks;
}

// Time and bytes to the target: the front is what no other policy beats in time, bytes and accuracy.
function paretoChart(condition) {
  const node = figure("pareto", "Cost of the target", "medians; filled: on the Pareto front");
  const rows = condition.rows.filter(row => known(row.time_s.median) && known(row.bytes.median));
  if (rows.length === 0) {
    node.dataset.absent = "true";
    node.append(make("p", {class: "soft small"}, "No policy reaches the target in most of its runs."));
    return node;
  }
  const width = 560, height = 300, left = 78, bottom = 44, right = 20, topEdge = 10;
  const xTop = 1.12 * Math.max(...rows.map(r => r.time_s.median)), yTop = 1.12 * Math.max(...rows.map(r => r.bytes.median));
  const X = v => left + (width - left - right) * v / xTop;
  const Y = v => height - bottom - (height - bottom - topEdge) * v / yTop;
  const svg = make("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "time and bytes to the target"});
  for (const at of ticksOf(xTop)) {
    svg.append(make("line", {x1: X(at), x2: X(at), y1: topEdge, y2: height - bottom, class: "axis"}),
               make("text", {x: X(at), y: height - bottom + 15, "text-anchor": "middle"}, tick(at)));
  }
  for (const at of ticksOf(yTop)) {
    svg.append(make("line", {x1: left, x2: width - right, y1: Y(at), y2: Y(at), class: "axis"}),
               make("text", {x: left - 6, y: Y(at) + 4, "text-anchor": "end"}, bytes(at).replace(".00 ", " ")));
  }
  svg.append(make("text", {x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle"}, `${data.time} to the target (s)`),
             make("text", {x: 12, y: (topEdge + height - bottom) / 2, "text-anchor": "middle",
                           transform: `rotate(-90 12 ${(topEdge + height - bottom) / 2})`}, "bytes to the target"));
  // Names of the front first; one that finds no free place is left to the circle's title and colour.
  const taken = rows.map(row => ({from: X(row.time_s.median) - 7, to: X(row.time_s.median) + 7, at: Y(row.bytes.median)}));
  const free = box => box.from > left && box.to < width && taken.every(t => Math.abs(t.at - box.at) >= 12 || box.to < t.from || t.to < box.from);
  for (const row of [...rows].sort((one, two) => two.front - one.front)) {
    const x = X(row.time_s.median), y = Y(row.bytes.median), name = nameOf(row.policy), wide = 6.2 * name.length;
    svg.append(make("circle", {cx: x, cy: y, r: 6, stroke: colourOf(row.policy), "stroke-width": 2.5,
                               fill: row.front ? colourOf(row.policy) : "var(--card)"},
                    make("title", {}, `${name}: ${seconds(row.time_s.median)}, ${bytes(row.bytes.median)}, accuracy ${fixed(row.accuracy.median, 4)}`)));
    const places = [0, -12, 12, -24, 24].flatMap(shift => [
      {from: x + 11, to: x + 11 + wide, at: y + shift}, {from: x - 11 - wide, to: x - 11, at: y + shift}]);
    const place = places.find(free);
    if (place === undefined) continue;
    taken.push(place);
    svg.append(make("text", {x: place.from, y: place.at + 4, class: "value"}, name));
  }
  node.append(svg);
  drawn(node, rows.length, rows.length);
  return node;
}

function ratioCell(ratio) {
  if (ratio === null) return ["–"];
  if (ratio.withheld) {
    const rules = ratio.withheld.join(", ");
    return [make("span", {class: "tag fails", title: `rules that fail: ${rules}`}, "withheld"),
            make("span", {class: "range"}, `rule ${rules}`)];
  }
  const shown = [ratio.text.replace(/[0-9]$/, "$&×"), make("span", {class: "range"}, ratio.range)];
  if (ratio.verdict) shown.push(make("span", {class: "range"}, ratio.verdict));
  if (ratio.accuracy_drop > 0.003) {
    shown.push(make("span", {class: "tag marked"}, `accuracy −${(100 * ratio.accuracy_drop).toFixed(1)} pt`));
  }
  return shown;
}

function resultTable(table, condition) {
  const target = table.target > 0;
  const heads = ["policy and its settings", "final accuracy"];
  if (target) heads.push("reached", `time to ${percent(table.target)}`, "bytes to it", "bsp's time / its");
  heads.push("whole run", "read lag");
  const all = table.one_worker ? [...condition.rows, {...table.one_worker, alone: true}] : condition.rows;
  const body = all.map(row => {
    const replicas = row.replicas ? make("span", {class: "range", title: "least, median and greatest replica"},
                                         "replicas " + row.replicas.map(v => fixed(100 * v, 1)).join(" · ")) : null;
    const cells = [
      make("td", {}, swatch(row.policy), make("b", {}, nameOf(row.policy)), row.front ? make("span", {class: "tag holds", title: "no policy is better in time, bytes and accuracy at once"}, "front") : null,
           row.alone ? make("span", {class: "range"}, `one worker, under ${table.conditions[0].name}`) : null,
           make("span", {class: "range"}, make("code", {}, [row.optimizer, row.schedule].filter(text => text).join("  ")))),
      make("td", {}, withRange(row.accuracy, percent), replicas),
    ];
    if (target) {
      cells.push(make("td", {}, `${row.reached} of ${row.finished}`, row.not_finite > 0 ? make("span", {class: "tag fails"}, `${row.not_finite} diverged`) : null),
                 make("td", {}, withRange(row.time_s, seconds, "not reached")),
                 make("td", {}, withRange(row.bytes, bytes, "not reached")),
                 make("td", {}, row.alone ? "–" : ratioCell(row.ratio)));
    }
    cells.push(make("td", {}, seconds(row.duration_s.median), make("span", {class: "range"}, bytes(row.total_bytes.median))),
               make("td", {}, fixed(row.lag_mean, 2), make("span", {class: "range"}, `max ${row.lag_max}`)));
    return make("tr", {}, cells);
  });
  return make("div", {class: "scroll"}, make("table", {class: "results"},
    make("thead", {}, make("tr", {}, heads.map(name => make("th", {}, name)))), make("tbody", {}, body)));
}

function reasonList(reasons) {
  if (reasons.length === 0) return null;
  return make("ul", {class: "reasons"}, reasons.map(r =>
    make("li", {}, make("b", {}, `Rule ${r.rule}`), `: ${r.sentence} Here: ${r.why}.`)));
}

function marksLine(reasons) {
  const marks = reasons.filter(r => r.standing === "marked" && r.rule !== 1);
  return marks.length === 0 ? null : make("div", {class: "small soft"}, "Marked by rules " + marks.map(r => r.rule).join(", ") + ": ",
    marks.map(r => r.why).join("; ") + ".");
}

function claims() {
  if (data.claims.length === 0) return null;
  return make("section", {}, make("h2", {}, "Claims"), make("div", {class: "card"}, data.claims.map(claim => {
    const kind = claim.verdict.replace(" ", "-");
    return make("div", {class: `claim ${kind}`, "data-verdict": claim.verdict},
      make("div", {}, make("span", {class: `tag ${kind}`}, claim.verdict), " ",
           claim.verdict === "supported" ? make("b", {}, claim.text) : claim.text),
      claim.evidence ? make("div", {class: "small"}, claim.evidence) : null,
      claim.verdict === "not printed" ? make("div", {class: "small"}, "Its numbers are withheld, because evidence is missing:") : null,
      reasonList(claim.reasons.filter(r => r.standing === "fails" || r.rule === 1)),
      claim.verdict === "not printed" ? null : marksLine(claim.reasons));
  })));
}

function rules() {
  const count = standing => data.rules.filter(r => r.standing === standing).length;
  const box = make("details", {class: "card honesty"},
    make("summary", {}, `Honesty: ${count("holds")} of ${data.rules.length} rules hold, ${count("marked")} with a mark, ${count("fails")} fail`),
    make("p", {class: "small soft"}, "A rule that fails withholds every comparison that rests on it; a mark is printed beside it."),
    make("div", {class: "scroll"}, make("table", {class: "rules"}, make("tbody", {}, data.rules.map(r =>
      make("tr", {"data-rule": r.rule, "data-standing": r.standing}, make("td", {}, String(r.rule)), make("td", {}, make("span", {class: `tag ${r.standing}`}, r.standing)),
           make("td", {}, r.sentence, make("span", {class: "range"}, r.why))))))));
  if (count("fails") > 0) box.open = true;
  return make("section", {}, make("h2", {}, "Honesty"), box);
}

function head() {
  const fact = (name, value) => make("li", {}, make("b", {}, name), value);
  const kind = data.mode === "real" ? "real processes on one machine, wall time"
    : "co-simulation: real gradients, virtual time";
  const parts = [make("h1", {}, data.title)];
  if (data.about) parts.push(make("p", {}, data.about));
  const facts = [fact("runs", `${data.finished.toLocaleString("en")} of ${data.total.toLocaleString("en")}`),
                 fact("of them tuning", data.tuning_runs.toLocaleString("en")), fact("seeds", `${data.seeds}, ${data.seeds_drawn ? "drawn from " + data.runs_digest.slice(0, 12) : "chosen by the author"}`),
                 fact("made by", kind), fact("machine time", seconds(data.spent_s))];
  if (data.timing) {
    const t = data.timing;
    facts.push(fact("iteration, latency, bandwidth", `${t.iteration_ms} ms, ${t.latency_us} µs, ${t.bandwidth_mbps > 0 ? t.bandwidth_mbps + " Mbit/s" : "no limit"}`));
  }
  facts.push(fact("experiment", make("code", {title: data.digest}, data.digest.slice(0, 12))));
  parts.push(make("ul", {class: "facts"}, facts));
  if (data.finished < data.total) parts.push(make("div", {class: "notice"}, `Unfinished: ${data.finished} of ${data.total} runs. Run the same command again to go on.`));
  if (data.seeds < 2) parts.push(make("div", {class: "notice fails"}, "One seed: nothing here says how much of a difference is chance. No interval is shown and no comparison is made (rule 13)."));
  if (data.accuracy !== "held-out test accuracy") parts.push(make("div", {class: "notice fails"}, `All accuracies on this page: ${data.accuracy} (rule 2).`));
  return make("header", {}, parts);
}

function tableSection(table) {
  const known_size = table.parameters ? `${table.parameters.toLocaleString("en")} parameters, ${table.arithmetic}; ${table.train_samples.toLocaleString("en")} training and ${table.test_samples.toLocaleString("en")} held-out samples; ` : "";
  const section = make("section", {class: "table"},
    make("h2", {}, `${table.subject}, ${plural(table.workers, "worker")}`),
    make("p", {class: "soft small"}, `${table.model}: ${known_size}global batch ${table.batch}, ${plural(table.epochs, "epoch")}, ${plural(table.shards, "shard")}. ` +
      (table.target > 0 ? `Target: ${data.accuracy} ${percent(table.target)}.` : "No target is set.") +
      (data.seeds > 1 ? ` Numbers are medians over ${data.seeds} seeds, with ${data.interval} below, each by itself: a verdict is given on claims alone.` : "")));
  if (table.failing.length > 0) {
    section.append(make("div", {class: "notice fails"}, "Ratios are withheld where evidence is missing:", reasonList(table.failing)));
  }
  for (const condition of table.conditions) {
    const card = make("div", {class: "card condition"},
      make("header", {}, make("h3", {}, `Stragglers: ${condition.name}`), condition.model !== condition.name ? make("code", {class: "soft"}, condition.model) : null),
      make("div", {class: "charts"}, curveChart("time", condition, table.target), curveChart("bytes", condition, table.target)),
      resultTable(table, condition),
      make("div", {class: "charts"}, waitChart(condition), table.target > 0 ? paretoChart(condition) : null),
      make("h4", {}, "Observed read lag", make("span", {class: "soft small", style: "font-weight:400"}, " share of reads by lag in clocks")),
      make("div", {class: "small-charts"}, condition.rows.filter(row => row.lags.length > 0).map(lagChart)));
    section.append(card);
  }
  return section;
}

function scaling() {
  if (data.scaling.length === 0) return null;
  const charts = data.scaling.map(entry => {
    const node = figure("scaling", `${entry.subject}, ${entry.condition}`, `${entry.scaling} scaling; band: ${data.interval}`);
    const lines = entry.series.map(s => ({policy: s.policy,
      median: s.time_s.map(e => e === null ? null : e.median), low: s.time_s.map(e => e === null ? null : e.low),
      high: s.time_s.map(e => e === null ? null : e.high)})).filter(line => line.median.some(known));
    if (lines.length === 0) {
      node.dataset.absent = "true";
      node.append(make("p", {class: "soft small"}, "No policy reaches the target in most of its runs."));
    } else {
      later.push(() => lineChart(node, {at: entry.workers, lines, xName: "workers", xLabel: "workers",
        xFormat: v => String(v), yLabel: `${data.time} to the target (s)`, yFormat: significant, points: true, spanGaps: true,
        xScale: {distr: 3, log: 2}, yScale: {range: (u, low, high) => [0, high * 1.08]}}));
    }
    return node;
  });
  return make("section", {}, make("h2", {}, "Scaling"), make("div", {class: "card"}, make("div", {class: "charts"}, charts)));
}

function tuning() {
  const rows = data.tuning;
  const note = rows.length === 0 ? "No settings were tuned."
    : `${data.tuning_runs} tuning runs, all of them listed. Of each policy the settings with the least training loss at the end of the tuning seeds were measured, with other seeds; held-out accuracy had no part in it.`;
  const table = rows.length === 0 ? null : make("div", {class: "scroll"}, make("table", {},
    make("thead", {}, make("tr", {}, ["policy", "model", "stragglers", "workers", "optimizer", "schedule", "runs", "training loss", ""].map((name, i) =>
      make("th", i < 3 || i === 4 || i === 5 ? {class: "text"} : {}, name)))),
    make("tbody", {}, rows.map(row => make("tr", row.chosen ? {class: "chosen"} : {},
      make("td", {}, nameOf(row.policy)), make("td", {class: "text"}, row.subject), make("td", {class: "text"}, row.condition), make("td", {}, String(row.workers)),
      make("td", {class: "text"}, make("code", {}, row.optimizer)), make("td", {class: "text"}, make("code", {}, row.schedule)), make("td", {}, String(row.runs)),
      make("td", {}, known(row.train_loss) ? row.train_loss.toFixed(4) : row.runs > 0 ? "diverged" : "–"), make("td", {}, row.chosen ? (row.edge ? "chosen, at the edge" : "chosen") : ""))))));
  return make("section", {}, make("h2", {}, "Tuning"), make("details", {class: "card"}, make("summary", {}, note), table));
}

function policies() {
  return make("section", {}, make("h2", {}, "Policies"), make("div", {class: "card scroll"}, make("table", {},
    make("thead", {}, make("tr", {}, make("th", {}, "policy"), make("th", {class: "text"}, "guarantee"))),
    make("tbody", {}, data.policies.map((policy, i) => make("tr", {}, make("td", {}, swatch(i), policy.spec), make("td", {class: "text"}, policy.guarantee)))))));
}

page.replaceChildren(...[head(), claims(), rules(), ...data.tables.map(tableSection), scaling(), tuning(), policies(),
  make("footer", {}, "All runs: runs.csv and runs.json beside this page; the registry is runs.jsonl. The rules: docs/experiments.md. Charts: uPlot.")]
  .filter(node => node !== null));
later.forEach(mount => mount());
document.documentElement.dataset.ready = "true";
})();
