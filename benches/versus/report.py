"""The results of versus.py as Markdown and as a picture."""

import math
from html import escape

COLOURS = {
    "sty": "#c2410c", "duckdb": "#a16207", "duckdb-parquet": "#d9b44a", "chdb": "#1d4ed8",
    "chdb-lowcardinality": "#7ba3f0", "hyper": "#15803d", "polars": "#7e22ce",
    "datafusion": "#64748b"
}


def best_peer(result, key):
    """The best figure of the peers, and whose it is."""
    found = [(one[key], name) for name, one in result["engines"].items()
             if name != "sty" and key in one]
    return min(found, default=None)


def times_faster(result, key="hot_ms"):
    best, ours = best_peer(result, key), result["engines"].get("sty", {}).get(key)
    return best[0] / ours if best and ours else None


def geometric_mean(factors):
    """The geometric mean."""
    factors = [factor for factor in factors if factor]
    return math.exp(sum(map(math.log, factors)) / len(factors)) if factors else None


def sets(report):
    return list(dict.fromkeys(result["set"] for result in report["queries"]))


def queries_in(report, name):
    return [result for result in report["queries"] if result["set"] == name]


def format_number(value):
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def figures(report, name, key, unit, scale=1.0):
    """A table with a row per query, a column per engine, and our speed-up over the best peer."""
    engines = list(report["disk_bytes"])
    if not any(key in one for result in queries_in(report, name)
               for one in result["engines"].values()):
        return []
    out = [f"{unit}:", "", "| | " + " | ".join(engines) + " | best peer / sty |",
           "| --- |" + " ---: |" * (len(engines) + 1)]
    for result in queries_in(report, name):
        best = best_peer(result, key)
        cells = []
        for engine in engines:
            value = result["engines"][engine].get(key)
            text = format_number(None if value is None else value / scale)
            cells.append(f"**{text}**" if best and engine == best[1] else text)
        factor = times_faster(result, key)
        out.append(f"| {result['number']} | " + " | ".join(cells) + f" | {format_number(factor)} |")
    factors = [times_faster(result, key) for result in queries_in(report, name)]
    overall = [
        geometric_mean([ratio_to_sty(result, engine, key) for result in queries_in(report, name)])
        for engine in engines
    ]
    out.append("| geometric mean, sty = 1 | " + " | ".join(map(format_number, overall)) +
               f" | {format_number(geometric_mean(factors))} |")
    return [*out, ""]


def ratio_to_sty(result, engine, key):
    theirs, ours = result["engines"][engine].get(key), result["engines"].get("sty", {}).get(key)
    return theirs / ours if theirs and ours else None


def faults(result):
    """Wrong or failed answers to a query, by engine."""
    bad = []
    for name, one in result["engines"].items():
        if "error" in one:
            bad.append(f"{name} failed: {one['error'].splitlines()[0][:160]}")
        elif one.get("answer", "same") != "same":
            bad.append(f"{name} differs: {one['answer'][:160]}")
    return bad


def markdown(report):
    rows = f"{report['rows']:,} generated trips" if report["rows"] else "The trips of given files"
    out = [
        "# Queries beside the peers", "",
        f"{rows} of 51 columns, {report['threads']} threads, {report['started']}. "
        f"Hot: best of {report['rounds']} rounds "
        f"of {report['runs']} runs, engines alternating. The best peer's figure is bold.", "",
        f"{report['machine']['processor']}, {report['machine']['cores']} cores, "
        f"{report['machine']['memory_bytes'] / 2**30:.0f} GiB, {report['machine']['system']}. " +
        "; ".join(f"{name} {text}"
                  for name, text in report["versions"].items() if text) + ".", "", "## Summary", "",
        "| queries | faster than every peer | best peer / sty, geometric mean | least |",
        "| --- | ---: | ---: | ---: |"
    ]
    for name in sets(report):
        factors = [
            factor for result in queries_in(report, name) if (factor := times_faster(result))
        ]
        if factors:
            ahead = sum(factor > 1 for factor in factors)
            out.append(
                f"| {name} | {ahead} of {len(factors)} "
                f"| {format_number(geometric_mean(factors))} | {format_number(min(factors))} |"
            )
    out += ["", "## Bytes on disk", "", "| | MB |", "| --- | ---: |"]
    out += [f"| {name} | {count / 1e6:,.1f} |" for name, count in report["disk_bytes"].items()]
    for name in sets(report):
        out += [
            "", f"## {name}", "",
            *[f"{result['number']}. `{result['sql']}`" for result in queries_in(report, name)], ""
        ]
        out += figures(report, name, "hot_ms", "Hot, ms")
        out += figures(report, name, "cold_ms", "Cold, open and first run, ms")
        out += figures(report, name, "oneshot_ms",
                       "One shot from the command line, warm page cache, ms")
        out += figures(report, name, "memory_bytes", "Peak anonymous memory, MiB", 2**20)
        bad = [
            f"- query {result['number']}: {text}" for result in queries_in(report, name)
            for text in faults(result)
        ]
        checked = any("answer" in one for result in queries_in(report, name)
                      for one in result["engines"].values())
        out += ["Answers that are not those of the first peer:", "", *bad] if bad else \
            ["All answers agree." if checked else "Answers were not compared."]
    return "\n".join(out) + "\n"


