/* Meshes, layouts and tensors that are spread over them. A mesh or a layout is its number here;
 * lib/lua/dist has their names. */
#include "lib/mesh.h"

#include <string.h>

#include "devices/device.h"
#include "repl/lua/args.h"
#include "vm/mesh/draw.h"
#include "vm/mesh/parts.h"

static const TsMesh *meshes[256];

static const TsMesh *check_mesh(lua_State *L, int at) {
  int id = (int)luaL_checkinteger(L, at);
  if (id < 0 || id >= 256 || !meshes[id]) luaL_error(L, "there is no mesh %d", id);
  return meshes[id];
}

static const TsLayout *check_layout(lua_State *L, int at) {
  int id = (int)luaL_checkinteger(L, at);
  const TsLayout *l = id > 0 && id < TS_LAYOUTS ? ts_layout_at(id) : NULL;
  if (!l) luaL_error(L, "there is no layout %d", id);
  return l;
}

/* mesh({name...}, {size...}, {device name or false...}): its number. */
static int mesh(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  const char *axis[TS_MESH_AXES];
  int size[TS_MESH_AXES], naxis = (int)lua_objlen(L, 1), n = (int)lua_objlen(L, 3);
  if (naxis > TS_MESH_AXES) naxis = TS_MESH_AXES + 1;
  for (int a = 0; a < naxis && a < TS_MESH_AXES; a++) {
    lua_rawgeti(L, 1, a + 1);
    lua_rawgeti(L, 2, a + 1);
    axis[a] = luaL_checkstring(L, -2), size[a] = (int)luaL_checkinteger(L, -1);
  }
  int *device = lua_newuserdata(L, sizeof *device * (size_t)(n ? n : 1));
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, 3, i + 1);
    TsDevice *d = lua_isstring(L, -1) ? ts_device_find(lua_tostring(L, -1), &c->err) : NULL;
    if (lua_isstring(L, -1) && !d) return ts_lua_raise(L);
    device[i] = d ? d->index : -1;
    lua_pop(L, 1);
  }
  const TsMesh *m = ts_mesh_make(naxis, axis, size, device, &c->err);
  if (!m) return ts_lua_raise(L);
  if (m->id >= 256) return luaL_error(L, "more than 256 meshes");
  meshes[m->id] = m;
  ts_mesh_open();
  lua_pushinteger(L, m->id);
  return 1;
}

/* mesh_layout(mesh, ndim, {{axis...}...}, {block...}, {partial axis...}, leaves): its number.
 * Axes of the mesh count from 0. */
static int mesh_layout(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsLayout l = {.mesh = check_mesh(L, 1), .ndim = (uint8_t)luaL_checkinteger(L, 2)};
  for (int d = 0; d < l.ndim; d++) {
    lua_rawgeti(L, 3, d + 1);
    int n = lua_istable(L, -1) ? (int)lua_objlen(L, -1) : 0;
    for (int i = 0; i < n && i < TS_MESH_AXES; i++) {
      lua_rawgeti(L, -1, i + 1);
      l.axis[d][l.naxis[d]++] = (uint8_t)lua_tointeger(L, -1);
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
    lua_rawgeti(L, 4, d + 1);
    l.block[d] = l.naxis[d] ? (int64_t)lua_tonumber(L, -1) : 0;
    lua_pop(L, 1);
  }
  for (int i = 0; i < (int)lua_objlen(L, 5); i++) {
    lua_rawgeti(L, 5, i + 1);
    l.partial |= (uint8_t)(1u << lua_tointeger(L, -1));
    lua_pop(L, 1);
  }
  l.leaves = (uint16_t)luaL_optinteger(L, 6, 0);
  l.stored = lua_toboolean(L, 7);
  const TsLayout *made = ts_layout_make(&l, &c->err);
  if (!made) return ts_lua_raise(L);
  lua_pushinteger(L, made->id);
  return 1;
}

static void push_axes(lua_State *L, int n, const uint8_t *axis) {
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_pushinteger(L, axis[i]);
    lua_rawseti(L, -2, i + 1);
  }
}

