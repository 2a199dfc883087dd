/* Notes on x == 0, where x is a tensor: Lua compares a userdata and a number by what they
 * are, and no metamethod is asked, so the answer is false whatever the elements are. */
#ifndef TS_REPL_COMPARE_H
#define TS_REPL_COMPARE_H

#include <lua.h>
#include <stddef.h>

/* Tells on stderr the first such comparison of a name with a number, by line: of an input,
 * whose names are globals by now; */
void ts_compare_input(lua_State *L, const char *text, size_t size);
/* of a script, whose tensors are those names that the text itself gives what a call of op, rng or
 * tessera.tensor returns, up to where they become something else. */
void ts_compare_script(const char *text, size_t size, const char *name);

#endif
