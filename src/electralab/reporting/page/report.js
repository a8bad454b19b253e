"use strict";
// Charts that answer: smoothing, axes, lines on and off, values under the pointer or the arrow keys. They are drawn in
// Python; here their lines are put where the reader wants them. Where the page is served live it asks for news.
const $ = (what, where = document) => where.querySelector(what);
const $$ = (what, where = document) => [...where.querySelectorAll(what)];
const COLORS = 8, MOST_DOTS = 60;
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
function shorten(value, digits = 3) {
  const size = Math.abs(value);
  if (size >= 1e12) return value.toExponential(digits - 1).replace(/\.?0*e\+?/, "e");
  const [unit, letter] = [[1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([limit]) => size >= limit) || [1, ""];
  return String(+(value / unit).toPrecision(digits)) + letter;
}
function precise(value) { return Math.abs(value) >= 1e6 ? shorten(value) : String(+value.toPrecision(4)); }
function sayX(axis, value) {
  if (axis === "flops") return value.toExponential(2).replace(/\.?0*e\+?/, "e");
  if (axis !== "seconds") return shorten(value);
  return value < 90 ? `${+value.toPrecision(2)} s` : value < 5400 ? `${+(value / 60).toPrecision(3)} min` : `${+(value / 3600).toPrecision(3)} h`;
}

// ---- another part of the drawing ----
function make(name, attributes = {}) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}
function isOn(chart, name) { return !(state.off[chart] || []).includes(name); }
// The frame of that name, else the first of the others; all but it are hidden.
function chooseFrame(figure, kind, names) {
  const frames = $$(`g.${kind}`, figure), chosen = names.map((name) => frames.find((frame) => frame.dataset.name === name)).find(Boolean) || frames[0];
  for (const frame of frames) frame.classList.toggle("hidden", frame !== chosen);
  return { name: chosen.dataset.name, from: +chosen.dataset.from, to: +chosen.dataset.to };
}
// Puts the lines where the reader's axis, scale and smoothing have them. Frames, colours and letters are Python's.
function place(figure) {
  const chart = data.charts[figure.dataset.chart];
  if (!chart || !$("svg.frame", figure)) return;
  const raw = state.smoothing > 0 ? "" : "-raw", scale = state.log ? "log" : "linear";
  const across = chooseFrame(figure, "across", [state.axis]), upward = chooseFrame(figure, "upward", [scale + raw, scale, "linear" + raw]);
  const isLog = upward.name.startsWith("log"), bend = isLog ? Math.log : (value) => value;
  const view = figure.view = {
    axis: across.name, from: across.from, to: across.to,
    x: (value) => (across.to > across.from ? (value - across.from) / (across.to - across.from) : 0.5),
    y: (value) => 1 - (bend(value) - bend(upward.from)) / (bend(upward.to) - bend(upward.from)),
    curves: [],
  };
  // A logarithm has no place for 0 and less: such values are gaps.
  const isShown = (y) => y !== null && (!isLog || y > 0);
  const path = (xs, ys) => xs.map((x, i) => `${i ? "L" : "M"}${(1000 * view.x(x)).toFixed(0)} ${(1000 * view.y(ys[i])).toFixed(0)}`).join("");
  const lines = $$("path.line", figure), raws = $$("path.raw", figure), dots = $$("g.dots", figure);
  const isCrowded = raws.length > 2;
  chart.lines.forEach((line, number) => {
    const xs = line.x[across.name] || [], shown = line.is_noisy ? smooth(line.y, state.smoothing) : line.y;
    const keep = xs.map((x, i) => i).filter((i) => xs[i] !== null && isShown(shown[i]) && isShown(line.y[i])), on = isOn(figure.dataset.chart, line.name);
    const curve = { line, x: keep.map((i) => xs[i]), y: keep.map((i) => shown[i]) };
    if (on && keep.length) view.curves.push(curve);
    lines[number].setAttribute("d", on ? path(curve.x, curve.y) : "");
    if (line.is_noisy) raws.shift().setAttribute("d", on && !raw && !isCrowded ? path(curve.x, keep.map((i) => line.y[i])) : "");
    const circles = on && !line.is_noisy && line.y.length <= MOST_DOTS ? curve.x : [];
    dots[number].replaceChildren(...circles.map((x, i) => make("circle", { cx: `${100 * view.x(x)}%`, cy: `${100 * view.y(curve.y[i])}%`, r: 3 })));
  });
  $$("line.level", figure).forEach((line, number) => {
    const level = chart.levels[number], y = `${100 * view.y(level.y)}%`;
    line.classList.toggle("hidden", !isOn(figure.dataset.chart, level.name) || !isShown(level.y));
    line.setAttribute("y1", y); line.setAttribute("y2", y);
  });
  if (figure.at !== undefined) point(figure, figure.at);
}

