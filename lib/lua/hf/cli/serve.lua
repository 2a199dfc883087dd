-- tessera --serve PATH: the model behind HTTP (server/).

local core = require "tessera.core"
local common = require "tessera.hf.cli.common"
local fp8 = require "tessera.hf.fp8"
local hf = require "tessera.hf"
local options = require "tessera.options"

local serve = { usage = "tessera --serve PATH [options]",
  about = "The model behind HTTP: POST /v1/chat/completions, /v1/completions or /v1/embeddings, GET /v1/models and /health." }

local COUNT = options.whole { least = 1 }

function serve.kinds()
  local kinds = common.load_kinds()
  for name, kind in pairs { host = options.text, port = options.whole { least = 0, most = 65535 }, name = options.text, max_batch = COUNT,
    queue = options.whole { least = 0 }, length = COUNT, pages = COUNT, chunk = COUNT, cache_dtype = fp8.kind, template = options.text,
    max_body = options.whole { least = 1, most = 2 ^ 31 }, max_headers = options.whole { least = 256, most = 2 ^ 24 },
    patience = options.whole { least = 1, most = 86400 }, max_seconds = options.number { above = 0 }, grace = options.number { least = 0 } } do
    kinds[name] = kind
  end
  return kinds, { host = "127.0.0.1", port = 8080, max_batch = 8, queue = 64, chunk = 256, max_body = 4194304, max_headers = 16384, patience = 30,
    max_seconds = 600, grace = 10 }
end

local function of_decoder(http, m, o, context) return { texts = require("tessera.hf.server.texts").new(http, m, o, context) } end

function serve.run(path, o, texts)
  if #texts > 0 then core.fail(("'%s' is no option"):format(core.shown(texts[1], 60))) end
  local of_load, rest = common.split(o)
  -- The port first: one that is taken is told before a model is read.
  local http = core.http_open(rest.host, rest.port, rest.max_body, rest.max_headers, rest.patience)
  local context = { name = rest.name or path:gsub("/+$", ""):match "([^/]*)$":gsub("%.gguf$", ""), clock = function() return http:seconds() end }
  local m = hf.load(path, of_load)
  local self
  if m.cache_sizes and not m.encode then
    context.tokenizer = hf.tokenizer(path)
    self = of_decoder(http, m, rest, context)
  else
    self = { vectors = require("tessera.hf.server.vectors").new(http, require("tessera.hf.embedding").of(m, path, rest.length), rest, context) }
  end
  self.http, self.name, self.created, self.grace, self.clock = http, context.name, os.time(), rest.grace, context.clock
  common.write(("%s at http://%s:%d/v1\n"):format(context.name, rest.host:find ":" and "[" .. rest.host .. "]" or rest.host, http:port()))
  require("tessera.hf.server.server").run(self)
end

return serve
