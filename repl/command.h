/* Commands of the prompt, as tessera.prompt has them, and the line that they are. */
#ifndef TS_REPL_COMMAND_H
#define TS_REPL_COMMAND_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>

/* Calls tessera.prompt.command(name, rest), the two strings on the top, which it pops. The
 * caller is a line of the program by the name ":name", whose text is what was typed: what an
 * operator or the library fails in, or is interrupted in, is told of that line where nothing
 * else of the program runs. True: it failed, and the report is on the top. */
bool ts_command_call(lua_State *L, const char *text);

#endif