/* mesh_layout_facts(layout): mesh, {{axis...}...}, {block...}, partial bits, leaves. */
static int mesh_layout_facts(lua_State *L) {
  const TsLayout *l = check_layout(L, 1);
  lua_pushinteger(L, l->mesh->id);
  lua_createtable(L, l->ndim, 0);
  for (int d = 0; d < l->ndim; d++) {
    push_axes(L, l->naxis[d], l->axis[d]);
    lua_rawseti(L, -2, d + 1);
  }
  lua_createtable(L, l->ndim, 0);
  for (int d = 0; d < l->ndim; d++) {
    lua_pushnumber(L, (double)l->block[d]);
    lua_rawseti(L, -2, d + 1);
  }
  lua_pushinteger(L, l->partial);
  lua_pushinteger(L, l->leaves);
  return 5;
}

/* mesh_layout_of(x): its layout, or nil: it is on one device. */
static int mesh_layout_of(lua_State *L) {
  TsTensor *t = ts_lua_check_tensor(L, 1, "layout");
  if (!t->meta.layout) return 0;
  lua_pushinteger(L, t->meta.layout);
  return 1;
}

/* mesh_move(x, layout): x as it lies under the layout, in memory of its own. */
static int mesh_move(lua_State *L) {
  TsTensor *t = ts_lua_check_tensor(L, 1, "reshard");
  TsTensor *y = ts_mesh_move(ts_lua_context(L), t, check_layout(L, 2), false);
  if (!y) return ts_lua_raise(L);
  ts_lua_push(L, y);
  return 1;
}

/* mesh_spread(x, layout): x itself lies under the layout from now on. */
static int mesh_spread(lua_State *L) {
  TsTensor *t = ts_lua_check_tensor(L, 1, "spread");
  return ts_mesh_spread(ts_lua_context(L), t, check_layout(L, 2)) ? ts_lua_raise(L) : 0;
}

/* mesh_gather(x, device): all of x there. */
static int mesh_gather(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsTensor *t = ts_lua_check_tensor(L, 1, "gather");
  TsDevice *d = ts_device_find(luaL_optstring(L, 2, "cpu:0"), &c->err);
  TsTensor *there = d ? ts_tensor_to(c, t, d->index) : NULL, *y = NULL;
  if (there) y = there == t ? ts_tensor_ref(t) : ts_tensor_copy(c, there);
  ts_tensor_unref(there);
  if (!y) return ts_lua_raise(L);
  ts_lua_push(L, y);
  return 1;
}

