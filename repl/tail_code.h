/* The bytecode of chunks whose tail calls keep their frame: repl/tail_code.c says how. */
#ifndef TS_REPL_TAIL_CODE_H
#define TS_REPL_TAIL_CODE_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Most chunks are short: their bytes are in memory of the caller, others in some of the heap. */
typedef struct TsTailBytes {
  uint8_t *at, *few;
  size_t n, cap;
  bool failed; /* no memory */
} TsTailBytes;

#define TS_TAIL_BYTES(array)                                                                   \
  { .at = (array), .few = (array), .cap = sizeof(array) }
void ts_tail_put(TsTailBytes *b, const void *from, size_t n);
void ts_tail_free(TsTailBytes *b);
/* Once, before the others: the numbers of LuaJIT's instructions. False if they are not known. */
bool ts_tail_learn(lua_State *L);
/* A chunk as lua_dump writes it, changed; its last upvalue, (tail), is the table of callees. False
 * if nothing is to be changed, or nothing can be. */
bool ts_tail_rewrite(const TsTailBytes *dump, TsTailBytes *out);

#endif
