"use strict";
// Draws the page from the JSON in #data. Text of files goes in as text nodes alone, never as markup.
(() => {
const {runs, made_by} = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const page = document.getElementById("page");
const COLORS = 9;
const color = i => `var(--c${i % COLORS})`;

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children.filter(child => child !== null && child !== undefined));
  return node;
}
const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// ---- numbers -------------------------------------------------------------------------------------------
const isNumber = value => typeof value === "number";
function plain(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return value.toExponential(2);
  return size >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(5)));
}
const percent = value => `${(100 * value).toPrecision(3)} %`;
const seconds = value => `${Number(value.toPrecision(3))} s`;
function bytes(value) {
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (Math.abs(value) < 1024) return `${Number(value.toPrecision(4))} ${unit}`;
    value /= 1024;
  }
  return `${Number(value.toPrecision(4))} TiB`;
}

// ---- scales --------------------------------------------------------------------------------------------
function niceStep(span, count) {
  const raw = span / count, power = 10 ** Math.floor(Math.log10(raw));
  return power * ([1, 2, 5].find(factor => factor * power >= raw) ?? 10);
}
function linearTicks(low, high, count) {
  const step = niceStep(high - low || 1, count), ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) ticks.push(i * step);
  return ticks;
}
function scaleOf(values, {zero = false, log = false}) {
  let low = Infinity, high = -Infinity;
  for (const value of values) { if (value < low) low = value; if (value > high) high = value; }
  if (low > high) [low, high] = [0, 1];
  if (log && low > 0 && high / low > 50) {
    const [a, b] = [Math.log10(low), Math.log10(high)], ticks = [];
    for (let power = Math.ceil(a); power <= b; ++power) ticks.push(10 ** power);
    return {at: value => (Math.log10(value) - a) / (b - a), ticks};
  }
  if (zero) low = Math.min(low, 0);
  if (low === high) { const pad = Math.abs(low) * 0.1 || 1; low -= zero ? 0 : pad; high += pad; }
  const pad = zero ? 0 : (high - low) * 0.04;
  [low, high] = [low - pad, high + (high - low) * 0.04];
  return {at: value => (value - low) / (high - low), ticks: linearTicks(low, high, 5)};
}

// ---- line charts ---------------------------------------------------------------------------------------
// In units of a pixel where the page is as wide as it was when it was opened: text stays readable on a narrow one.
const WIDTH = Math.max(300, Math.min(560, innerWidth - 48)), HEIGHT = 250, LEFT = 62, RIGHT = 12, TOP = 10, BOTTOM = 28;
const INNER = WIDTH - LEFT - RIGHT, DEPTH = HEIGHT - TOP - BOTTOM;

