/* Several processes: who they are, and what parts of theirs send each other in dist.map. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/flags.h"
#include "net/world.h"
#include "repl/lua/args.h"
#include "repl/lua/mesh.h"
#include "vm/mesh/away.h"
#include "vm/mesh/collective.h"
#include "vm/mesh/leaves.h"
#include "vm/mesh/times.h"
#include "vm/mesh/wire.h"

/* world(): {rank, size, text, flight, ranks = {{host, cpus, gpus, gpu}...}}; it is joined. */
static int world(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  if (ts_world_open(&c->err)) return ts_lua_raise(L);
  int n = ts_world_size();
  TsText text = {0};
  lua_newtable(L);
  lua_pushinteger(L, ts_world_rank()), lua_setfield(L, -2, "rank");
  lua_pushinteger(L, n), lua_setfield(L, -2, "size");
  ts_world_text(&text);
  lua_pushstring(L, text.at ? text.at : ""), lua_setfield(L, -2, "text");
  ts_text_free(&text);
  if (ts_world_flight()) lua_pushstring(L, ts_world_flight()), lua_setfield(L, -2, "flight");
  lua_createtable(L, n, 0);
  for (int r = 0; r < n && n > 1; r++) {
    const TsWorldRank *k = ts_world_at(r);
    lua_createtable(L, 0, 4);
    lua_pushstring(L, k->host), lua_setfield(L, -2, "host");
    lua_pushinteger(L, k->ncpu), lua_setfield(L, -2, "cpus");
    lua_pushinteger(L, k->ngpu), lua_setfield(L, -2, "gpus");
    lua_pushinteger(L, k->gpu), lua_setfield(L, -2, "gpu");
    lua_pushstring(L, k->kind), lua_setfield(L, -2, "kind");
    lua_rawseti(L, -2, r + 1);
  }
  lua_setfield(L, -2, "ranks");
  return 1;
}

/* world_patience([seconds]): for how long a rank is waited for, before it is set; GPUs of this process
 * wait as long for each other, once it is. */
static int world_patience(lua_State *L) {
  double seconds = luaL_optnumber(L, 1, 0), most = 1e6;
  ts_flags_patience(seconds > 0 ? (int64_t)ceil((seconds < most ? seconds : most) * 1e3) : 0);
  lua_pushnumber(L, ts_world_patience(seconds));
  return 1;
}

/* mesh_is_away(id, part): its elements are another process's. */
static int mesh_is_away(lua_State *L) {
  const TsMesh *m = ts_lua_check_mesh(L, 1);
  int p = (int)luaL_checkinteger(L, 2);
  lua_pushboolean(L, p >= 0 && p < m->n && ts_mesh_away(m, p));
  return 1;
}

/* mesh_away({size...}, dtype): what a part of another process is here. */
static int mesh_away(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  const char *word = luaL_checkstring(L, 2);
  TsMeta m = {.dtype = (uint8_t)ts_dtype_parse(word, (int)strlen(word)),
              .device = TS_DEVICE_AWAY};
  lua_pushvalue(L, 1);
  ts_lua_check_shape(L, &m, "dist");
  TsTensor *t = m.dtype == TS_DT_none ? NULL : ts_tensor_new(c, &m);
  if (!t) return ts_lua_raise(L);
  ts_lua_push(L, t);
  return 1;
}

/* One of mesh_sums: the sum of these on the device of a part. */
typedef struct Sum {
  int part, n, made;
  TsLeafSum *leaf;
} Sum;

static bool is_narrow(TsDtype d) {
  return ts_dtype_is(d, TS_KIND_F) && ts_dtypes[d].nbytes < 4;
}

/* What 16-bit floats are summed to is rounded once. */
static TsTensor *sum_of(TsContext *c, Sum *s, TsFactorKind kind, TsDtype type) {
  TsAttr wide = ts_attr_dtype(TS_DT_f32), back = ts_attr_dtype(type);
  bool casts = is_narrow(type) && s->n > 1;
  for (int i = 0; i < s->n && casts; i++) {
    TsTensor *t = ts_vm_call1(c, TS_OP_cast, 1, &s->leaf[i].value, &wide);
    if (!t) return NULL;
    ts_tensor_unref(s->leaf[i].value);
    s->leaf[i].value = t;
  }
  s->made = 0; /* they are used up */
  TsTensor *sum = ts_leaves_root(c, kind, s->n, s->n, s->leaf), *y = NULL;
  if (sum)
    y = casts       ? ts_vm_call1(c, TS_OP_cast, 1, &sum, &back)
        : s->n == 1 ? ts_tensor_copy(c, sum)
                    : ts_tensor_ref(sum);
  ts_tensor_unref(sum);
  return y;
}

