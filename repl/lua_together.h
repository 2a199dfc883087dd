/* Changes of several tensors at once, from Lua: core.together, core.assign_all. */
#ifndef TS_REPL_LUA_TOGETHER_H
#define TS_REPL_LUA_TOGETHER_H

#include "repl/lua_api.h"

bool ts_lua_together_open(void);
/* While it is open: a step that waits for its end. -1 with the error. */
int ts_lua_together_add(TsContext *c, const TsTogether *step);
void ts_lua_open_together(lua_State *L);

#endif
