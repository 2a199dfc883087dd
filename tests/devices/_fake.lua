-- A driver made of host memory (fake_cuda.c; "hip": fake_hip.c), built and chosen; nil: there is no C compiler. Then the folder it
-- lies in, and a function for what another process with it prints: another(environment, code).
local ffi = require "ffi"
ffi.cdef [[
int setenv(const char *name, const char *value, int overwrite);
void fake_fail(const char *call, int after, int code);
void fake_any(void);
void fake_hold(int);
long fake_calls(void);
long fake_count(const char *call);
long fake_blocks(void);
long fake_roots(void);
long fake_edges(void);
long fake_early(void);
long fake_ahead(void);
void fake_limit(long nbytes);
]]

return function(kind)
  kind = kind or "cuda"
  require("tessera").core.jit_later(false)
  local dir = os.tmpname()
  os.remove(dir)
  local command = "mkdir %s && ${CC:-cc} -std=gnu11 -D_GNU_SOURCE -I. -shared -fPIC -o %s/fake.so tests/devices/driver/fake_%s.c"
  if os.execute(command:format(dir, dir, kind)) ~= 0 then return nil end
  ffi.C.setenv("TESSERA_LIB" .. kind:upper(), dir .. "/fake.so", 1)
  local program = arg[-1] or "bin/tessera"
  local function another(environment, code)
    local p = io.popen(("TESSERA_LIB%s=%s/fake.so %s %s -e '%s' 2>&1"):format(kind:upper(), dir, environment, program, code))
    local out = p:read "*a"
    p:close()
    return (out:gsub("\n$", ""))
  end
  return ffi.load(dir .. "/fake.so"), dir, another
end
