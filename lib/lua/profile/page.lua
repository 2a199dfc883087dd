-- The frame of a profile's page: how it looks, light and dark as the reader's system is, and what the pointer does. Nothing
-- is fetched: styles and the few lines of script stand in the file.

local picture = require "tessera.profile.picture"
local page = {}

local STYLE = [[
:root { --paper: #fff; --ink: #1c2024; --dim: #667078; --line: #d4d8dc; --band: #f3f5f7; --lit: #fff0b8; color-scheme: light dark }
@media (prefers-color-scheme: dark) { :root { --paper: #16191d; --ink: #e4e7ea; --dim: #98a2ab; --line: #3a4149; --band: #1f242a; --lit: #4a4218 } }
body { font: 14px/1.45 system-ui, sans-serif; margin: 2em auto; padding: 0 1em; max-width: 1060px; color: var(--ink); background: var(--paper) }
h1 { font-size: 1.5em } h2 { font-size: 1.15em; margin: 2em 0 .5em } h3 { font-size: 1em; margin: 1.2em 0 .3em }
table { border-collapse: collapse; font-variant-numeric: tabular-nums } td, th { padding: 3px 10px; text-align: right }
th { color: var(--dim); font-weight: 600; border-bottom: 1px solid var(--line) }
td, th { white-space: nowrap } td:last-child, th:last-child { text-align: left; white-space: normal } tr:nth-child(odd) td { background: var(--band) }
.wide { overflow-x: auto } i { display: inline-block; width: 10px; height: 10px; margin-right: 6px; border-radius: 2px }
.place, .dim { color: var(--dim) } pre, .code { font: 12px/1.5 ui-monospace, monospace } pre { overflow-x: auto }
svg { max-width: 100%; height: auto } svg text { font: 12px system-ui, sans-serif; fill: var(--ink) } svg .dim { fill: var(--dim) }
svg line { stroke: var(--line) } svg line.roof { stroke: var(--ink); stroke-width: 1.5 } svg rect:hover, svg circle:hover { stroke: var(--ink); stroke-width: 1.5 }
#tip { position: fixed; display: none; max-width: 460px; padding: 4px 8px; border-radius: 4px; background: var(--ink); color: var(--paper); pointer-events: none; z-index: 9 }
.both { display: grid; grid-template-columns: minmax(0, 5fr) minmax(0, 7fr); gap: 12px } .code { max-height: 460px; overflow: auto; border: 1px solid var(--line); border-radius: 4px; margin: 0 }
.code div { white-space: pre; padding: 0 8px; min-width: max-content } .code b { display: inline-block; width: 3.5em; color: var(--dim); font-weight: 400; user-select: none }
#program div[data-at] { box-shadow: inset 3px 0 #4878a8 } .code .name { color: var(--dim); background: var(--band) } .lit, tr.lit td, tr.lit:nth-child(odd) td { background: var(--lit) } svg .lit { stroke: var(--ink); stroke-width: 2 }
button { font: inherit; color: var(--ink); background: var(--band); border: 1px solid var(--line); border-radius: 4px; padding: 2px 10px; margin: 0 4px 8px 0; cursor: pointer }
button[aria-pressed=true] { background: var(--ink); color: var(--paper) }
details details { padding-left: 18px } summary { cursor: pointer; white-space: nowrap; overflow: hidden; text-overflow: ellipsis } .leaf > summary { list-style: none; padding-left: 14px; cursor: default }
.n { display: inline-block; text-align: right; color: var(--dim); width: 5.6em; margin-right: .8em; font-variant-numeric: tabular-nums } .n + .n { width: 3.6em }
@media (max-width: 760px) { .both { grid-template-columns: 1fr } }
]]

-- Words of pictures at once under the pointer; what stands for the same line of the program lights up together, and the
-- other texts scroll there.
local SCRIPT = [[
"use strict";
const tip = document.createElement("div"), said = new WeakMap();
tip.id = "tip";
document.body.append(tip);
for (const t of document.querySelectorAll("svg title")) {
  said.set(t.parentNode, t.textContent);
  t.parentNode.setAttribute("aria-label", t.textContent);
  t.remove();
}
document.addEventListener("mousemove", (e) => {
  const text = said.get(e.target);
  tip.style.display = text ? "block" : "none";
  if (!text) return;
  tip.textContent = text;
  tip.style.left = Math.max(4, Math.min(e.clientX + 14, innerWidth - tip.offsetWidth - 4)) + "px";
  tip.style.top = (e.clientY + 22 + tip.offsetHeight > innerHeight ? e.clientY - tip.offsetHeight - 8 : e.clientY + 18) + "px";
});
const places = new Map();
for (const e of document.querySelectorAll("[data-at]"))
  for (const at of e.dataset.at.split("|")) {
    if (!places.has(at)) places.set(at, []);
    places.get(at).push(e);
  }
let lit = [];
document.addEventListener("mouseover", (e) => {
  const from = e.target.closest ? e.target.closest("[data-at]") : null;
  for (const x of lit) x.classList.remove("lit");
  lit = from ? from.dataset.at.split("|").flatMap((at) => places.get(at)) : [];
  for (const x of lit) x.classList.add("lit");
  const boxes = new Set(from ? [from.closest(".code")] : []);
  for (const x of lit) {
    const box = x.closest(".code");
    if (!box || box.hidden || boxes.has(box)) continue;
    boxes.add(box);
    const up = x.offsetTop - box.offsetTop;
    if (up < box.scrollTop || up > box.scrollTop + box.clientHeight - 30) box.scrollTop = up - box.clientHeight / 3;
  }
});
for (const b of document.querySelectorAll("button[data-level]"))
  b.addEventListener("click", () => {
    for (const c of document.querySelectorAll("button[data-level]")) c.setAttribute("aria-pressed", c === b);
    for (const c of document.querySelectorAll(".code[data-level]")) c.hidden = c.dataset.level !== b.dataset.level;
  });
]]

--- The file: a title, the heading, the body.
function page.of(title, head, body)
  return table.concat { '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>',
    picture.escaped(title), "</title><style>\n", STYLE, "</style></head><body><h1>", picture.escaped(head), "</h1>\n", body, "\n<script>\n", SCRIPT,
    "</script></body></html>\n" }
end

return page
