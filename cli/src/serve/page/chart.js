"use strict";
// Charts of an answer: which columns go where, by their types and rows, and the drawing as SVG.
// Texts of data become text nodes only.

const COLORS =
  ["#3b7dd8", "#d9702b", "#2f9e62", "#c2487f", "#8a63c9", "#a8831a", "#1f9aa8", "#8c6d5b"];
const MOST_BARS = 50;
// Columns whose greatest numbers differ by a greater factor do not share a scale by themselves.
const ONE_SIZE = 30;

// Nearly all columns may be null.
const typeName = (type) => type.replace(/^Nullable\((.*)\)$/, "$1");
const classOf = (type) => {
  const bare = typeName(type);
  if (/^(U?Int|Float|Decimal)/.test(bare)) return "number";
  if (/^Date/.test(bare)) return "time";
  return /^(Array|Tuple|Map|Nested|Nothing)/.test(bare) ? "other" : "text";
};

// The number of a cell, times in milliseconds since 1970; null if it cannot be drawn.
const numberOf = (text, kind) => {
  if (text === null) return null;
  const number = kind === "time"
    ? Date.parse(text.length > 10 ? text.replace(" ", "T") + "Z" : text) : Number(text);
  return Number.isFinite(number) && Math.abs(number) < 1e300 ? number : null;
};

// The columns and the kind that fit an answer, of which some may be chosen: x, y, by, kind.
function planOf(answer, chosen) {
  const kinds = answer.types.map(classOf);
  const of = (kind) => kinds.flatMap((own, at) => own === kind ? [at] : []);
  const rows = answer.rows;
  const values = (at) => rows.map((row) => numberOf(row[at], kinds[at]));
  const isUnique = (at) => new Set(rows.map((row) => row[at])).size === rows.length;
  const isWhole = (at) => values(at).every((value) => value === null || value % 1 === 0);
  const ascends = (at) => values(at).every((value, row, all) =>
    value !== null && (row === 0 || value > all[row - 1]));
  const free = (list) => list.filter((at) => at !== chosen.y && at !== chosen.by);
  const times = free(of("time")), texts = free(of("text")), numbers = of("number");
  if (!rows.length || !numbers.length) return null;
  let x = chosen.x ?? null, by = chosen.by ?? null, kind = chosen.kind ?? null;
  if (x === null && rows.length === 1 && !times.length && !texts.length) {
    return { kind: "bar", x: null, by: null, y: chosen.y !== undefined ? [chosen.y] : numbers };
  }
  const others = numbers.filter((at) => at !== chosen.y);
  const axis = others.length > (chosen.y === undefined ? 1 : 0) ? others[0] : undefined;
  x ??= times[0] ?? texts.find(isUnique) ?? axis ?? texts[0] ?? null;
  let y = chosen.y !== undefined ? [chosen.y] : numbers.filter((at) => at !== x);
  if (!y.length) return null;
  if (chosen.y === undefined) {
    const most = (at) => values(at).reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    const first = most(y[0]);
    y = y.filter((at) => !first || most(at) * ONE_SIZE >= first && most(at) <= first * ONE_SIZE);
  }
  if (by === null && x !== null && !isUnique(x)) {
    by = texts.find((at) => at !== x) ?? null;
  }
  if (by !== null) y = y.slice(0, 1);
  if (kind === null) {
    const isAxis = kinds[x] === "number" || kinds[x] === "time";
    if (!isAxis) kind = "bar";
    else if (kinds[x] === "time") kind = "line";
    else if (ascends(x)) kind = isWhole(x) && rows.length <= 25 ? "bar" : "line";
    else kind = isWhole(x) && rows.length <= MOST_BARS && isUnique(x) ? "bar" : "point";
  }
  return { kind, x, y: y.slice(0, COLORS.length), by };
}

