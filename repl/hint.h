/* What the prompt shows dim while a call is typed: the arguments that follow, and under the text the
 * call's signature. */
#ifndef TS_REPL_HINT_H
#define TS_REPL_HINT_H

#include <lua.h>
#include <stddef.h>

/* Hooks of the editor (repl/edit/edit.h); arg is the Lua state. */
const char *ts_hint_rest(void *arg, const char *text);
const char *ts_hint_signature(void *arg, const char *text, size_t cursor);

#endif
