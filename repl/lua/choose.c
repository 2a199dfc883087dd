/* See repl/lua/choose.h. All of it follows from ir/sched/choice.def. */
#include "repl/lua/choose.h"

#include <stdio.h>
#include <string.h>

#include "ir/sched/sched.h"

enum { MOST = 1 << 20 };

static const char *const SHAPE = "tile_shape";
static const int shape_field[] = {TS_CHOICE_rows, TS_CHOICE_columns, TS_CHOICE_depth};

const char *ts_lua_choose_name(int i) {
  return i < TS_CHOICE_FIELDS ? ts_choice_name(i) : i == TS_CHOICE_FIELDS ? SHAPE : NULL;
}

/* ---- options of operators */
static int wrong(TsLuaArgs *a, const char *name, int index) {
  bool number = lua_type(a->L, index) == LUA_TNUMBER, shape = !strcmp(name, SHAPE);
  ts_error_set(&a->c->err, TS_ERR_attribute, "%s: option '%s' must be %s, not %s%s", a->o->name,
               name, shape ? "1 to 3 integers above 0" : "an integer above 0",
               number ? lua_tostring(a->L, index) : luaL_typename(a->L, index),
               shape && !number && lua_type(a->L, index) == LUA_TTABLE ? " of others" : "");
  return -1;
}

/* No more than MOST, which is more than anything has. */
static bool whole(lua_State *L, int index, int *out) {
  double v = lua_type(L, index) == LUA_TNUMBER ? lua_tonumber(L, index) : 0;
  if (!(v >= 1) || v != (double)(int64_t)(v < 1e15 ? v : 1e15)) return false;
  *out = v > MOST ? MOST : (int)v;
  return true;
}

static int read_shape(TsLuaArgs *a, int index) {
  lua_State *L = a->L;
  bool table = lua_type(L, index) == LUA_TTABLE;
  int n = table ? (int)lua_objlen(L, index) : 1, v;
  if (n < 1 || n > 3) return wrong(a, SHAPE, index);
  for (int i = 0; i < n; i++) {
    if (table) lua_rawgeti(L, index, i + 1);
    bool good = whole(L, table ? -1 : index, &v);
    if (table) lua_pop(L, 1);
    if (!good) return wrong(a, SHAPE, index);
    *ts_choice_at(&a->choice, shape_field[i]) = v;
  }
  return 1;
}

int ts_lua_choose_option(TsLuaArgs *a, const char *name, int index) {
  int field = ts_choice_find(name), v;
  if (field < 0 && strcmp(name, SHAPE)) return 0;
  if (!a->chooses) a->choice = (TsSchedChoice){0};
  a->chooses = true;
  if (lua_isnil(a->L, index)) return 1;
  if (field < 0) return read_shape(a, index);
  if (!whole(a->L, index, &v)) return wrong(a, name, index);
  *ts_choice_at(&a->choice, field) = v;
  return 1;
}

/* Who leaves a call by a jump leaves the text behind: so it is no call's own. */
void ts_lua_choose_begin(TsLuaArgs *a) {
  static _Thread_local char text[256];
  TsText t = {0};
  a->c->choice = NULL;
  if (!a->chooses) return;
  ts_sched_choice_text(&a->choice, &t);
  if (t.len && t.len < sizeof text) a->c->choice = strcpy(text, t.at);
  ts_text_free(&t);
}

void ts_lua_choose_end(TsLuaArgs *a, bool ran) {
  TsContext *c = a->c;
  if (ran && c->choice && !c->capture && !c->device && ts_jit_is_verbose(c->jit)) {
    TsText t = {0};
    const char *where = c->where ? c->where(c->where_arg) : NULL;
    ts_text_format(&t,
                   "%s has no effect: the VM's own kernels run calls on the CPU; a captured "
                   "function has others",
                   c->choice);
    ts_jit_tell(c->jit, "remark", a->o->name, where ? where : "", t.at ? t.at : "");
    ts_text_free(&t);
  }
  c->choice = NULL;
}

/* ---- groups of functions */
typedef struct List {
  lua_State *L;
  int n;
} List;

