/* The prompt: reads lines of Lua, runs them, shows their values. */
#ifndef TS_REPL_PROMPT_H
#define TS_REPL_PROMPT_H

#include <lua.h>
#include <stdbool.h>

#include "repl/edit/edit.h"

/* The module tessera.console, on which lib/lua/prompt.lua stands, into preload. */
void ts_prompt_open(lua_State *L);

/* Reads standard input until its end or :quit. Returns the exit code. */
int ts_prompt_run(lua_State *L);

/* Are signatures shown while a call is typed? On at first. */
void ts_prompt_set_hints(bool on);

/* The editor's hook (repl/complete.c); arg is the lua_State. */
void ts_complete(void *arg, const char *text, size_t cursor, TsCompletions *out);

#endif
