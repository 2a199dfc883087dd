/* Tail calls of operators, of the library and of C functions keep their frame, so that errors in
 * them name the line of the call. */
#ifndef TS_REPL_TAIL_H
#define TS_REPL_TAIL_H

#include <lua.h>
#include <stdbool.h>

/* Before anything is loaded: load, loadstring, loadfile, dofile and require change what they
 * load. */
void ts_tail_open(lua_State *L);
/* The chunk on top of the stack, just loaded, by one that keeps frames. */
void ts_tail_change(lua_State *L);
/* The function or callable table at this index is kept; all: those in the table there too. */
void ts_tail_keep(lua_State *L, int value, bool all);
void ts_tail_push_kept(lua_State *L);
/* Is the function at this index one that coroutine.wrap made? */
bool ts_tail_is_wrapped(lua_State *L, int value);

#endif
