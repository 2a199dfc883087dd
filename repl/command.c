/* Commands of the prompt. See repl/command.h. */
#include "repl/command.h"

#include <string.h>

#include "lib/text.h"
#include "repl/run.h"

static bool push_caller(lua_State *L, const char *name, const char *text) {
  static const char code[] = "local name, rest = select(2, ...); (...)(name, rest)";
  TsText chunk = {0};
  ts_text_format(&chunk, "=:%s", name);
  const char *chunkname = chunk.failed ? "=:command" : chunk.at;
  ts_run_keep_text(L, chunkname, text, strlen(text));
  bool failed = ts_run_compile(L, code, sizeof code - 1, chunkname);
  ts_text_free(&chunk);
  return failed;
}

bool ts_command_call(lua_State *L, const char *text) {
  int name = lua_gettop(L) - 1;
  if (push_caller(L, lua_tostring(L, name), text)) return true;
  lua_getglobal(L, "require");
  lua_pushliteral(L, "tessera.prompt");
  if (ts_run_call(L, 1, 1)) return true;
  lua_getfield(L, -1, "command");
  lua_remove(L, -2);
  lua_pushvalue(L, name);
  lua_pushvalue(L, name + 1);
  if (ts_run_call(L, 3, 0)) return true;
  lua_settop(L, name - 1);
  return false;
}
