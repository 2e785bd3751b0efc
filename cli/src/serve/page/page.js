// The page of `sty serve`: statements, answers, tables, what runs. It talks to ClickHouse's HTTP
// interface of its own server. Nothing of an answer is ever markup: elements are made by name, and
// texts are text nodes, which the page's policy (Trusted Types) holds it to.

// What is kept of an answer; its statement is ended where it has more.
const MOST_ROWS = 10000;
const MOST_LETTERS = 32 << 20;
// Rows that are added to the table at a time.
const ROWS_AT_ONCE = 200;
// Bytes of an answer in another format: that are kept, and that are shown.
const MOST_RAW = 256 << 20;
const MOST_SHOWN = 1 << 20;
const LONG_CELL = 300;
const MOST_TABLES = 1000;
const MOST_HISTORY = 100;
const MOST_REMEMBERED = 20000;
const READS = /^\s*(select|with|from|show|describe|desc|explain|exists|kill)\b/i;
const FORMAT = "TabSeparatedWithNamesAndTypes";

const $ = (id) => document.getElementById(id);
const element = (name, properties, ...children) => {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
};
const button = (text, title, action) => {
  const made = element("button", { type: "button", title }, text);
  made.addEventListener("click", action);
  return made;
};
const count = (number, word) => `${withCommas(String(number))} ${word}${Number(number) === 1 ? "" : "s"}`;
const seconds = (ms) => ms < 10000 ? `${(ms / 1000).toFixed(3)} s` : `${(ms / 1000).toFixed(1)} s`;

// Who asks. It stays in this variable alone.
let signedIn = {};
const tab = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16)).join("");
let asked = 0;

class Refused extends Error {}

// Sends a statement, and gives the reply once its head is there.
async function send(sql, parameters, signal) {
  const url = "./?" + new URLSearchParams({ default_format: FORMAT, cut_short: "0", ...parameters });
  const reply = await fetch(url, {
    method: "POST", body: sql, headers: signedIn, signal, cache: "no-store", credentials: "omit",
    redirect: "error",
  });
  if (reply.ok) return reply;
  const code = reply.headers.get("x-clickhouse-exception-code");
  const text = (await reply.text()).trim() || `HTTP ${reply.status}`;
  if (code === "516") showLogin(true);
  throw new Refused(text);
}

const ESCAPES = { t: "\t", n: "\n", r: "\r", 0: "\0", b: "\b", f: "\f" };
const cellOf = (text) => text === "\\N" ? null
  : text.includes("\\") ? text.replace(/\\(.)/gs, (_, letter) => ESCAPES[letter] ?? letter) : text;
const cellsOf = (line) => line.split("\t").map(cellOf);

// The whole answer to a small question of the page itself.
async function question(sql) {
  const reply = await send(sql, { query_id: `${tab}-page-${++asked}` });
  const lines = (await reply.text()).split("\n").slice(0, -1).map(cellsOf);
  return { names: lines[0] ?? [], types: lines[1] ?? [], rows: lines.slice(2) };
}

// Names and texts as SQL writes them for ClickHouse's interface, which knows backslashes.
const KEYWORDS = new Set(("all and any array as asc between by case cast create cross default delete "
  + "desc distinct drop else end except exists false for from full group having in inner insert "
  + "intersect interval into is join left like limit not null offset on or order outer over "
  + "partition right select set table then to true union unique update using values view when "
  + "where window with").split(" "));
const quoted = (name) => /^[a-z_][a-z0-9_]*$/.test(name) && !KEYWORDS.has(name) ? name
  : `"${name.replace(/\\/g, "\\\\").replace(/"/g, '""')}"`;
const textOf = (text) => `'${text.replace(/\\/g, "\\\\").replace(/'/g, "''")}'`;

// --- The statement that runs ---

let current = null;
let answer = null;