// ---- values under the pointer and the keys ----
function nearest(values, wanted) {
  let best = 0;
  values.forEach((value, i) => { if (Math.abs(value - wanted) < Math.abs(values[best] - wanted)) best = i; });
  return best;
}
function point(figure, wanted) {
  const view = figure.view, plot = $(".plot", figure), svg = $("svg", plot);
  if (!view || !view.curves.length) return;
  const longest = view.curves.reduce((a, b) => (b.x.length > a.x.length ? b : a));
  const at = longest.x[nearest(longest.x, Math.min(Math.max(wanted, view.from), view.to))];
  figure.at = at;
  $$(".cursor, .at", svg).forEach((one) => one.remove());
  const across = `${100 * view.x(at)}%`;
  svg.append(make("line", { class: "cursor", x1: across, x2: across, y1: 0, y2: "100%" }));
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
    svg.append(make("circle", { class: `at ${color}`, cx: `${100 * view.x(curve.x[i])}%`, cy: `${100 * view.y(curve.y[i])}%`, r: 4 }));
    const row = document.createElement("span"), name = document.createElement("i"), value = document.createElement("span");
    const how = curve.line.is_noisy ? (state.smoothing > 0 ? " (smoothed)" : "") : off > 0 ? ` (at ${sayX(view.axis, curve.x[i])})` : "";
    name.className = color; name.textContent = curve.line.name; value.textContent = precise(curve.y[i]) + how;
    row.append(name, value); card.append(row);
    said.push(`${curve.line.name} ${value.textContent}`);
  }
  const box = svg.getBoundingClientRect(), left = box.left - plot.getBoundingClientRect().left + view.x(at) * box.width;
  card.style.left = view.x(at) > 0.5 ? "" : `${left + 12}px`;
  card.style.right = view.x(at) > 0.5 ? `${plot.clientWidth - left + 12}px` : "";
  plot.setAttribute("aria-valuenow", at);
  plot.setAttribute("aria-valuemin", view.from);
  plot.setAttribute("aria-valuemax", view.to);
  plot.setAttribute("aria-valuetext", `${title.textContent}: ${said.join(", ")}`);
}
function unpoint(figure) {
  delete figure.at;
  $$(".cursor, .at, .card", figure).forEach((one) => one.remove());
}
function follow(figure, event) {
  const view = figure.view, box = $("svg", figure).getBoundingClientRect();
  if (!view) return;
  point(figure, view.from + (event.clientX - box.left) / box.width * (view.to - view.from));
}
function walk(figure, event) {
  if (event.key === "Escape") { unpoint(figure); return; }
  const view = figure.view;
  if (!view || !view.curves.length) return;
  const xs = view.curves.reduce((a, b) => (b.x.length > a.x.length ? b : a)).x, last = xs.length - 1;
  const here = figure.at === undefined ? last : nearest(xs, figure.at), far = Math.max(1, Math.round(last / 10));
  const to = { ArrowLeft: here - 1, ArrowRight: here + 1, ArrowDown: here - 1, ArrowUp: here + 1, PageDown: here - far, PageUp: here + far, Home: 0, End: last }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  point(figure, xs[Math.min(Math.max(to, 0), last)]);
}

// ---- what can be switched ----
function enliven(figure) {
  const plot = $(".plot", figure), name = figure.dataset.chart, chart = data.charts[name];
  if (!chart) return;
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
    const show = () => button.setAttribute("aria-pressed", isOn(name, names[i]));
    button.addEventListener("click", () => {
      const off = state.off[name] || [];
      state.off[name] = off.includes(names[i]) ? off.filter((one) => one !== names[i]) : [...off, names[i]];
      remember(); show(); place(figure);
    });
    show();
    item.replaceChildren(button);
  });
}
function placeAll() { $$("[data-chart]").forEach(place); }

function startControls() {
  const controls = $(".controls");
  if (!controls) return;
  const axis = $("#axis"), smoothing = $("#smoothing"), log = $("#log");
  for (const [key, name] of Object.entries(data.axes))
    if (Object.values(data.charts).some((chart) => chart.lines.some((line) => line.x[key]))) axis.append(new Option(name, key));
  if (![...axis.options].some((one) => one.value === state.axis)) state.axis = axis.value;
  axis.value = state.axis; smoothing.value = state.smoothing; log.checked = state.log;
  const isNoisy = Object.values(data.charts).some((chart) => chart.lines.some((line) => line.is_noisy));
  smoothing.closest("label").hidden = !isNoisy;
  const change = () => {
    Object.assign(state, { axis: axis.value, smoothing: Number(smoothing.value), log: log.checked });
    $("output", controls).textContent = state.smoothing.toFixed(2);
    remember(); placeAll();
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
    const shape = (charts) => JSON.stringify(Object.entries(charts).map(([name, chart]) => [name, chart.lines.map((line) => line.name), chart.levels.map((level) => level.name)]));
    const isNew = shape(news.charts) !== shape(data.charts) || Object.keys(news.sections).some((name) => !document.getElementById(name));
    if (isNew) { remember(); location.reload(); return; }
    data.charts = news.charts;
    for (const figure of $$("[data-chart]")) {
      const fresh = new DOMParser().parseFromString(news.figures[figure.dataset.chart], "text/html"), svg = $("svg.frame", fresh);
      if (svg) $("svg.frame", figure).replaceWith(svg);
    }
    for (const [name, html] of Object.entries(news.sections)) {
      const now = document.getElementById(name);
      if (now.shown === html) continue;
      const fresh = new DOMParser().parseFromString(html, "text/html").body.firstElementChild, open = $$("details", now).map((one) => one.open);
      now.replaceChildren(...fresh.childNodes);
      $$("details", now).forEach((one, i) => { one.open = open[i] || false; });
      now.shown = html;
    }
    placeAll();
    badge.textContent = news.is_finished ? "finished" : "live";
    if (news.is_finished) return;
  } catch { badge.textContent = "no answer"; }
  setTimeout(askNews, 1000 * data.live);
}

startTheme();
startControls();
$$("[data-chart]").forEach(enliven);
placeAll();
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
