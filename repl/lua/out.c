/* The option out = spec of every operator whose operands lie over a mesh: how its first result
 * lies. The call takes it as far as the row's rule can say so (vm/mesh/call.h), and what is left
 * is a move. */
#include "repl/lua/out.h"

#include <string.h>

#include "lib/mesh.h"
#include "lib/shard/shard.h"
#include "repl/lua/mesh.h"
#include "vm/mesh/parts.h"

static const TsMesh *mesh_of(TsLuaArgs *a) {
  for (int i = 0; i < a->nin; i++)
    if (a->in[i] && a->in[i]->meta.layout) return ts_layout_of(&a->in[i]->meta)->mesh;
  return NULL;
}

/* How many axes the result has: that does not depend on how operands lie. */
static int axes_of_result(TsLuaArgs *a) {
  TsMeta meta[TS_MAX_IN];
  const TsMeta *in[TS_MAX_IN];
  TsInfer inf = {.op = a->op, .nin = a->nin, .in = in, .attr = a->attr, .err = &a->c->err};
  if (a->nin > TS_MAX_IN)
    return ts_error_set(&a->c->err, TS_ERR_argument, "%s: option 'out' of %d tensors",
                        a->o->name, a->nin);
  for (int i = 0; i < a->nin; i++) {
    if (a->in[i]) meta[i] = a->in[i]->meta, meta[i].layout = 0;
    in[i] = a->in[i] ? &meta[i] : NULL;
  }
  return ts_op_infer(&inf) ? -1 : inf.out[0].ndim;
}

/* May raise: what is wrong with the spec. */
const TsLayout *ts_lua_out_layout(TsLuaArgs *a) {
  lua_State *L = a->L;
  const TsMesh *m = mesh_of(a);
  if (!m) {
    ts_error_set(&a->c->err, TS_ERR_argument,
                 "%s: option 'out' says how a result lies over a mesh, and no operand does",
                 a->o->name);
    ts_error_hint(&a->c->err, "dist.shard(x, mesh, spec) spreads a tensor");
    return NULL;
  }
  int ndim = axes_of_result(a);
  if (ndim < 0) return NULL;
  lua_getglobal(L, "require");
  lua_pushliteral(L, "tessera.dist.spec");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "layout");
  ts_lua_push_mesh(L, m);
  lua_rawgeti(L, LUA_REGISTRYINDEX, a->out);
  lua_pushinteger(L, ndim);
  lua_pushfstring(L, "%s: option 'out'", a->o->name);
  int failed = lua_pcall(L, 4, 1, 0);
  if (failed) {
    const char *text = lua_tostring(L, -1), *name = text ? strstr(text, a->o->name) : NULL;
    const char *hint = name ? strstr(name, "\n  hint: ") : NULL;
    ts_error_set(&a->c->err, TS_ERR_layout, "%.*s", hint ? (int)(hint - name) : 400,
                 name ? name : "option 'out' is no ShardSpec");
    if (hint) ts_error_hint(&a->c->err, "%s", hint + 9);
    lua_pop(L, 2);
    return NULL;
  }
  const TsLayout *l = ts_layout_at((int)lua_tointeger(L, -1));
  lua_pop(L, 2);
  return l;
}

int ts_lua_out_set(TsLuaArgs *a, int index) {
  if (lua_type(a->L, index) != LUA_TTABLE)
    return ts_error_set(&a->c->err, TS_ERR_attribute,
                        "%s: option 'out' must be a ShardSpec or its list, not a %s",
                        a->o->name, luaL_typename(a->L, index));
  if (a->out) luaL_unref(a->L, LUA_REGISTRYINDEX, a->out);
  lua_pushvalue(a->L, index);
  a->out = luaL_ref(a->L, LUA_REGISTRYINDEX);
  return 0;
}

void ts_lua_out_release(TsLuaArgs *a) {
  if (a->out) luaL_unref(a->L, LUA_REGISTRYINDEX, a->out);
  a->out = 0;
}

int ts_lua_out_move(TsLuaArgs *a, const TsLayout *l, TsTensor **out) {
  if (out[0]->meta.layout == l->id) return 0;
  char word[TS_SPEC_TEXT];
  TsAttr spec = {.type = TS_ATTR_str, .str = ts_layout_spec(l, word)};
  TsTensor *y = ts_vm_call1(a->c, TS_OP_reshard, 1, out, &spec);
  if (!y) return -1;
  ts_tensor_unref(out[0]);
  out[0] = y;
  return 0;
}

int ts_lua_out_spread(TsLuaArgs *a, TsTensor **out) {
  const TsLayout *l = ts_layout_replicated(a->mesh, out[0]->meta.ndim, &a->c->err);
  if (a->c->capture) return l ? 0 : -1; /* what is on one device goes along with the others */
  TsTensor *y = l ? ts_mesh_move(a->c, out[0], l, TS_MESH_SHARE_none) : NULL;
  if (!y) return -1;
  ts_tensor_unref(out[0]);
  out[0] = y;
  return 0;
}
