/* A LuaJIT whose instructions are not known: chunks stay as they are, and -jv says so once. */
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <string.h>

#include "jit/jit.h"
#include "repl/lua_api.h"
#include "repl/tail.h"

static int failures;

static void check(bool good, const char *what) {
  if (good) return;
  failures++;
  printf("tail_test: %s\n", what);
}

int main(void) {
  lua_State *L = luaL_newstate();
  TsContext *c = ts_context_open();
  c->jit = ts_jit_open(c);
  luaL_openlibs(L);
  ts_lua_open(L, c);
  check(!luaL_dostring(L, "package.loaded['jit.vmdef'] = { bcnames = 'ISLT  ISGE  CALLT ' }"),
        "names of instructions");
  ts_tail_open(L);
  ts_jit_verbose(c->jit, true);
  FILE *said = tmpfile();
  stderr = said;
  check(!luaL_dostring(L, "for i = 1, 3 do assert(loadstring 'return math.abs(-1)')() end\n"
                          "local f = loadstring 'return math.abs(-1)'\n"
                          "assert(f() == 1 and not debug.getupvalue(f, 1))"),
        "a chunk");
  char text[400] = "";
  rewind(said);
  size_t n = fread(text, 1, sizeof text - 1, said);
  check(n && strstr(text, "[jit refused tail calls: the instructions of this LuaJIT") == text &&
            strchr(text, '\n') == text + n - 1,
        text);
  lua_close(L);
  ts_jit_close(c->jit);
  ts_context_close(c);
  return printf("checks 3 failed %d\n", failures), failures != 0;
}
