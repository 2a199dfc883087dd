/* tessera.core for the debugger of kernels: what lib/lua/debug/kernel.lua stands on. Commands are asked of
 * a Lua function, which is called in the midst of a run. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "ir/tile/debug/debug.h"
#include "jit/code/catch.h"
#include "jit/code/kernel.h"
#include "jit/device/stand_in.h"
#include "jit/user/kernel.h"
#include "repl/display.h"
#include "repl/interrupt.h"
#include "repl/lua/text.h"
#include "repl/lua_api.h"

enum { PARAMS = 40, LINE = 512, ARGUMENTS = 5 };

/* One call of debug_*. options is a reference to the table: the stack is another function's where
 * the kernel of a captured function runs. */
typedef struct Job {
  lua_State *L;
  TsContext *c;
  int options;
  TsTileDebug *d;
  TsUserKernel *u;
  TsTensor *in[PARAMS], *out[PARAMS], *seen;
  char line[LINE];
  bool peeks, came, failed; /* failed: by an error of Lua, which is on the registry's top */
  TsTilePeek peek;
  char name[64];
  int error; /* a reference to it */
} Job;

/* ---- talking */
static bool option(Job *j, const char *name) {
  luaL_checkstack(j->L, 4, "options");
  lua_rawgeti(j->L, LUA_REGISTRYINDEX, j->options);
  lua_getfield(j->L, -1, name);
  lua_remove(j->L, -2);
  if (!lua_isnil(j->L, -1)) return true;
  lua_pop(j->L, 1);
  return false;
}

/* Calls the function on top with n arguments behind it; an error ends the run. */
static bool call(Job *j, int n, int results) {
  if (!lua_pcall(j->L, n, results, 0)) return true;
  if (!j->failed) j->error = luaL_ref(j->L, LUA_REGISTRYINDEX);
  if (j->failed) lua_pop(j->L, 1);
  j->failed = true;
  return false;
}

static const char *ask(void *with) {
  Job *j = with;
  if (j->failed || !option(j, "ask") || !call(j, 0, 1)) return j->failed ? "quit" : NULL;
  const char *text = lua_tostring(j->L, -1);
  if (text) {
    size_t n = strcspn(text, "\r\n");
    if (n >= sizeof j->line) n = sizeof j->line - 1;
    memcpy(j->line, text, n);
    j->line[n] = 0;
  }
  lua_pop(j->L, 1);
  return text ? j->line : NULL;
}

static void say(void *with, const char *text) {
  Job *j = with;
  if (j->failed || !option(j, "say")) return;
  lua_pushstring(j->L, text);
  call(j, 1, 0);
}

static TsTensor *tensor_of(Job *j, const TsTileSeen *seen) {
  TsMeta m = {.dtype = (uint8_t)seen->dtype, .ndim = (uint8_t)seen->rank};
  memcpy(m.dim, seen->dim, sizeof *m.dim * (size_t)seen->rank);
  TsTensor *t = ts_tensor_new(j->c, &m);
  void *to = t ? ts_tensor_write(t) : NULL;
  if (to) memcpy(to, seen->at, (size_t)ts_meta_nbytes(&m));
  return t;
}

static void show(void *with, const TsTileSeen *seen, TsText *text) {
  Job *j = with;
  TsTensor *t = tensor_of(j, seen);
  if (t) ts_display_tensor(j->c, t, ts_display_width(), text);
  ts_tensor_unref(t);
}

/* Where somebody is asked Ctrl-C only stops; else it ends the run, and is the error that it is. */
static bool interrupted(void *with) {
  Job *j = with;
  if (!ts_interrupt_wanted()) return false;
  if (option(j, "ask")) {
    lua_pop(j->L, 1);
    ts_interrupt_forget(j->L);
  }
  return true;
}

/* ---- options */
static int64_t whole(Job *j, const char *name, int64_t otherwise) {
  int64_t v = otherwise;
  if (!option(j, name)) return v;
  if (!lua_isnumber(j->L, -1) || !ts_lua_whole(lua_tonumber(j->L, -1), &v)) v = otherwise;
  lua_pop(j->L, 1);
  return v;
}

static void read_peek(Job *j) {
  j->peeks = true;
  int64_t line = whole(j, "line", 0);
  j->peek.line = line < 0 || line > INT_MAX ? INT_MAX : (int)line; /* no text has that one */
  j->peek.stage = whole(j, "stage", -1);
  if (option(j, "value")) {
    const char *v = lua_tostring(j->L, -1);
    if (v && strlen(v) < sizeof j->name)
      strcpy(j->name, v + (*v == '%')), j->peek.name = j->name;
    lua_pop(j->L, 1);
  }
  if (!option(j, "tile")) return;
  for (int i = 0; lua_istable(j->L, -1) && i < TS_TILE_RANK; i++) {
    lua_rawgeti(j->L, -1, i + 1);
    int64_t at;
    bool some = lua_isnumber(j->L, -1) && ts_lua_whole(lua_tonumber(j->L, -1), &at);
    if (some) j->peek.coord[j->peek.ncoord++] = at;
    lua_pop(j->L, 1);
    if (!some) break;
  }
  lua_pop(j->L, 1);
}

