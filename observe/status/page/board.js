// The dashboard: asks for /statusz.json once a second and draws it; what its fields mean is in docs/metrics.md. A saved
// page (`soapstone top --save`) has one status in it instead, and asks nobody.
"use strict";

const LOOK_MS = 1000, PATIENCE_MS = 5000, READINGS_MAX = 12, ROWS_MAX = 64, ROWS_SEEN = 16, COLUMNS_MAX = 32;
const CAUSES = [["compute", "computing"], ["injected", "injected delays"], ["policy", "waits for the policy"],
                ["shard", "waits for a shard"], ["network", "waits for the network"]];
const SLOW = 1.5;  // times the median step

const byId = id => document.getElementById(id);
const state = {status: null, readings: [], saved: false, paused: false, ended: false, misses: 0, timer: 0, at: null};

class NoStatus extends Error {}

// ---- Reading

// What is needed of a status to say what has happened since.
function readingOf(status) {
  const reads = new Map();
  for (const shard of status.shards) {
    for (const [worker, , count, sum] of shard.readers) reads.set(`${shard.shard} ${worker}`, [count, sum]);
  }
  return {up_s: status.up_s, reads, times: new Map(status.workers.map(w => [w.worker, w.times_s]))};
}

function take(status) {
  const lists = ["workers", "shards", "history", "news"];
  if (status?.role !== "scheduler" || !lists.every(name => Array.isArray(status[name]))) throw new NoStatus();
  if (state.status !== null && status.up_s < state.status.up_s) state.readings = [];  // another scheduler
  state.status = status;
  state.at = new Date();
  state.readings.push(readingOf(status));
  if (state.readings.length > READINGS_MAX) state.readings.shift();
  draw();
}

function say(kind, text) {
  const link = byId("link");
  if (link.textContent === text) return;
  link.textContent = text;
  link.dataset.kind = kind;
}

function sayStanding() {
  const {status} = state;
  const end = status.ended;
  state.ended = end !== null && end !== undefined;
  byId("pause").textContent = state.ended ? "Look again" : state.paused ? "Go on" : "Pause";
  const at = state.saved ? `Saved when the scheduler had run for ${span(status.up_s)}. ` : "";
  if (state.ended) say("ended", `${at}The job has ended with ${end.code}: ${end.reason}.`);
  else if (state.saved) say("saved", at.trim());
  else if (state.paused) say("paused", `Paused at ${state.at.toLocaleTimeString()}.`);
  else say("live", "Live, once a second.");
}

async function look() {
  clearTimeout(state.timer);
  let again = LOOK_MS;
  try {
    const answer = await fetch("statusz.json", {cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS)});
    if (answer.ok) {
      take(await answer.json());
      state.misses = 0;
    } else {
      say("silent", `The scheduler answers ${answer.status}.`);
    }
  } catch (error) {
    again = Math.min(10, 2 ** state.misses++) * LOOK_MS;
    if (error instanceof NoStatus || error instanceof SyntaxError) say("failed", "What answers there is no scheduler.");
    else saySilent();
  }
  if (!state.paused && !state.ended) state.timer = setTimeout(look, again);
}

function saySilent() {
  if (state.at === null) return say("silent", "The scheduler does not answer.");
  say("silent", `The scheduler has not answered since ${state.at.toLocaleTimeString()}: the job may have ended, and with ` +
                "it the scheduler. Below is how it was then.");
}

function toggle() {
  if (state.ended) {
    state.ended = false;
    return look();
  }
  state.paused = !state.paused;
  if (state.paused) clearTimeout(state.timer);
  else look();
  if (state.status !== null) sayStanding();
}

// ---- Panels: each is given the status, what was earlier, and its place

const nameOf = worker => `worker ${worker.worker}${worker.host ? ` on ${worker.host}` : ""}`;
// In a box that scrolls by itself, by keys too, where there are many rows.
function boxed(rows, name, content) {
  if (rows <= ROWS_SEEN) return content;
  return tag("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": name}, content);
}
const note = (...children) => tag("p", {class: "say"}, ...children);