function frame(x, y, show, xName) {
  const px = value => LEFT + INNER * x.at(value), py = value => TOP + DEPTH * (1 - y.at(value));
  const root = svg("svg", {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img"});
  for (const tick of y.ticks)
    root.append(svg("line", {class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: py(tick), y2: py(tick)}),
      svg("text", {x: LEFT - 7, y: py(tick) + 4, "text-anchor": "end"}, show(tick)));
  for (const tick of x.ticks.filter(Number.isInteger))
    root.append(svg("text", {x: px(tick), y: HEIGHT - 12, "text-anchor": "middle"}, tick.toLocaleString("en")));
  root.append(svg("line", {class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: TOP + DEPTH, y2: TOP + DEPTH}),
    svg("text", {x: LEFT - 7, y: HEIGHT - 12, "text-anchor": "end"}, xName));
  return {root, px, py};
}
/// Path over points; a number that is none breaks the line.
function pathOf(steps, values, px, py) {
  let path = "", pen = "M";
  values.forEach((value, i) => {
    if (!isNumber(value)) { pen = "M"; return; }
    path += `${pen}${px(steps[i]).toFixed(1)} ${py(value).toFixed(1)}`;
    pen = "L";
  });
  return path;
}
function bandOf(series, px, py) {
  const points = series.steps.map((step, i) => [step, series.low[i], series.high[i]]).filter(p => isNumber(p[1]));
  const line = list => list.map(([step, value]) => `${px(step).toFixed(1)} ${py(value).toFixed(1)}`).join("L");
  if (points.length === 0) return "";
  return `M${line(points.map(p => [p[0], p[2]]))}L${line(points.map(p => [p[0], p[1]]).reverse())}Z`;
}
function nearest(steps, step) {
  let low = 0, high = steps.length - 1;
  while (high - low > 1) { const middle = (low + high) >> 1; if (steps[middle] < step) low = middle; else high = middle; }
  return Math.abs(steps[low] - step) <= Math.abs(steps[high] - step) ? low : high;
}
/// A box beside the pointer; rows are [color, name, value].
function tipFor(chart) {
  const tip = el("div", {class: "tip"});
  chart.append(tip);
  const hide = () => { tip.style.display = "none"; };
  chart.addEventListener("pointerleave", hide);
  return {
    hide,
    show(title, rows, share) {
      tip.replaceChildren(el("div", {class: "faint"}, title),
        ...rows.map(([paint, name, value]) => el("div", {}, paint ? el("i", {style: `background:${paint}`}) : null, name, el("b", {}, value))));
      tip.style.display = "block";
      tip.style.left = share < 0.5 ? `${100 * share + 3}%` : "auto";
      tip.style.right = share < 0.5 ? "auto" : `${100 * (1 - share) + 3}%`;
    }};
}
function hoverSteps(chart, root, x, px, describe) {
  const rule = svg("line", {class: "rule", y1: TOP, y2: TOP + DEPTH});
  root.append(rule);
  const tip = tipFor(chart);
  const move = event => {
    const box = root.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width * WIDTH - LEFT) / INNER;
    const found = describe(x.from(Math.min(1, Math.max(0, at))));
    if (!found) return;
    const place = px(found.step);
    rule.setAttribute("x1", place); rule.setAttribute("x2", place);
    rule.style.visibility = "visible";
    tip.show(`step ${found.title}`, found.rows, place / WIDTH);
  };
  chart.addEventListener("pointermove", move);
  chart.addEventListener("pointerdown", move);
  chart.addEventListener("pointerleave", () => { rule.style.visibility = "hidden"; });
}
function stepScale(lists) {
  let low = Infinity, high = -Infinity;
  for (const steps of lists) if (steps.length) { low = Math.min(low, steps[0]); high = Math.max(high, steps[steps.length - 1]); }
  if (low > high) [low, high] = [0, 1];
  if (low === high) { low -= 1; high += 1; }
  return {at: step => (step - low) / (high - low), from: share => low + share * (high - low), ticks: linearTicks(low, high, 5)};
}
/// series: {name, color, steps, bucket, mean, low?, high?}, or of single values {name, color, steps, mean, dots, dash}
function lineCard(title, series, options = {}) {
  series = series.filter(s => s.mean.some(isNumber));
  if (series.length === 0) return null;
  const show = options.show ?? plain;
  const y = scaleOf(series.flatMap(s => [s.mean, s.low ?? [], s.high ?? []].flat().filter(isNumber)), options);
  const x = stepScale(series.map(s => s.steps));
  const {root, px, py} = frame(x, y, show, "step");
  root.setAttribute("aria-label", title);
  for (const s of series) {
    if (s.low) root.append(svg("path", {d: bandOf(s, px, py), style: `fill:${s.color};opacity:.16`}));
    root.append(svg("path", {d: pathOf(s.steps, s.mean, px, py), style: `fill:none;stroke:${s.color};stroke-width:1.7`,
      "stroke-dasharray": s.dash ?? "none", "stroke-linejoin": "round"}));
    if (s.dots || s.steps.length === 1) s.mean.forEach((value, i) => {
      if (isNumber(value)) root.append(svg("circle", {cx: px(s.steps[i]), cy: py(value), r: 2.6, style: `fill:${s.color}`}));
    });
  }
  const chart = el("div", {class: "chart"}, root);
  hoverSteps(chart, root, x, px, step => {
    const places = series.map(s => nearest(s.steps, step));
    const best = series.map((s, i) => s.steps[places[i]]).reduce((a, b) => Math.abs(b - step) < Math.abs(a - step) ? b : a);
    const reaches = s => s.dots || (best >= s.steps[0] - s.bucket && best <= s.steps[s.steps.length - 1] + s.bucket);
    const rows = series.map((s, i) => !reaches(s) ? null : [s.color,
      s.dots && s.steps[places[i]] !== best ? `${s.name} (${s.steps[places[i]].toLocaleString("en")})` : s.name,
      isNumber(s.mean[places[i]]) ? show(s.mean[places[i]]) + (s.low ? ` (${show(s.low[places[i]])} to ${show(s.high[places[i]])})` : "") : "not a number"]).filter(Boolean);
    return {step: best, title: best.toLocaleString("en"), rows};
  });
  return el("div", {class: "card"}, el("h3", {}, title), chart, options.below ?? null);
}
const legend = entries => el("div", {class: "legend faint"}, ...entries.map(([paint, name, kind]) =>
  el("span", {}, el("i", {class: kind ?? "", style: `background:${paint}`}), name)));

function seriesOf(key) {
  return runs.map((run, i) => run.series[key] && {name: run.name, color: color(i), steps: run.steps, bucket: run.bucket, ...run.series[key]}).filter(Boolean);
}
const heldOut = () => runs.flatMap((run, i) => run.held_out.map((file, j) => ({name: `${runs.length > 1 ? run.name + ", " : ""}held out ${file.name}`,
  color: color(runs.length > 1 ? i : j + 1), steps: file.steps, mean: file.values, dots: true, dash: ["5 4", "1 4", "9 3 2 3"][j % 3]})));

// ---- one run's charts ----------------------------------------------------------------------------------
function phaseCard(run) {
  const names = Object.keys(run.phases);
  if (names.length === 0) return null;
  const sums = run.steps.map(() => 0), layers = [];
  for (const name of names) {
    const below = [...sums];
    run.phases[name].forEach((value, i) => { sums[i] += isNumber(value) ? value : 0; });
    layers.push({name, below, above: [...sums]});
  }
  const sorted = [...sums].sort((a, b) => a - b), usual = sorted[Math.floor(0.98 * (sorted.length - 1))] * 1.15;
  const y = scaleOf([Math.min(sorted[sorted.length - 1], usual)], {zero: true}), x = stepScale([run.steps]);
  const {root, px, py} = frame(x, y, seconds, "step");
  root.setAttribute("aria-label", `Phases of ${run.name}`);
  const clipped = value => Math.max(TOP, py(value));
  layers.forEach((layer, k) => {
    const steps = run.steps.length > 1 ? run.steps : [run.steps[0] - 0.5, run.steps[0] + 0.5];
    const at = i => Math.min(i, run.steps.length - 1);
    const top = steps.map((step, i) => `${px(step).toFixed(1)} ${clipped(layer.above[at(i)]).toFixed(1)}`);
    const bottom = steps.map((step, i) => `${px(step).toFixed(1)} ${clipped(layer.below[at(i)]).toFixed(1)}`).reverse();
    root.append(svg("path", {d: `M${[...top, ...bottom].join("L")}Z`, style: `fill:${color(k)};opacity:.85`}));
  });
  const chart = el("div", {class: "chart"}, root);
  hoverSteps(chart, root, x, px, step => {
    const i = nearest(run.steps, step);
    return {step: run.steps[i], title: run.steps[i].toLocaleString("en"), rows: [...names.map((name, k) => [color(k), name,
      isNumber(run.phases[name][i]) ? seconds(run.phases[name][i]) : "-"]).reverse(), ["", "step", seconds(sums[i])]]};
  });
  return el("div", {class: "card"}, el("h3", {}, run.name), chart, legend(names.map((name, k) => [color(k), name, "box"])));
}
function memoryCard(run) {
  const kinds = [["planned", "planned", color(7)], ["growth", "measured above the start", color(0)], ["peak", "whole process", color(4)]]
    .filter(([key]) => run.memory[key]?.some(isNumber));
  if (kinds.length === 0) return null;
  const ranks = run.memory[kinds[0][0]].length;
  const y = scaleOf(kinds.flatMap(([key]) => run.memory[key].filter(isNumber)), {zero: true});
  y.ticks = binaryTicks(Math.max(...kinds.flatMap(([key]) => run.memory[key].filter(isNumber))));
  const slot = INNER / ranks, bar = Math.min(34, slot * 0.8 / kinds.length);
  const {root, py} = frame({at: () => 0, ticks: []}, y, bytes, "rank");
  root.setAttribute("aria-label", `Memory of the ranks of ${run.name}`);
  for (let rank = 0; rank < ranks; ++rank) {
    const middle = LEFT + slot * (rank + 0.5);
    kinds.forEach(([key, , paint], k) => {
      const value = run.memory[key][rank];
      if (isNumber(value)) root.append(svg("rect", {x: middle + (k - kinds.length / 2) * bar, y: py(value), width: bar * 0.94,
        height: Math.max(0, TOP + DEPTH - py(value)), style: `fill:${paint}`}));
    });
    if (rank % Math.ceil(ranks / 16) === 0) root.append(svg("text", {x: middle, y: HEIGHT - 12, "text-anchor": "middle"}, String(rank)));
  }
  const chart = el("div", {class: "chart"}, root), tip = tipFor(chart);
  const move = event => {
    const box = root.getBoundingClientRect();
    const rank = Math.floor(((event.clientX - box.left) / box.width * WIDTH - LEFT) / slot);
    if (rank < 0 || rank >= ranks) return tip.hide();
    tip.show(`rank ${rank}`, kinds.map(([key, name, paint]) => [paint, name, isNumber(run.memory[key][rank]) ? bytes(run.memory[key][rank]) : "-"]),
      (LEFT + slot * (rank + 0.5)) / WIDTH);
  };
  chart.addEventListener("pointermove", move);
  chart.addEventListener("pointerdown", move);
  return el("div", {class: "card"}, el("h3", {}, run.name), chart, legend(kinds.map(([, name, paint]) => [paint, name, "box"])));
}
function binaryTicks(high) {
  const unit = 1024 ** Math.floor(Math.log(Math.max(high, 1)) / Math.log(1024));
  return linearTicks(0, high / unit, 4).map(tick => tick * unit);
}

// ---- experts: a character a cell, '0' without tokens, else log2 of the load over an even one, from -3 to 3 ----------
const CELLS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const loadOf = cell => cell === 0 ? 0 : 2 ** ((cell - 32) * 3 / 31);
function mix(a, b, share) { return a.map((value, i) => Math.round(value + (b[i] - value) * share)); }
function paintOf(name) {
  const text = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return [1, 3, 5].map(i => parseInt(text.slice(i, i + 2), 16));
}
function expertCard(run) {
  const load = run.experts;
  if (!load) return null;
  const canvas = el("canvas", {width: load.steps.length, height: load.experts, role: "img", "aria-label": `Load of the experts of ${run.name}`});
  canvas.style.height = `${Math.min(420, Math.max(150, 4 * load.experts))}px`;
  const choice = el("select", {"aria-label": "MoE layer"}, ...load.cells.map((_, layer) => el("option", {value: layer}, `MoE layer ${layer}`)));
  const cellAt = (time, expert) => CELLS.indexOf(load.cells[choice.value || 0][time * load.experts + expert]);
  const draw = () => {
    const context = canvas.getContext("2d"), image = context.createImageData(canvas.width, canvas.height);
    const [even, busy, idle, none] = ["--even", "--busy", "--idle", "--none"].map(paintOf);
    for (let expert = 0; expert < load.experts; ++expert)
      for (let time = 0; time < load.steps.length; ++time) {
        const cell = cellAt(time, expert), share = (cell - 32) / 31;
        const paint = cell === 0 ? none : mix(even, share > 0 ? busy : idle, Math.min(1, Math.abs(share) * 1.5));
        image.data.set([...paint, 255], 4 * (expert * canvas.width + time));
      }
    context.putImageData(image, 0, 0);
  };
  draw();
  choice.addEventListener("change", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  const chart = el("div", {class: "chart"}, canvas), tip = tipFor(chart);
  const move = event => {
    const box = canvas.getBoundingClientRect();
    const time = Math.floor((event.clientX - box.left) / box.width * canvas.width);
    const expert = Math.floor((event.clientY - box.top) / box.height * canvas.height);
    if (time < 0 || expert < 0 || time >= canvas.width || expert >= canvas.height) return tip.hide();
    const cell = cellAt(time, expert), value = loadOf(cell);
    const text = cell === 0 ? "no tokens" : `${cell === 1 ? "at most " : cell === 63 ? "at least " : ""}${value.toPrecision(2)} × even`;
    tip.show(`step ${load.steps[time].toLocaleString("en")}`, [["", `expert ${expert}`, text]], (time + 0.5) / canvas.width);
  };
  chart.addEventListener("pointermove", move);
  chart.addEventListener("pointerdown", move);
  return el("div", {class: "card"}, el("h3", {}, run.name), choice, chart,
    el("p", {class: "faint"}, `steps ${load.steps[0]} to ${load.steps[load.steps.length - 1]} to the right, experts 0 to ${load.experts - 1} downward`),
    legend([["var(--idle)", "fewer tokens than an even share", "box"], ["var(--busy)", "more", "box"], ["var(--none)", "none", "box"]]));
}

// ---- texts ---------------------------------------------------------------------------------------------
function table(head, rows, textColumn = -1) {
  return el("div", {class: "scroll"}, el("table", {}, el("tr", {}, ...head.map(name => el("th", {}, name))),
    ...rows.map(row => el("tr", {}, ...row.map((cell, i) => el("td", i === textColumn ? {class: "text"} : {}, cell))))));
}
function factsCard() {
  const labels = [...new Set(runs.flatMap(run => run.facts.map(([label]) => label)))];
  return el("div", {class: "card"}, table(["", ...runs.map(run => run.name)], labels.map(label =>
    [label, ...runs.map(run => (run.facts.find(fact => fact[0] === label) ?? ["", "-"])[1])])));
}
const textCard = (run, ...content) => el("div", {class: "card"}, el("h3", {}, run.name), ...content);

function section(title, cards, words, kind = "") {
  cards = cards.filter(Boolean);
  if (cards.length === 0) return;
  page.append(el("h2", {}, title), ...(words ? [el("p", {class: "faint"}, words)] : []), el("div", {class: `cards ${kind}`}, ...cards));
}

document.title = `${runs.map(run => run.name).join(", ")} – sluice report`;
page.append(el("h1", {}, runs.map(run => run.name).join(", ")), el("p", {class: "faint"}, made_by));
for (const run of runs) for (const note of run.notes) page.append(el("p", {class: "note faint"}, `${run.name}: ${note}`));
for (const run of runs) if (run.bucket > 1)
  page.append(el("p", {class: "faint"}, `${run.name}: a point is the mean of ${run.bucket} steps, a band their smallest and largest value.`));
if (runs.length > 1) page.append(legend(runs.map((run, i) => [color(i), run.name])));
section("Runs", [factsCard()], "", "texts");
const held = heldOut();
section("Learning", [
  lineCard("Loss, nat a token", [...seriesOf("loss"), ...held], {below: held.length ? legend([...(runs.length > 1 ? [] : [[color(0), "training"]]), ...held.map(s => [s.color, s.name])]) : null}),
  lineCard("Gradient norm, before clipping", seriesOf("grad_norm"), {log: true}),
  lineCard("Learning rate", seriesOf("learning_rate"), {zero: true}),
  lineCard("Load-balancing loss, before its coefficient", seriesOf("aux_loss")),
  lineCard("Router's z-loss, before its coefficient", seriesOf("z_loss"))]);
section("Preferences", [
  lineCard("Reward of the chosen answer less that of the rejected one", seriesOf("margin")),
  lineCard("Share of pairs whose chosen answer has the larger reward", seriesOf("accuracy"), {zero: true, show: percent}),
  lineCard("Log-probability of the chosen answer, nat", seriesOf("chosen_log_prob")),
  lineCard("Log-probability of the rejected answer, nat", seriesOf("rejected_log_prob"))], "Means over the pairs of a step.");
section("Speed", [
  lineCard("Throughput, tokens a second", seriesOf("tokens_per_second"), {zero: true}),
  lineCard("MFU: share of the measured rate of large matmuls", seriesOf("mfu"), {zero: true, show: percent})]);
section("Phases of a step", runs.map(phaseCard), "Seconds on rank 0.");
section("Memory of each rank", runs.map(memoryCard), "At the last step: what was planned, and the peak so far.");
section("Load of the experts", [
  lineCard("Busiest expert of a layer over an even share, mean of the layers", seriesOf("busiest_expert")),
  lineCard("Busiest expert over an even share, in the most uneven layer", seriesOf("busiest_load")),
  lineCard("Experts without a token, of all layers", seriesOf("unused_experts"), {zero: true}), ...runs.map(expertCard)]);
section("Saved steps", runs.map(run => run.checkpoints.length ? textCard(run, table(["step", "saved", "ranks", "size", "state"], run.checkpoints)) : null), "", "texts");
section("Evaluated documents", runs.map(run => run.documents.length ? textCard(run, table(["document", "tokens", "loss", "perplexity"], run.documents)) : null),
  "Those of the highest loss, nat a token; the first document is 0.", "texts");
section("Samples", runs.map(run => run.samples.length ? textCard(run, table(["step", "prompt", "answer"], run.samples, 2)) : null), "", "texts");
section("Job files", runs.map(run => run.job ? textCard(run, el("pre", {}, run.job)) : null), "", "texts");
})();
