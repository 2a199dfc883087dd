/* Files of Lua code: plain ones, and pipes as of `tessera <(..)`. Whatever else has a name
 * (a folder, a device, a pipe to which nobody writes) is an error at once, and nothing is
 * read without an end. */
#ifndef TS_REPL_SCRIPT_H
#define TS_REPL_SCRIPT_H

#include <lua.h>
#include <stdbool.h>
#include <stdio.h>

/* As luaL_loadfile. The text of a pipe is kept for reports, as it cannot be read again. */
int ts_script_load(lua_State *L, const char *path);
/* Pushes all that is in a file without an end that is known, or a message: false. */
bool ts_script_read(lua_State *L, FILE *f, const char *name);
/* A plain file for reading, else NULL. */
FILE *ts_script_open(const char *path);

#endif
