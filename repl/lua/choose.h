/* What programs choose for kernels, in Lua: options of operators, and of f:choose. */
#ifndef TS_REPL_LUA_CHOOSE_H
#define TS_REPL_LUA_CHOOSE_H

#include "jit/jit.h"
#include "repl/lua/args.h"

/* An option of a call that chooses for its kernel (tile_shape, stages, ..: ir/sched/choice.def): 1 if
 * it is one, and taken; 0; -1 with the error. */
int ts_lua_choose_option(TsLuaArgs *a, const char *name, int index);
/* Name i of them, for what is meant by a wrong one; NULL behind the last. */
const char *ts_lua_choose_name(int i);
/* What a call chose is the context's while it runs; told, where somebody listens and its kernel is
 * the VM's. */
void ts_lua_choose_begin(TsLuaArgs *a);
void ts_lua_choose_end(TsLuaArgs *a, bool ran);

/* Pushes the list of a function's groups; sets what is chosen for one: the table at `index`, {rows = 64,
 * ..}; nil: as by default. */
int ts_lua_groups(lua_State *L, TsJitFunction *f);
int ts_lua_choose(lua_State *L, TsJitFunction *f, int group, int index);

#endif
