/* The pieces of captured functions over a mesh in Lua: what lib/lua/dist/pieces.lua stands on. */
#include <string.h>

#include "devices/device.h"
#include "ir/mesh/outline.h"
#include "jit/mesh/run.h"
#include "lib/text.h"
#include "net/world.h"
#include "repl/lua/graph.h"
#include "repl/lua/mesh.h"

/* g:plan(all) -> its plan on a mesh in short, or the text of its pieces; nothing: it is not of one, or
 * runs call by call. */
static int plan(lua_State *L) {
  TsMeshRun *r;
  TsText t = {0};
  if (!ts_lua_graph_spread(L, 1, &r) || !r) return 0;
  (lua_toboolean(L, 2) ? ts_mesh_plan_text : ts_mesh_plan_summary)(ts_mesh_run_plan(r), &t);
  ts_lua_push_text(L, &t);
  return 1;
}

/* g:plan_bytes() -> what a device has at most, that which has most, its name in the mesh ("dp=0 tp=1"), and
 * what it begins with; nothing, as above. */
static int plan_bytes(lua_State *L) {
  TsMeshRun *r;
  TsText t = {0};
  if (!ts_lua_graph_spread(L, 1, &r) || !r) return 0;
  const TsMeshPlan *p = ts_mesh_run_plan(r);
  const TsMesh *m = p->space.real;
  int most = 0;
  for (int i = 1; i < m->n; i++)
    if (p->peak[i] > p->peak[most]) most = i;
  for (int a = 0; a < m->naxis; a++)
    ts_text_format(&t, "%s%s=%d", a ? " " : "", m->axis[a], ts_mesh_coordinate(m, most, a));
  lua_pushnumber(L, (double)p->peak[most]);
  ts_lua_push_text(L, &t);
  lua_pushnumber(L, (double)p->held[most]);
  return 3;
}

/* Of piece number at: pieces that differ in their micro-batch alone are the first one. Of several
 * processes with the rank. */
static const char *device_of(const TsMeshPlan *p, int at, char name[48]) {
  const TsMeshSpace *s = &p->space;
  int place = p->group[at / s->mesh->n].place, part = at % s->mesh->n / s->nmicro;
  const TsMesh *m = s->at[place];
  if (m->rank[part] >= 0) return ts_world_place_name(m->rank[part], m->index[part], name);
  return m->device[part] >= 0 ? ts_device_at(m->device[part])->name : "elsewhere";
}

/* cuda:0 and cuda:1 run the same kernels. */
static bool same_kind(const char *a, const char *b) {
  size_t n = strcspn(a, ":");
  return n == strcspn(b, ":") && !strncmp(a, b, n);
}

/* The first piece of the stage that is as this one: the same graph on the same kind of device. */
static int alike(const TsMeshPlan *p, const TsText *text, int at) {
  char a[48], b[48];
  for (int i = at - at % p->space.mesh->n; i < at; i++)
    if (text[i].at && text[at].at && same_kind(device_of(p, i, a), device_of(p, at, b)) &&
        !strcmp(text[i].at, text[at].at))
      return i;
  return at;
}

/* Adds a piece to its row: the lists `parts`, `devices`, `at`. */
static void add_part(lua_State *L, int row, const TsMeshPlan *p, int at) {
  int group = at / p->space.mesh->n, part = at % p->space.mesh->n / p->space.nmicro, n;
  char name[48];
  lua_rawgeti(L, -1, row);
  lua_getfield(L, -1, "parts");
  n = (int)lua_objlen(L, -1) + 1;
  lua_pushinteger(L, ts_space_part(&p->space, p->group[group].place, part));
  lua_rawseti(L, -2, n), lua_pop(L, 1);
  lua_getfield(L, -1, "devices");
  lua_pushstring(L, device_of(p, at, name)), lua_rawseti(L, -2, n), lua_pop(L, 1);
  lua_getfield(L, -1, "at");
  lua_pushinteger(L, at), lua_rawseti(L, -2, n), lua_pop(L, 2);
}

static void add_row(lua_State *L, int row, int stage) {
  lua_createtable(L, 0, 4);
  lua_pushinteger(L, stage), lua_setfield(L, -2, "stage");
  lua_newtable(L), lua_setfield(L, -2, "parts");
  lua_newtable(L), lua_setfield(L, -2, "devices");
  lua_newtable(L), lua_setfield(L, -2, "at");
  lua_rawseti(L, -2, row);
}

