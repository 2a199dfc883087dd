/* Texts of IR that Lua gives. */
#ifndef TS_REPL_LUA_TEXT_H
#define TS_REPL_LUA_TEXT_H

#include <lua.h>
#include <stddef.h>

#include "lib/error.h"

/* A text ends at its first zero byte, so one that has some is an error, with the line; -1. */
int ts_lua_text_whole(const char *text, size_t len, TsError *err);
/* The string at the index; raises where it is none, or not whole. who: "op.kernel". */
const char *ts_lua_check_text(lua_State *L, int index, const char *who);

#endif
