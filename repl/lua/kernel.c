/* tessera.core for kernels that a program writes: what lib/lua/kernel.lua stands on. */
#include <string.h>

#include "jit/user/kernel.h"
#include "repl/lua/text.h"
#include "repl/lua_api.h"

static const char *const KERNEL = "tessera.kernel";

TsUserKernel *ts_lua_kernel(lua_State *L, int at) {
  void *box = lua_touserdata(L, at);
  if (!box || !lua_getmetatable(L, at)) return NULL;
  luaL_getmetatable(L, KERNEL);
  bool same = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return same ? *(TsUserKernel **)box : NULL;
}

static TsUserKernel *check(lua_State *L) {
  return *(TsUserKernel **)luaL_checkudata(L, 1, KERNEL);
}

void ts_lua_kernel_sizes(lua_State *L, int at, int64_t *dim) {
  for (int i = 0; i < TS_TILE_DIMS; i++) {
    dim[i] = -1;
    if (!lua_istable(L, at)) continue;
    lua_rawgeti(L, at, i + 1);
    if (lua_isnumber(L, -1) && !ts_lua_whole(lua_tonumber(L, -1), &dim[i]))
      ts_lua_fail(L, TS_ERR_value, "op.kernel: a size is a whole number");
    lua_pop(L, 1);
  }
}

/* kernel(text, interpret) -> kernel, name */
static int kernel(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  const char *text = ts_lua_check_text(L, 1, "op.kernel");
  TsUserKernel **box = lua_newuserdata(L, sizeof *box);
  *box = NULL;
  TsTile *k = ts_tile_parse(text, &c->err);
  *box = k ? ts_user_kernel_new(k, lua_toboolean(L, 2), &c->err) : NULL;
  if (!*box) return ts_lua_raise(L);
  luaL_getmetatable(L, KERNEL);
  lua_setmetatable(L, -2);
  lua_pushstring(L, ts_user_kernel_tile(*box)->name);
  return 2;
}

static int collect(lua_State *L) {
  TsUserKernel **box = lua_touserdata(L, 1);
  ts_user_kernel_unref(*box);
  *box = NULL;
  return 0;
}

/* k:describe() -> {"M", "N"}, {{name, dtype} by parameter}, number of inputs */
static int describe(lua_State *L) {
  const TsTile *k = ts_user_kernel_tile(check(L));
  lua_createtable(L, k->ndim, 0);
  for (int i = 0; i < k->ndim; i++) {
    lua_pushstring(L, k->dim[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_createtable(L, k->nparam, 0);
  for (int i = 0; i < k->nparam; i++) {
    lua_createtable(L, 0, 2);
    lua_pushstring(L, k->param[i]->name);
    lua_setfield(L, -2, "name");
    lua_pushstring(L, ts_dtype_name((TsDtype)k->param[i]->type.dtype));
    lua_setfield(L, -2, "dtype");
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushinteger(L, k->nin);
  return 3;
}

/* k:infer({inputs}, {sizes, false where they are solved}) -> {types} */
static int infer(lua_State *L) {
  TsUserKernel *u = check(L);
  TsContext *c = ts_lua_context(L);
  TsTensor **t;
  int n = ts_lua_list(L, 2, "a kernel", &t),
      nout = ts_user_kernel_tile(u)->nparam - ts_user_kernel_tile(u)->nin;
  const TsMeta **in = lua_newuserdata(L, sizeof *in * (size_t)(n + 1));
  TsMeta *out = lua_newuserdata(L, sizeof *out * (size_t)(nout + 1));
  int64_t dim[TS_TILE_DIMS];
  for (int i = 0; i < n; i++) in[i] = &t[i]->meta;
  ts_lua_kernel_sizes(L, 3, dim);
  if (ts_user_kernel_infer(u, n, in, dim, out, &c->err)) return ts_lua_raise(L);
  ts_lua_push_types(L, nout, out);
  return 1;
}

/* k:tune({inputs}, {sizes, false where they are solved}) */
static int tune(lua_State *L) {
  TsUserKernel *u = check(L);
  TsContext *c = ts_lua_context(L);
  TsTensor **in;
  int64_t dim[TS_TILE_DIMS];
  int n = ts_lua_list(L, 2, "a kernel", &in);
  ts_lua_kernel_sizes(L, 3, dim);
  return ts_user_kernel_tune(u, c, n, in, dim) ? ts_lua_raise(L) : 0;
}

/* k:text(level, target or nil) */
static int text(lua_State *L) {
  TsUserKernel *u = check(L);
  TsContext *c = ts_lua_context(L);
  const TsTarget *target = ts_lua_target(L, 3);
  TsText t = {0};
  if (ts_user_kernel_text(u, c, ts_lua_word_or(L, 2, "tile"), target, &t, &c->err)) {
    ts_text_free(&t);
    return ts_lua_raise(L);
  }
  ts_lua_push_text(L, &t);
  return 1;
}

/* k:status() -> "compiled" | "from disk" | "interpreted", why or nil, the device if it was
 * not the CPU */
static int status(lua_State *L) {
  TsUserKernelStatus s = ts_user_kernel_status(check(L));
  lua_pushstring(L, s.cached ? "from disk" : s.compiled ? "compiled" : "interpreted");
  lua_pushstring(L, s.why);
  if (!s.device) return 2;
  lua_pushstring(L, s.device);
  return 3;
}

/* tile_result(row, {dtypes of its inputs}) -> dtype: what a pointwise row of a kernel gives;
 * tile_result(row) -> how many inputs it has, or nothing of what is no such row */
static int tile_result(lua_State *L) {
  size_t len;
  const char *word = luaL_checklstring(L, 1, &len);
  TsOp op = (TsOp)ts_tile_op_find(word, (int)len);
  TsContext *c = ts_lua_context(L);
  const TsOpInfo *o = op < TS_OP_COUNT ? ts_op_info(op) : NULL;
  TsMeta m[TS_MAX_IN];
  const TsMeta *in[TS_MAX_IN];
  TsAttr attr[TS_MAX_ATTR];
  if (!o || o->cls != TS_CLASS_POINTWISE) return 0;
  if (lua_isnoneornil(L, 2)) {
    lua_pushinteger(L, o->nin);
    return 1;
  }
  for (int i = 0; i < o->nin; i++) {
    lua_rawgeti(L, 2, i + 1);
    const char *d = lua_tolstring(L, -1, &len);
    m[i] = (TsMeta){.dtype = (uint8_t)(d ? ts_dtype_parse(d, (int)len) : TS_DT_none)};
    in[i] = &m[i];
    lua_pop(L, 1);
  }
  ts_op_defaults(op, attr);
  TsInfer inf = {.op = op, .nin = o->nin, .in = in, .attr = attr, .err = &c->err};
  if (o->dtype(&inf)) return ts_lua_raise(L);
  lua_pushstring(L, ts_dtype_name((TsDtype)inf.out[0].dtype));
  return 1;
}

void ts_lua_open_kernel(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"describe", describe}, {"infer", infer},  {"text", text}, {"status", status},
      {"tune", tune},         {"__gc", collect}, {NULL, NULL}};
  static const luaL_Reg functions[] = {
      {"kernel", kernel}, {"tile_result", tile_result}, {NULL, NULL}};
  ts_lua_metatable(L, KERNEL, methods);
  luaL_register(L, NULL, functions);
}
