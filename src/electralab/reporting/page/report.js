"use strict";
// Charts that answer: smoothing, axes, lines on and off, values under the pointer or the arrow keys. Where the page is
// served live it asks for news and draws it into what is already shown.
const $ = (what, where = document) => where.querySelector(what);
const $$ = (what, where = document) => [...where.querySelectorAll(what)];
const LEFT = 56, RIGHT = 14, TOP = 12, BOTTOM = 34, COLORS = 8;
const data = JSON.parse($("#data").textContent);
// What the reader chose lives with the tab's history: it outlasts a reload, and works from a file.
const state = { axis: data.axis, smoothing: 0.8, log: false, off: {}, theme: "", ...history.state };

function remember() { history.replaceState(state, ""); }

// ---- numbers ----
function smooth(values, weight) {
  let total = 0, count = 0;
  return values.map((value) => {
    if (value === null) return null;
    total = weight * total + value; count = weight * count + 1;
    return total / count;
  });
}
// As many digits as tell a tick from its neighbours.
function round(value, distance) {
  if (!distance) return String(+value.toPrecision(3));
  let digits = 0;
  while (digits < 9 && Math.abs(distance * 10 ** digits - Math.round(distance * 10 ** digits)) >= 1e-6) digits += 1;
  return String(+value.toFixed(digits));
}
function shorten(value, distance = 0, isExponential = false) {
  const size = Math.abs(value);
  if (size <= 1e-12) return "0";
  if (size >= 1e12 || isExponential) {
    const power = Math.floor(Math.log10(size) + 1e-12);
    return `${round(value / 10 ** power, distance / 10 ** power)}e${power}`;
  }
  const [unit, letter] = [[1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([limit]) => size >= limit) || [1, ""];
  return round(value / unit, distance / unit) + letter;
}
function precise(value) { return Math.abs(value) >= 1e6 ? shorten(value) : String(+value.toPrecision(4)); }
function sayX(axis, value, distance = 0) {
  if (axis !== "seconds") return shorten(value, distance, axis === "flops");
  return value < 90 ? `${+value.toPrecision(2)} s` : value < 5400 ? `${+(value / 60).toPrecision(3)} min` : `${+(value / 3600).toPrecision(3)} h`;
}
function nextStep(rough, units) {
  const power = 10 ** Math.floor(Math.log10(rough));
  return units.map((unit) => unit * power).find((one) => one >= rough * 0.75);
}
function ticks(low, high, count, axis) {
  if (!(high > low)) return [low];
  const isWhole = axis === "step";
  let step = nextStep(Math.max((high - low) / count, isWhole ? 1 : 0), isWhole ? [1, 2, 5, 10] : [1, 2, 2.5, 5, 10]);
  if (axis === "seconds") {
    const round = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
    step = round.find((one) => one >= (high - low) / count) || step;
  }
  const found = [];
  for (let i = Math.ceil(low / step); i <= Math.floor(high / step + 1e-9); i += 1) found.push(i * step);
  return found;
}
function logTicks(low, high) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1)
    for (const unit of high / low > 300 ? [1] : high / low > 20 ? [1, 3] : [1, 1.5, 2, 3, 5, 7])
      if (unit * 10 ** power >= low && unit * 10 ** power <= high) found.push(unit * 10 ** power);
  return found.length > 1 ? found : ticks(low, high, 4).filter((one) => one > 0);
}

// ---- drawing ----
function make(name, attributes = {}, text = "") {
  const one = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) one.setAttribute(key, value);
  if (text) one.textContent = text;
  return one;
}
function axisOf(chart) {
  const has = (axis) => chart.lines.some((line) => line.x[axis]);
  return has(state.axis) ? state.axis : Object.keys(data.axes).find(has);
}
function isOn(chart, name) { return !(state.off[chart.name] || []).includes(name); }