function facts(status, earlier, place) {
  const p = status.progress;
  const clock = tag("dd", {}, p.clocks > 0 ? `${whole(p.clock)} of ${whole(p.clocks)}` : "–");
  if (p.clocks > 0) clock.append(tag("progress", {max: p.clocks, value: p.clock, "aria-label": "clocks"}));
  const rows = [
    ["phase", status.phase], ["clock", clock],
    ["epoch", p.epochs > 0 ? `${whole(p.epoch)} of ${whole(p.epochs)}` : "–"],
    ["samples a second", short(p.samples_per_s)],
    ["loss", p.samples === 0 ? "–" : p.loss === null ? "not finite" : short(p.loss)],
    ["read lag", p.samples > 0 ? `${short(p.lag_mean)}, at most ${whole(p.lag_max)}` : "–"],
    ["workers", `${whole(p.workers)} of ${whole(status.workers_wanted)}`],
    ["servers", `${whole(status.servers_there)} of ${whole(status.servers)}`],
    ["up for", span(status.up_s)], ["to go", p.samples > 0 ? span(p.eta_s) : "–"], ["policy", status.policy],
    ["version", status.version]];
  place.replaceChildren(...rows.map(([name, value]) => tag(
      "div", {}, tag("dt", {}, name), value instanceof Node ? value : tag("dd", {}, value))));
}

// [{title, lanes, gap, frontier, all}]: where clocks are known of one moment, by the shard that saw them.
function laneBlocks(status) {
  const hosts = new Map(status.workers.map(w => [w.worker, w.host]));
  const lane = (kind, id, clock, waits) => ({name: `${kind} ${id}`, clock, waits,
    label: kind === "worker" && hosts.get(id) ? `worker ${id}, ${hosts.get(id)}` : `${kind} ${id}`});
  const blocks = [];
  const seen = new Set();
  for (const shard of status.decentralised ? [] : status.shards) {
    const kind = shard.groups ? "group" : "worker";
    const fresh = shard.readers.filter(([id, clock]) => clock >= 0 && !seen.has(`${kind} ${id}`));
    if (fresh.length === 0) continue;
    for (const [id] of fresh) seen.add(`${kind} ${id}`);
    blocks.push({title: `As shard ${shard.shard} sees them`, gap: shard.clock_gap_max, frontier: shard.frontier,
                 all: shard.reader_count,
                 lanes: fresh.map(([id, clock, , , , parked]) => lane(kind, id, clock, parked > 0))});
  }
  const told = status.workers.filter(w => w.member);
  if (blocks.length === 0 && told.length > 0) {
    blocks.push({title: "As each worker last told, up to a second apart, so no bound is drawn", gap: null,
                 frontier: null, all: told.length,
                 lanes: told.map(w => lane("worker", w.worker, w.clock, w.waits !== ""))});
  }
  return blocks;
}

function clocks(status, earlier, place) {
  const blocks = laneBlocks(status);
  if (blocks.length === 0) return place.replaceChildren(note("No worker has begun."));
  place.replaceChildren(...blocks.flatMap(block => {
    const least = Math.min(...block.lanes.map(l => l.clock));
    const band = known(block.gap) ? {from: least, to: least + block.gap} : null;
    let lanes = block.lanes;
    if (lanes.length > ROWS_MAX) lanes = [...lanes].sort((a, b) => a.clock - b.clock).slice(0, ROWS_MAX);
    const some = lanes.length < block.all ? `; ${lanes.length} of ${whole(block.all)} are shown, of the slowest` : "";
    let bound = block.frontier === null ? "" : "; the policy sets no bound";
    if (band !== null) bound = `; clocks may be ${block.gap} ahead of the slowest: the hatched band, to ${band.to}`;
    const front = block.frontier === null ? "" : `; dotted: the frontier, ${block.frontier}`;
    const label = lanes.map(l => `${l.name} ${l.clock}${l.waits ? " waits" : ""}`).join(", ");
    return [boxed(lanes.length, "clocks", laneChart(place.clientWidth, lanes, band, block.frontier, label)),
            note(`${block.title}${bound}${front}${some}.`)];
  }));
}

// Of the last ten seconds, where it has read in them; else since the start, while it is there (has a clock).
function meanLag(shard, [worker, clock, reads, sum], earlier) {
  const [reads0, sum0] = earlier.reads.get(`${shard} ${worker}`) ?? [0, 0];
  if (reads > reads0 && sum >= sum0) return (sum - sum0) / (reads - reads0);
  return reads > 0 && clock >= 0 ? sum / reads : null;
}

function lagCell(cell, scale) {
  if (cell === undefined) return tag("td", {}, "·");
  const {lag, waits, worker, shard, said} = cell;
  const level = lag === null ? 0 : Math.min(6, Math.round(6 * lag / scale));
  const box = tag("td", {class: `h${level}${waits ? " waits" : ""}`, "data-worker": worker, "data-shard": shard}, said);
  if (waits) box.append(" ‖", tag("span", {class: "only-read"}, " waits"));
  return box;
}

