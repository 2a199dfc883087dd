/* Models at the command line: --generate, --embed, --chat, --serve. What they do is in lib/lua/hf/cli. */
#ifndef TS_REPL_MODELS_H
#define TS_REPL_MODELS_H

#include <lua.h>

#include "repl/options.h"

/* Runs the command of the options. Returns the exit code; errors are printed. */
int ts_models_run(lua_State *L, const TsOptions *o);

#endif
