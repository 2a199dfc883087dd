-- Texts of a model that keeps nothing of earlier positions: each step reads them from their beginnings.

local core = require "tessera.core"
local op = core.op

local whole = {}

-- i64 [texts, longest]; what stands behind a text's end is seen by nothing in front of it.
local function padded(texts, device)
  local rows, most = {}, 0
  for _, tokens in ipairs(texts) do most = math.max(most, #tokens) end
  for i, tokens in ipairs(texts) do
    rows[i] = {}
    for k = 1, most do rows[i][k] = tokens[k] or 0 end
  end
  return core.tensor(rows, { dtype = "i64", device = device })
end

local function check(model, y, ids)
  local v = model.config.vocab_size
  if not core.is_tensor(y) or y.ndim ~= 3 or y.shape[1] ~= ids.shape[1] or y.shape[2] ~= ids.shape[2] or y.shape[3] ~= v then
    core.fail(("m:generate: the model gives %s of tokens %s, and has to give logits [%d,%d,%d], config.vocab_size being %d"):format(
      core.is_tensor(y) and core.type_text(y) or y == nil and "nothing" or "a " .. type(y), core.type_text(ids), ids.shape[1], ids.shape[2], v, v))
  end
end

-- Logits [texts, V] of the last position of each text.
local function at_ends(y, texts)
  local index = {}
  for i, tokens in ipairs(texts) do index[i] = (i - 1) * y.shape[2] + #tokens - 1 end
  return op.index_select(y:reshape { y.shape[1] * y.shape[2], y.shape[3] }, core.tensor(index, { dtype = "i64", device = y.device }), { axis = 0 })
end

-- The first call of a model. One that hands its argument on as if it were tokens, as a Sequential does, fails in an operator that
-- knows nothing of this, so it is said here.
local function first(logits)
  local ok, got = xpcall(logits, core.keep_calls)
  if ok then return got end
  if tostring(got):find("unknown option 'ids'", 1, true) then
    core.fail("m:generate: the model is called as m{ids = tokens}, and takes that table for a tensor\n" ..
      "  hint: function Model:forward(o) return self.layers(o.ids) end")
  end
  error(got, 0)
end

--- begin(model, prompts, device, read): {logits, next(tokens), take(rows)} as prompts.begin gives them, of prompts, lists of tokens.
--- read(ids) are the logits [texts, positions, V] that the model has for tokens i64 [texts, positions].
function whole.begin(model, prompts, device, read)
  local texts = {}
  for i, tokens in ipairs(prompts) do texts[i] = { unpack(tokens) } end
  local function logits()
    local ids = padded(texts, device)
    local y = read(ids)
    check(model, y, ids)
    return at_ends(y, texts)
  end
  local function next_(tokens)
    for i, id in ipairs(tokens) do texts[i][#texts[i] + 1] = id end
    return logits()
  end
  local function take(rows)
    local taken = {}
    for i, row in ipairs(rows) do taken[i] = { unpack(texts[row + 1]) } end
    texts = taken
  end
  return { logits = first(logits), next = next_, take = take }
end

return whole
