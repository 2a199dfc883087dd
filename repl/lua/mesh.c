/* Meshes, layouts and tensors that are spread over them. A mesh or a layout is its number here;
 * lib/lua/dist has their names. */
#include "lib/mesh.h"

#include <string.h>

#include "devices/device.h"
#include "devices/meet.h"
#include "ir/graph/custom.h"
#include "repl/lua/graph.h"
#include "repl/lua/mesh.h"
#include "vm/code/control.h"
#include "vm/core/defer.h"
#include "vm/core/tape.h"
#include "net/world.h"
#include "vm/mesh/collective.h"
#include "vm/mesh/leaves.h"
#include "repl/lua/args.h"
#include "vm/mesh/away.h"
#include "vm/mesh/draw.h"
#include "vm/mesh/parts.h"
#include "vm/mesh/planned.h"
#include "vm/mesh/reshard.h"

const TsMesh *ts_lua_check_mesh(lua_State *L, int at) {
  const TsMesh *m = ts_mesh_at((int)luaL_checkinteger(L, at));
  if (!m) luaL_error(L, "there is no mesh %d", (int)lua_tointeger(L, at));
  return m;
}

/* ---- meshes as objects: lib/lua/dist/mesh.lua makes them, by number */
static const char objects_key;

static void push_objects(lua_State *L) {
  lua_pushlightuserdata(L, (void *)(uintptr_t)&objects_key);
  lua_rawget(L, LUA_REGISTRYINDEX);
  if (!lua_isnil(L, -1)) return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_pushlightuserdata(L, (void *)(uintptr_t)&objects_key);
  lua_pushvalue(L, -2);
  lua_rawset(L, LUA_REGISTRYINDEX);
}

void ts_lua_push_mesh(lua_State *L, const TsMesh *m) {
  push_objects(L);
  lua_rawgeti(L, -1, m->id + 1);
  lua_remove(L, -2);
  if (!lua_isnil(L, -1)) return;
  lua_pop(L, 1); /* nobody has made one yet */
  lua_getglobal(L, "require");
  lua_pushliteral(L, "tessera.dist.grid");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "mesh_at");
  lua_remove(L, -2);
  lua_pushinteger(L, m->id);
  lua_call(L, 1, 1);
}

const TsMesh *ts_lua_mesh(lua_State *L, int at) {
  if (!lua_istable(L, at)) return NULL;
  if (at < 0) at += lua_gettop(L) + 1;
  lua_getfield(L, at, "id");
  int id = lua_isnumber(L, -1) ? (int)lua_tointeger(L, -1) : -1;
  lua_pop(L, 1);
  const TsMesh *m = ts_mesh_at(id);
  if (!m) return NULL;
  lua_pushvalue(L, at);
  push_objects(L);
  lua_rawgeti(L, -1, id + 1);
  bool same = lua_rawequal(L, -1, -3);
  lua_pop(L, 3);
  return same ? m : NULL;
}

/* mesh_object(id, object): what x.device is of a tensor of this mesh. */
static int mesh_object(lua_State *L) {
  push_objects(L);
  lua_pushvalue(L, 2);
  lua_rawseti(L, -2, (int)luaL_checkinteger(L, 1) + 1);
  return 0;
}

/* mesh_facts(id): {name...}, {size...}, {device name or false...}. */
static int mesh_facts(lua_State *L) {
  const TsMesh *m = ts_lua_check_mesh(L, 1);
  char name[48];
  lua_newtable(L), lua_newtable(L), lua_newtable(L);
  for (int a = 0; a < m->naxis; a++) {
    lua_pushstring(L, m->axis[a]), lua_rawseti(L, -4, a + 1);
    lua_pushinteger(L, m->size[a]), lua_rawseti(L, -3, a + 1);
  }
  for (int p = 0; p < m->n; p++) {
    if (m->index[p] >= 0)
      lua_pushstring(L, ts_world_place_name(m->rank[p], m->index[p], name));
    else
      lua_pushboolean(L, 0);
    lua_rawseti(L, -2, p + 1);
  }
  return 3;
}

