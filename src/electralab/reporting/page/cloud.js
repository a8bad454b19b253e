// ---- clouds of points: turned by the pointer or the arrow keys, read by pointing ----
function startCloud(figure) {
  const cloud = data.clouds[figure.dataset.cloud], canvas = $("canvas", figure), pen = canvas.getContext("2d");
  if (!cloud || !pen) return;
  const middle = [0, 1, 2].map((axis) => cloud.points.reduce((sum, point) => sum + point[axis], 0) / cloud.points.length);
  const centred = cloud.points.map((point) => point.map((value, axis) => value - middle[axis]));
  // A few far points must not press all others together.
  const lengths = centred.map((point) => Math.hypot(...point)).sort((a, b) => a - b);
  const reach = Math.max(1.25 * lengths[Math.floor(0.95 * (lengths.length - 1))], 1e-9);
  const unit = centred.map((point) => point.map((value) => value / reach)), off = new Set();
  let yaw = 0.6, pitch = 0.35, held = null, shown = [], pointed = -1, radius = 4;
  figure.hidden = false;

  function turn([x, y, z]) {
    const a = x * Math.cos(yaw) + z * Math.sin(yaw), b = z * Math.cos(yaw) - x * Math.sin(yaw);
    return [a, y * Math.cos(pitch) - b * Math.sin(pitch), y * Math.sin(pitch) + b * Math.cos(pitch)];
  }
  function mark(x, y, size, shape) {
    pen.beginPath();
    if (shape === 0) pen.arc(x, y, size, 0, 2 * Math.PI);
    else if (shape === 1) { pen.moveTo(x, y - size * 1.2); pen.lineTo(x + size * 1.1, y + size * 0.8); pen.lineTo(x - size * 1.1, y + size * 0.8); pen.closePath(); }
    else pen.rect(x - size * 0.9, y - size * 0.9, size * 1.8, size * 1.8);
    pen.fill();
  }
  function paint() {
    const width = canvas.clientWidth, height = canvas.clientHeight, dense = devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * dense)) { canvas.width = Math.round(width * dense); canvas.height = Math.round(height * dense); }
    pen.setTransform(dense, 0, 0, dense, 0, 0);
    pen.clearRect(0, 0, width, height);
    const colors = $$(".legend li", figure).map((item) => getComputedStyle(item, null).getPropertyValue("color"));
    const scale = Math.min(width, height) / 2 - 12;
    shown = unit.map((point, i) => ({ i, at: turn(point) })).filter((one) => !off.has(cloud.kinds[one.i])).sort((a, b) => a.at[2] - b.at[2]);
    for (const one of shown) {
      const near = 1.9 / Math.max(1.9 - 0.55 * one.at[2], 0.6), kind = cloud.kinds[one.i];
      one.x = width / 2 + one.at[0] * scale * near; one.y = height / 2 - one.at[1] * scale * near;
      pen.globalAlpha = one.i === pointed ? 1 : Math.min(Math.max(0.45 + 0.2 * (one.at[2] + 1), 0.3), 0.95);
      pen.fillStyle = colors[kind];
      mark(one.x, one.y, one.i === pointed ? radius * 1.8 : radius * near, Math.min(Math.floor(kind / COLORS), 2));
    }
    pen.globalAlpha = 1;
    const found = shown.find((one) => one.i === pointed);
    if (found) {
      const text = `${cloud.words[found.i]} (${cloud.names[cloud.kinds[found.i]]})`, style = getComputedStyle(canvas);
      pen.font = "600 13px system-ui, sans-serif";
      const wide = pen.measureText(text).width, x = Math.min(found.x + 10, width - wide - 14), y = Math.max(found.y - 12, 22);
      pen.fillStyle = style.backgroundColor; pen.fillRect(x - 6, y - 16, wide + 12, 23);
      pen.strokeStyle = style.color; pen.lineWidth = 1; pen.strokeRect(x - 6, y - 16, wide + 12, 23);
      pen.fillStyle = style.color; pen.fillText(text, x, y);
    }
  }
  function rotate(across, down) { yaw += across; pitch = Math.min(Math.max(pitch + down, -1.5), 1.5); paint(); }
  function aim(event) {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const best = shown.reduce((a, b) => (Math.hypot(b.x - x, b.y - y) < Math.hypot(a.x - x, a.y - y) ? b : a), { x: -1e9, y: -1e9, i: -1 });
    const now = Math.hypot(best.x - x, best.y - y) < (event.pointerType === "touch" ? 24 : 12) ? best.i : -1;
    if (now !== pointed) { pointed = now; paint(); }
  }
  canvas.addEventListener("pointerdown", (event) => { held = [event.clientX, event.clientY]; canvas.setPointerCapture(event.pointerId); aim(event); });
  canvas.addEventListener("pointerup", () => { held = null; });
  canvas.addEventListener("pointercancel", () => { held = null; });
  canvas.addEventListener("pointermove", (event) => {
    if (!held) { aim(event); return; }
    pointed = -1; rotate((event.clientX - held[0]) / 140, (event.clientY - held[1]) / 140); held = [event.clientX, event.clientY];
  });
  canvas.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") { pointed = -1; paint(); } });
  canvas.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: [-0.12, 0], ArrowRight: [0.12, 0], ArrowUp: [0, -0.12], ArrowDown: [0, 0.12] }[event.key];
    if (by) { event.preventDefault(); rotate(...by); }
  });
  $$(".legend li", figure).forEach((item, kind) => {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: item.textContent });
    button.setAttribute("aria-pressed", "true");
    button.addEventListener("click", () => {
      if (off.has(kind)) off.delete(kind); else off.add(kind);
      button.setAttribute("aria-pressed", !off.has(kind));
      paint();
    });
    item.replaceChildren(button);
  });
  // A canvas does not take the colours of a new theme, or a new width, by itself.
  new ResizeObserver(paint).observe(canvas);
  new MutationObserver(paint).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
}
$$(".cloud").forEach(startCloud);
