-- Who holds which page, beside a plain account of it: random texts that come, grow and end; a page is in one place, and what is found
-- again has the tokens of who looks for it.
local Pages = require "tessera.hf.batching.pages"

local state = 3
local function random(n)
  state = (state * 48271) % 2147483647
  return state % n + 1
end

local groups = { { window = 0, count = 14 }, { window = 7, count = 12 } }

-- What pages hold, as their texts wrote it: group -> page -> words.
local function check(p, texts)
  for i, g in ipairs(p.groups) do
    local refs = {}
    for _, t in ipairs(texts) do
      for _, page in ipairs(t.held.tables[i]) do
        if page ~= 0 then refs[page] = (refs[page] or 0) + 1 end
      end
    end
    local free, idle = {}, 0
    for _, page in ipairs(g.free) do
      assert(not free[page] and not g.node[page])
      free[page] = true
    end
    for page = 1, g.count do
      assert(g.refs[page] == (refs[page] or 0), "counts")
      if not refs[page] then
        assert(free[page] or g.node[page], "a page is lost")
        if g.node[page] then idle = idle + 1 end
      end
      assert(not (refs[page] and free[page]), "a page is held and free")
    end
    assert(idle == g.nidle and p:has(i, #g.free + idle) and not p:has(i, #g.free + idle + 1))
  end
end

for _, size in ipairs { 1, 3, 4 } do
  local p, texts, content, found = Pages.new(groups, { size = size, share = true }), {}, { {}, {} }, 0
  for _ = 1, 1500 do
    local what = random(4)
    if what == 1 and #texts < 3 then
      local t = { held = p:open(random(2)), tokens = {}, written = 0 }
      for i = 1, random(12) do t.tokens[i] = random(2) end
      t.written = p:match(t.held, t.tokens, #t.tokens - 1)
      found = found + t.written
      for i, g in ipairs(p.groups) do -- what the next query sees is there, and is what this text would have written
        for at = math.max(1, g.window > 0 and t.written - g.window + 2 or 1), t.written do
          local page = t.held.tables[i][math.ceil(at / size)]
          assert(page ~= 0 and content[i][page][(at - 1) % size] == t.held.root .. table.concat(t.tokens, "", 1, at), "another text's page")
        end
      end
      texts[#texts + 1] = t
    elseif what == 2 and #texts > 0 then
      p:close(table.remove(texts, random(#texts)).held)
    elseif #texts > 0 then
      local t = texts[random(#texts)]
      if t.written == #t.tokens then t.tokens[#t.tokens + 1] = random(2) end
      local n = math.min(#t.tokens - t.written, random(4))
      if t.written + n <= 13 and p:reserve(t.held, t.written, t.written + n) then
        for i, g in ipairs(p.groups) do
          for at = t.written + 1, t.written + n do
            local page = t.held.tables[i][math.ceil(at / size)]
            assert(page ~= 0 and g.refs[page] == 1 and not g.node[page], "somebody else reads it")
            content[i][page] = content[i][page] or {}
            content[i][page][(at - 1) % size] = t.held.root .. table.concat(t.tokens, "", 1, at)
          end
        end
        t.written = t.written + n
        p:note(t.held, t.tokens, t.written)
      end
    end
    check(p, texts)
    if random(50) == 1 then
      local held = {}
      for i, t in ipairs(texts) do held[i] = t.held end
      p:recount(held)
      check(p, texts)
    end
  end
  assert(found > 0)
  for _, t in ipairs(texts) do p:close(t.held) end
  check(p, {})
  local s = p:statistics()
  assert(s.used == 0 and s.pages == 26 and s.dropped > 0)
end
