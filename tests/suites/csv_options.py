"""What is told of a CSV file, as options of the command line, of read_csv, and of DuckDB."""


def command_line(told):
    found = []
    for key, value in told:
        if key == "header":
            found.append("--header" if value else "--no-header")
        elif key == "skip_initial_space":
            found.append("--skip-initial-space")
        elif key == "names":
            found += ["--names", ",".join(value)]
        elif key == "types":
            found += ["--schema", ",".join(f"{name}:{kind}" for name, kind in value)]
        else:
            value = {("quote", ""): "none", ("delimiter", "\t"): "tab"}.get((key, value), value)
            found.append(f"--{key.replace('_', '-')}={value}")
    return found


def literal(value):
    return "'" + value.replace("'", "''") + "'"


def from_options(file, told):
    """The same in a FROM."""
    parts = [file]
    nulls = [value for key, value in told if key == "null"]
    for key, value in told:
        if key == "null":
            continue
        elif key in ("header", "skip_initial_space"):
            parts.append(f"{key} => {str(value).lower()}")
        elif key == "skip":
            parts.append(f"skip => {value}")
        elif key == "names":
            parts.append(f"names => [{', '.join(map(literal, value))}]")
        elif key == "types":
            parts.append("types => {" + ", ".join(f"{literal(name)}: {literal(kind)}" for name, kind in value) + "}")
        else:
            parts.append(f"{key} => {literal(value)}")
    if nulls:
        parts.append(f"null => [{', '.join(map(literal, nulls))}]")
    return f"read_csv({', '.join(parts)})"


def duck_options(file, told):
    """What DuckDB is told of the same."""
    parts = [file]
    nulls = ["", *(value for key, value in told if key == "null")]
    for key, value in told:
        if key in ("null", "names", "skip_initial_space", "date_order"):
            continue
        if key == "header":
            parts.append(f"header = {str(value).lower()}")
        elif key == "skip":
            parts.append(f"skip = {value}")
        elif key == "encoding":
            parts.append(f"encoding = {literal({'latin1': 'latin-1', 'utf-16le': 'utf-16'}.get(value, value))}")
        else:
            name = {"delimiter": "delim", "decimal": "decimal_separator"}.get(key, key)
            parts.append(f"{name} = {literal(value)}")
    parts.append(f"nullstr = [{', '.join(map(literal, nulls))}]")
    return f"read_csv({', '.join(parts)})"