function run() {
  const editor = $("sql");
  const [from, to] = [editor.selectionStart, editor.selectionEnd];
  const part = editor.value.slice(from, to);
  const isPart = part.trim() !== "";
  const sql = isPart ? part : editor.value;
  if (!sql.trim()) return;
  cancel();
  remember(editor.value);
  const fragment = "#" + encodeURIComponent(editor.value);
  if (fragment.length < 60000) history.replaceState(null, "", fragment);
  const running = {
    sql, offset: isPart ? from : 0, id: `${tab}-${++asked}`, started: performance.now(),
    controller: new AbortController(), answer: null, read: 0,
  };
  current = running;
  show({});
  $("status").textContent = "";
  const ticking = setInterval(() => tick(running), 100);
  const watching = setInterval(() => watch(running), 1000);
  $("cancel").disabled = false;
  receive(running).catch((error) => {
    if (running.isCancelled) {
      const rows = running.answer ? `, after ${count(running.answer.rows.length, "row")}` : "";
      return `Cancelled after ${seconds(performance.now() - running.started)}${rows}.`;
    }
    const lost = error instanceof Refused ? error.message
      : `The connection broke before the answer was complete (${error.message}).`;
    if (current === running) show({ error: lost, running });
    return running.answer ? `The ${count(running.answer.rows.length, "row")} below came before that.` : "";
  }).then((status) => {
    clearInterval(ticking);
    clearInterval(watching);
    if (current !== running) return;
    current = null;
    $("cancel").disabled = true;
    $("ticking").textContent = "";
    $("status").textContent = status;
    // Tables may have come, gone or grown.
    if (!READS.test(running.sql)) listTables();
    if (answer) draw();
  });
}

function cancel() {
  if (!current) return;
  current.isCancelled = true;
  // The server ends a statement whose connection is closed.
  current.controller.abort();
}

function tick(running) {
  if (current !== running) return;
  const rows = running.answer ? `, ${count(running.answer.rows.length, "row")} so far` : "";
  const read = running.read ? `, ${count(running.read, "row")} read` : "";
  // It is no news for those who have it read to them.
  $("ticking").textContent = `Running, ${((performance.now() - running.started) / 1000).toFixed(1)} s${read}${rows}`;
}

async function watch(running) {
  if (running.isWatching) return;
  running.isWatching = true;
  const sql = `SELECT read_rows FROM system.processes WHERE query_id = ${textOf(running.id)}`;
  const { rows } = await question(sql).catch(() => ({ rows: [] }));
  if (rows[0]) running.read = rows[0][0];
  running.isWatching = false;
}

// The failure that is told behind the rows of an answer, between marks.
const markedIn = (text, tag) => text.split(`\r\n__exception__\r\n${tag}\r\n`)[1]
  ?.replace(/\d+ \w+\r\n__exception__\r\n$/, "").trim();

// Takes the reply to a statement; returns what is to be said at the end.
async function receive(running) {
  const { signal } = running.controller;
  const reply = await send(running.sql, { query_id: running.id }, signal);
  const took = () => seconds(performance.now() - running.started);
  const summary = JSON.parse(reply.headers.get("x-clickhouse-summary") ?? "{}");
  if (Number(summary.read_rows)) running.read = summary.read_rows;
  const read = () => running.read ? `; ${count(running.read, "row")} read` : "";
  const written = Number(summary.written_rows);
  const finished = () => `Done in ${took()}${written ? `; ${count(written, "row")} written` : ""}.`;
  if (reply.headers.get("x-clickhouse-format") !== FORMAT) {
    const what = await receiveRaw(reply, running);
    return what ? `${what} in ${took()}${read()}.` : finished();
  }
  const tag = reply.headers.get("x-clickhouse-exception-tag");
  const reader = reply.body.getReader(), decoder = new TextDecoder();
  let rest = "", letters = 0, isCut = false, failing = null;
  const take = (line) => {
    // No row is a lone carriage return, which is escaped in rows: a failure follows.
    if (failing || line === "\r") return void (failing ??= []).push(line);
    if (!running.head) return void (running.head = cellsOf(line));
    if (!running.answer) {
      running.answer = { names: running.head, types: cellsOf(line), rows: [], shown: 0 };
      if (current === running) show({ answer: running.answer });
      return;
    }
    running.answer.rows.push(cellsOf(line));
  };
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const text = decoder.decode(value, { stream: true });
    letters += text.length;
    // A long row is not looked through again with each part of it.
    const lines = text.includes("\n") ? (rest + text).split("\n") : [rest + text];
    rest = lines.pop();
    for (const line of lines) {
      isCut = !failing && running.answer?.rows.length >= MOST_ROWS;
      if (isCut) break;
      take(line);
    }
    if (failing?.length > 3 && failing.at(-1) === "__exception__\r") {
      throw new Refused(markedIn(failing.join("\n") + "\n", tag));
    }
    isCut ||= letters > MOST_LETTERS;
    if (current === running && running.answer?.shown === 0) fill();
    if (isCut) {
      running.controller.abort();
      break;
    }
  }
  if (!running.answer) return finished();
  const rows = count(running.answer.rows.length, "row");
  return isCut ? `The first ${rows}, in ${took()}; the statement was ended there.`
    : `${rows} in ${took()}${read()}.`;
}

