// A colour as the browser paints it, whatever notation it has, and the least contrast of any text in sight.
() => {
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const paint = (colors) => {
    pen.clearRect(0, 0, 1, 1);
    for (const color of colors) { pen.fillStyle = color; pen.fillRect(0, 0, 1, 1); }
    return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (one) => (one ? [...behind(one.parentElement), getComputedStyle(one).backgroundColor] : ["white"]);
  const found = [];
  for (const one of document.querySelectorAll("body *")) {
    const style = getComputedStyle(one), texts = [...one.childNodes].filter((n) => n.nodeType === 3);
    const text = texts.map((n) => n.data).join("");
    const isSeen = one.checkVisibility() && one.getClientRects().length && !one.closest(".unseen, .skip");
    if (!isSeen || one.disabled || style.color === "rgba(0, 0, 0, 0)" || !(text.trim() || one.value)) continue;
    const [a, b] = [light(paint([...behind(one), style.color])), light(paint(behind(one)))];
    const isLarge = parseFloat(style.fontSize) >= (style.fontWeight >= 700 ? 18.66 : 24);
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    found.push([ratio * (isLarge ? 1.5 : 1), `${one.tagName}#${one.id}.${one.className} ${text.trim().slice(0, 30)}`]);
  }
  return found.sort((x, y) => x[0] - y[0])[0];
}