// A table of cells by row and shard. `rows`: [name, {shard: cell}].
function lagTable(caption, rows, shards, scale) {
  const head = tag("tr", {}, tag("th", {}, caption), ...shards.map(s => tag("th", {scope: "col"}, s)));
  const body = rows.map(([name, cells]) => tag(
      "tr", {}, tag("th", {scope: "row"}, name), ...shards.map(s => lagCell(cells.get(s), scale))));
  return tag("table", {}, tag("thead", {}, head), tag("tbody", {}, ...body));
}

const QUANTILES = ["least behind", "10%", "25%", "half", "75%", "90%", "most behind"];

function lagRows(shards, earlier) {
  const folded = shards.some(s => s.readers.length !== s.reader_count);
  const rows = new Map();
  let most = 0;
  for (const shard of shards) {
    shard.readers.forEach((reader, i) => {
      const lag = meanLag(shard.shard, reader, earlier);
      const name = folded ? QUANTILES[i] ?? `${i}` : `${shard.groups ? "group" : "worker"} ${reader[0]}`;
      if (!rows.has(name)) rows.set(name, new Map());
      const said = lag === null ? "–" : folded ? `${short(lag)} (${reader[0]})` : short(lag);
      rows.get(name).set(shard.shard, {lag, waits: reader[5] > 0, worker: reader[0], shard: shard.shard, said});
      most = Math.max(most, lag ?? 0);
    });
  }
  return {folded, most, rows: [...rows]};
}

function lags(status, earlier, place) {
  if (status.decentralised) {
    return place.replaceChildren(
        note("Under this policy workers keep the parameters and read from one another; shards do not see it."));
  }
  const parts = [];
  for (const groups of [false, true]) {
    const all = status.shards.filter(s => s.groups === groups);
    const shards = all.slice(0, COLUMNS_MAX);
    let {folded, most, rows} = lagRows(shards, earlier);
    if (rows.length === 0) continue;
    const far = ([, cells]) => Math.max(...[...cells.values()].map(c => c.lag ?? 0));
    const count = rows.length;
    if (count > ROWS_MAX) rows = rows.sort((a, b) => far(b) - far(a)).slice(0, ROWS_MAX);
    const bound = shards[0].read_lag_max;
    const scale = Math.max(1, known(bound) ? Math.min(bound, Math.max(most, 1)) : most);
    const table = lagTable(folded ? "workers by lag" : "at shard", rows, shards.map(s => s.shard), scale);
    parts.push(boxed(Infinity, "read lags", table));
    const older = earlier.reads.size > 0 ? ", since the start where there was no read in them" : "";
    parts.push(note(`Mean clocks behind, ${earlier.since}${older}; ‖: waits now; –: has not read, or has left. `,
                    known(bound) ? `The policy allows ${bound}. ` : "The policy sets no bound. ",
                    folded ? `Those that stand for ${whole(shards[0].reader_count)} workers, with whose it is. ` : "",
                    count > ROWS_MAX ? `The ${ROWS_MAX} furthest behind of ${count}. ` : "",
                    all.length > COLUMNS_MAX ? `The first ${COLUMNS_MAX} of ${all.length} shards.` : ""));
  }
  place.replaceChildren(...(parts.length > 0 ? parts : [note("No shard has told of its reads yet.")]));
}

// Seconds by cause: of the last ten seconds, or of all where nothing has been counted in them.
function spent(worker, earlier) {
  const before = earlier.times.get(worker.worker);
  const sum = times => CAUSES.reduce((total, [kind]) => total + Math.max(0, times[kind] ?? 0), 0);
  const since = before && Object.fromEntries(CAUSES.map(([kind]) => [kind, worker.times_s[kind] - before[kind]]));
  const times = since && sum(since) > 0 ? since : worker.times_s;
  const total = sum(times);
  return CAUSES.map(([kind]) => [kind, total > 0 ? Math.max(0, times[kind] ?? 0) / total : 0]);
}

function times(status, earlier, place) {
  let workers = status.workers.filter(w => w.member);
  if (workers.length === 0) return place.replaceChildren(note("No worker has told of its time yet."));
  const bars = workers.map(w => {
    const parts = spent(w, earlier);
    const text = parts.filter(([, share]) => share >= 0.005)
        .map(([kind, share]) => `${CAUSES.find(([k]) => k === kind)[1]} ${percent(share)}`).join(", ");
    return {label: `worker ${w.worker}${w.host ? `, ${w.host}` : ""}`, parts, words: `${nameOf(w)}: ${text}`,
            waits: 1 - parts[0][1] - parts[1][1]};
  });
  const shown = bars.length > ROWS_MAX ? bars.sort((a, b) => b.waits - a.waits).slice(0, ROWS_MAX) : bars;
  const total = CAUSES.map(([kind, name], i) => {
    const mean = bars.reduce((sum, bar) => sum + bar.parts[i][1], 0) / bars.length;
    return [kind, `${name} ${percent(mean)}`];
  });
  place.replaceChildren(
      boxed(shown.length, "times", barChart(place.clientWidth, shown, shown.map(bar => bar.words).join("; "))),
      legend(total),
      note(`Shares of each worker's time, ${earlier.since}; the numbers are of all. `,
           shown.length < bars.length ? `The ${ROWS_MAX} of ${bars.length} that wait most.` : ""));
}

