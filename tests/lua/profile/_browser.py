"""Headless Chromium, driven by its DevTools protocol over a pipe; nothing beside Python is needed.

    with Browser() as b:
        page = b.page("file:///tmp/f.html", dark=True)
        page.run("document.title")
        page.errors, page.requests      # what the console said, what was asked of the network

Serving(folders) answers pages of this machine's own address.
"""
import base64
import functools
import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading

SECONDS = 120


def program():
    """The browser's name, or None."""
    for name in ("chromium-headless-shell", "chromium", "google-chrome"):
        if shutil.which(name):
            return name
    return None


def need():
    """Ends the program, as skipped, where there is no browser."""
    if not program():
        print("skipped: no Chromium is installed: pages and timelines are not opened")
        sys.exit(0)


class Page:
    def __init__(self, browser, session):
        self.browser, self.session = browser, session
        self.errors, self.requests = [], []

    def command(self, method, **parameters):
        return self.browser.command(method, parameters, self.session)

    def run(self, source):
        """The value of an expression of JavaScript, of a promise what it brings."""
        answer = self.command("Runtime.evaluate", expression=source, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description") or str(answer))
        return answer["result"].get("value")

    def move(self, x, y):
        self.command("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def picture(self, path, whole=True):
        answer = self.command("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(path, "wb") as f:
            f.write(base64.b64decode(answer["data"]))

    def heard(self, method, p):
        if method == "Runtime.exceptionThrown":
            self.errors.append(p["exceptionDetails"].get("text", "") + " " + str(p["exceptionDetails"].get("exception")))
        elif method == "Runtime.consoleAPICalled" and p["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(a.get("value", a.get("description"))) for a in p["args"]))
        elif method == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"):
            self.errors.append(p["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(p["request"]["url"])


class Browser:
    def __enter__(self):
        self.folder = tempfile.mkdtemp()
        to_read, to_write = os.pipe()
        from_read, from_write = os.pipe()

        def hand_over():  # the protocol is on descriptors 3 and 4
            a, b = os.dup(to_read), os.dup(from_write)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            [program(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe",
             "--disable-background-networking", "--user-data-dir=" + self.folder, "about:blank"],
            close_fds=False, preexec_fn=hand_over, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(from_write)
        self.to, self.of = os.fdopen(to_write, "wb"), os.fdopen(from_read, "rb")
        self.number, self.rest, self.pages = 0, b"", {}
        self.watch = threading.Timer(SECONDS, self.process.kill)
        self.watch.start()
        return self

    def __exit__(self, *_):
        self.watch.cancel()
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def message(self):
        while b"\0" not in self.rest:
            more = os.read(self.of.fileno(), 1 << 20)
            if not more:
                raise RuntimeError("the browser has gone")
            self.rest += more
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def hear(self, m):
        page = self.pages.get(m.get("sessionId"))
        if page and "method" in m:
            page.heard(m["method"], m["params"])
        return m.get("method")

    def command(self, method, parameters={}, session=None):
        self.number += 1
        m = {"id": self.number, "method": method, "params": parameters}
        if session:
            m["sessionId"] = session
        self.to.write(json.dumps(m).encode() + b"\0")
        self.to.flush()
        while True:
            m = self.message()
            if m.get("id") == self.number:
                if "error" in m:
                    raise RuntimeError(method + ": " + m["error"]["message"])
                return m["result"]
            self.hear(m)

    def page(self, url, dark=False, width=1100, height=900):
        target = self.command("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.command("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        page = self.pages[session] = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.command(domain + ".enable")
        page.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        page.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        page.command("Page.navigate", url=url)
        while self.hear(self.message()) != "Page.loadEventFired":
            pass
        return page


class Serving:
    """An address of this machine where files of several folders are, the first that has one."""

    def __init__(self, *folders):
        class Handler(http.server.SimpleHTTPRequestHandler):
            def translate_path(self, path):
                name = path.split("?")[0].lstrip("/")
                for folder in folders:
                    if os.path.exists(os.path.join(folder, name)):
                        return os.path.join(folder, name)
                return os.path.join(folders[0], name)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = "http://127.0.0.1:%d/" % self.server.server_port
