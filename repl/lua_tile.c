/* tessera.core for kernels of Tile IR: tests and tools read, check and print them. */
#include <string.h>

#include "ir/tile.h"
#include "repl/lua_api.h"

/* nil, message */
static int failed(lua_State *L, const TsError *e, const char *before) {
  lua_pushnil(L);
  lua_pushfstring(L, *e->hint ? "%s%s\n  hint: %s" : "%s%s", before, e->message, e->hint);
  return 2;
}

static TsTile *parse(lua_State *L, int index, TsError *e) {
  size_t len;
  const char *text = luaL_checklstring(L, index, &len);
  if (strlen(text) == len) return ts_tile_parse(text, e);
  ts_error_set(e, TS_ERR_format, "the text contains a zero byte");
  return NULL;
}

static int push_text(lua_State *L, TsText *t) {
  lua_pushlstring(L, t->at ? t->at : "", t->len);
  ts_text_free(t);
  return 1;
}

/* The numbers of a table: {name = "sm_90a", shared_bytes = 232448, ..} */
static TsTarget target_of(lua_State *L, int index) {
  TsTarget t = {0};
  const struct {
    const char *name;
    int *to;
  } ints[] = {{"vector_bytes", &t.vector_bytes}, {"registers", &t.registers}};
  lua_getfield(L, index, "name");
  t.name = lua_tostring(L, -1); /* the table keeps it */
  lua_pop(L, 1);
  for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) {
    lua_getfield(L, index, ints[i].name);
    *ints[i].to = (int)lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
  lua_getfield(L, index, "shared_bytes");
  t.shared_bytes = (int64_t)lua_tonumber(L, -1);
  lua_getfield(L, index, "fma");
  t.fma = lua_toboolean(L, -1);
  lua_pop(L, 2);
  return t;
}

/* tile_parse(text [, form [, target]]): the kernel read, checked and printed; nil and what is
 * wrong with it. Forms: "text"; "places"; "unchecked": as it was read, legal or not. */
static int tile_parse(lua_State *L) {
  static const char *const forms[] = {"text", "places", "unchecked", NULL};
  enum { TEXT, PLACES, UNCHECKED };
  TsText t = {0};
  TsError e = {0};
  TsTarget target = {0};
  int form = luaL_checkoption(L, 2, "text", forms);
  bool has_target = lua_istable(L, 3);
  if (has_target) target = target_of(L, 3);
  TsTile *k = parse(L, 1, &e);
  if (!k) return failed(L, &e, "");
  int illegal = form != UNCHECKED && ts_tile_check(k, has_target ? &target : NULL, &e);
  if (!illegal) (form == PLACES ? ts_tile_text_places : ts_tile_text)(k, &t);
  ts_tile_free(k);
  return illegal ? failed(L, &e, "illegal: ") : push_text(L, &t);
}

/* tile_equal(text, text): true; or false and where the kernels differ */
static int tile_equal(lua_State *L) {
  TsError e = {0};
  TsText why = {0};
  luaL_checkstring(L, 2);
  TsTile *a = parse(L, 1, &e), *b = a ? parse(L, 2, &e) : NULL;
  bool same = a && b && ts_tile_equal(a, b, &why);
  if (!b) ts_text_str(&why, e.message);
  ts_tile_free(a);
  ts_tile_free(b);
  lua_pushboolean(L, same);
  return 1 + push_text(L, &why);
}

void ts_lua_open_tile(lua_State *L) {
  static const luaL_Reg tile[] = {
      {"tile_parse", tile_parse}, {"tile_equal", tile_equal}, {NULL, NULL}};
  luaL_register(L, NULL, tile);
}