function curve(place, points, unit, fromZero, nothing) {
  const good = points.filter(([, y]) => known(y));
  const last = good.length > 0 ? good[good.length - 1][1] : null;
  const label = `${unit}, from ${short(good[0]?.[1])} to ${short(last)}`;
  const drawn = lineChart(place.clientWidth, points, label, fromZero);
  if (drawn === null) return place.replaceChildren(note(nothing));
  const odd = points.length - good.length;
  place.replaceChildren(drawn, note(`${label}, by time since the start`,
                                    odd > 0 ? `; ${odd} were not finite, and leave a gap.` : "."));
}

const rate = (status, earlier, place) =>
    curve(place, status.history.map(([t, , y]) => [t, y]), "samples a second", true, "No rate is known yet.");
const loss = (status, earlier, place) =>
    curve(place, status.history.map(([t, , , y]) => [t, y]), "mean loss of late", false, "No loss is known yet.");

const list = (lines, kind = "") => tag("ul", {}, ...lines.map(line => tag("li", {class: kind}, line)));

function slow(status, earlier, place) {
  const paced = status.workers.filter(w => w.member && w.slowdown > 0);
  const found = paced.filter(w => w.slowdown > SLOW).sort((a, b) => b.slowdown - a.slowdown).map(
      w => `${nameOf(w)}: ${short(1000 * w.step_s)} ms a step of its own, ${w.slowdown.toFixed(1)} times the median`);
  if (found.length > 0) return place.replaceChildren(list(found.slice(0, ROWS_MAX), "bad"));
  place.replaceChildren(note(
      paced.length > 0 ? `None of ${paced.length} takes more than ${SLOW} times the median for a step.`
                       : "No pace is known yet: it takes five seconds and five clocks."));
}

function missing(status, earlier, place) {
  const lines = [];
  if (status.missing !== "") lines.push(`missing: ${status.missing}`);
  if (status.waits !== "") lines.push(status.waits);
  for (const w of status.workers) {
    if (!w.member) lines.push(`${nameOf(w)} is no member any more, after clock ${w.clock}`);
    if (w.waits !== "") lines.push(`${nameOf(w)} has waited ${w.waits}`);
  }
  const parked = status.shards.filter(s => s.parked_count > 0).map(s => `${s.parked_count} at shard ${s.shard}`);
  const reads = note(parked.length > 0 ? `Reads that wait for the policy now: ${cut(parked.join(", "), 300)}.`
                                       : "No read waits for the policy now.");
  const there = `Everybody is there: ${status.servers_there} servers, ${status.progress.workers} workers.`;
  place.replaceChildren(lines.length > 0 ? list(lines.slice(0, ROWS_MAX), "bad") : note(there), reads);
}

function security(status, earlier, place) {
  const on = status.security.startsWith("on");
  place.replaceChildren(tag("p", on ? {} : {class: "bad"}, status.security));
}

function news(status, earlier, place) {
  const lines = [...status.news].reverse();
  place.replaceChildren(lines.length > 0 ? list(lines) : note("None yet."));
}

const PANELS = {clocks, lags, times, rate, loss, slow, missing, security, news};

function draw() {
  const {status, readings} = state;
  byId("job").textContent = status.job;
  document.title = `${status.phase} ${whole(status.progress.clock)} of ${whole(status.progress.clocks)} – soapstone`;
  // A saved status is its own earliest: then all is since the start.
  const earlier = readings.length > 1 ? {...readings[0], since: "of the last ten seconds"}
                                      : {reads: new Map(), times: new Map(), since: "since the start"};
  for (const [id, panel] of Object.entries({facts, ...PANELS})) {
    const place = id === "facts" ? byId(id) : byId(id).querySelector(".body");
    try {
      panel(status, earlier, place);
    } catch (error) {
      console.error(id, error);
      place.replaceChildren(note("This cannot be drawn: the status has other fields than this page knows."));
    }
  }
  sayStanding();
}

function begin() {
  const saved = byId("saved");
  addEventListener("resize", () => state.status !== null && draw());
  if (saved === null) {
    byId("pause").addEventListener("click", toggle);
    look();
    return;
  }
  byId("pause").hidden = true;
  state.saved = true;
  take(JSON.parse(saved.textContent));
}
begin();