// Names and points [x, value, label] of the series of a plan.
function seriesOf(answer, plan) {
  const kinds = answer.types.map(classOf);
  if (plan.x === null && answer.rows.length === 1) {
    const row = answer.rows[0];
    const points = plan.y.map((at, place) => [place, numberOf(row[at], "number"), answer.names[at]]);
    return { series: [{ name: "", points }], left: 0 };
  }
  const all = new Map(plan.by === null ? plan.y.map((at) => [at, []]) : []);
  let left = 0;
  for (const [place, row] of answer.rows.entries()) {
    const at = plan.x === null ? place : numberOf(row[plan.x], kinds[plan.x]);
    const label = plan.x === null ? String(place + 1) : row[plan.x] ?? "NULL";
    for (const column of plan.y) {
      const key = plan.by === null ? column : row[plan.by] ?? "NULL";
      if (!all.has(key) && all.size === COLORS.length) left++;
      else if (!all.has(key)) all.set(key, []);
      all.get(key)?.push([at, numberOf(row[column], "number"), label]);
    }
  }
  const name = (key) => plan.by === null ? answer.names[key] : key;
  return { series: [...all].map(([key, points]) => ({ name: name(key), points })), left };
}

// What a chart shows, in words.
const nameOf = (answer, plan) => plan.y.map((at) => answer.names[at]).join(", ")
  + [plan.x, plan.by].map((at) => at === null ? "" : answer.names[at]).filter(Boolean)
    .map((name, at) => `${at ? ", " : " by "}${name}`).join("");

const svgElement = (name, attributes, ...children) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  made.append(...children);
  return made;
};
const round = (number) => Math.round(number * 10) / 10;
const svgText = (x, y, text, anchor = "start") => svgElement("text",
  { x: round(x), y: round(y), "text-anchor": anchor, fill: "currentColor", "font-size": 12 }, text);
const svgRule = (x1, y1, x2, y2, opacity) => svgElement("path",
  { d: `M${round(x1)} ${round(y1)}L${round(x2)} ${round(y2)}`, stroke: "currentColor",
    "stroke-opacity": opacity });
const shortened = (text, most) => text.length > most ? text.slice(0, Math.max(1, most - 1)) + "…" : text;

const withCommas = (text) => text.replace(/^-?\d+/, (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ","));
const showNumber = (number) => Math.abs(number) >= 1e15 || number && Math.abs(number) < 1e-4
  ? number.toExponential(4)
  : withCommas(String(number % 1 ? Number(number.toPrecision(6)) : number));

// The ticks of an axis: places and their labels, at steps of 1, 2 or 5 times a power of ten.
function numberTicks(low, high, most) {
  if (low === high) [low, high] = [low - (Math.abs(low) / 10 || 1), high + (Math.abs(high) / 10 || 1)];
  let exponent = Math.floor(Math.log10((high - low) / most));
  const mantissa = [1, 2, 5, 10].find((it) => it * 10 ** exponent * most >= (high - low) * 0.999);
  const step = mantissa * 10 ** exponent;
  if (mantissa === 10) exponent++;
  const largest = Math.max(Math.abs(low), Math.abs(high));
  const [power, unit] = [[15, "P"], [12, "T"], [9, "G"], [6, "M"], [5, "k"], [-Infinity, ""]]
    .find(([power]) => largest >= 10 ** power);
  const down = unit === "k" ? 3 : unit ? power : 0;
  const digits = Math.min(20, Math.max(0, down - exponent));
  const label = (at) => largest >= 1e18 || largest < 1e-3 ? at.toExponential(2)
    : withCommas((at / 10 ** down).toFixed(digits)) + (at ? unit : "");
  const ticks = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at++) {
    ticks.push([at * step, label(at * step)]);
  }
  return { low, high, ticks };
}

const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
function timeTicks(low, high, most) {
  if (low === high) [low, high] = [low - 1000, high + 1000];
  const [second, day] = [1000, 86400000];
  const fixed = [1, 10, 100, 1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200]
    .map((length, at) => at < 3 ? length : length * second)
    .concat([1, 2, 7, 14].map((days) => days * day));
  const ticks = [];
  const step = fixed.find((step) => (high - low) / step <= most);
  const two = (number) => String(number).padStart(2, "0");
  if (step) {
    for (let at = Math.ceil(low / step) * step; at <= high; at += step) {
      const time = new Date(at), date = `${time.getUTCDate()} ${MONTHS[time.getUTCMonth()]}`;
      const clock = `${two(time.getUTCHours())}:${two(time.getUTCMinutes())}`;
      const seconds = `${clock}:${two(time.getUTCSeconds())}`;
      ticks.push([at, at % day === 0 ? date : step < second ? seconds + (at % second / 1000).toFixed(3).slice(1)
        : step < 60 * second ? seconds : clock]);
    }
  } else {
    const months = (high - low) / day / 30.4;
    const lengths = [1, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 6000, 12000, 60000];
    const length = lengths.find((length) => months / length <= most) ?? 120000;
    const start = new Date(low), first = start.getUTCFullYear() * 12 + start.getUTCMonth();
    for (let month = Math.ceil(first / length) * length; ; month += length) {
      const at = new Date(0);
      at.setUTCFullYear(Math.floor(month / 12), month % 12, 1);
      if (!(at <= high)) break;
      if (at >= low) ticks.push([+at, month % 12 ? MONTHS[month % 12] : String(at.getUTCFullYear())]);
    }
  }
  return { low, high, ticks };
}