static void begin(Job *j, lua_State *L, int options) {
  luaL_checktype(L, options, LUA_TTABLE);
  lua_pushvalue(L, options);
  *j = (Job){.L = L, .c = ts_lua_context(L), .options = luaL_ref(L, LUA_REGISTRYINDEX)};
  if (option(j, "peek")) {
    lua_pop(L, 1);
    read_peek(j);
  }
}

static int open(Job *j, const char *text) {
  j->d = ts_tile_debug_open(text, &j->c->err);
  if (!j->d) return -1;
  bool talks = !j->peeks && option(j, "ask");
  if (talks) lua_pop(j->L, 1);
  TsTileDebugTalk talk = {j, talks ? ask : NULL, say, show, interrupted};
  ts_tile_debug_talk(j->d, &talk);
  return 0;
}

static int run(Job *j, void *const *arg, const int64_t *dim) {
  TsTileSeen seen;
  TsError *err = &j->c->err;
  if (!j->peeks) return ts_tile_debug_run(j->d, arg, dim, err);
  if (ts_tile_debug_peek(j->d, &j->peek, arg, dim, &seen, err)) return -1;
  j->seen = tensor_of(j, &seen);
  return j->seen ? 0 : -1;
}

static void end(Job *j) {
  ts_tile_debug_close(j->d);
  ts_user_kernel_unref(j->u);
  for (int i = 0; i < PARAMS; i++) ts_tensor_unref(j->in[i]), ts_tensor_unref(j->out[i]);
  ts_tensor_unref(j->seen);
  luaL_unref(j->L, LUA_REGISTRYINDEX, j->options);
}

/* ---- what comes out: a tensor, or the list of findings; then results; whether it was quit;
 * as far as what it looked, or nil */
static void push_findings(lua_State *L, const TsTileDebug *d) {
  lua_createtable(L, ts_tile_debug_count(d), 0);
  for (int i = 0; i < ts_tile_debug_count(d); i++) {
    const TsTileFinding *f = ts_tile_debug_finding(d, i);
    lua_createtable(L, 0, 4);
    lua_pushstring(L, f->kind);
    lua_setfield(L, -2, "kind");
    lua_pushinteger(L, f->line);
    lua_setfield(L, -2, "line");
    if (f->other) {
      lua_pushinteger(L, f->other);
      lua_setfield(L, -2, "other");
    }
    lua_pushstring(L, f->text);
    lua_setfield(L, -2, "text");
    lua_rawseti(L, -2, i + 1);
  }
}

static int finish(Job *j, int bad) {
  lua_State *L = j->L;
  int n = 0;
  bool failed = j->failed;
  if (!bad && !failed && j->peeks) {
    ts_lua_push(L, ts_tensor_ref(j->seen));
    n = 1;
  } else if (!bad && !failed) {
    push_findings(L, j->d);
    lua_newtable(L);
    for (int i = 0; i < PARAMS && j->out[i]; i++) {
      ts_lua_push(L, ts_tensor_ref(j->out[i]));
      lua_rawseti(L, -2, i + 1);
    }
    lua_pushboolean(L, ts_tile_debug_quit(j->d));
    lua_pushstring(L, ts_tile_debug_partly(j->d));
    n = 4;
  }
  int error = j->error;
  end(j);
  if (failed) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, error);
    luaL_unref(L, LUA_REGISTRYINDEX, error);
    return lua_error(L);
  }
  return bad ? ts_lua_raise(L) : n;
}

/* ---- a text on tensors of the program */
static int tensors(Job *j, const char *text, int64_t *dim) {
  TsTensor **given;
  const TsMeta *m[PARAMS] = {NULL};
  TsMeta type[PARAMS];
  TsError *err = &j->c->err;
  int n = ts_lua_list(j->L, 2, "a kernel", &given);
  TsTile *k = ts_tile_parse(text, err);
  if (!k || !(j->u = ts_user_kernel_new(k, true, err))) return -1;
  k = (TsTile *)(uintptr_t)ts_user_kernel_tile(j->u);
  for (int i = 0; i < n && i < PARAMS; i++) m[i] = &given[i]->meta;
  if (ts_user_kernel_infer(j->u, n, m, dim, type, err)) return -1;
  for (int i = 0; i < k->nin; i++)
    if (!(j->in[i] = ts_tensor_contiguous(j->c, given[i]))) return -1;
  for (int i = 0; i < k->nparam - k->nin; i++) {
    type[i].device = 0;
    if (!(j->out[i] = ts_tensor_new(j->c, &type[i]))) return -1;
  }
  return 0;
}

