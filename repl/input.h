/* What is typed at the prompt: a command, expressions, statements, or the beginning of one of these. */
#ifndef TS_REPL_INPUT_H
#define TS_REPL_INPUT_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>

/* What an input turned out to be. */
typedef struct TsInput {
  bool values; /* expressions: the chunk returns nil, then their values */
  bool locals; /* statements with locals, which are global now */
} TsInput;

/* Pushes the chunk of an input, or what is wrong with it; a status of Lua. */
int ts_input_load(lua_State *L, const char *text, size_t size, const char *name, TsInput *in);
/* The editor's hook: whether more text could complete it. arg is the lua_State. */
int ts_input_is_incomplete(void *arg, const char *text, size_t size);
bool ts_input_is_command(const char *text); /* without spaces in front: `?`, `!` or `:word` */
bool ts_input_is_silenced(const char *text,
                          size_t size); /* its values are not shown: it ends with ; */
const char *ts_input_skip_spaces(const char *text);

#endif