// Draws a plan into a place, and returns what it does not show.
function drawChart(place, answer, plan) {
  const { series, left } = seriesOf(answer, plan);
  const width = Math.max(280, place.clientWidth || 800);
  const kind = { bar: "Bar chart", line: "Line chart", point: "Points" }[plan.kind];
  const label = `${kind}: ${nameOf(answer, plan)}; ${count(answer.rows.length, "row")}`;
  const notes = left ? [`${left} rows of further series are not drawn`] : [];
  const parts = [];
  if (series.length > 1) {
    const legend = document.createElement("div");
    legend.className = "legend";
    series.forEach((one, at) => {
      const entry = document.createElement("span");
      entry.append(svgElement("svg", { width: 10, height: 10, "aria-hidden": true },
        svgElement("rect", { width: 10, height: 10, fill: COLORS[at] })), shortened(one.name, 60));
      legend.append(entry);
    });
    parts.push(legend);
  }
  const draw = plan.kind === "bar" ? drawBars : drawPoints;
  parts.push(...draw(answer, plan, series, width, label, notes));
  place.replaceChildren(...parts);
  return notes.join("; ");
}

function drawBars(answer, plan, series, width, label, notes) {
  // A row of bars for each label, with one bar for each series.
  const rows = new Map();
  let more = 0;
  series.forEach((one, at) => {
    for (const [, value, label] of one.points) {
      // Labels may repeat; then each row has bars of its own.
      let key = label;
      for (let again = 2; rows.get(key)?.[at] !== undefined; again++) key = `${label} (${again})`;
      if (!rows.has(key) && rows.size === MOST_BARS) more++;
      else rows.set(key, Object.assign(rows.get(key) ?? [], { [at]: value }));
    }
  });
  if (more) notes.push(`${more} bars more are not drawn`);
  const all = [...rows.values()].flat().filter((value) => value !== null && value !== undefined);
  const low = Math.min(0, ...all), high = Math.max(0, ...all, low === 0 && !all.some(Boolean) ? 1 : 0);
  const longest = Math.max(...[...rows.keys()].map((key) => key.length), 1);
  const letters = Math.min(longest, Math.floor(width * 0.35 / 7));
  const values = Math.max(...all.map((value) => showNumber(value).length), 1) * 7 + 10;
  const start = letters * 7 + 16 + (low < 0 ? values : 0), end = width - (high > 0 ? values : 8);
  const x = (value) => start + (value - low) / (high - low) * (end - start);
  const thick = series.length > 1 ? 13 : 18, gap = 6;
  const svg = svgElement("svg", { role: "img", "aria-label": label, width });
  let top = 6;
  for (const [key, bars] of rows) {
    const middle = top + series.length * thick / 2;
    const name = svgText(letters * 7 + 8, middle + 4, shortened(key, letters), "end");
    name.append(svgElement("title", {}, key));
    svg.append(name);
    for (let at = 0; at < series.length; at++, top += thick) {
      const value = bars[at];
      if (value === undefined) continue;
      if (value === null) {
        svg.append(svgText(x(0) + 5, top + thick / 2 + 4, "–"));
        continue;
      }
      const [from, to] = [x(Math.min(0, value)), x(Math.max(0, value))];
      svg.append(svgElement("rect", { x: round(from), y: top + 1, width: round(to - from),
        height: thick - 2, fill: COLORS[at] },
        svgElement("title", {}, `${key}${series[at].name && `, ${series[at].name}`}: ${showNumber(value)}`)));
      const shown = showNumber(value);
      svg.append(value < 0 ? svgText(from - 5, top + thick / 2 + 4, shown, "end")
        : svgText(to + 5, top + thick / 2 + 4, shown));
    }
    top += gap;
  }
  svg.append(svgRule(x(0), 4, x(0), top, 0.6));
  svg.setAttribute("height", top + 6);
  return [svg];
}