function layOut(chart, width, height) {
  const axis = axisOf(chart), isLog = state.log && chart.lines.some((line) => isOn(chart, line.name) && line.y.some((y) => y > 0));
  // A logarithm has no place for 0 and less: such values are gaps.
  const isShown = (y) => y !== null && (!isLog || y > 0);
  const curves = chart.lines.filter((line) => isOn(chart, line.name) && line.x[axis]).map((line) => {
    const shown = line.is_noisy ? smooth(line.y, state.smoothing) : line.y;
    const keep = line.x[axis].map((x, i) => i).filter((i) => line.x[axis][i] !== null && isShown(shown[i]) && isShown(line.y[i]));
    return { line, x: keep.map((i) => line.x[axis][i]), y: keep.map((i) => shown[i]), raw: keep.map((i) => line.y[i]) };
  }).filter((curve) => curve.x.length);
  const levels = chart.levels.filter((level) => isOn(chart, level.name) && isShown(level.y));
  const xs = curves.flatMap((curve) => curve.x), ys = [...curves.flatMap((curve) => curve.y), ...levels.map((one) => one.y)];
  if (!xs.length) return null;
  const reduce = (values, best) => values.reduce((a, b) => best(a, b));
  const x0 = reduce(xs, Math.min), x1 = reduce(xs, Math.max);
  let y0 = reduce(ys, Math.min), y1 = reduce(ys, Math.max);
  // Sums of floating-point numbers that should be equal differ by a few units in the last place.
  if (y1 - y0 <= 1e-9 * Math.abs(y1)) y0 = y1;
  if (isLog) { const room = y1 > y0 ? (y1 / y0) ** 0.05 : 1.05; y0 /= room; y1 *= room; }
  else { const room = (y1 - y0) * 0.05 || Math.abs(y1) * 0.05 || 1; y0 -= room; y1 += room; }
  const bend = isLog ? Math.log : (value) => value;
  return {
    axis, curves, levels, x0, x1, y0, y1, isLog, width, height,
    x: (value) => LEFT + (width - LEFT - RIGHT) * (x1 > x0 ? (value - x0) / (x1 - x0) : 0.5),
    y: (value) => height - BOTTOM - (height - TOP - BOTTOM) * (bend(value) - bend(y0)) / (bend(y1) - bend(y0)),
  };
}
function path(view, xs, ys) {
  return ys.map((y, i) => `${i ? "L" : "M"}${view.x(xs[i]).toFixed(1)} ${Math.min(Math.max(view.y(y), TOP - 8), view.height - BOTTOM + 2).toFixed(1)}`).join("");
}
function draw(figure) {
  const chart = data.charts.find((one) => one.name === figure.dataset.chart), plot = $(".plot", figure);
  const width = Math.max(plot.clientWidth || 640, 240), height = width < 420 ? 220 : 260;
  const view = layOut(chart, width, height), svg = make("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  figure.view = view;
  if (!view) svg.append(make("text", { class: "tick middle", x: width / 2, y: height / 2 }, "Nothing is switched on"));
  else {
    const apart = (values) => (values.length > 1 && !view.isLog ? values[1] - values[0] : 0);
    const upward = view.isLog ? logTicks(view.y0, view.y1) : ticks(view.y0, view.y1, 5);
    for (const value of upward) {
      const y = view.y(value);
      svg.append(make("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y, y2: y }), make("text", { class: "tick end", x: LEFT - 8, y: y + 4 }, shorten(value, apart(upward))));
    }
    const across = ticks(view.x0, view.x1, width < 420 ? 3 : 5, view.axis);
    for (const value of across) {
      const isLast = view.x(value) > width - 34;
      svg.append(make("text", { class: `tick ${isLast ? "end" : "middle"}`, x: isLast ? width - 2 : view.x(value), y: height - BOTTOM + 18 }, sayX(view.axis, value, across.length > 1 ? across[1] - across[0] : 0)));
    }
    svg.append(make("text", { class: "tick end", x: width - RIGHT, y: height - 2 }, data.axes[view.axis]));
    for (const one of view.levels) svg.append(make("line", { class: `level c${one.color % COLORS}`, x1: LEFT, x2: width - RIGHT, y1: view.y(one.y), y2: view.y(one.y) }));
    const noisy = view.curves.filter((curve) => curve.line.is_noisy);
    if (state.smoothing > 0 && noisy.length < 3)
      for (const curve of noisy) svg.append(make("path", { class: `raw c${curve.line.color % COLORS}`, d: path(view, curve.x, curve.raw) }));
    for (const curve of view.curves) {
      const color = `c${curve.line.color % COLORS}`;
      svg.append(make("path", { class: `line ${color} d${curve.line.dash}`, d: path(view, curve.x, curve.y) }));
      if (curve.line.is_noisy || curve.x.length > 60) continue;
      const dots = make("g", { class: `dots ${color}` });
      curve.x.forEach((x, i) => dots.append(make("circle", { cx: view.x(x), cy: view.y(curve.y[i]), r: 3 })));
      svg.append(dots);
    }
  }
  plot.replaceChildren(svg);
  if (figure.at !== undefined && view) point(figure, figure.at);
}

// ---- values under the pointer and the keys ----
function nearest(values, wanted) {
  let best = 0;
  values.forEach((value, i) => { if (Math.abs(value - wanted) < Math.abs(values[best] - wanted)) best = i; });
  return best;
}
function point(figure, wanted) {
  const view = figure.view, plot = $(".plot", figure), svg = $("svg", plot);
  if (!view) return;
  const longest = view.curves.reduce((a, b) => (b.x.length > a.x.length ? b : a));
  const at = longest.x[nearest(longest.x, Math.min(Math.max(wanted, view.x0), view.x1))];
  figure.at = at;
  $$(".cursor, .at", svg).forEach((one) => one.remove());
  svg.append(make("line", { class: "cursor", x1: view.x(at), x2: view.x(at), y1: TOP, y2: view.height - BOTTOM }));
  const card = $(".card", plot) || plot.appendChild(Object.assign(document.createElement("div"), { className: "card" }));
  card.setAttribute("aria-hidden", "true");
  const title = document.createElement("b"), said = [];
  const where = view.axis === "step" ? at.toLocaleString("en") : sayX(view.axis, at);
  title.textContent = `${where}${view.axis === "seconds" ? "" : " " + data.axes[view.axis]}`;
  card.replaceChildren(title);
  for (const curve of view.curves) {
    const i = nearest(curve.x, at), color = `c${curve.line.color % COLORS}`, off = Math.abs(curve.x[i] - at), last = curve.x.length - 1;
    // Where nothing was measured nearby there is nothing to read.
    if (off > (last ? (curve.x[last] - curve.x[0]) / last / 2 : 0) + 1e-9 * Math.abs(at)) continue;
    svg.append(make("circle", { class: `at ${color}`, cx: view.x(curve.x[i]), cy: view.y(curve.y[i]), r: 4 }));
    const row = document.createElement("span"), name = document.createElement("i"), value = document.createElement("span");
    const how = curve.line.is_noisy ? (state.smoothing > 0 ? " (smoothed)" : "") : off > 0 ? ` (at ${sayX(view.axis, curve.x[i])})` : "";
    name.className = color; name.textContent = curve.line.name; value.textContent = precise(curve.y[i]) + how;
    row.append(name, value); card.append(row);
    said.push(`${curve.line.name} ${value.textContent}`);
  }
  card.style.left = view.x(at) > view.width / 2 ? "" : `${view.x(at) + 12}px`;
  card.style.right = view.x(at) > view.width / 2 ? `${view.width - view.x(at) + 12}px` : "";
  plot.setAttribute("aria-valuenow", at);
  plot.setAttribute("aria-valuemin", view.x0);
  plot.setAttribute("aria-valuemax", view.x1);
  plot.setAttribute("aria-valuetext", `${title.textContent}: ${said.join(", ")}`);
}
function unpoint(figure) {
  delete figure.at;
  $$(".cursor, .at, .card", figure).forEach((one) => one.remove());
}
function follow(figure, event) {
  const view = figure.view, box = $("svg", figure).getBoundingClientRect();
  if (!view) return;
  const share = ((event.clientX - box.left) * (view.width / box.width) - LEFT) / (view.width - LEFT - RIGHT);
  point(figure, view.x0 + share * (view.x1 - view.x0));
}
function walk(figure, event) {
  if (event.key === "Escape") { unpoint(figure); return; }
  const view = figure.view;
  if (!view) return;
  const xs = view.curves.reduce((a, b) => (b.x.length > a.x.length ? b : a)).x, last = xs.length - 1;
  const here = figure.at === undefined ? last : nearest(xs, figure.at), far = Math.max(1, Math.round(last / 10));
  const to = { ArrowLeft: here - 1, ArrowRight: here + 1, ArrowDown: here - 1, ArrowUp: here + 1, PageDown: here - far, PageUp: here + far, Home: 0, End: last }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  point(figure, xs[Math.min(Math.max(to, 0), last)]);
}

// ---- what can be switched ----
function enliven(figure) {
  const plot = $(".plot", figure), chart = data.charts.find((one) => one.name === figure.dataset.chart);
  const title = $("figcaption", figure).textContent;
  for (const [key, value] of Object.entries({ role: "slider", tabindex: "0", "aria-label": `${title}: read values with the arrow keys`, "aria-valuemin": 0, "aria-valuemax": 1, "aria-valuenow": 0, "aria-valuetext": $("svg", plot)?.getAttribute("aria-label") || "" })) plot.setAttribute(key, value);
  plot.addEventListener("pointermove", (event) => follow(figure, event));
  plot.addEventListener("pointerdown", (event) => follow(figure, event));
  // A finger leaves when it is lifted; what it asked for stays until it asks elsewhere.
  plot.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") unpoint(figure); });
  plot.addEventListener("keydown", (event) => walk(figure, event));
  plot.addEventListener("blur", () => unpoint(figure));
  const names = [...chart.lines, ...chart.levels].map((one) => one.name);
  $$(".legend li", figure).forEach((item, i) => {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: item.textContent });
    const show = () => button.setAttribute("aria-pressed", isOn(chart, names[i]));
    button.addEventListener("click", () => {
      const off = state.off[chart.name] || [];
      state.off[chart.name] = off.includes(names[i]) ? off.filter((one) => one !== names[i]) : [...off, names[i]];
      remember(); show(); draw(figure);
    });
    show();
    item.replaceChildren(button);
  });
}
function drawAll() { $$(".chart").forEach(draw); }

function startControls() {
  const controls = $(".controls");
  if (!controls) return;
  const axis = $("#axis"), smoothing = $("#smoothing"), log = $("#log");
  for (const [key, name] of Object.entries(data.axes))
    if (data.charts.some((chart) => chart.lines.some((line) => line.x[key]))) axis.append(new Option(name, key));
  if (![...axis.options].some((one) => one.value === state.axis)) state.axis = axis.value;
  axis.value = state.axis; smoothing.value = state.smoothing; log.checked = state.log;
  const isNoisy = data.charts.some((chart) => chart.lines.some((line) => line.is_noisy));
  smoothing.closest("label").hidden = !isNoisy;
  const change = () => {
    Object.assign(state, { axis: axis.value, smoothing: Number(smoothing.value), log: log.checked });
    $("output", controls).textContent = state.smoothing.toFixed(2);
    remember(); drawAll();
  };
  for (const one of [axis, smoothing, log]) one.addEventListener("input", change);
  $("output", controls).textContent = state.smoothing.toFixed(2);
  controls.hidden = false;
}
function startTheme() {
  const button = $("#theme"), system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (state.theme ? state.theme === "dark" : system.matches);
  const show = () => {
    if (state.theme) document.documentElement.dataset.theme = state.theme;
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Change to ${isDark() ? "light" : "dark"}`);
  };
  button.addEventListener("click", () => { state.theme = isDark() ? "light" : "dark"; remember(); show(); });
  system.addEventListener("change", show);
  button.hidden = false;
  show();
}

// ---- news of a run that is still training ----
async function askNews() {
  const badge = $("#live");
  try {
    const answer = await fetch("news.json", { cache: "no-store" });
    if (!answer.ok) throw new Error(String(answer.status));
    const news = await answer.json();
    const shape = (charts) => JSON.stringify(charts.map((chart) => [chart.name, chart.is_zero, chart.lines.map((line) => line.name), chart.levels.map((level) => level.name)]));
    const isNew = shape(news.charts) !== shape(data.charts) || Object.keys(news.sections).some((name) => !document.getElementById(name));
    if (isNew) { remember(); location.reload(); return; }
    data.charts = news.charts;
    for (const [name, html] of Object.entries(news.sections)) {
      const now = document.getElementById(name);
      if (now.shown === html) continue;
      const fresh = new DOMParser().parseFromString(html, "text/html").body.firstElementChild, open = $$("details", now).map((one) => one.open);
      now.replaceChildren(...fresh.childNodes);
      $$("details", now).forEach((one, i) => { one.open = open[i] || false; });
      now.shown = html;
    }
    drawAll();
    badge.textContent = news.is_finished ? "finished" : "live";
    if (news.is_finished) return;
  } catch { badge.textContent = "no answer"; }
  setTimeout(askNews, 1000 * data.live);
}

startTheme();
startControls();
$$(".chart").forEach(enliven);
// What is folded has no width to be drawn for.
$$("details").filter((one) => $(".chart", one)).forEach((one) => one.addEventListener("toggle", drawAll));
drawAll();
let waiting = 0;
addEventListener("resize", () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(drawAll); });
// On paper all is open, and light: a canvas keeps the colours that it was painted with.
let folded = [];
addEventListener("beforeprint", () => {
  folded = $$("details:not([open])").filter((one) => !one.closest(".example"));
  folded.forEach((one) => { one.open = true; });
  document.documentElement.dataset.theme = "light";
});
addEventListener("afterprint", () => {
  folded.forEach((one) => { one.open = false; });
  if (state.theme) document.documentElement.dataset.theme = state.theme; else delete document.documentElement.dataset.theme;
});
if (data.live) setTimeout(askNews, 1000 * data.live);
