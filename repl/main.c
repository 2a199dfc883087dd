/* The program: options, then scripts, code from -e, or the prompt. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "repl/embed.h"
#include "repl/lua_api.h"

static int load_embedded(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  for (const TsEmbedded *e = ts_embedded; e->module; e++) {
    if (strcmp(e->module, name)) continue;
    char chunk[80];
    snprintf(chunk, sizeof chunk, "=%s", name);
    if (luaL_loadbuffer(L, e->begin, (size_t)(e->end - e->begin), chunk)) return lua_error(L);
    return 1;
  }
  lua_pushfstring(L, "\n\tno module '%s' inside tessera", name);
  return 1;
}

int main(int argc, char **argv) {
  lua_State *L = luaL_newstate();
  TsContext *c = ts_context_open();
  luaL_openlibs(L);
  ts_lua_open(L, c);
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "loaders");
  lua_pushcfunction(L, load_embedded);
  lua_rawseti(L, -2, (int)lua_objlen(L, -2) + 1);
  lua_pop(L, 2);
  int failed;
  if (argc > 2 && !strcmp(argv[1], "-e"))
    failed = luaL_dostring(L, argv[2]);
  else
    failed = argc > 1 ? luaL_dofile(L, argv[1]) : 0;
  if (failed) fprintf(stderr, "tessera: %s\n", lua_tostring(L, -1));
  fflush(stdout);
  _Exit(failed ? 1 : 0);
}