// An answer in a format that the statement names: shown if it is text, and to be saved. A statement
// without an answer has none of its bytes.
async function receiveRaw(reply, running) {
  const kind = reply.headers.get("content-type") ?? "";
  const name = reply.headers.get("x-clickhouse-format");
  const reader = reply.body.getReader(), parts = [];
  let bytes = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    bytes += value.length;
    if (bytes > MOST_RAW) {
      running.controller.abort();
      throw new Refused(`The answer has more than ${withCommas(String(MOST_RAW))} bytes, which this page takes; curl takes them all.`);
    }
  }
  if (!bytes) return null;
  const blob = new Blob(parts, { type: "application/octet-stream" });
  const marked = markedIn(await blob.slice(-20000).text(), reply.headers.get("x-clickhouse-exception-tag"));
  if (marked) throw new Refused(marked);
  const isText = /^(text|application\/(x-nd)?json)/.test(kind);
  const text = isText ? await blob.slice(0, MOST_SHOWN).text() : null;
  if (current === running) show({ raw: { name, text, blob } });
  return `${count(bytes, "byte")} of ${name}`;
}

// --- What is shown ---

function show({ answer: next = null, error = null, raw = null, running = null }) {
  // Rows that came before a failure stay.
  if (!error) answer = next;
  $("answer").hidden = !answer;
  $("error").hidden = error === null;
  $("error").replaceChildren();
  if (error !== null) {
    $("error").append(error);
    const place = [...error.matchAll(/\(line (\d+), column (\d+)\)/g)].pop();
    if (place) $("error").append(goTo(Number(place[1]), Number(place[2]), running));
  }
  if (!error) {
    $("table-view").replaceChildren();
    $("chart").replaceChildren();
  }
  const link = $("raw").querySelector("a");
  if (link) URL.revokeObjectURL(link.href);
  $("raw").hidden = raw === null;
  $("raw").replaceChildren();
  if (raw) showRaw(raw);
  if (next) showHead();
}

// A button that puts the cursor where an error is.
function goTo(line, column, running) {
  return button(`Go to line ${line}, column ${column}`, "", () => {
    const editor = $("sql"), lines = running.sql.split("\n");
    const before = lines.slice(0, line - 1).reduce((sum, line) => sum + line.length + 1, 0);
    // Columns count characters, places in the editor count units of UTF-16.
    const within = [...(lines[line - 1] ?? "")].slice(0, column - 1).join("").length;
    const at = running.offset + before + within;
    const word = /^[\p{L}\p{N}_]+|^./u.exec(editor.value.slice(at))?.[0] ?? "";
    editor.focus();
    editor.setSelectionRange(at, at + word.length);
  });
}

function showRaw({ name, text, blob }) {
  const link = element("a", { download: `answer.${name.toLowerCase()}`, href: URL.createObjectURL(blob) },
    `Save the answer (${name}, ${count(blob.size, "byte")})`);
  $("raw").append(element("p", {}, link));
  if (text === null) return;
  $("raw").append(element("pre", { className: "mono", tabIndex: 0 }, text));
  if (blob.size > MOST_SHOWN) $("raw").append(element("p", { className: "dim" }, "This is its beginning."));
}