const TsLayout *ts_lua_check_layout(lua_State *L, int at) {
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
  if (ts_world_open(&c->err)) return ts_lua_raise(L);
  int *place = lua_newuserdata(L, 2 * sizeof *place * (size_t)(n ? n : 1)), *rank = place + n;
  bool owned = false;
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, 3, i + 1);
    place[i] = rank[i] = -1;
    if (lua_isstring(L, -1) && ts_away_find(lua_tostring(L, -1), &place[i], &rank[i], &c->err))
      return ts_lua_raise(L);
    owned |= rank[i] >= 0;
    lua_pop(L, 1);
  }
  for (int i = 0; i < n && owned; i++)
    if (rank[i] < 0 && place[i] >= 0)
      return ts_lua_fail(L, TS_ERR_device,
                         "a mesh has devices of ranks, as cpu:0@1, or each process's own");
  const TsMesh *m =
      ts_mesh_make(naxis, axis, size, place, owned ? rank : NULL, ts_world_rank(), &c->err);
  if (!m) return ts_lua_raise(L);
  ts_mesh_open();
  lua_pushinteger(L, m->id);
  return 1;
}

/* mesh_layout(mesh, ndim, {{axis...}...}, {block...}, {partial axis...}, leaves, stored bits, {[axis] =
 * place}): its number. Axes of the mesh count from 0. */
