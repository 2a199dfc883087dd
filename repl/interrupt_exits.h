/* Ways out of loops that LuaJIT compiled as a whole, which look at nothing: for Ctrl-C. */
#ifndef TS_REPL_INTERRUPT_EXITS_H
#define TS_REPL_INTERRUPT_EXITS_H

#include <stdbool.h>
#include <ucontext.h>

/* For a handler of signals: where a trace of the program runs, it comes to the interpreter at its
 * loop's next round, and the hook is called there before anything else is done. The place of the
 * loop, or NULL: no trace runs, or none that can be left. */
const char *ts_interrupt_open_exits(const ucontext_t *at);
/* The machine code is as it was. */
void ts_interrupt_close_exits(void);

#endif
