/* Operators that compiled Lua code calls: when they stand in place of the usual ones. */
#ifndef TS_REPL_LUA_FAST_H
#define TS_REPL_LUA_FAST_H

#include "repl/lua_api.h"

/* A call of op, an operator without options, was put off. */
void ts_lua_fast_put_off(lua_State *L, TsContext *c, TsOp op);
/* Asked at each usual call. Whether it has to be attended to: the usual functions come back if it
 * did not pay, and what compiled code cannot make is made. */
bool ts_lua_fast_asks(void);
void ts_lua_fast_attend(lua_State *L);
void ts_lua_fast_eager(bool on); /* at the fourth call, and for good: for tests */

#endif