static int fetch_sum(lua_State *L, const TsMesh *m, TsWire *w, Sum *s) {
  lua_getfield(L, -1, "from");
  lua_getfield(L, -2, "list");
  int failed = 0;
  for (; s->made < s->n && !failed; s->made += !failed) {
    lua_rawgeti(L, -1, s->made + 1);
    lua_rawgeti(L, -3, s->made + 1);
    TsTensor *x = ts_lua_tensor(L, -2);
    int from = (int)lua_tointeger(L, -1);
    s->leaf[s->made] = (TsLeafSum){.place = s->made};
    failed = ts_wire_fetch(w, x, ts_wire_end_of(m, from), ts_wire_end_of(m, s->part),
                           &s->leaf[s->made].value);
    lua_pop(L, 2);
  }
  lua_pop(L, 2);
  return failed;
}

/* mesh_sums(mesh, {{part = p, from = {part...}, list = {x...}}...} [, "sum", "max" or "min"]): of each
 * row the sum of its tensors, which are those of the parts `from`, in the canonical tree, on the
 * device of part p. */
static int mesh_sums(lua_State *L) {
  static const char *const words[] = {"sum", "max", "min", NULL};
  static const TsFactorKind kinds[] = {TS_FACTOR_sum, TS_FACTOR_max, TS_FACTOR_min};
  TsContext *c = ts_lua_context(L);
  const TsMesh *m = ts_lua_check_mesh(L, 1);
  TsFactorKind kind = kinds[luaL_checkoption(L, 3, "sum", words)];
  int n = (int)lua_objlen(L, 2), failed = 0;
  Sum *sum = lua_newuserdata(L, sizeof *sum * (size_t)(n + 1));
  TsDtype type = TS_DT_f32;
  memset(sum, 0, sizeof *sum * (size_t)(n + 1));
  for (int i = 0; i < n; i++) { /* what may raise comes first */
    lua_rawgeti(L, 2, i + 1);
    lua_getfield(L, -1, "part");
    lua_getfield(L, -2, "list");
    sum[i].part = (int)luaL_checkinteger(L, -2), sum[i].n = (int)lua_objlen(L, -1);
    for (int k = 0; k < sum[i].n; k++) {
      lua_rawgeti(L, -1, k + 1);
      type = ts_tensor_dtype(ts_lua_check_tensor(L, -1, "dist"));
      lua_pop(L, 1);
    }
    sum[i].leaf = lua_newuserdata(L, sizeof *sum[i].leaf * (size_t)(sum[i].n + 1));
    lua_rawseti(L, -4, 0); /* the row keeps it */
    lua_pop(L, 3);
  }
  lua_createtable(L, n, 0);
  c->where_arg = L;
  TsWire w = ts_wire_begin(c);
  for (int i = 0; i < n && !failed; i++) {
    lua_rawgeti(L, 2, i + 1);
    failed = fetch_sum(L, m, &w, &sum[i]);
    lua_pop(L, 1);
  }
  failed = failed || ts_wire_flush(&w);
  for (int i = 0; i < n && !failed; i++) {
    TsTensor *y = sum_of(c, &sum[i], kind, type);
    failed = !y;
    if (!y) break;
    ts_lua_push(L, y);
    lua_rawseti(L, -2, i + 1);
  }
  failed = ts_wire_end(&w, failed);
  for (int i = 0; i < n; i++)
    for (int k = 0; k < sum[i].made; k++) ts_tensor_unref(sum[i].leaf[k].value);
  return failed ? ts_lua_raise(L) : 1;
}

/* mesh_about(word, x): what is sent next is for this. */
static int mesh_about(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  c->where_arg = L;
  ts_collective_about(c, luaL_checkstring(L, 1), &ts_lua_check_tensor(L, 2, "dist")->meta);
  return 0;
}

/* world_tell(text, what): what rank 0 says, for all; nobody goes on before all have come. what it is
 * for. */
static int world_tell(lua_State *L) {
  enum { MOST = 1024 };
  TsContext *c = ts_lua_context(L);
  size_t len;
  const char *text = luaL_checklstring(L, 1, &len);
  int n = ts_world_size();
  char *all = lua_newuserdata(L, (size_t)MOST * (size_t)n), own[MOST] = "";
  TsWorldWhat w = {{0}, {0}};
  snprintf(w.what, sizeof w.what, "%s", luaL_checkstring(L, 2));
  snprintf(own, sizeof own, "%.*s", (int)len, text);
  c->where_arg = L;
  snprintf(w.place, sizeof w.place, "%s", c->where ? c->where(L) : "");
  if (n == 1)
    memcpy(all, own, MOST);
  else if (ts_world_gather(&w, own, all, MOST, &c->err))
    return ts_lua_raise(L);
  lua_pushstring(L, all);
  return 1;
}

/* mesh_bring(mesh, part, x): x, which is the part's, on rank 0's CPU; without elements in other
 * processes. */