function showHead() {
  const kinds = answer.types.map(classOf);
  answer.order = null;
  const heads = answer.names.map((name, at) => {
    const type = element("small", { title: answer.types[at] }, typeName(answer.types[at]));
    const sort = button("", "Sort these rows", () => sortBy(at));
    sort.append(element("span", {}, shortened(name, 60)), type);
    return element("th", { scope: "col", className: kinds[at] === "number" ? "n" : "" }, sort);
  });
  const table = element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}));
  $("table-view").replaceChildren(table);
  const options = (list, first) => [element("option", { value: "" }, first),
    ...list.map((at) => element("option", { value: at }, shortened(answer.names[at], 60)))];
  const all = answer.names.map((_, at) => at);
  $("kind").replaceChildren(...[["", "automatic"], ["bar", "bars"], ["line", "lines"], ["point", "points"]]
    .map(([value, text]) => element("option", { value }, text)));
  $("x").replaceChildren(...options(all.filter((at) => kinds[at] !== "other"), "automatic"));
  $("y").replaceChildren(...options(all.filter((at) => kinds[at] === "number"), "automatic"));
  $("by").replaceChildren(...options(all.filter((at) => kinds[at] === "text"), "automatic"));
}

// Adds rows to the table, as it is scrolled down.
function fill() {
  const kinds = answer.types.map(classOf);
  const rows = answer.order ?? answer.rows;
  const body = $("table-view").querySelector("tbody");
  const next = rows.slice(answer.shown, answer.shown + ROWS_AT_ONCE);
  body.append(...next.map((row) => element("tr", {}, ...row.map((text, at) => cell(text, kinds[at])))));
  answer.shown += next.length;
}

// Control characters as their pictures.
const visible = (text) => text.replace(/[\0-\x08\x0b-\x1f\x7f]/g,
  (letter) => letter === "\x7f" ? "\u2421" : String.fromCharCode(0x2400 + letter.charCodeAt(0)));

function cell(text, kind) {
  if (text === null) return element("td", { className: kind === "number" ? "null n" : "null" }, "NULL");
  const isLong = text.length > 60 || text.includes("\n");
  const made = element("td", { className: isLong ? "long" : kind === "number" ? "n" : "" });
  const beginning = text.split("\n", 8).slice(0, 7).join("\n").slice(0, LONG_CELL);
  made.append(visible(beginning));
  if (beginning.length < text.length) {
    const rest = button("…", `Show all ${count(text.length, "character")}`, () => made.replaceChildren(visible(text)));
    made.append(rest);
  }
  return made;
}

function sortBy(column) {
  const head = $("table-view").querySelectorAll("th")[column];
  const next = { null: "ascending", ascending: "descending" }[head.getAttribute("aria-sort")] ?? null;
  $("table-view").querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
  if (next) head.setAttribute("aria-sort", next);
  const kind = classOf(answer.types[column]), sign = next === "descending" ? -1 : 1;
  const key = (row) => row[column] === null || kind !== "number" ? row[column] : Number(row[column]);
  // Nulls and NaN stay at the end.
  const isLast = (value) => value === null || value !== value;
  answer.order = next && [...answer.rows].sort((a, b) => {
    const [left, right] = [key(a), key(b)];
    if (isLast(left) || isLast(right)) return isLast(left) - isLast(right);
    return (left < right ? -1 : left > right ? 1 : 0) * sign;
  });
  answer.shown = 0;
  $("table-view").querySelector("tbody").replaceChildren();
  $("table-view").scrollTop = 0;
  fill();
}

let view = "table";
function choose(next) {
  view = next;
  for (const name of ["table", "chart"]) {
    $(`as-${name}`).setAttribute("aria-selected", String(name === view));
    $(`as-${name}`).tabIndex = name === view ? 0 : -1;
    $(`${name}-view`).hidden = name !== view;
  }
  draw();
}

function draw() {
  if (view !== "chart" || !answer) return;
  const chosen = (id) => $(id).value === "" ? undefined : Number($(id).value);
  const kind = $("kind").value || undefined;
  const plan = planOf(answer, { x: chosen("x"), y: chosen("y"), by: chosen("by"), kind });
  $("chart-name").textContent = plan ? nameOf(answer, plan) : "";
  if (plan) {
    $("chart-note").textContent = drawChart($("chart"), answer, plan);
  } else {
    $("chart").replaceChildren();
    $("chart-note").textContent = answer.rows.length
      ? "A chart needs a number, and a time, a text or another number to go by."
      : "There are no rows to draw.";
  }
}

