/* The tape and the NaN trap in Lua. */
#include <stdlib.h>
#include <string.h>

#include "repl/lua/graph.h"
#include "vm/core/profile.h"
#include "vm/core/tape.h"

/* y:backward(dy): gradients of y, a single number unless dy is given, into x.grad of all x
 * below it that require them. */
static int backward(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsTensor *y = ts_lua_check_tensor(L, 1, "backward"), *dy = ts_lua_tensor(L, 2);
  int other = !dy && !lua_isnoneornil(L, 2) ? 2 : 3; /* options of other libraries */
  if (!lua_isnoneornil(L, other)) {
    ts_error_set(&c->err, TS_ERR_argument,
                 "backward: it takes the gradient of the tensor, and not a %s",
                 luaL_typename(L, other));
    ts_error_hint(&c->err, "backward() may be called again; derivatives of derivatives are "
                           "graph.grad(graph.grad(f)) or graph.hvp");
    return ts_lua_raise(L);
  }
  char a[TS_META_TEXT], b[TS_META_TEXT];
  if (c->capture)
    return ts_lua_fail(
        L, TS_ERR_value,
        "backward: use graph.grad or graph.training_step in a captured function");
  if (!dy && ts_tensor_numel(y) != 1)
    return ts_lua_fail(L, TS_ERR_shape,
                       "backward: %s is not one number; give its gradient, y:backward(dy)",
                       ts_meta_text(&y->meta, a));
  if (dy && (!ts_meta_same_shape(&y->meta, &dy->meta) || y->meta.dtype != dy->meta.dtype))
    return ts_lua_fail(L, TS_ERR_shape, "backward: the gradient is %s, the tensor %s",
                       ts_meta_text(&dy->meta, b), ts_meta_text(&y->meta, a));
  c->where_arg = L;
  TsActivity *w = ts_activity_begin_call(c, TS_ACTIVITY_operator, "backward");
  int failed = ts_tape_backward(c, y, dy);
  ts_activity_end_call(w, NULL);
  return ts_lua_raise_unless(L, !failed);
}

/* tape_graph(y) -> the backward graph of y, as a function without arguments; its leaves */
static int tape_graph(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsTensor **leaf = NULL;
  int n = 0;
  TsGraph *g =
      ts_tape_graph(c, ts_lua_check_tensor(L, 1, "tape_graph"), ts_lua_tensor(L, 2), &n, &leaf);
  if (!g) return ts_lua_raise(L);
  ts_lua_push_graph(L, g);
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    ts_lua_push(L, leaf[i]);
    lua_rawseti(L, -2, i + 1);
  }
  free(leaf);
  return 2;
}

static int recording(lua_State *L) {
  lua_pushboolean(L, !ts_lua_context(L)->no_grad);
  return 1;
}

/* type_text(tensor) -> "f32[2,3]" */
static int type_text(lua_State *L) {
  char text[TS_META_TEXT];
  lua_pushstring(L, ts_meta_text(&ts_lua_check_tensor(L, 1, "type_text")->meta, text));
  return 1;
}

/* types_key(tensors ..): a string that is the same for the same types and shapes, or nil if there
 * are other values, or many. */
static int types_key(lua_State *L) {
  enum { MOST = 8 };
  struct {
    int64_t dim[TS_MAX_RANK];
    uint8_t dtype, ndim, device, weak, autocast;
    uint16_t layout, leaves;
  } key[MOST];
  int n = lua_gettop(L);
  if (n > MOST) return 0;
  memset(key, 0, sizeof key[0] * (size_t)n);
  for (int i = 0; i < n; i++) {
    TsTensor *t = ts_lua_tensor(L, i + 1);
    if (!t) return 0;
    const TsMeta *m = &t->meta;
    memcpy(key[i].dim, m->dim, sizeof *m->dim * m->ndim);
    key[i].dtype = m->dtype, key[i].ndim = m->ndim;
    key[i].device = m->device, key[i].weak = m->weak, key[i].layout = m->layout;
    key[i].leaves = (uint16_t)t->storage->ctx->leaves;
    key[i].autocast = t->storage->ctx->autocast;
  }
  lua_pushlstring(L, (const char *)key, sizeof key[0] * (size_t)n);
  return 1;
}

/* trap(on): the NaN trap; returns what it was. */
static int trap(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  lua_pushboolean(L, c->trap);
  if (!lua_isnoneornil(L, 1)) c->trap = lua_toboolean(L, 1);
  return 1;
}

static const luaL_Reg functions[] = {
    {"type_text", type_text}, {"types_key", types_key}, {"tape_graph", tape_graph},
    {"recording", recording}, {"trap", trap},           {NULL, NULL}};

void ts_lua_open_tape(lua_State *L) {
  luaL_register(L, NULL, functions);
  ts_lua_push_methods(L);
  lua_pushcfunction(L, backward);
  lua_setfield(L, -2, "backward");
  lua_pop(L, 1);
}
