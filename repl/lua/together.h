/* Changes of several tensors at once, from Lua: core.together, core.assign_all. */
#ifndef TS_REPL_LUA_TOGETHER_H
#define TS_REPL_LUA_TOGETHER_H

#include "repl/lua_api.h"

/* While c->steps is open: ts_vm_call_out that waits for its end. -1 with the error. */
int ts_lua_together_add(TsContext *c, TsOp op, int nin, TsTensor *const *in, const TsAttr *attr,
                        int nout, TsTensor *const *out);
void ts_lua_open_together(lua_State *L);

#endif