// --- Tables ---

let tables = [];

async function listTables() {
  try {
    const all = "SELECT name, total_rows FROM system.tables WHERE database = 'default' ORDER BY name";
    tables = (await question(all)).rows;
    showTables();
  } catch (error) {
    $("tables-note").textContent = error.message;
  }
}

function showTables() {
  const wanted = $("filter").value.toLowerCase();
  const found = tables.filter(([name]) => name.toLowerCase().includes(wanted));
  const open = new Set([...$("tables").querySelectorAll("[aria-expanded=true]")].map((it) => it.dataset.table));
  $("tables").replaceChildren(...found.slice(0, MOST_TABLES).map(([name, rows]) => {
    const columns = element("ul", { className: "of-table", hidden: true });
    const toggle = button("", `Columns of ${name}`, () => toggleColumns(name, toggle, columns));
    toggle.className = "open";
    toggle.dataset.table = name;
    toggle.setAttribute("aria-label", `Columns of ${name}`);
    toggle.setAttribute("aria-expanded", "false");
    const insert = button(visible(name), "Insert the name", () => write(quoted(name)));
    insert.className = "name";
    const size = rows === null ? "view" : withCommas(rows);
    const line = element("div", { className: "table" }, toggle, insert, element("span", { className: "dim" }, size));
    if (open.has(name)) toggleColumns(name, toggle, columns);
    return element("li", {}, line, columns);
  }));
  $("tables-note").textContent = found.length > MOST_TABLES ? `${count(found.length - MOST_TABLES, "table")} more`
    : tables.length === 0 ? "There are no tables." : found.length === 0 ? "None is called so." : "";
}

async function toggleColumns(name, toggle, columns) {
  columns.hidden = !columns.hidden;
  toggle.setAttribute("aria-expanded", String(!columns.hidden));
  if (columns.hidden || columns.childElementCount) return;
  try {
    const { names, types } = await question(`SELECT * FROM ${quoted(name)} LIMIT 0`);
    const first = button("First 100 rows", "Run a statement that shows them", () => {
      write(`SELECT * FROM ${quoted(name)} LIMIT 100`, true);
      run();
    });
    columns.replaceChildren(element("li", {}, first), ...names.map((column, at) => {
      const insert = button("", "Insert the name", () => write(quoted(column)));
      insert.append(visible(column), element("span", { className: "dim", title: types[at] }, typeName(types[at])));
      return element("li", {}, insert);
    }));
  } catch (error) {
    columns.replaceChildren(element("li", { className: "dim" }, error.message));
  }
}

// Puts a text in the place of what is selected, or of all, so that it can be undone.
function write(text, all = false) {
  const editor = $("sql");
  editor.focus();
  if (all) editor.select();
  // It is deprecated, and the only way that keeps what can be undone.
  if (!document.execCommand?.("insertText", false, text)) {
    editor.setRangeText(text, editor.selectionStart, editor.selectionEnd, "end");
  }
  if (all) editor.setSelectionRange(editor.value.length, editor.value.length);
}

// --- What runs ---

async function listRunning() {
  if (!$("running-part").open || document.hidden) return;
  try {
    const all = await question("SELECT query_id, user, elapsed, read_rows, query FROM system.processes");
    const rows = all.rows.filter(([id]) => !id.startsWith(`${tab}-page-`));
    $("running-note").textContent = rows.length ? "" : "Nothing.";
    // A button that is about to be pressed stays where it is.
    const known = new Map([...$("running").children].map((item) => [item.dataset.id, item]));
    $("running").replaceChildren(...rows.slice(0, 200).map(([id, user, elapsed, read, query]) => {
      const item = known.get(id) ?? runningItem(id, query);
      item.querySelector("span").textContent = `${Number(elapsed).toFixed(1)} s, ${visible(user)}, ${count(read, "row")} read`;
      return item;
    }));
  } catch (error) {
    $("running-note").textContent = error.message;
  }
}

