/* The chain of calls that :err tells. */
#include <lauxlib.h>

#include "repl/report.h"

/* Every call of the last error, the library's too: for who asks (:err). */
static char chain_key;
static bool keeps_chain;

void ts_report_keep_chain(bool keep) { keeps_chain = keep; }

void ts_report_push_chain(lua_State *L) {
  lua_pushlightuserdata(L, &chain_key);
  lua_rawget(L, LUA_REGISTRYINDEX);
}

void ts_report_note_chain(lua_State *L) {
  if (!keeps_chain) return;
  lua_pushlightuserdata(L, &chain_key);
  luaL_traceback(L, L, NULL, 2);
  lua_rawset(L, LUA_REGISTRYINDEX);
}
