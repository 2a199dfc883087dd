/* tessera.core for kernels of Tile IR: tests and tools read, check and print them. */
#include <stdlib.h>
#include <string.h>

#include "ir/tile/tile.h"
#include "ir/tile/product/product.h"
#include "ir/tile/run/run.h"
#include "repl/lua/text.h"
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
  return ts_lua_text_whole(text, len, e) ? NULL : ts_tile_parse(text, e);
}

static int push_text(lua_State *L, TsText *t) {
  ts_lua_push_text(L, t);
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

/* Every symbolic size becomes 5 more than the one before, from 5. */
static TsTile *fixed(const TsTile *k, TsError *e) {
  int64_t dim[TS_TILE_DIMS];
  for (int i = 0; i < TS_TILE_DIMS; i++) dim[i] = 5 * (i + 1);
  return ts_tile_fix(k, dim, e);
}

/* A new kernel, or k itself, changed. */
static TsTile *after_pass(TsTile *k, const char *pass, const char *isa, TsError *e) {
  const TsTarget *row = ts_target(isa);
  if (!strcmp(pass, "expand")) return ts_tile_expand(k, e);
  if (!strcmp(pass, "fix")) return fixed(k, e);
  if (!strcmp(pass, "cse")) return ts_tile_cse(k, e) < 0 ? NULL : k;
  if (!strcmp(pass, "dce")) return ts_tile_dce(k, e) < 0 ? NULL : k;
  bool pipeline = !strcmp(pass, "pipeline");
  if (!pipeline && strcmp(pass, "vectorise") && strcmp(pass, "product"))
    return ts_error_set(e, TS_ERR_argument, "there is no pass '%s'", pass), NULL;
  if (!row || ts_target_gpu(row))
    return ts_error_set(e, TS_ERR_argument, "no instruction set '%s'", isa), NULL;
  TsTarget t = *row; /* the same processor wherever the pass runs */
  t.cache[0] = 32 << 10, t.cache[1] = 1 << 20, t.cache[2] = 16 << 20;
  t.drops = t.vector_bytes == 64;
  if (pipeline) {
    TsTile *piped = ts_tile_pipeline(k, &t, e);
    return piped || e->code ? piped : k; /* nothing to do */
  }
  return *pass == 'v' ? ts_tile_vectorise(k, &t, e) : ts_tile_product(k, &t, e);
}

/* tile_pass(text, pass [, isa]): the kernel behind a pass of ir/tile/tile.h, checked; nil and what
 * is wrong. */
static int tile_pass(lua_State *L) {
  TsText t = {0};
  TsError e = {0};
  const char *pass = luaL_checkstring(L, 2), *isa = luaL_optstring(L, 3, "");
  TsTile *k = parse(L, 1, &e);
  if (!k || ts_tile_check(k, NULL, &e)) return ts_tile_free(k), failed(L, &e, "");
  TsTile *y = after_pass(k, pass, isa, &e);
  bool illegal = y && ts_tile_check(y, NULL, &e);
  if (y && !illegal) ts_tile_text(y, &t);
  if (y != k) ts_tile_free(y);
  ts_tile_free(k);
  if (y && !illegal) return push_text(L, &t);
  return failed(L, &e, illegal ? "illegal behind the pass: " : "");
}

/* ---- the interpreter */
enum { MOST_BYTES = 1 << 20 };

static int64_t size_of(int64_t d, const int64_t *dim) {
  return ts_tile_dim_is(d) ? dim[ts_tile_dim_index(d)] : d;
}

/* Bytes that a parameter reaches over, or -1: too many. */
static int64_t reach(const TsTileType *t, const int64_t *dim) {
  int64_t n = 1, last = 0;
  for (int i = 0; i < t->rank; i++) {
    int64_t size = size_of(t->dim[i], dim), step;
    if (__builtin_mul_overflow(n, size, &n) || n > MOST_BYTES) return -1;
    if (!t->strided || size < 2) continue;
    if (t->stride[i] < 0 || __builtin_mul_overflow(size - 1, t->stride[i], &step) ||
        step > MOST_BYTES)
      return -1;
    last += step;
  }
  n = (t->strided ? n ? last + 1 : 0 : n) * ts_dtypes[t->dtype].nbytes;
  return n > MOST_BYTES ? -1 : n;
}

/* Small numbers, which are positions as well. */
static void fill(const TsTileType *t, char *at, int64_t nbytes) {
  int64_t size = ts_dtypes[t->dtype].nbytes;
  bool numbers = ts_dtype_is((TsDtype)t->dtype, TS_KIND_F | TS_KIND_I | TS_KIND_U);
  for (int64_t i = 0; numbers && i < nbytes / size; i++)
    ts_tile_run_number((TsDtype)t->dtype, at + i * size, (double)(i % 3));
}

/* tile_run(text): the kernel interpreted, each symbolic size 5 more than the one before; the
 * bytes of its results, or nil and what is wrong. */
static int tile_run(lua_State *L) {
  enum { PARAMS = 64 };
  TsError e = {0};
  TsText out = {0};
  int64_t dim[TS_TILE_DIMS], nbytes[PARAMS];
  void *arg[PARAMS] = {NULL};
  for (int i = 0; i < TS_TILE_DIMS; i++) dim[i] = 5 * (i + 1);
  TsTile *k = parse(L, 1, &e);
  bool bad = !k || ts_tile_check(k, NULL, &e);
  if (!bad && k->nparam > PARAMS)
    bad = ts_error_set(&e, TS_ERR_value, "more than %d parameters", PARAMS);
  for (int i = 0; i < (bad ? 0 : k->nparam); i++) {
    nbytes[i] = reach(&k->param[i]->type, dim);
    arg[i] = nbytes[i] < 0 ? NULL : calloc(1, nbytes[i] ? (size_t)nbytes[i] : 1);
    if (!arg[i]) bad = ts_error_set(&e, TS_ERR_memory, "parameter %d is too large", i);
    if (arg[i] && i < k->nin) fill(&k->param[i]->type, arg[i], nbytes[i]);
  }
  if (!bad) bad = ts_tile_run(k, arg, dim, &e);
  for (int i = 0; k && i < k->nparam && i < PARAMS; i++) {
    if (!bad && i >= k->nin) ts_text_add(&out, arg[i], (size_t)nbytes[i]);
    free(arg[i]);
  }
  ts_tile_free(k);
  if (!bad) return push_text(L, &out);
  ts_text_free(&out);
  return failed(L, &e, "");
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
  static const luaL_Reg tile[] = {{"tile_parse", tile_parse},
                                  {"tile_pass", tile_pass},
                                  {"tile_run", tile_run},
                                  {"tile_equal", tile_equal},
                                  {NULL, NULL}};
  luaL_register(L, NULL, tile);
}