function drawPoints(answer, plan, series, width, label, notes) {
  const isTime = plan.x !== null && classOf(answer.types[plan.x]) === "time";
  const shown = series.map((one) => one.points.filter((point) => point[0] !== null && point[1] !== null));
  const lost = series.reduce((sum, one) => sum + one.points.length, 0) - shown.flat().length;
  if (lost) notes.push(`${lost} values are null or cannot be drawn`);
  if (!shown.flat().length) return ["There is nothing to draw."];
  if (plan.kind === "line") shown.forEach((points) => points.sort((a, b) => a[0] - b[0]));
  const ends = (at) => shown.flat().reduce(([low, high], point) =>
    [Math.min(low, point[at]), Math.max(high, point[at])], [Infinity, -Infinity]);
  const height = Math.min(460, Math.max(220, width * 0.42));
  const down = numberTicks(...ends(1), 6);
  const start = Math.max(...down.ticks.map((tick) => tick[1].length), 1) * 7 + 18;
  const end = width - 18, top = 12, bottom = height - 44;
  const most = Math.max(2, Math.floor((end - start) / 80));
  const across = (isTime ? timeTicks : numberTicks)(...ends(0), most);
  const x = (value) => start + (value - across.low) / (across.high - across.low) * (end - start);
  const y = (value) => bottom - (value - down.low) / (down.high - down.low) * (bottom - top);
  const svg = svgElement("svg", { role: "img", "aria-label": label, width, height });
  for (const [at, text] of down.ticks) {
    svg.append(svgRule(start, y(at), end, y(at), 0.15), svgText(start - 8, y(at) + 4, text, "end"));
  }
  svg.append(svgRule(start, bottom, end, bottom, 0.6));
  for (const [at, text] of across.ticks) {
    svg.append(svgRule(x(at), bottom, x(at), bottom + 4, 0.6), svgText(x(at), bottom + 18, text, "middle"));
  }
  const years = [across.low, across.high].map((at) => new Date(at).getUTCFullYear());
  const name = shortened(plan.x === null ? "row" : answer.names[plan.x], 80)
    + (isTime ? `, ${[...new Set(years)].join(" to ")}` : "");
  svg.append(svgText((start + end) / 2, bottom + 37, name, "middle"));
  shown.forEach((points, at) => {
    const connected = plan.kind === "line" && points.length > 1;
    const path = points.map(([px, py], place) => connected
      ? `${place ? "L" : "M"}${round(x(px))} ${round(y(py))}` : `M${round(x(px))} ${round(y(py))}h0`);
    svg.append(svgElement("path", { d: path.join(""), fill: "none", stroke: COLORS[at],
      "stroke-width": connected ? 1.5 : 5, "stroke-opacity": connected ? 1 : 0.7,
      "stroke-linecap": "round", "stroke-linejoin": "round" }));
  });
  // What is nearest to the pointer is told below.
  const told = document.createElement("p");
  told.className = "dim mono";
  told.textContent = "\u00a0";
  const rule = svgRule(0, 0, 0, 0, 0.6);
  svg.append(rule);
  svg.addEventListener("pointermove", (event) => {
    const at = (event.clientX - svg.getBoundingClientRect().left) * width / svg.clientWidth;
    const nearest = shown.map((points) => points.reduce((best, point) =>
      Math.abs(x(point[0]) - at) < Math.abs(x(best[0]) - at) ? point : best, points[0]));
    const first = nearest.filter(Boolean).reduce((best, point) =>
      Math.abs(x(point[0]) - at) < Math.abs(x(best[0]) - at) ? point : best);
    rule.setAttribute("d", `M${round(x(first[0]))} ${top}V${bottom}`);
    const values = nearest.flatMap((point, of) => point && point[0] === first[0]
      ? [`${shortened(series[of].name, 40)} ${showNumber(point[1])}`] : []);
    told.textContent = `${first[2]}: ${values.join(", ")}`;
  });
  return [svg, told];
}