/* mesh_parts(x): the tensors that it consists of, by device of the mesh. */
static int mesh_parts(lua_State *L) {
  TsTensor *t = ts_lua_check_tensor(L, 1, "parts");
  TsParts *p = ts_mesh_is(t) ? ts_mesh_parts(t) : NULL;
  if (!p) return ts_mesh_is(t) ? ts_lua_raise(L) : luaL_error(L, "parts: x is on one device");
  lua_createtable(L, p->n, 0);
  for (int i = 0; i < p->n; i++) {
    ts_lua_push(L, ts_tensor_ref(p->part[i]));
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* mesh_join(layout, {part...}, {size...}): the tensor of these parts, which become its memory. */
static int mesh_join(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  const TsLayout *l = check_layout(L, 1);
  TsTensor **list;
  int n = ts_lua_list(L, 2, "join", &list);
  if (n != l->mesh->n)
    return ts_lua_fail(L, TS_ERR_layout, "join: %d parts for a mesh of %d", n, l->mesh->n);
  TsMeta m = {.dtype = list[0]->meta.dtype, .ndim = l->ndim, .layout = l->id};
  for (int d = 0; d < l->ndim; d++) {
    lua_rawgeti(L, 3, d + 1);
    m.dim[d] = (int64_t)lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
  for (int p = 0; p < n; p++) {
    TsMeta want = ts_layout_part(l, &m, p);
    char a[TS_META_TEXT], b[TS_META_TEXT];
    if (list[p]->meta.dtype != m.dtype || !ts_meta_same_shape(&list[p]->meta, &want))
      return ts_lua_fail(L, TS_ERR_layout, "join: part %d is %s, has to be %s", p,
                         ts_meta_text(&list[p]->meta, a), ts_meta_text(&want, b));
  }
  for (int p = 0; p < n; p++) ts_tensor_ref(list[p]);
  TsTensor *t = ts_mesh_tensor(c, &m, list);
  if (!t) return ts_lua_raise(L);
  ts_lua_push(L, t);
  return 1;
}

/* mesh_part_shape(layout, {size...}, part): the sizes of a part. */
static int mesh_part_shape(lua_State *L) {
  const TsLayout *l = check_layout(L, 1);
  int p = (int)luaL_checkinteger(L, 3);
  lua_createtable(L, l->ndim, 0);
  for (int d = 0; d < l->ndim; d++) {
    lua_rawgeti(L, 2, d + 1);
    int64_t n = (int64_t)lua_tonumber(L, -1);
    lua_pop(L, 1);
    lua_pushnumber(L, (double)ts_layout_count(l, d, n, p));
    lua_rawseti(L, -2, d + 1);
  }
  return 1;
}

/* mesh_draw(name, {options}, layout): what the row, which takes no tensors, makes, under the layout. */
static int mesh_draw(lua_State *L) {
  TsLuaArgs a;
  const TsLayout *l = check_layout(L, 3);
  TsOp op = ts_op_find(luaL_checkstring(L, 1));
  if (op == TS_OP_COUNT) return luaL_error(L, "there is no operator %s", lua_tostring(L, 1));
  ts_lua_args_begin(&a, L, op);
  TsTensor *t = ts_lua_args_options(&a, 2) ? NULL : ts_mesh_draw(a.c, op, a.attr, l);
  if (!t) return ts_lua_raise(L);
  ts_lua_push(L, t);
  return 1;
}

/* mesh_run(layout, d, size, part, i): start and count of run i of axis d, or nothing. */
static int mesh_run(lua_State *L) {
  int64_t start, count;
  const TsLayout *l = check_layout(L, 1);
  if (!ts_layout_run(l, (int)luaL_checkinteger(L, 2), (int64_t)luaL_checknumber(L, 3),
                     (int)luaL_checkinteger(L, 4), (int)luaL_checkinteger(L, 5), &start, &count))
    return 0;
  lua_pushnumber(L, (double)start);
  lua_pushnumber(L, (double)count);
  return 2;
}

/* mesh_leaves([n]): into how many leaves sums are cut, after setting it. */
static int mesh_leaves(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  lua_pushinteger(L, c->leaves);
  if (!lua_isnoneornil(L, 1)) c->leaves = (int)luaL_checkinteger(L, 1);
  return 1;
}

void ts_lua_open_mesh(lua_State *L) {
  static const luaL_Reg functions[] = {{"mesh", mesh},
                                       {"mesh_layout", mesh_layout},
                                       {"mesh_layout_facts", mesh_layout_facts},
                                       {"mesh_layout_of", mesh_layout_of},
                                       {"mesh_move", mesh_move},
                                       {"mesh_spread", mesh_spread},
                                       {"mesh_gather", mesh_gather},
                                       {"mesh_parts", mesh_parts},
                                       {"mesh_join", mesh_join},
                                       {"mesh_part_shape", mesh_part_shape},
                                       {"mesh_draw", mesh_draw},
                                       {"mesh_run", mesh_run},
                                       {"mesh_leaves", mesh_leaves},
                                       {NULL, NULL}};
  luaL_register(L, NULL, functions);
}
