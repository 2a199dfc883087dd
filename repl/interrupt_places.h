/* Where a program is, for a handler of signals: of a compiled loop the line where it begins, else
 * what Lua's stack says. */
#ifndef TS_REPL_INTERRUPT_PLACES_H
#define TS_REPL_INTERRUPT_PLACES_H

#include <lua.h>
#include <stdbool.h>
#include <ucontext.h>

enum { TS_PLACE_ROOM = 96 };

/* "file:line" of the program; false, and the place as it was, where nobody knows. It reads what may
 * be in the middle of a change: for a process that ends. */
bool ts_interrupt_place(lua_State *L, const ucontext_t *at, char place[TS_PLACE_ROOM]);
/* The module tessera.interrupt: note(address, size, "file:line") for each trace, forget(). */
void ts_interrupt_open_places(lua_State *L);

#endif
