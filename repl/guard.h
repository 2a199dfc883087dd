/* What a function of Lua may leave set when an error ends it, and its end. See repl/guard.c. */
#ifndef TS_REPL_LUA_GUARD_H
#define TS_REPL_LUA_GUARD_H

#include "repl/lua_api.h"
#include "vm/core/capture.h"

/* What the context was set to. */
typedef struct TsLuaState {
  int no_grad;
  uint8_t autocast;
  int stream_depth;
  struct TsRegion *region;
  struct TsCapture *capture;
  TsCaptureMark mark; /* of the capture that was open */
} TsLuaState;

TsLuaState ts_lua_state(lua_State *L);
/* As it was; a capture that was begun since is given up. */
void ts_lua_restore(lua_State *L, const TsLuaState *s);

/* A call that leaves nothing set, in three parts: what is set, which may raise; the function under
 * n arguments on the top, as by lua_pcall; its error, which is on the top. */
TsLuaState ts_lua_guard_begin(lua_State *L);
int ts_lua_guard(lua_State *L, int n, const TsLuaState *s);
int ts_lua_guard_raise(lua_State *L);

void ts_lua_open_guard(lua_State *L); /* core.guarded, core.no_grad, core.autocast, core.held */

#endif
