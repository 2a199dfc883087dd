/* Globals of the prompt, and of scripts: op, nn, optim and other modules, Out, _1 to _9, who. Each is loaded
 * when it is first used. */
#ifndef TS_REPL_GLOBALS_H
#define TS_REPL_GLOBALS_H

#include <lua.h>

void ts_globals_add(lua_State *L);
/* Name i of the modules among them that exist in this program, or NULL behind the last. */
const char *ts_globals_name(int i);
/* Pushes what a global of this name is, loading it, or nil. */
void ts_globals_push(lua_State *L, const char *name);

#endif
