"""What tables of profiles must be, read by Python's csv."""
import csv
import os

TEXT = {"kernel", "device", "role", "stage", "reason", "instruction", "place", "path", "kind", "what"}
# Empty where that is what the row says: a row of a whole has no phase, a sum of several no run.
FREE = {"phase", "run", "start_us", "place", "role", "what", "reason", "path"}


def rows_of(path):
    """Rows as dictionaries: numbers are numbers, empty fields None; each empty field has its reason."""
    with open(path, newline="") as f:
        lines = list(csv.reader(f, strict=True))
    head, rows = lines[0], []
    assert len(set(head)) == len(head), path + ": a column twice"
    for number, line in enumerate(lines[1:], 2):
        at = "%s:%d: " % (path, number)
        assert len(line) == len(head), at + "%d fields of %d" % (len(line), len(head))
        row = {}
        for column, field in zip(head, line):
            row[column] = (field if column in TEXT else float(field)) if field != "" else None
            assert row[column] is not None or column in FREE or row.get("reason") or line[head.index("reason")], at + column + " is empty, and nobody says why"
        rows.append(row)
    return rows


def near(a, b):
    return abs(a - b) <= 0.02 * max(abs(a), abs(b)) + 0.02


def check_kernels(rows, path):
    """Stages add up to their kernels. Returns how many stages there are on the processor, and on devices."""
    parts, times, counts = {}, {}, [0, 0]
    for r in rows:
        if r["stage"] is None:
            continue
        processor = r["device"] == "cpu"
        counts[0 if processor else 1] += 1
        key = (r["device"], r["launch"], r["role"])
        parts[key] = parts.get(key, 0) + r["part"]
        assert r["count"] is not None or r["stage"] == "between"
        whole = key[:2] if processor else key  # on the processor phases follow each other; roles run side by side
        if r["us"] is not None:
            times[whole] = [times.get(whole, [0])[0] + r["us"], r["kernel_us"]]
        if not processor:
            stalls = sum(r[c] for c in r if c.startswith("stall_"))
            assert -1e-6 <= stalls <= 1 + 1e-4, "%s: stalls of %g" % (path, stalls)
            if r["us"] is not None:
                assert r["tile_us"] > 0 and 0 < r["occupancy"] <= 1 and r["registers"] > 0 and r["shared_bytes"] >= 0, path
    for key, sum_ in parts.items():
        assert near(sum_, 1), "%s: parts of %s add up to %g" % (path, key, sum_)
    for key, (sum_, kernel) in times.items():
        assert near(sum_, kernel), "%s: stages of %s take %g of %g" % (path, key, sum_, kernel)
    return counts


def check(base):
    """Rows of the tables beside a timeline: {"": .., "kernels": ..}."""
    tables = {}
    for name in ("", "kernels"):
        path = base + (name and "." + name) + ".csv"
        if os.path.exists(path):
            assert os.path.getsize(path) < 20e6, path + " is too large"
            tables[name] = rows_of(path)
    if "kernels" in tables:
        tables["stages"] = check_kernels(tables["kernels"], base)
    program = [r for r in tables.get("", []) if r.get("kind") == "program"]
    if program:
        own = sum(r["own_us"] for r in tables[""] if r["kind"] != "lua")
        assert near(own, program[0]["us"]), "own times add up to %g of %g" % (own, program[0]["us"])
    return tables