static void set_text(lua_State *L, TsText *t, const char *name) {
  ts_lua_push_text(L, t);
  lua_setfield(L, -2, name);
}

/* What is free, with its limits, and what the kernel has. */
static void push_fields(lua_State *L, const TsJitGroup *x) {
  lua_newtable(L);
  lua_newtable(L);
  for (int i = 0; i < TS_CHOICE_FIELDS; i++) {
    TsChoiceRange r;
    int now = ts_choice_value(&x->group->choice, i);
    int took = x->kernel && x->kernel->told ? ts_choice_value(&x->kernel->took, i) : 0;
    if (took) now = took;
    if (now > 0) lua_pushinteger(L, now), lua_setfield(L, -2, ts_choice_name(i));
    if (!ts_choice_range(x->sched, x->group, i, &r) || took < 0) continue;
    TsText t = {0};
    ts_choice_range_text(&r, &t);
    ts_lua_push_text(L, &t);
    lua_setfield(L, -3, ts_choice_name(i));
  }
  lua_setfield(L, -3, "have");
  lua_setfield(L, -2, "can");
}

static void push_group(void *arg, const TsJitGroup *x) {
  List *l = arg;
  lua_State *L = l->L;
  const TsGroup *g = x->group;
  TsText what = {0}, choice = {0}, where = {0};
  lua_newtable(L);
  lua_pushinteger(L, g->index), lua_setfield(L, -2, "group");
  lua_pushstring(L, ts_group_kind_name(g->kind)), lua_setfield(L, -2, "kind");
  ts_sched_what(g, &what);
  set_text(L, &what, "what");
  ts_sched_where(g, &where);
  set_text(L, &where, "where");
  ts_sched_choice_text(&g->choice, &choice);
  set_text(L, &choice, "choice");
  lua_pushstring(L, ts_choice_origin(g->origin)), lua_setfield(L, -2, "origin");
  lua_pushstring(L, x->sched->target ? x->sched->target->name : ""),
      lua_setfield(L, -2, "target");
  lua_pushboolean(L, x->kernel != NULL), lua_setfield(L, -2, "kernel");
  lua_pushboolean(L, x->runs), lua_setfield(L, -2, "runs");
  lua_pushboolean(L, x->edited), lua_setfield(L, -2, "edited");
  if (g->remarks) lua_pushstring(L, g->remarks), lua_setfield(L, -2, "remarks");
  push_fields(L, x);
  lua_rawseti(L, -2, ++l->n);
}

int ts_lua_groups(lua_State *L, TsJitFunction *f) {
  lua_newtable(L);
  return ts_jit_groups(f, push_group, &(List){.L = L}) ? ts_lua_raise(L) : 1;
}

int ts_lua_choose(lua_State *L, TsJitFunction *f, int group, int index) {
  TsSchedChoice c = {0};
  bool some = !lua_isnoneornil(L, index);
  if (some) luaL_checktype(L, index, LUA_TTABLE);
  for (int i = 0; some && i < TS_CHOICE_FIELDS; i++) {
    lua_getfield(L, index, ts_choice_name(i));
    if (!lua_isnil(L, -1) && !whole(L, lua_gettop(L), ts_choice_at(&c, i)))
      return luaL_argerror(L, index, "no choice");
    lua_pop(L, 1);
  }
  return ts_jit_choose(f, group, some ? &c : NULL) ? ts_lua_raise(L) : 0;
}

/* choices() -> list of {name, help}: what may be free in some kernel */
static int choices(lua_State *L) {
  lua_newtable(L);
  for (int i = 0; i < TS_CHOICE_FIELDS; i++) {
    lua_newtable(L);
    lua_pushstring(L, ts_choice_name(i)), lua_setfield(L, -2, "name");
    lua_pushstring(L, ts_choice_help(i)), lua_setfield(L, -2, "help");
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

void ts_lua_open_choose(lua_State *L) {
  static const luaL_Reg functions[] = {{"choices", choices}, {NULL, NULL}};
  luaL_register(L, NULL, functions);
}