/* Joins in the order in which they are first done. */
static void push_sent(lua_State *L, TsMeshRun *r) {
  const TsMeshPlan *p = ts_mesh_run_plan(r);
  unsigned char *told = lua_newuserdata(L, (size_t)p->njoin + 1);
  memset(told, 0, (size_t)p->njoin + 1);
  lua_newtable(L);
  for (int i = 0, n = 0; i < p->nstep; i++) {
    TsCollective sent;
    int j = p->step[i].at;
    const TsNode *node = p->step[i].join ? p->join[j].node : NULL;
    const char *where = node ? ts_graph_where(node) : "";
    if (!p->step[i].join || p->step[i].does == TS_STEP_start || told[j]++ ||
        !ts_mesh_run_sent(r, j, &sent))
      continue;
    ts_lua_push_collective(L, &sent);
    lua_pushstring(L, node ? ts_node_name(node) : ""), lua_setfield(L, -2, "operator");
    lua_pushstring(L, where ? where : ""), lua_setfield(L, -2, "place");
    lua_pushinteger(L, p->join[j].stage), lua_setfield(L, -2, "stage");
    lua_pushinteger(L, p->join[j].begins), lua_setfield(L, -2, "begins");
    lua_rawseti(L, -2, ++n);
  }
  lua_remove(L, -2);
}

/* The group that is stage number n, or -1. */
static int group_of(const TsMeshPlan *p, int stage) {
  for (int g = 0; g < p->ngroup; g++)
    if (p->group[g].stage == stage) return g;
  return -1;
}

/* Adds the rows of a group. */
static void add_group(lua_State *L, const TsMeshPlan *p, const TsText *text, int *row,
                      int *nrow, int group) {
  int n = p->space.mesh->n;
  for (int at = group * n; at < (group + 1) * n; at++) {
    if (!text[at].at) continue;
    int first = alike(p, text, at);
    if (first == at) add_row(L, row[at] = ++*nrow, p->group[group].stage);
    row[at] = row[first];
    add_part(L, row[at], p, at);
  }
}

static void add_outside(void *arg, const TsNode *n, const char *why) {
  lua_State *L = arg;
  lua_createtable(L, 0, 3);
  lua_pushstring(L, ts_node_name(n)), lua_setfield(L, -2, "what");
  lua_pushstring(L, ts_graph_where(n)), lua_setfield(L, -2, "place");
  if (why) lua_pushstring(L, why), lua_setfield(L, -2, "why");
  lua_rawseti(L, -2, (int)lua_objlen(L, -2) + 1);
}

/* g:pieces() -> nil: it is of no mesh; false: it has loops and the like, and a list of these, {what, place, why},
 * why being nil of those whose functions run in pieces; else what its devices run, a row for
 * those that are alike {stage, parts, devices, at}, with `mesh`, and what they send each other
 * before a stage, `sent`; `remarks` are lines on how that is done. */
static int pieces(lua_State *L) {
  TsMeshRun *r;
  if (!ts_lua_graph_spread(L, 1, &r)) return 0;
  if (!r) {
    lua_pushboolean(L, 0);
    lua_newtable(L);
    ts_mesh_outside(ts_lua_graph_at(L, 1), add_outside, L);
    return 2;
  }
  const TsMeshPlan *p = ts_mesh_run_plan(r);
  int n = p->ngroup * p->space.mesh->n, nrow = 0;
  TsText *text = lua_newuserdata(L, sizeof *text * (size_t)(n + 1));
  int *row = lua_newuserdata(L, sizeof *row * (size_t)(n + 1));
  memset(text, 0, sizeof *text * (size_t)(n + 1));
  for (int i = 0; i < n; i++)
    if (p->piece[i].g && p->piece[i].like == i) ts_graph_text(p->piece[i].g, &text[i]);
  lua_newtable(L);
  for (int stage = 0; stage < p->ngroup; stage++) {
    int group = group_of(p, stage);
    if (group >= 0) add_group(L, p, text, row, &nrow, group);
  }
  for (int i = 0; i < n; i++) ts_text_free(&text[i]);
  ts_lua_push_mesh(L, p->space.real), lua_setfield(L, -2, "mesh");
  push_sent(L, r), lua_setfield(L, -2, "sent");
  lua_pushlstring(L, p->remarks.at ? p->remarks.at : "", p->remarks.len);
  lua_setfield(L, -2, "remarks");
  return 1;
}

/* g:piece(at) -> one of them, as a function */
static int piece(lua_State *L) {
  TsMeshRun *r;
  int at = luaL_checkint(L, 2);
  bool there = ts_lua_graph_spread(L, 1, &r) && r && at >= 0;
  const TsMeshPlan *p = there ? ts_mesh_run_plan(r) : NULL;
  if (!p || at >= p->ngroup * p->space.mesh->n || !p->piece[at].g)
    return luaL_argerror(L, 2, "there is no such piece");
  ts_lua_push_piece(L, 1, at);
  return 1;
}

const luaL_Reg ts_lua_pieces_methods[] = {{"plan", plan},
                                          {"plan_bytes", plan_bytes},
                                          {"pieces", pieces},
                                          {"piece", piece},
                                          {NULL, NULL}};
