/* What meshes have sent, and what calls on them would send. See repl/lua/mesh.h. */
#include "repl/lua/mesh.h"

#include <string.h>

#include "devices/device.h"
#include "devices/meet.h"
#include "repl/lua/args.h"
#include "repl/lua_api.h"
#include "vm/mesh/collective.h"
#include "vm/mesh/planned.h"

static void set_axes(lua_State *L, const TsMesh *m, uint8_t axes) {
  lua_newtable(L);
  for (int a = 0, n = 0; a < m->naxis; a++) {
    if (!(axes >> a & 1)) continue;
    lua_pushstring(L, m->axis[a]);
    lua_rawseti(L, -2, ++n);
  }
}

static void set_type(lua_State *L, const TsMeta *m, const char *name) {
  char text[TS_META_TEXT];
  lua_pushstring(L, ts_meta_text(m, text));
  lua_setfield(L, -2, name);
}

void ts_lua_push_collective(lua_State *L, const TsCollective *k) {
  lua_createtable(L, 0, 8);
  lua_pushstring(L, ts_collective_name(k->kind)), lua_setfield(L, -2, "kind");
  lua_pushstring(L, k->asks ? k->asks : ""), lua_setfield(L, -2, "operator");
  set_axes(L, k->mesh, k->axes), lua_setfield(L, -2, "axes");
  lua_pushnumber(L, (double)k->bytes), lua_setfield(L, -2, "bytes");
  set_type(L, &k->before, "from");
  set_type(L, &k->meta, "to");
  lua_pushstring(L, k->place), lua_setfield(L, -2, "place");
  lua_pushnumber(L, k->count ? (double)k->count : 1), lua_setfield(L, -2, "count");
  if (k->when) lua_pushstring(L, k->when), lua_setfield(L, -2, "when");
}

/* mesh_sent([since]): how many collectives there were so far; those behind number `since`, as far
 * as they are kept. */
static int mesh_sent(lua_State *L) {
  uint64_t total;
  (void)ts_collective_noted(0, &total);
  double since = luaL_optnumber(L, 1, 0);
  lua_pushnumber(L, (double)total);
  lua_newtable(L);
  int n = since < 0 || since > (double)total ? 0 : (int)(total - (uint64_t)since);
  if (n > TS_COLLECTIVES_KEPT) n = TS_COLLECTIVES_KEPT;
  for (int i = 0; i < n; i++) {
    ts_lua_push_collective(L, ts_collective_noted(n - 1 - i, &total));
    lua_rawseti(L, -2, i + 1);
  }
  return 2;
}

/* mesh_plan(): what the last run that was planned would send. */
static int mesh_plan(lua_State *L) {
  const TsCollective *k;
  lua_newtable(L);
  for (int i = 0; (k = ts_collective_planned(i)); i++) {
    ts_lua_push_collective(L, k);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static int kind_named(const char *word) {
  for (int k = 0; k < TS_COLLECTIVE_COUNT; k++)
    if (!strcmp(word, ts_collective_name((TsCollectiveKind)k))) return k;
  return -1;
}

/* mesh_note(mesh, kind, {axis...}, bytes, x, asks): what dist.map's functions have sent. */
static int mesh_note(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  const TsMesh *m = ts_lua_check_mesh(L, 1);
  int kind = kind_named(luaL_checkstring(L, 2));
  TsTensor *x = ts_lua_check_tensor(L, 5, "dist");
  if (kind < 0) return luaL_argerror(L, 2, "no kind of collective");
  TsCollective k = {.kind = (TsCollectiveKind)kind,
                    .mesh = m,
                    .bytes = (int64_t)luaL_checknumber(L, 4),
                    .before = x->meta,
                    .meta = x->meta,
                    .op = TS_OP_COUNT,
                    .asks = ts_collective_name((TsCollectiveKind)kind)};
  for (int i = 0; i < (int)lua_objlen(L, 3); i++) {
    lua_rawgeti(L, 3, i + 1);
    k.axes |= (uint8_t)(1u << lua_tointeger(L, -1));
    lua_pop(L, 1);
  }
  if (!k.bytes) return 0;
  c->where_arg = L;
  ts_collective_note(c, &k);
  return 0;
}

/* mesh_hidden([boolean]): whether moves that nobody asked for are errors, before it is set. */
static int mesh_hidden(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  lua_pushboolean(L, c->hidden_is_error);
  if (!lua_isnoneornil(L, 1)) c->hidden_is_error = lua_toboolean(L, 1);
  return 1;
}

/* mesh_link(a, b): how bytes go between devices of these names. */
static int mesh_link(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsDevice *a = ts_device_find(luaL_checkstring(L, 1), &c->err);
  TsDevice *b = a ? ts_device_find(luaL_checkstring(L, 2), &c->err) : NULL;
  if (!b) return ts_lua_raise(L);
  lua_pushstring(L, a == b                                               ? "itself"
                    : a->host_memory && b->host_memory                   ? "memory"
                    : ts_device_reaches(b, a) && ts_device_reaches(a, b) ? "direct"
                                                                         : "host");
  return 1;
}

/* mesh_planning([boolean]): whether calls on meshes compute nothing, before it is set. */
static int mesh_planning(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  lua_pushboolean(L, c->planning);
  if (!lua_isnoneornil(L, 1)) c->planning = lua_toboolean(L, 1);
  return 1;
}

/* mesh_abstract([mesh or false]): for which mesh what is made is planned, before it is set. */
static int mesh_abstract(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  const TsMesh *was = c->abstract;
  if (!lua_isnoneornil(L, 1))
    c->abstract = lua_toboolean(L, 1) ? ts_lua_check_mesh(L, 1) : NULL;
  if (was)
    lua_pushinteger(L, was->id);
  else
    lua_pushboolean(L, false);
  return 1;
}

/* mesh_planned(layout, {size...}, dtype): a tensor without elements. */
static int mesh_planned(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  const TsLayout *l = ts_lua_check_layout(L, 1);
  const char *word = luaL_checkstring(L, 3);
  TsMeta m = {.dtype = (uint8_t)ts_dtype_parse(word, (int)strlen(word))};
  if (m.dtype == TS_DT_none)
    return ts_lua_fail(L, TS_ERR_dtype, "dist.tensor: there is no dtype '%s'", word);
  lua_pushvalue(L, 2);
  ts_lua_check_shape(L, &m, "dist.tensor");
  m.layout = l->id;
  if (ts_meta_check_size(&m, "dist.tensor", &c->err)) return ts_lua_raise(L);
  TsTensor *t = ts_mesh_planned(c, &m);
  if (!t) return ts_lua_raise(L);
  ts_lua_push(L, t);
  return 1;
}

static int mesh_is_planned(lua_State *L) {
  lua_pushboolean(L, ts_tensor_is_planned(ts_lua_check_tensor(L, 1, "dist")));
  return 1;
}

void ts_lua_open_sent(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"mesh_sent", mesh_sent},
      {"mesh_note", mesh_note},
      {"mesh_plan", mesh_plan},
      {"mesh_link", mesh_link},
      {"mesh_hidden", mesh_hidden},
      {"mesh_planning", mesh_planning},
      {"mesh_abstract", mesh_abstract},
      {"mesh_planned", mesh_planned},
      {"mesh_is_planned", mesh_is_planned},
      {NULL, NULL},
  };
  luaL_register(L, NULL, functions);
}