static int mesh_layout(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsLayout l = {.mesh = ts_lua_check_mesh(L, 1), .ndim = (uint8_t)luaL_checkinteger(L, 2)};
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
  lua_Number leaves = luaL_optnumber(L, 6, 0);
  l.leaves = leaves > TS_LEAVES_MOST ? TS_LEAVES_MOST + 1 : (int)leaves;
  l.stored = (uint8_t)luaL_optinteger(L, 7, 0);
  for (int a = 0; lua_istable(L, 8) && a < l.mesh->naxis; a++) {
    lua_rawgeti(L, 8, a);
    if (!lua_isnil(L, -1)) l.pin[a] = (uint16_t)(1 + lua_tointeger(L, -1));
    lua_pop(L, 1);
  }
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

/* mesh_layout_facts(layout): mesh, {{axis...}...}, {block...}, partial bits, leaves, {[axis] = place},
 * stored bits. */
static int mesh_layout_facts(lua_State *L) {
  const TsLayout *l = ts_lua_check_layout(L, 1);
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
  lua_newtable(L);
  for (int a = 0; a < l->mesh->naxis; a++) {
    if (!l->pin[a]) continue;
    lua_pushinteger(L, l->pin[a] - 1);
    lua_rawseti(L, -2, a);
  }
  lua_pushinteger(L, l->stored);
  return 7;
}

/* mesh_layout_of(x): its layout, or nil: it is on one device. */
static int mesh_layout_of(lua_State *L) {
  TsTensor *t = ts_lua_check_tensor(L, 1, "layout");
  if (!t->meta.layout) return 0;
  lua_pushinteger(L, t->meta.layout);
  return 1;
}

/* A move that the program asks for: run and recorded, or captured. */
static int run_mover(lua_State *L, TsContext *c, TsTensor *t, TsCustom *f, const TsMeta *type) {
  TsTensor *y = NULL;
  if (c->capture) {
    TsVal *v = ts_lua_values(L, c, 1, &t);
    TsAttr name = ts_b_str(f->name);
    TsNode *n = ts_graph_node(ts_lua_graph_here(L, c), TS_NODE_custom, 1, v, 0, NULL, 1, &name,
                              1, type, f);
    ts_custom_unref(f);
    return n ? ts_lua_push_outputs(L, c, n) : ts_lua_raise(L);
  }
  int failed = ts_defer_force(t) || ts_control_custom(c, f, 1, &t, 1, &type, &y, false);
  if (!failed && ts_tape_wants(c, 1, &t)) failed = ts_tape_record_custom(c, f, 1, &t, 1, &y);
  ts_custom_unref(f);
  if (failed) {
    ts_tensor_unref(y);
    return ts_lua_raise(L);
  }
  ts_lua_push(L, y);
  return 1;
}

static int moved(lua_State *L, TsTensor *t, const TsLayout *l, int device, const char *asks) {
  TsContext *c = ts_lua_context(L);
  TsCustom *f = ts_mesh_mover(l, device, asks);
  TsMeta type = t->meta;
  type.layout = l ? l->id : 0, type.device = 0, type.weak = 0;
  if (!f) return luaL_error(L, "out of memory");
  c->where_arg = L;
  return run_mover(L, c, t, f, &type);
}

/* mesh_move(x, layout, word): x as it lies under the layout, in memory of its own. */
static int mesh_move(lua_State *L) {
  static const char *const words[] = {"reshard", "shard", "replicate", NULL};
  TsTensor *t = ts_lua_check_tensor(L, 1, "reshard");
  return moved(L, t, ts_lua_check_layout(L, 2), 0,
               words[luaL_checkoption(L, 3, "reshard", words)]);
}

/* mesh_spread(x, layout): x itself lies under the layout from now on. */
static int mesh_spread(lua_State *L) {
  TsTensor *t = ts_lua_check_tensor(L, 1, "spread");
  return ts_mesh_spread(ts_lua_context(L), t, ts_lua_check_layout(L, 2)) ? ts_lua_raise(L) : 0;
}

/* mesh_gather(x, device): all of x there. */
static int mesh_gather(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsTensor *t = ts_lua_check_tensor(L, 1, "gather");
  TsDevice *d = ts_device_find(luaL_optstring(L, 2, "cpu:0"), &c->err);
  if (!d || ts_device_use(d, &c->err)) return ts_lua_raise(L);
  return moved(L, t, NULL, d->index, "gather");
}

bool ts_lua_mesh_view_is_copy(TsTensor *view) {
  if (!ts_mesh_is(view) || view->storage->symbolic || ts_tensor_is_planned(view)) return false;
  TsParts *p = ts_mesh_parts(view);
  return p && p->copied;
}

int ts_lua_mesh_assign(lua_State *L, TsTensor *x, int key, int value) {
  TsContext *c = ts_lua_context(L);
  key = key < 0 ? lua_gettop(L) + 1 + key : key;
  value = value < 0 ? lua_gettop(L) + 1 + value : value;
  moved(L, x, NULL, 0, "gather");
  TsTensor *whole = ts_lua_tensor(L, -1);
  ts_lua_assign(L, whole, key, value);
  return ts_vm_assign(c, x, whole) ? ts_lua_raise(L) : 0;
}

/* mesh_parts(x): the tensors that it consists of, by device of the mesh; false where there is nothing. */
static int mesh_parts(lua_State *L) {
  TsTensor *t = ts_lua_check_tensor(L, 1, "parts");
  TsParts *p = ts_mesh_is(t) ? ts_mesh_parts(t) : NULL;
  if (!p) return ts_mesh_is(t) ? ts_lua_raise(L) : luaL_error(L, "parts: x is on one device");
  lua_createtable(L, p->n, 0);
  for (int i = 0; i < p->n; i++) {
    if (p->part[i])
      ts_lua_push(L, ts_tensor_ref(p->part[i]));
    else
      lua_pushboolean(L, false); /* it has nothing */
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* mesh_join(layout, {part...}, {size...}): the tensor of these parts, which become its memory. */
static int mesh_join(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  const TsLayout *l = ts_lua_check_layout(L, 1);
  TsTensor **list;
  int n = ts_lua_list(L, 2, NULL, &list);
  if (n != l->mesh->n)
    return ts_lua_fail(L, TS_ERR_layout, "join: %d parts for a mesh of %d", n, l->mesh->n);
  int first = 0; /* that has something */
  while (first < n - 1 && !list[first]) first++;
  if (!list[first]) return ts_lua_fail(L, TS_ERR_layout, "join: no part has anything");
  TsMeta m = {.dtype = list[first]->meta.dtype, .ndim = l->ndim, .layout = l->id};
  for (int d = 0; d < l->ndim; d++) {
    lua_rawgeti(L, 3, d + 1);
    m.dim[d] = (int64_t)lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
  for (int p = 0; p < n; p++) {
    TsMeta want = ts_layout_part(l, &m, p);
    bool has = ts_layout_has(l, p);
    if (has != (list[p] != NULL))
      return ts_lua_fail(L, TS_ERR_layout, "join: part %d %s", p,
                         has ? "is missing" : "has to be false");
    if (!has) continue;
    if (l->partial) {
      memmove(want.dim + 1, want.dim, sizeof *want.dim * want.ndim++);
      want.dim[0] = ts_mesh_summands(l, p);
    }
    char a[TS_META_TEXT], b[TS_META_TEXT];
    if (list[p]->meta.dtype != m.dtype || !ts_meta_same_shape(&list[p]->meta, &want))
      return ts_lua_fail(L, TS_ERR_layout, "join: part %d is %s, has to be %s", p,
                         ts_meta_text(&list[p]->meta, a), ts_meta_text(&want, b));
  }
  for (int p = 0; p < n; p++)
    if (list[p]) ts_tensor_ref(list[p]);
  TsTensor *t = ts_mesh_tensor(c, &m, list);
  if (!t) return ts_lua_raise(L);
  ts_lua_push(L, t);
  return 1;
}

/* mesh_has(layout, part): whether the part has anything. */
static int mesh_has(lua_State *L) {
  lua_pushboolean(L, ts_layout_has(ts_lua_check_layout(L, 1), (int)luaL_checkinteger(L, 2)));
  return 1;
}

/* mesh_part_shape(layout, {size...}, part): the sizes of a part. */
static int mesh_part_shape(lua_State *L) {
  const TsLayout *l = ts_lua_check_layout(L, 1);
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

/* mesh_summands(layout, part): how many summands it has; 0: it has the elements. */
static int mesh_summands(lua_State *L) {
  const TsLayout *l = ts_lua_check_layout(L, 1);
  lua_pushinteger(L, l->partial ? ts_mesh_summands(l, (int)luaL_checkinteger(L, 2)) : 0);
  return 1;
}

/* mesh_draw(name, {options}, layout): what the row, which takes no tensors, makes, under the layout. */
static int mesh_draw(lua_State *L) {
  TsLuaArgs a;
  const TsLayout *l = ts_lua_check_layout(L, 3);
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
  const TsLayout *l = ts_lua_check_layout(L, 1);
  if (!ts_layout_run(l, (int)luaL_checkinteger(L, 2), (int64_t)luaL_checknumber(L, 3),
                     (int)luaL_checkinteger(L, 4), (int)luaL_checkinteger(L, 5), &start,
                     &count))
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

/* mesh_overlap([on, bucket, ahead, chunks, engines]): what is asked for of what devices do at a time, after setting
 * it (TsOverlapAsked). */
static int mesh_overlap(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsOverlapAsked *o = &c->overlap;
  lua_pushinteger(L, o->on);
  lua_pushnumber(L, (double)o->bucket);
  lua_pushnumber(L, (double)o->ahead);
  lua_pushinteger(L, o->chunks);
  lua_pushnumber(L, (double)o->engines);
  if (lua_isnumber(L, 1)) {
    *o = (TsOverlapAsked){(int)lua_tointeger(L, 1), (int64_t)luaL_checknumber(L, 2),
                          (int64_t)luaL_checknumber(L, 3), (int)luaL_checkinteger(L, 4),
                          (int64_t)luaL_checknumber(L, 5)};
    c->overlap_said++;
  }
  return 5;
}

int ts_lua_to_mesh(lua_State *L, TsTensor *x, const TsMesh *m) {
  TsContext *c = ts_lua_context(L);
  const TsLayout *l = ts_layout_of(&x->meta);
  if (l && l->mesh == m) return ts_lua_push(L, ts_tensor_ref(x)), 1;
  if (!(l = ts_layout_replicated(m, x->meta.ndim, &c->err))) return ts_lua_raise(L);
  return moved(L, x, l, 0, "replicate");
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
                                       {"mesh_has", mesh_has},
                                       {"mesh_part_shape", mesh_part_shape},
                                       {"mesh_draw", mesh_draw},
                                       {"mesh_run", mesh_run},
                                       {"mesh_summands", mesh_summands},
                                       {"mesh_leaves", mesh_leaves},
                                       {"mesh_overlap", mesh_overlap},
                                       {"mesh_object", mesh_object},
                                       {"mesh_facts", mesh_facts},
                                       {NULL, NULL}};
  luaL_register(L, NULL, functions);
  ts_lua_open_sent(L);
  lua_pushinteger(L, TS_LEAVES_MOST);
  lua_setfield(L, -2, "MOST_LEAVES");
}
