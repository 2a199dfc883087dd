/* Ctrl-C while programs run.
 *
 * It ends the running operator, or the Lua code, with the error "interrupted", which a program may
 * catch: then work goes on, and the next Ctrl-C raises the next error. Of a series, each within a
 * second of the one before, the third is raised until the script has ended, whatever catches it; at
 * the prompt the second of a command until the command has ended. A script that comes by nothing
 * that looks for interrupts is ended by the second Ctrl-C, or after a second. At the prompt, where
 * there is more to lose, such a command is told of first. */
#ifndef TS_REPL_INTERRUPT_H
#define TS_REPL_INTERRUPT_H

#include <lua.h>
#include <stdbool.h>

/* Around a protected call, which gave `status`; its error is on the top. */
void ts_interrupt_open(lua_State *L);
void ts_interrupt_close(lua_State *L, int status);
/* Did Ctrl-C end the last call? */
bool ts_interrupt_stopped(void);
/* A handler of SIGINT between two calls: the next one is interrupted as it begins, unless the
 * interrupt is dropped before; was there one? */
void ts_interrupt_keep(int number);
bool ts_interrupt_drop(void);
/* Scripts are ended, the prompt is not. */
void ts_interrupt_set_script(bool script);
/* The program has ended, and only tidies up: where Ctrl-C ended it, what it waits for does not keep
 * it. */
void ts_interrupt_leave(int code);

/* As Ctrl-C, for tests; _forget: as if it had not been. */
void ts_interrupt_ask(void);
void ts_interrupt_ask_after(lua_State *L, int instructions);
void ts_interrupt_forget(lua_State *L);
/* The error of Ctrl-C is about to be raised, by what looked for it. Does somebody want one? */
void ts_interrupt_raised(lua_State *L);
bool ts_interrupt_wanted(void);
/* Pushes "file:line: " of the program, from `level` up. */
void ts_interrupt_push_where(lua_State *L, int level);
/* Memory has run out in Lua: an error at the next instruction. */
void ts_interrupt_out_of_memory(void);

#endif