ROW, LEFT, WIDTH = 22, 150, 640


def svg(report):
    """An SVG: a line per query on a logarithmic scale, a dot per engine, and a bar for ours."""
    results = [
        result for result in report["queries"]
        if any("hot_ms" in one for one in result["engines"].values())
    ]
    values = [
        one["hot_ms"] for result in results for one in result["engines"].values() if "hot_ms" in one
    ]
    low = math.floor(math.log10(max(min(values, default=1), 1e-3)))
    high = max(math.ceil(math.log10(max(values, default=10))), low + 1)
    at = lambda ms: LEFT + WIDTH * (math.log10(max(ms, 1e-3)) - low) / (high - low)
    top = 70
    height = top + ROW * (len(results) + len({result["set"] for result in results})) + 30
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 40} {height}" '
        f'width="{LEFT + WIDTH + 40}" height="{height}" font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="10" y="20" font-size="14">Time of queries, hot, {report["threads"]} threads: '
        'milliseconds, the left is faster</text>'
    ]
    x = 10
    for engine in report["disk_bytes"]:
        out.append(f'<circle cx="{x + 5}" cy="36" r="4" fill="{COLOURS.get(engine, "#000")}"/>'
                   f'<text x="{x + 13}" y="40">{escape(engine)}</text>')
        x += 28 + 6.2 * len(engine)
    for power in range(low, high + 1):
        x = at(10.0**power)
        out.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top - 10}" y2="{height - 20}" stroke="#ddd"/>'
            f'<text x="{x:.1f}" y="{top - 14}" text-anchor="middle" fill="#666">'
            f'{10.0**power:g} ms</text>'
        )
    y, previous = top, None
    for result in results:
        if result["set"] != previous:
            previous = result["set"]
            out.append(f'<text x="10" y="{y + 14}" font-weight="bold">{escape(previous)}</text>')
            y += ROW
        out += svg_line(result, y, at)
        y += ROW
    return "\n".join([*out, "</svg>"]) + "\n"


def svg_line(result, y, at):
    sql = result["sql"]
    out = [f'<g><title>{escape(sql)}</title><text x="{LEFT - 12}" y="{y + 14}" text-anchor="end">'
           f'{escape(result["set"])} {result["number"]}</text>']
    figures = {name: one["hot_ms"] for name, one in result["engines"].items() if "hot_ms" in one}
    if "sty" in figures:
        out.append(
            f'<rect x="{LEFT}" y="{y + 6}" width="{at(figures["sty"]) - LEFT:.1f}" height="8" '
            'fill="#fed7aa"/>'
        )
    # Ours last, on top of the others.
    for name, ms in sorted(figures.items(), key=lambda item: item[0] == "sty"):
        out.append(
            f'<circle cx="{at(ms):.1f}" cy="{y + 10}" r="{5 if name == "sty" else 4}" '
            f'fill="{COLOURS.get(name, "#000")}" fill-opacity="0.85">'
            f'<title>{escape(name)} {ms:.1f} ms</title></circle>'
        )
    return [*out, "</g>"]
