"""Checks files of profiles: python3 _check.py BASE..., of each BASE.json, BASE.csv and BASE.kernels.csv.

Says a line of each, "skipped: .." without a browser or the trace processor, and what is wrong, with exit code 1.
"""
import json
import os
import sys

import _browser
import _tables
import _timeline

tables = {base: _tables.check(base) for base in sys.argv[1:]}
_browser.need()
_timeline.need()
with _browser.Browser() as browser:
    for base in sys.argv[1:]:
        name = os.path.basename(base)
        assert os.path.getsize(base + ".json") < 20e6, name + ".json is too large"
        t = _timeline.Timeline(browser, base + ".json")
        try:
            _timeline.check(t)
            with open(base + ".json") as f:
                events = [e for e in json.load(f)["traceEvents"] if e["ph"] == "X"]
            n, tracks = len({(e["pid"], e["tid"]) for e in events}), t.count("select distinct track_id from slice")
            assert n == tracks, "%d tracks of %d" % (tracks, n)
            assert len(events) == t.count("select * from slice"), "slices are missing"
            _timeline.check_counts(t, tables[base])
        except AssertionError as e:
            print("%s: wrong: %s" % (name, e))
            sys.exit(1)
        print("%s: %s" % (name, _timeline.facts(t)))
