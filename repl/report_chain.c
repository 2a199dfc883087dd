/* What :err and `--json` tell of an error beside its report: every call, and its parts. */
#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "repl/report.h"

/* Of the last error: every call, the library's too; and {message, prefix, code}. */
static char chain_key, parts_key;
static bool keeps_chain;

void ts_report_keep_chain(bool keep) { keeps_chain = keep; }

static void push(lua_State *L, void *key) {
  lua_pushlightuserdata(L, key);
  lua_rawget(L, LUA_REGISTRYINDEX);
}

void ts_report_push_chain(lua_State *L) {
  push(L, &chain_key);
  push(L, &parts_key);
}

void ts_report_note_chain(lua_State *L) {
  if (!keeps_chain) return;
  lua_pushlightuserdata(L, &chain_key);
  luaL_traceback(L, L, NULL, 2);
  lua_rawset(L, LUA_REGISTRYINDEX);
}

/* ---- codes: Lua's errors are texts, so that of the last one that was raised is kept beside its text */
static const char *const names[] = {
#define ERR(name, text) [TS_ERR_##name] = #name,
#include "lib/errors.def"
#undef ERR
};

static struct {
  TsErrorCode code;
  char message[sizeof((TsError *)0)->message];
} raised;

void ts_report_note_code(const TsError *e) {
  raised.code = e->code;
  snprintf(raised.message, sizeof raised.message, "%s", e->message);
}

static const char *code_of(const char *message) {
  bool same = raised.code && *raised.message && strstr(message, raised.message);
  return same ? names[raised.code] : NULL;
}

void ts_report_note_parts(lua_State *L, const char *message, size_t prefix) {
  if (!keeps_chain) return;
  lua_pushlightuserdata(L, &parts_key);
  lua_createtable(L, 0, 3);
  lua_pushstring(L, message + prefix), lua_setfield(L, -2, "message");
  if (prefix > 2) lua_pushlstring(L, message, prefix - 2), lua_setfield(L, -2, "place");
  lua_pushstring(L, code_of(message)), lua_setfield(L, -2, "code");
  lua_rawset(L, LUA_REGISTRYINDEX);
}
