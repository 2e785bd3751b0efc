"""The page of `sty serve` in a headless Chromium, by Playwright; run.sh runs it.

With STY_SHOTS=DIR, pictures of the page are left there.
"""

import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

URL = f"http://{os.environ['STY_HOST']}:{os.environ['STY_PORT']}/"
SHOTS = os.environ.get("STY_SHOTS")
HOSTILE = "<img src=x onerror=window.bad=1><script>window.bad=1</script>\"'`\\"
# A table's name has neither / nor \.
TABLE = "<img src=x onerror=window.bad=1>\"'`"


def ask(sql, url=URL, headers=None):
    request = urllib.request.Request(url, sql.encode(), headers or {})
    with urllib.request.urlopen(request) as reply:
        return reply.read().decode()


def quoted(name):
    return '"' + name.replace("\\", "\\\\").replace('"', '""') + '"'


def literal(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def run(page, sql):
    page.locator("#sql").fill(sql)
    page.locator("#sql").press("Control+Enter")


def status(page, pattern):
    expect(page.locator("#status")).to_have_text(re.compile(pattern), timeout=30_000)


def shot(page, name):
    if SHOTS:
        page.screenshot(path=Path(SHOTS) / f"{name}.png")


def cells(page, row):
    return page.locator("#table-view tbody tr").nth(row).locator("td").all_inner_texts()


def answers(page):
    run(page, "SELECT id, city, fare, day FROM trips ORDER BY id")
    status(page, r"^3 rows in [\d.]+ s")
    assert cells(page, 0) == ["1", "Oslo", "12.5", "2024-01-02"], cells(page, 0)
    assert cells(page, 1) == ["2", "it's \"Bergen\"", "NULL", "NULL"], cells(page, 1)
    heads = page.locator("#table-view th").all_inner_texts()
    assert heads == ["id\nInt64", "city\nString", "fare\nFloat64", "day\nDate32"], heads
    assert "n" in page.locator("#table-view td").nth(0).get_attribute("class")
    # The address has the statement, and a page that is opened by it does not run it.
    assert "SELECT%20id" in page.url, page.url
    page.reload()
    expect(page.locator("#sql")).to_have_value("SELECT id, city, fare, day FROM trips ORDER BY id")
    page.wait_for_timeout(300)
    assert page.locator("#status").inner_text() == ""
    assert page.locator("#answer").is_hidden()
    # Rows are sorted by a click; nulls stay at the end.
    page.locator("#run").click()
    status(page, r"^3 rows")
    for first in ["3", "1", "1"]:
        page.locator("#table-view th button").nth(2).click()
        assert cells(page, 0)[0] == first, (first, cells(page, 0))
    # What is selected of the text runs alone.
    page.locator("#sql").fill("SELECT nothing; SELECT 42 AS a")
    page.locator("#sql").evaluate("(it) => it.setSelectionRange(16, it.value.length)")
    page.locator("#sql").press("Control+Enter")
    status(page, "^1 row ")
    assert cells(page, 0) == ["42"]
    # Numbers keep their digits, texts their letters.
    run(page, "SELECT 18446744073709551615::UBIGINT, 'nan'::DOUBLE, 'a\\tb\\\\N', '', '\\\\N', chr(7)")
    status(page, "^1 row ")
    found = page.locator("#table-view td").evaluate_all("(all) => all.map((td) => td.textContent)")
    assert found == ["18446744073709551615", "nan", "a\tb\\N", "", "\\N", "\u2407"], found
    # Long answers are ended, and long cells are cut until one asks for them.
    run(page, "SELECT range, repeat('long ', 1000) AS s FROM range(1000000)")
    status(page, r"^The first [\d,]+ rows, in .*ended there")
    assert page.locator("#table-view tbody tr").count() < 1000
    page.locator("#table-view").evaluate("(it) => { it.scrollTop = it.scrollHeight; }")
    expect(page.locator("#table-view tbody tr")).not_to_have_count(200)
    page.locator("#table-view td button").first.click()
    assert len(page.locator("#table-view td").nth(1).inner_text()) == 5000
    # Statements without an answer, and answers in other formats.
    run(page, "CREATE TABLE made AS SELECT 1 AS a")
    status(page, "^Done in ")
    expect(page.locator("#tables")).to_contain_text("made")
    run(page, "SELECT 1 AS a FORMAT JSONEachRow")
    status(page, "^8 bytes of JSONEachRow")
    assert page.locator("#raw pre").inner_text() == '{"a":1}\n'
    run(page, "SELECT 1 AS a FORMAT Parquet")
    status(page, "bytes of Parquet")
    with page.expect_download() as saved:
        page.locator("#raw a").click()
    assert Path(saved.value.path()).read_bytes()[:4] == b"PAR1"


def charts(page):
    run(page, "SELECT n % 7 AS k, 'day ' || (n % 7) AS day, count(*) AS c FROM numbers"
              " WHERE n < 100 GROUP BY 1, 2 ORDER BY 1")
    status(page, "^7 rows")
    page.locator("#as-chart").click()
    bars = page.locator("#chart svg[role=img]")
    expect(bars).to_have_attribute("aria-label", re.compile("^Bar chart: k, c by day; 7 rows$"))
    # A zero is a bar without length.
    assert bars.locator("rect").count() == 14
    page.locator("#y").select_option(label="c")
    expect(bars.locator("rect")).to_have_count(7)
    titles = bars.locator("rect title").all_text_contents()
    assert titles[0] == "day 0, c: 15" and titles[6] == "day 6, c: 14", titles
    shot(page, "bars")
    run(page, "SELECT DATE '2024-01-01' + (n::INT % 300) AS day, n % 2 = 0 AS even, sum(n) AS s"
              " FROM numbers GROUP BY 1, 2")
    status(page, "^600 rows|^300 rows")
    lines = page.locator("#chart svg[role=img]")
    expect(lines).to_have_attribute("aria-label", re.compile("^Line chart: s by day"))
    lines.hover(position={"x": 500, "y": 100})
    expect(page.locator("#chart p.mono")).to_have_text(re.compile(r"^2024-\d\d-\d\d: "))
    shot(page, "lines")
    run(page, "SELECT n, random() AS r FROM numbers ORDER BY r LIMIT 500")
    status(page, "^500 rows")
    expect(page.locator("#chart svg")).to_have_attribute("aria-label", re.compile("^Points: r by n"))
    shot(page, "points")
    run(page, "SELECT 'a' AS a")
    expect(page.locator("#chart-note")).to_have_text(re.compile("A chart needs a number"))
    page.locator("#as-chart").press("ArrowLeft")
    assert page.locator("#table-view").is_visible() and page.locator("#chart-view").is_hidden()


def failures(page):
    run(page, "SELECT 1,\n  'größe', nothing_such FROM trips")
    expect(page.locator("#error")).to_contain_text("no column nothing_such")
    expect(page.locator("#error")).to_contain_text("(line 2, column 12)")
    shot(page, "error")
    page.locator("#error button").click()
    found = page.locator("#sql").evaluate(
        "(it) => it.value.slice(it.selectionStart, it.selectionEnd)")
    assert found == "nothing_such", found
    # Behind the first rows of an answer, too. They are those of one block, which come in order.
    late = "CASE WHEN n = 9000 THEN CAST('x' || n AS INT) END"
    run(page, f"SELECT n, repeat('x', 100), {late} FROM numbers WHERE n < 60000")
    expect(page.locator("#error")).to_contain_text("Cannot cast string 'x")
    status(page, "rows below came before that")
    assert page.locator("#answer").is_visible()
    run(page, f"SELECT n, repeat('x', 100), {late} FROM numbers FORMAT CSV")
    expect(page.locator("#error")).to_contain_text("Cannot cast string 'x")
    assert page.locator("#raw").is_hidden()
    run(page, "SELECT 1")
    status(page, "^1 row ")
    assert page.locator("#error").is_hidden()


def runs(page):
    long = "SELECT count(*) FROM numbers a, numbers b, numbers c WHERE a.n + b.n < c.n"
    processes = "SELECT count(*) FROM system.processes WHERE query LIKE '%numbers c%'" \
                " AND query NOT LIKE '%system%'"
    run(page, long)
    expect(page.locator("#ticking")).to_have_text(re.compile(r"Running, [2-9].*read"), timeout=30_000)
    assert ask(processes) == "1\n"
    page.locator("#sql").press("Escape")
    status(page, "^Cancelled after")
    for _ in range(100):
        if ask(processes) == "0\n":
            break
        time.sleep(0.05)
    assert ask(processes) == "0\n", "a cancelled statement runs on"
    page.locator("#running-part summary").click()
    run(page, long)
    page.locator("#running button").click(timeout=30_000)
    expect(page.locator("#error")).to_contain_text("the statement was killed", timeout=30_000)
    expect(page.locator("#running-note")).to_have_text("Nothing.", timeout=30_000)
    page.locator("#running-part summary").click()


def hostile(page):
    ask(f"CREATE TABLE {quoted(TABLE)} AS SELECT {literal(HOSTILE)} AS {quoted(HOSTILE)}, 1 AS n")
    page.reload()
    # The table, its columns, values, the chart, an error, what runs, what ran, the address.
    toggle = page.locator("#tables .open").filter(has_text="").nth(0)
    assert toggle.get_attribute("data-table") == TABLE
    toggle.click()
    expect(page.locator("#tables .of-table").first).to_contain_text("<img src=x")
    page.locator("#tables .of-table button", has_text="First 100 rows").click()
    status(page, "^1 row ")
    assert cells(page, 0) == [HOSTILE, "1"], cells(page, 0)
    page.locator("#as-chart").click()
    expect(page.locator("#chart svg")).to_contain_text("<img src=x")
    shot(page, "hostile")
    page.locator("#as-table").click()
    page.locator("#sql").fill("")
    page.locator("#tables .name").first.click()
    assert page.locator("#sql").input_value() == quoted(TABLE)
    run(page, f"SELECT {quoted('no' + HOSTILE)} FROM trips")
    expect(page.locator("#error")).to_contain_text("<img src=x")
    run(page, f"SELECT 'x' AS a FORMAT {HOSTILE}")
    expect(page.locator("#error")).to_be_visible()
    page.locator("#history-part summary").click()
    expect(page.locator("#history")).to_contain_text("<img src=x")
    page.goto("about:blank")
    page.goto(URL + "play#" + "'<img src=x onerror=window.bad=1>")
    expect(page.locator("#sql")).to_have_value("'<img src=x onerror=window.bad=1>")
    page.wait_for_timeout(300)
    assert page.evaluate("window.bad") is None
    ask(f"DROP TABLE {quoted(TABLE)}")


def users(browser):
    """A server that asks who one is: a name and a password with letters beyond ASCII, and a token."""
    sty = os.environ["STY"]
    with tempfile.TemporaryDirectory() as work:
        Path(work, "db").mkdir()
        secret = "pässwörd €"
        kept = subprocess.run([sty, "serve", "--new-password"], input=secret + "\n", text=True,
                              capture_output=True, check=True).stdout
        token = subprocess.run([sty, "serve", "--new-token"], text=True, capture_output=True,
                               check=True).stdout
        Path(work, "users.toml").write_text(f"[users.anna]\n{kept}[users.board]\n{token}")
        token = re.match(r"# (\S+)", token)[1]
        server = subprocess.Popen([sty, "serve", "db", "--http", "0", "--users", "users.toml"],
                                  cwd=work, stderr=subprocess.PIPE, text=True)
        try:
            url = re.search(r"http://\S+/", server.stderr.readline())[0]
            page = browser.new_page()
            page.goto(url + "play")
            expect(page.locator("#login")).to_be_visible()
            page.locator("#user").fill("anna")
            page.locator("#password").fill("wrong")
            page.locator("#password").press("Enter")
            expect(page.locator("#tables-note")).to_contain_text("password is not right")
            page.locator("#password").fill(secret)
            page.locator("#password").press("Enter")
            expect(page.locator("#tables-note")).to_have_text("There are no tables.")
            expect(page.locator("#sign-in")).to_have_text("Signed in as anna")
            run(page, "SELECT user FROM system.processes")
            status(page, "^1 row ")
            assert cells(page, 0) == ["anna"]
            page.reload()
            expect(page.locator("#login")).to_be_visible()
            assert "pässw" not in page.evaluate("JSON.stringify([localStorage, sessionStorage])")
            page.locator("#token").fill(token)
            page.locator("#token").press("Enter")
            run(page, "SELECT user FROM system.processes")
            status(page, "^1 row ")
            assert cells(page, 0) == ["board"]
            page.close()
        finally:
            server.kill()
            server.wait()


def main():
    ask("CREATE TABLE numbers AS SELECT range AS n FROM range(300000)")
    options = {}
    if path := os.environ.get("CHROMIUM") or shutil.which("chromium"):
        options["executable_path"] = path
    with sync_playwright() as playwright:
        # Its sandbox needs rights that a container may lack; the pages are our own.
        browser = playwright.chromium.launch(args=["--no-sandbox"], **options)
        for scheme in ["light", "dark"]:
            context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 800})
            page = context.new_page()
            broken = []
            page.on("pageerror", lambda error: broken.append(str(error)))
            # Replies that are errors are said there, too; the policy must have refused nothing.
            page.on("console", lambda said: "Failed to load resource" in said.text
                    or broken.append(said.text))
            page.goto(URL + "play")
            expect(page.locator("#tables")).to_contain_text("trips")
            for check in [answers, charts, failures, runs, hostile] if scheme == "light" else [charts]:
                check(page)
                print(scheme, check.__name__, "ok")
            if scheme == "dark":
                page.set_viewport_size({"width": 390, "height": 800})
                shot(page, "narrow")
            assert broken == [], broken
            context.close()
        users(browser)
        browser.close()


main()
