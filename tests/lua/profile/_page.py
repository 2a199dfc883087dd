"""Checks pages of profiles in headless Chromium, light and dark: python3 _page.py [--pictures FOLDER] FILE.html...

No error, no request beside the file itself, texts that can be read on their ground, words under the pointer, lines that
light up together. Says a line of each page, or "skipped: ..", and what is wrong, with exit code 1.
"""
import os
import sys

import _browser

# What script asks of the page: a point of the first element of a kind that is seen, after scrolling there.
MIDDLE = """(() => { for (const e of document.querySelectorAll(%r)) { e.scrollIntoView({block: "center", inline: "nearest"}); const r = e.getBoundingClientRect();
  const x = r.x + Math.min(60, r.width / 2), y = r.y + r.height / 2;
  if (r.width > 1 && r.height > 1 && e.contains(document.elementFromPoint(x, y))) return [x, y]; } return null })()"""
# Contrast of a text with its ground, as WCAG defines it; the least of all texts, and which it is.
CONTRAST = """(() => {
  const light = (c) => { const [r, g, b] = c.match(/[0-9.]+/g).slice(0, 3).map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b };
  const ground = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!/, 0\\)$|transparent/.test(c)) return c } return "rgb(255,255,255)" };
  let least = [99, ""];
  const all = [...document.querySelectorAll("p, td, th, h1, h2, h3, svg text, .code div, .code b, summary span, button")];
  for (let i = 0; i < all.length; i += Math.ceil(all.length / 500)) { // of each kind some
    const e = all[i];
    if (!e.checkVisibility()) continue;
    const s = getComputedStyle(e), a = light(e.tagName === "text" ? s.fill : s.color), b = light(ground(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < least[0]) least = [ratio, e.tagName + " " + e.textContent.slice(0, 40)];
  }
  return least })()"""
OUTSIDE = """[...document.querySelectorAll("svg text")].filter((t) => { const b = t.getBBox(), v = t.ownerSVGElement.viewBox.baseVal;
  return !t.hasAttribute("transform") && (b.x < -1 || b.x + b.width > v.width + 1 || b.y < -1 || b.y + b.height > v.height + 3) }).map((t) => t.textContent)"""


def check(page, address):
    assert not page.errors, "the console says " + str(page.errors)
    asked = [u for u in page.requests if u != address and not u.startswith("data:")]
    assert not asked, "it asks for " + str(asked)
    ratio, which = page.run(CONTRAST)
    assert ratio >= 4.5, "a contrast of %.2f: %s" % (ratio, which)
    assert page.run("document.documentElement.scrollWidth <= innerWidth"), "wider than its window"
    assert not page.run(OUTSIDE), "words outside of pictures: " + str(page.run(OUTSIDE))
    at = page.run(MIDDLE % "svg rect, svg circle")
    assert at, "no bar or point is seen"
    page.move(*at)
    assert page.run("getComputedStyle(document.getElementById('tip')).display") == "block", "no words under the pointer"
    assert page.run("document.getElementById('tip').textContent").strip()
    page.move(2, 2)
    assert page.run("getComputedStyle(document.getElementById('tip')).display") == "none", "words stay"
    lines = 0
    if page.run("!!document.querySelector('#program')"):
        at = page.run(MIDDLE % "#program div[data-at]")
        assert at, "no line of the program has anything of the kernels"
        page.move(*at)
        lines = page.run("document.querySelectorAll('.code:not(#program):not([hidden]) .lit').length")
        assert lines > 0, "no line of the kernels lights up"
        assert page.run("document.querySelectorAll('#program .lit').length") >= 1
        n = page.run("document.querySelectorAll('button[data-level]').length")
        for i in range(n):
            page.run("document.querySelectorAll('button[data-level]')[%d].click()" % i)
            assert page.run("document.querySelectorAll('.code[data-level]:not([hidden])').length") == 1
        page.run("document.querySelectorAll('button[data-level]')[%d].click()" % (n // 2))
    heads = page.run("[...document.querySelectorAll('h2')].map((h) => h.textContent).join(', ')")
    counts = page.run("[document.querySelectorAll('svg rect').length, document.querySelectorAll('svg circle').length, document.querySelectorAll('tr').length]")
    return "%s; %d bars, %d points, %d rows, %d lines lit" % (heads, *counts, lines)


arguments = sys.argv[1:]
pictures = None
if arguments[0] == "--pictures":
    pictures, arguments = arguments[1], arguments[2:]
_browser.need()
with _browser.Browser() as browser:
    for path in arguments:
        name, said = os.path.basename(path), None
        assert os.path.getsize(path) < 20e6, name + " is too large"
        for dark in (False, True):
            address = "file://" + os.path.abspath(path)
            page = browser.page(address, dark)
            try:
                said = check(page, address)
            except AssertionError as e:
                print("%s%s: wrong: %s" % (name, " in the dark" if dark else "", e))
                sys.exit(1)
            if pictures:
                page.run("scrollTo(0, 0)")
                page.picture(os.path.join(pictures, name + (".dark" if dark else "") + ".png"))
        print("%s: %s" % (name, said))
