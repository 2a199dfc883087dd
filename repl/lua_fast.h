/* Operators that compiled Lua code calls: when they stand in place of the usual ones. */
#ifndef TS_REPL_LUA_FAST_H
#define TS_REPL_LUA_FAST_H

#include "repl/lua_api.h"

/* A call of op, an operator without options, was put off. */
void ts_lua_fast_put_off(lua_State *L, TsContext *c, TsOp op);
/* It did not pay: the usual functions have to come back, by ts_lua_fast_leave. */
bool ts_lua_fast_is_left(void);
void ts_lua_fast_leave(lua_State *L);
void ts_lua_fast_eager(bool on); /* at the fourth call, and for good: for tests */

#endif
