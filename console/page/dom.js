// Elements, tables and charts. Text is only ever set as text: what a server says is never taken for HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class" || made.namespaceURI === SVG || name.includes("-")) made.setAttribute(name, value);
    else if (name in made && name !== "list" && name !== "form") made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.flat(3).filter((each) => each !== null && each !== undefined && each !== false));
  return made;
}

export function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

export function number(value) {
  return typeof value === "number" ? value.toLocaleString("en") : value === undefined || value === null ? "–" : String(value);
}

export function bytes(value) {
  if (typeof value !== "number") return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (value >= 1024 && at < units.length - 1) { value /= 1024; at += 1; }
  return `${at ? value.toFixed(1) : value} ${units[at]}`;
}

export function time(text) {
  const when = new Date(text);
  return el("time", { datetime: text }, Number.isNaN(when.getTime()) ? text : when.toLocaleString("sv"));
}

export function seconds(value) {
  if (typeof value !== "number") return "–";
  const days = Math.floor(value / 86400), hours = Math.floor(value / 3600) % 24, minutes = Math.floor(value / 60) % 60;
  if (days) return `${days} d ${hours} h`;
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min ${Math.floor(value % 60)} s` : `${Math.floor(value)} s`;
}

/** A table. Columns: {title, cell(row), number}. */
export function table(caption, columns, rows, none = "There are none.") {
  const head = columns.map((each) => el("th", { scope: "col", class: each.number ? "number" : "" }, each.title));
  const body = rows.map((row) => el("tr", {}, columns.map((each) => {
    const value = each.cell(row);
    return el("td", { class: each.number ? "number" : "text" }, each.number && typeof value === "number" ? number(value) : value ?? "–");
  })));
  const empty = el("tr", {}, el("td", { colSpan: columns.length, class: "soft" }, none));
  return el("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": caption },
    el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows.length ? body : empty)));
}

export function facts(pairs) {
  return el("dl", {}, pairs.filter((each) => each).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value ?? "–"))));
}

export function badge(text, kind = "") {
  return el("span", { class: `badge ${kind}` }, text);
}

export function button(text, onclick, { kind = "", disabled = false, key = text, label } = {}) {
  return el("button", { type: "button", class: kind, disabled, "data-key": key, "aria-label": label, onclick }, text);
}

export function field(text, control) {
  return el("label", {}, text, el("br"), control);
}

/** A line of points, the latest at the right. The text alternative says the latest value and the bounds. */
export function chart(title, points, show = number) {
  const width = 300, height = 70, most = Math.max(...points.map((each) => each.value), 0) || 1;
  const shown = points.slice(-WINDOW);
  const place = (each, at) => [width - (shown.length - 1 - at) * (width / (WINDOW - 1)), height - 3 - (each.value / most) * (height - 8)];
  const path = shown.map((each, at) => `${at ? "L" : "M"}${place(each, at).map((value) => value.toFixed(1)).join(" ")}`).join("");
  const latest = shown.length ? shown[shown.length - 1].value : undefined;
  const now = latest === undefined ? "–" : show(latest);
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}: now ${now}, at most ${show(most)}` });
  if (shown.length > 1) {
    const first = place(shown[0], 0)[0].toFixed(1);
    drawing.append(svg("path", { class: "area", d: `${path}L${width} ${height}L${first} ${height}Z` }), svg("path", { class: "line", d: path }));
  }
  return el("section", { class: "card chart" }, el("span", { class: "now" }, now), el("h3", {}, title), drawing,
    el("p", { class: "scale", "aria-hidden": "true" }, el("span", {}, "4 min ago"), el("span", {}, `0 to ${show(most)}`), el("span", {}, "now")));
}

export const WINDOW = 120;
