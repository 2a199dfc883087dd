/* The pieces of captured functions over a mesh in Lua: what lib/lua/dist/pieces.lua stands on. */
#include <string.h>

#include "devices/device.h"
#include "jit/mesh/run.h"
#include "lib/text.h"
#include "repl/lua/graph.h"
#include "repl/lua/mesh.h"

/* g:plan() -> the text of its pieces on a mesh, or nothing: it is not of one, or runs call by call. */
static int plan(lua_State *L) {
  TsMeshRun *r;
  TsText t = {0};
  if (!ts_lua_graph_spread(L, 1, &r) || !r) return 0;
  ts_mesh_plan_text(ts_mesh_run_plan(r), &t);
  ts_lua_push_text(L, &t);
  return 1;
}

static const char *device_of(const TsMesh *m, int part) {
  return m->device[part] >= 0 ? ts_device_at(m->device[part])->name : "elsewhere";
}

/* cuda:0 and cuda:1 run the same kernels. */
static bool same_kind(const char *a, const char *b) {
  size_t n = strcspn(a, ":");
  return n == strcspn(b, ":") && !strncmp(a, b, n);
}

/* The first piece of the stage that is as this one: the same graph on the same kind of device. */
static int alike(const TsMeshPlan *p, const TsText *text, int stage, int part) {
  const TsText *of = text + stage * p->mesh->n;
  const char *device = device_of(p->mesh, part);
  for (int i = 0; i < part; i++)
    if (of[i].at && of[part].at && same_kind(device_of(p->mesh, i), device) &&
        !strcmp(of[i].at, of[part].at))
      return i;
  return part;
}

/* Adds part to the row of its stage whose first part is `first`: the lists `parts`, `devices`, `at`. */
static void add_part(lua_State *L, int row, const TsMeshPlan *p, int stage, int part) {
  lua_rawgeti(L, -1, row);
  int n;
  lua_getfield(L, -1, "parts");
  n = (int)lua_objlen(L, -1) + 1;
  lua_pushinteger(L, part), lua_rawseti(L, -2, n), lua_pop(L, 1);
  lua_getfield(L, -1, "devices");
  lua_pushstring(L, device_of(p->mesh, part)), lua_rawseti(L, -2, n), lua_pop(L, 1);
  lua_getfield(L, -1, "at");
  lua_pushinteger(L, stage * p->mesh->n + part), lua_rawseti(L, -2, n), lua_pop(L, 2);
}

static void add_row(lua_State *L, int row, int stage) {
  lua_createtable(L, 0, 4);
  lua_pushinteger(L, stage), lua_setfield(L, -2, "stage");
  lua_newtable(L), lua_setfield(L, -2, "parts");
  lua_newtable(L), lua_setfield(L, -2, "devices");
  lua_newtable(L), lua_setfield(L, -2, "at");
  lua_rawseti(L, -2, row);
}

static void push_sent(lua_State *L, TsMeshRun *r) {
  const TsMeshPlan *p = ts_mesh_run_plan(r);
  lua_newtable(L);
  for (int j = 0, n = 0; j < p->njoin; j++) {
    TsCollective sent;
    const TsNode *node = p->join[j].node;
    const char *where = node ? ts_graph_where(node) : "";
    if (!ts_mesh_run_sent(r, j, &sent)) continue;
    ts_lua_push_collective(L, &sent);
    lua_pushstring(L, node ? ts_node_name(node) : ""), lua_setfield(L, -2, "operator");
    lua_pushstring(L, where ? where : ""), lua_setfield(L, -2, "place");
    lua_pushinteger(L, p->join[j].stage), lua_setfield(L, -2, "stage");
    lua_rawseti(L, -2, ++n);
  }
}

/* g:pieces() -> nil: it is of no mesh; false: it runs call by call; else what its devices run, a row for
 * those that are alike {stage, parts, devices, at}, with `mesh`, and what they send each other
 * before a stage, `sent`. */
static int pieces(lua_State *L) {
  TsMeshRun *r;
  if (!ts_lua_graph_spread(L, 1, &r)) return 0;
  if (!r) return lua_pushboolean(L, 0), 1;
  const TsMeshPlan *p = ts_mesh_run_plan(r);
  int n = p->mesh->n, nrow = 0;
  TsText *text = lua_newuserdata(L, sizeof *text * (size_t)(p->nstage * n + 1));
  int *row = lua_newuserdata(L, sizeof *row * (size_t)(p->nstage * n + 1));
  memset(text, 0, sizeof *text * (size_t)(p->nstage * n + 1));
  for (int i = 0; i < p->nstage * n; i++)
    if (p->piece[i].g) ts_graph_text(p->piece[i].g, &text[i]);
  for (int i = 0; i < p->nstage * n; i++) {
    int first = i / n * n + alike(p, text, i / n, i % n);
    row[i] = !text[i].at ? 0 : first == i ? ++nrow : row[first];
  }
  for (int i = 0; i < p->nstage * n; i++) ts_text_free(&text[i]);
  lua_newtable(L);
  for (int i = 0, made = 0; i < p->nstage * n; i++) {
    if (!row[i]) continue;
    if (row[i] > made) add_row(L, ++made, i / n);
    add_part(L, row[i], p, i / n, i % n);
  }
  ts_lua_push_mesh(L, p->mesh), lua_setfield(L, -2, "mesh");
  push_sent(L, r), lua_setfield(L, -2, "sent");
  return 1;
}

/* g:piece(at) -> one of them, as a function */
static int piece(lua_State *L) {
  TsMeshRun *r;
  int at = luaL_checkint(L, 2);
  bool there = ts_lua_graph_spread(L, 1, &r) && r && at >= 0;
  const TsMeshPlan *p = there ? ts_mesh_run_plan(r) : NULL;
  if (!p || at >= p->nstage * p->mesh->n || !p->piece[at].g)
    return luaL_argerror(L, 2, "there is no such piece");
  ts_lua_push_piece(L, 1, at);
  return 1;
}

const luaL_Reg ts_lua_pieces_methods[] = {
    {"plan", plan}, {"pieces", pieces}, {"piece", piece}, {NULL, NULL}};