/* What a kernel does not write is seen as NaN, or -1; counters begin as zeros. */
static int arguments(Job *j, void **arg) {
  const TsTile *k = ts_user_kernel_tile(j->u);
  for (int i = 0; i < k->nparam; i++) {
    int o = i - k->nin;
    arg[i] = o < 0 ? (void *)(uintptr_t)ts_tensor_read(j->in[i]) : ts_tensor_write(j->out[o]);
    if (!arg[i]) return -1;
    bool counter = k->form == TS_FORM_explicit && k->param[i]->type.dtype == TS_DT_i32;
    if (o >= 0) memset(arg[i], counter ? 0 : 0xff, (size_t)ts_meta_nbytes(&j->out[o]->meta));
  }
  return 0;
}

/* debug_kernel(text, {inputs}, {sizes}, options) */
static int debug_kernel(lua_State *L) {
  Job j;
  void *arg[PARAMS];
  int64_t dim[TS_TILE_DIMS];
  const char *text = ts_lua_check_text(L, 1, "debug.kernel");
  ts_lua_kernel_sizes(L, 3, dim);
  begin(&j, L, 4);
  int bad = tensors(&j, text, dim) || open(&j, text) || arguments(&j, arg) || run(&j, arg, dim);
  return finish(&j, bad);
}

/* ---- a kernel of a function, on what the function gives it */
static int run_copies(void *with, const TsTile *k, void *const *at, const int64_t *dim,
                      TsError *err) {
  (void)k, (void)err;
  return run(with, at, dim);
}

static int look(void *with, TsDevice *d, void *const *arg, const int64_t *dim, TsError *err) {
  Job *j = with;
  const TsCatch *own = ts_catch;
  if (j->came) return 0;
  j->came = true;
  ts_catch = NULL; /* what is shown runs kernels, too */
  int bad =
      ts_stand_in_here(d, ts_tile_debug_kernel(j->d), arg, dim, run_copies, j, false, err);
  ts_catch = own;
  return bad;
}

/* debug_caught(text, f, nil, options): calls f, in whose run the kernel is looked at when it first
 * runs; nothing if it does not. */
static int debug_caught(lua_State *L) {
  Job j;
  const char *text = ts_lua_check_text(L, 1, "debug.kernel");
  TsCatch all = {.with = &j, .look = look};
  const TsCatch *outer = ts_catch;
  begin(&j, L, 4);
  if (open(&j, text)) return finish(&j, -1);
  ts_tile_debug_results(j.d, true);
  ts_kernel_digest(ts_tile_debug_kernel(j.d), all.key);
  ts_catch = &all;
  lua_pushvalue(L, 2);
  bool good = call(&j, 0, 0);
  ts_catch = outer;
  if (good && !j.came) {
    end(&j);
    return 0;
  }
  return finish(&j, 0);
}

/* debug_about(text): {name of the kernel, {names of parameters}, {names of sizes}, inputs} */
static int debug_about(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsTile *k = ts_tile_parse(ts_lua_check_text(L, 1, "debug.kernel"), &c->err);
  if (!k || ts_tile_check(k, NULL, &c->err)) return ts_tile_free(k), ts_lua_raise(L);
  lua_pushstring(L, k->name);
  lua_newtable(L);
  for (int i = 0; i < k->nparam; i++) {
    const TsTileType *t = &k->param[i]->type;
    lua_newtable(L);
    lua_pushstring(L, k->param[i]->name);
    lua_setfield(L, -2, "name");
    lua_pushstring(L, ts_dtype_name((TsDtype)t->dtype));
    lua_setfield(L, -2, "dtype");
    for (int a = 0; a < t->rank; a++) {
      if (ts_tile_dim_is(t->dim[a]))
        lua_pushstring(L, k->dim[ts_tile_dim_index(t->dim[a])]);
      else
        lua_pushnumber(L, (lua_Number)t->dim[a]);
      lua_rawseti(L, -2, a + 1);
    }
    lua_rawseti(L, -2, i + 1);
  }
  lua_newtable(L);
  for (int i = 0; i < k->ndim; i++) {
    lua_pushstring(L, k->dim[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushinteger(L, k->nin);
  ts_tile_free(k);
  return 4;
}

void ts_lua_open_debug(lua_State *L) {
  static const luaL_Reg functions[] = {{"debug_kernel", debug_kernel},
                                       {"debug_caught", debug_caught},
                                       {"debug_about", debug_about},
                                       {NULL, NULL}};
  luaL_register(L, NULL, functions);
}