function runningItem(id, query) {
  const kill = button("Kill", `End ${query.slice(0, 80)}`, async () => {
    kill.disabled = true;
    try {
      const { rows } = await question(`KILL QUERY WHERE query_id = ${textOf(id)}`);
      if (!rows.length) $("running-note").textContent = "It has ended meanwhile, or you may not end it.";
    } catch (error) {
      $("running-note").textContent = error.message;
    }
    setTimeout(listRunning, 200);
  });
  const item = element("li", {}, element("div", { className: "line" }, element("span", {}), kill),
    element("code", { title: query.slice(0, 2000) }, visible(query.slice(0, 500))));
  item.dataset.id = id;
  return item;
}

// --- What ran ---

const KEY = "sty.serve.history";
let ran = [];
try {
  const kept = JSON.parse(localStorage.getItem(KEY) ?? "[]");
  if (Array.isArray(kept)) ran = kept.filter((sql) => typeof sql === "string").slice(0, MOST_HISTORY);
} catch { /* Without storage, it lasts as long as the page. */ }

function remember(sql) {
  if (sql.length <= MOST_REMEMBERED) ran = [sql, ...ran.filter((other) => other !== sql)].slice(0, MOST_HISTORY);
  keep();
}

function keep() {
  try {
    localStorage.setItem(KEY, JSON.stringify(ran));
  } catch { /* As above. */ }
  $("history").replaceChildren(...ran.map((sql) => {
    const item = button("", "Put it into the editor", () => write(sql, true));
    item.append(element("code", {}, visible(sql.slice(0, 400))));
    return element("li", {}, item);
  }));
  $("history-note").hidden = ran.length > 0;
  $("forget").hidden = ran.length === 0;
}

// --- Who asks, and the beginning ---

function showLogin(isShown) {
  $("login").hidden = !isShown;
  $("sign-in").setAttribute("aria-expanded", String(isShown));
}

function signIn(event) {
  event.preventDefault();
  const [user, password, token] = ["user", "password", "token"].map((id) => $(id).value);
  const basic = () => {
    const bytes = new TextEncoder().encode(`${user || "default"}:${password}`);
    return "Basic " + btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  };
  signedIn = token ? { authorization: `Bearer ${token}` } : user || password ? { authorization: basic() } : {};
  $("sign-in").textContent = token ? "Signed in by token" : user ? `Signed in as ${user}` : "Sign in";
  $("tables-note").textContent = "";
  showLogin(false);
  listTables();
  listRunning();
  $("sql").focus();
}

// A statement in the address is put into the editor, and not run: anyone can make a link.
function fromAddress() {
  let sql = location.hash.slice(1);
  try {
    sql = decodeURIComponent(sql);
  } catch { /* It is taken as it is. */ }
  if (sql && sql !== $("sql").value) $("sql").value = sql;
}

$("place").textContent = location.host;
$("run").addEventListener("click", run);
$("cancel").addEventListener("click", cancel);
$("sql").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    run();
  }
});
document.addEventListener("keydown", (event) => event.key === "Escape" && cancel());
$("table-view").addEventListener("scroll", () => {
  const part = $("table-view");
  if (answer && part.scrollTop + part.clientHeight * 2 > part.scrollHeight) fill();
});
["table", "chart"].forEach((name, at, names) => {
  $(`as-${name}`).addEventListener("click", () => choose(name));
  $(`as-${name}`).addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    choose(names[1 - at]);
    $(`as-${names[1 - at]}`).focus();
  });
});
["kind", "x", "y", "by"].forEach((id) => $(id).addEventListener("change", draw));
let width = 0;
new ResizeObserver(() => {
  if ($("chart").clientWidth !== width) draw();
  width = $("chart").clientWidth;
}).observe($("chart"));
$("filter").addEventListener("input", showTables);
$("again").addEventListener("click", listTables);
$("running-part").addEventListener("toggle", listRunning);
setInterval(listRunning, 2000);
$("forget").addEventListener("click", () => {
  ran = [];
  keep();
});
$("sign-in").addEventListener("click", () => showLogin($("login").hidden));
$("login").addEventListener("submit", signIn);
addEventListener("hashchange", fromAddress);
if (matchMedia("(max-width: 760px)").matches) $("tables-part").open = false;
fromAddress();
keep();
choose("table");
listTables();
