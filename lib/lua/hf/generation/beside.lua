-- The tokenizer that stands beside a model: in its folder or its GGUF file.

local beside = {}

--- A function that gives it, or nil where there is none that is read. It is read once, when it is first asked for.
function beside.tokenizer(model)
  return function()
    local own = rawget(model, "_tokenizer")
    if own == nil and type(model.path) == "string" then
      local ok, tok = pcall(require("tessera.hf.tokenizer").load, model.path)
      if not ok and tostring(tok):find "interrupted" then error(tok, 0) end
      own = ok and tok or false
      rawset(model, "_tokenizer", own)
    end
    return own or nil
  end
end

return beside