static int mesh_bring(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  const TsMesh *m = ts_lua_check_mesh(L, 1);
  int p = (int)luaL_checkinteger(L, 2);
  TsTensor *x = ts_lua_check_tensor(L, 3, "checkpoint"), *there = NULL;
  luaL_argcheck(L, p >= 0 && p < m->n, 2, "no part of the mesh");
  TsWireEnd to = {0, ts_world_rank() ? TS_DEVICE_AWAY : 0, true};
  TsWire w = ts_wire_begin(c);
  c->where_arg = L;
  ts_collective_about(c, "checkpoint", &x->meta);
  int failed = ts_wire_fetch(&w, x, ts_wire_end_of(m, p), to, &there);
  if (ts_wire_end(&w, failed || ts_wire_flush(&w))) {
    ts_tensor_unref(there);
    return ts_lua_raise(L);
  }
  ts_lua_push(L, there);
  return 1;
}

/* ---- what parts read */
static struct {
  int rank;    /* whose part runs; -1: none */
  uint64_t id; /* of the last tensor that was read, */
  uint32_t version;
  TsTensor *value; /* and its elements, where they are another process's */
} told = {.rank = -1};

/* mesh_reader(mesh, part or nil): what runs from now on is a part's. */
static int mesh_reader(lua_State *L) {
  static int device = -1;
  TsContext *c = ts_lua_context(L);
  const TsMesh *m = lua_isnoneornil(L, 2) ? NULL : ts_lua_check_mesh(L, 1);
  int p = m ? (int)luaL_checkinteger(L, 2) : 0, failed = 0;
  if (m) luaL_argcheck(L, p >= 0 && p < m->n, 2, "no part of the mesh");
  told.rank = m ? m->rank[p] : -1;
  if (c->times && device >= 0) failed = ts_times_work_end(c, device, 0);
  device = m ? m->device[p] : -1;
  if (c->times && m && !failed) failed = ts_times_work_begin(c, device);
  return failed ? ts_lua_raise(L) : 0;
}

/* mesh_sends(mesh, kind) -> whether it is recorded, that devices of it send each other what comes now.
 * mesh_sends(fine): that has ended, and what it was has been noted, or it has failed. */
static int mesh_sends(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  if (!c->times) return 0;
  if (lua_isboolean(L, 1)) {
    bool fine = lua_toboolean(L, 1);
    return ts_times_close(c, fine ? 0 : -1) && fine ? ts_lua_raise(L) : 0;
  }
  if (ts_times_open(c, ts_lua_check_mesh(L, 1), luaL_checkstring(L, 2))) return ts_lua_raise(L);
  lua_pushboolean(L, true);
  return 1;
}

/* From the one who has it to all others, on the host. */
static int tell(TsContext *c, TsTensor *x, TsTensor *y) {
  int n = ts_world_size();
  TsTransfer *list = calloc((size_t)n, sizeof *list);
  bool own = told.rank == ts_world_rank();
  void *at = !list ? NULL : own ? ts_tensor_read(y) : ts_tensor_write(y);
  for (int r = 0; r < n && at; r++)
    list[r] = (TsTransfer){told.rank, r, 0, own || r == ts_world_rank() ? at : NULL,
                           ts_meta_nbytes(&y->meta)};
  ts_collective_about(c, "read of a part", &x->meta);
  int failed = !list ? ts_error_memory(&c->err) : !at;
  if (!failed) failed = ts_world_exchange(ts_collective_current(), 0, n, list, false, &c->err);
  if (!failed) ts_world_done();
  free(list);
  return failed ? -1 : 0;
}

TsTensor *ts_lua_told(lua_State *L, TsTensor *x) {
  TsContext *c = ts_lua_context(L);
  bool plain = x->meta.weak || x->meta.layout || x->storage->symbolic;
  if (told.rank < 0 || plain || ts_world_size() == 1 || !ts_tensor_numel(x)) return x;
  bool known = told.id == x->id && told.version == x->storage->version,
       own = told.rank == ts_world_rank();
  if (!known) {
    TsMeta m = x->meta;
    m.device = 0;
    c->where_arg = L;
    TsTensor *y = own ? ts_tensor_contiguous(c, x) : ts_tensor_new(c, &m);
    if (!y || tell(c, x, y)) {
      ts_tensor_unref(y);
      ts_lua_raise(L);
    }
    ts_tensor_unref(told.value);
    told.id = x->id, told.version = x->storage->version, told.value = y;
  }
  return ts_tensor_is_away(x) ? told.value : x;
}

void ts_lua_open_world(lua_State *L) {
  static const luaL_Reg functions[] = {{"world", world},
                                       {"world_patience", world_patience},
                                       {"world_tell", world_tell},
                                       {"mesh_bring", mesh_bring},
                                       {"mesh_sums", mesh_sums},
                                       {"mesh_about", mesh_about},
                                       {"mesh_away", mesh_away},
                                       {"mesh_is_away", mesh_is_away},
                                       {"mesh_reader", mesh_reader},
                                       {"mesh_sends", mesh_sends},
                                       {NULL, NULL}};
  luaL_register(L, NULL, functions);
}
