/* What a tensor's Lua value holds, for those files that make such values. */
#ifndef TS_REPL_LUA_BOX_H
#define TS_REPL_LUA_BOX_H

#include "repl/lua_api.h"
#include "vm/core/defer.h"

/* The first word tells our values from others', so that checking a type needs no look-up of
 * metatables. */
typedef struct TsBox {
  uint64_t key;
  TsWord word;
} TsBox;

static inline uint64_t ts_box_key(const TsBox *b) {
  return UINT64_C(0x7465737365726174) ^ (uint64_t)(uintptr_t)b;
}

/* So much memory of tensors was made since the last collection that the next push collects. */
void ts_lua_push_metatable(lua_State *L);
bool ts_lua_box_is_due(const TsContext *c);
/* Boxes may hold what this puts off. */
void ts_lua_loose_boxes(const TsDefer *defer);
/* Boxes of no tensor yet into places 1..n of the table on top. They may not be seen before they
 * have a word and a key. */
void ts_lua_fill_boxes(lua_State *L, int n, TsBox **box);

#endif
