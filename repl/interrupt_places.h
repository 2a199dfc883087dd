/* Where a program is, for a handler of signals: of a compiled loop the line where it begins, else
 * what Lua's stack says. */
#ifndef TS_REPL_INTERRUPT_PLACES_H
#define TS_REPL_INTERRUPT_PLACES_H

#include <lua.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

enum { TS_PLACE_ROOM = 96 };

/* Machine code that LuaJIT made, from `start` to `end`. What can be left has a number, LuaJIT's, and
 * `exit`, the stub of its first exit; `loop` is the offset of its loop, 0: none. Where the first
 * snapshot restores nothing, it may be left by that exit as it is entered. */
typedef struct TsMachineCode {
  uintptr_t start, end, exit;
  int number, loop;
  char place[TS_PLACE_ROOM];
} TsMachineCode;

int ts_interrupt_traces(TsMachineCode const **first);
/* The one that runs at this place, or what it called does; NULL: none. */
const TsMachineCode *ts_interrupt_running(const ucontext_t *at);
/* Is one of the addresses in from..to-1 where the program is, or what it returns to? */
bool ts_interrupt_is_between(const ucontext_t *at, uintptr_t from, uintptr_t to);

/* "file:line" of the program; false, and the place as it was, where nobody knows. It reads what may
 * be in the middle of a change: for a process that ends. */
bool ts_interrupt_place(lua_State *L, const ucontext_t *at, char place[TS_PLACE_ROOM]);
/* The module tessera.interrupt: note(address, size, "file:line" [, number, loop, exit]) for each
 * trace, forget(). */
void ts_interrupt_open_places(lua_State *L);

#endif
