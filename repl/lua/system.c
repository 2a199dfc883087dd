/* tessera.core beside the operators: tensors from values, threads, memory,
 * devices, hashes, the generator, the numerics profile. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/aside.h"
#include "devices/cpu_pool.h"
#include "devices/device.h"
#include "devices/memory.h"
#include "devices/sim.h"
#include "devices/work.h"
#include "jit/collective/collective.h"
#include "jit/jit.h"
#include "lib/arena.h"
#include "lib/text.h"
#include "repl/help.h"
#include "repl/interrupt.h"
#include "repl/lua_api.h"
#include "repl/report.h"
#include "repl/run.h"
#include "repl/tail.h"
#include "vm/core/defer.h"
#include "vm/fft/fft.h"
#include "vm/gemm/gemm.h"
#include "vm/core/offload.h"

typedef struct TensorOptions {
  TsDtype dtype;
  int device;
  bool requires_grad;
} TensorOptions;

static const char *nth_tensor_option(const void *arg, int i) {
  static const char *const names[] = {"dtype", "device", "requires_grad"};
  (void)arg;
  return names[i];
}

static int option_type(lua_State *L, const char *name, const char *wanted) {
  return ts_lua_fail(L, TS_ERR_attribute, "tensor: %s must be a %s, not a %s", name, wanted,
                     luaL_typename(L, -1));
}

/* The option whose value is on top of the stack. */
static int read_option(lua_State *L, const char *name, TensorOptions *o) {
  TsContext *c = ts_lua_context(L);
  const char *word = lua_type(L, -1) == LUA_TSTRING ? ts_lua_word(L, -1) : NULL;
  if (!strcmp(name, "requires_grad")) {
    if (!lua_isboolean(L, -1)) return option_type(L, name, "boolean");
    o->requires_grad = lua_toboolean(L, -1);
  } else if (!strcmp(name, "dtype")) {
    if (!word) return option_type(L, name, "string");
    o->dtype = ts_dtype_parse(word, (int)strlen(word));
    if (o->dtype == TS_DT_none)
      return ts_lua_fail(L, TS_ERR_dtype, "tensor: there is no dtype '%s'", word);
  } else if (!strcmp(name, "device")) {
    if (!word) return option_type(L, name, "string");
    TsDevice *at = ts_device_find(word, &c->err);
    if (!at || ts_device_use(at, &c->err)) return ts_lua_raise(L);
    o->device = at->index;
  } else {
    const char *guess = ts_text_closest(name, 3, nth_tensor_option, NULL);
    ts_error_set(&c->err, TS_ERR_attribute, "tensor: unknown option '%s'", name);
    if (guess)
      ts_error_hint(&c->err, "did you mean '%s'?", guess);
    else
      ts_error_hint(&c->err, "options are dtype, device and requires_grad");
    return ts_lua_raise(L);
  }
  return 0;
}

/* Of the table at index those keys that are words, which may also stand beside the numbers. */
static void read_options(lua_State *L, int index, TensorOptions *o) {
  for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
    if (lua_type(L, -2) == LUA_TSTRING)
      read_option(L, lua_tostring(L, -2), o);
    else if (index == 2)
      ts_lua_fail(L, TS_ERR_attribute, "tensor: options have names: {dtype = \"f64\"}");
  }
}

/* tensor(value [, {dtype=, device=, requires_grad=}]), or tensor{1, 2, dtype = ..} */
static int tensor(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TensorOptions o = {.dtype = TS_DT_none, .device = c->device};
  if (lua_gettop(L) > 2)
    return ts_lua_fail(L, TS_ERR_argument,
                       "tensor: %d arguments given, takes a value and options", lua_gettop(L));
  lua_settop(L, 2);
  if (!lua_isnil(L, 2) && !lua_istable(L, 2)) {
    ts_error_set(&c->err, TS_ERR_argument, "tensor: options are a table, not a %s",
                 luaL_typename(L, 2));
    ts_error_hint(&c->err, "tensor(value, {dtype = \"f64\"})");
    return ts_lua_raise(L);
  }
  if (lua_istable(L, 1)) read_options(L, 1, &o);
  if (lua_istable(L, 2)) read_options(L, 2, &o);
  TsDtype d = o.dtype;
  int device = o.device;
  TsTensor *t = ts_lua_tensor(L, 1);
  t = t ? ts_tensor_cast(c, t, d == TS_DT_none ? ts_tensor_dtype(t) : d)
        : ts_lua_from_value(L, 1, d, "tensor");
  if (!t) return ts_lua_raise(L);
  if (!t->meta.device && t->refs == 1) t->meta.device = (uint8_t)device;
  ts_lua_push(L, t);
  if (o.requires_grad) { /* as x.requires_grad = true, with its errors */
    lua_pushboolean(L, true);
    lua_setfield(L, -2, "requires_grad");
  }
  return 1;
}

/* Upvalue-free: the dtype of from_bytes by its name at a stack index. */
static TsDtype check_dtype(lua_State *L, int index) {
  const char *name = ts_lua_word(L, index);
  TsDtype d = ts_dtype_parse(name, (int)strlen(name));
  if (d == TS_DT_none) ts_lua_fail(L, TS_ERR_dtype, "there is no dtype '%s'", name);
  return d;
}

static TsMeta check_meta(lua_State *L, int dtype, int shape, const char *what) {
  TsMeta m = {.dtype = (uint8_t)check_dtype(L, dtype)};
  luaL_checktype(L, shape, LUA_TTABLE);
  int n = (int)lua_objlen(L, shape);
  if (n > TS_MAX_RANK) ts_lua_fail(L, TS_ERR_shape, "%s: more than %d axes", what, TS_MAX_RANK);
  m.ndim = (uint8_t)n;
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, shape, i + 1);
    if (!ts_lua_whole(lua_tonumber(L, -1), &m.dim[i]))
      ts_lua_fail(L, TS_ERR_shape, "%s: a size is a whole number", what);
    lua_pop(L, 1);
  }
  if (ts_meta_check_size(&m, what, &ts_lua_context(L)->err)) ts_lua_raise(L);
  return m;
}

/* from_bytes(string, dtype, shape [, offset]): elements copied out of a string. */
static int from_bytes(lua_State *L) {
  size_t len;
  const char *s = luaL_checklstring(L, 1, &len);
  TsMeta m = check_meta(L, 2, 3, "from_bytes");
  double offset = luaL_optnumber(L, 4, 0);
  int64_t need = ts_meta_nbytes(&m);
  if (!(offset >= 0 && offset + (double)need <= (double)len))
    return ts_lua_fail(L, TS_ERR_value, "from_bytes: %lld bytes needed, %.0f given",
                       (long long)need, (double)len - offset);
  TsTensor *t = ts_tensor_new(ts_lua_context(L), &m);
  if (!t) return ts_lua_raise(L);
  memcpy(t->storage->host, s + (size_t)offset, (size_t)need);
  if (m.dtype == TS_DT_bool) ts_bools_tidy(t->storage->host, need);
  ts_lua_push(L, t);
  return 1;
}

static int is_tensor(lua_State *L) {
  lua_pushboolean(L, ts_lua_tensor(L, 1) != NULL);
  return 1;
}

static int threads(lua_State *L) {
  if (!lua_isnoneornil(L, 1)) ts_cpu_set_threads((int)luaL_checkinteger(L, 1));
  lua_pushinteger(L, ts_cpu_threads());
  return 1;
}

/* fail(message): an error at the program's line, whatever of ours stands between. */
static int fail(lua_State *L) {
  return ts_lua_fail(L, TS_ERR_argument, "%s", luaL_checkstring(L, 1));
}

/* Negative numbers count from 2^64 down. */
static uint64_t check_u64(lua_State *L, int index, const char *function) {
  if (!lua_isnumber(L, index))
    ts_lua_fail(L, TS_ERR_argument, "%s: a number is needed, not %s", function,
                lua_isnoneornil(L, index) ? "nothing" : luaL_typename(L, index));
  double v = lua_tonumber(L, index);
  if (!(v >= -0x1p63 && v < 0x1p64) || v != trunc(v))
    ts_lua_fail(L, TS_ERR_value, "%s: a seed has at most 64 bits and no fraction, not %.14g",
                function, v);
  return v < 0 ? (uint64_t)(int64_t)v : (uint64_t)v;
}

/* It would be set when the function is captured, and no more when it runs. */
static void need_running(lua_State *L, TsContext *c) {
  if (!c->capture) return;
  ts_error_set(&c->err, TS_ERR_value, "rng.seed: it cannot be set in a captured function");
  ts_error_hint(&c->err, "set it before the call, or give draws {seed = n, stream = k}");
  ts_lua_raise(L);
}

static int seed(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  need_running(L, c);
  c->seed = check_u64(L, 1, "rng.seed");
  c->stream = 0;
  return 0;
}

/* keep_line(f) -> f: the library's function or callable table f keeps the line of its call
 * where that is a tail call. keep_line(t, true): those in the table as well. */
static int keep_line(lua_State *L) {
  bool all = lua_istable(L, 1) && lua_toboolean(L, 2);
  lua_settop(L, 1);
  ts_tail_keep(L, 1, all);
  return 1;
}

/* keep_method(class, name, value): class[name] = value; a function of the library keeps the
 * line of its call. */
static int keep_method(lua_State *L) {
  lua_Debug ar;
  lua_settop(L, 3);
  lua_pushvalue(L, 3);
  if (lua_isfunction(L, 3) && lua_getinfo(L, ">S", &ar) && !strncmp(ar.source, "=tessera", 8))
    ts_tail_keep(L, 3, false);
  lua_settop(L, 3);
  lua_rawset(L, 1);
  return 0;
}

static int rng_state(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  if (lua_gettop(L) >= 2) {
    need_running(L, c);
    c->seed = check_u64(L, 1, "rng.state");
    c->stream = check_u64(L, 2, "rng.state");
  }
  lua_pushnumber(L, (double)c->seed);
  lua_pushnumber(L, (double)c->stream);
  return 2;
}

static int isa(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  if (!lua_isnoneornil(L, 1)) {
    const char *name = ts_lua_word(L, 1);
    const TsKernels *k = ts_kernels_use(name);
    if (!k) return ts_lua_fail(L, TS_ERR_device, "this CPU has no instruction set '%s'", name);
    bool other = k != c->k;
    c->k = k;
    if (other && c->jit) ts_jit_flush(c->jit); /* compiled code is for the same */
  }
  lua_pushstring(L, c->k->isa);
  return 1;
}

static int memory(lua_State *L) {
  TsMemoryStats s = ts_memory_stats();
  lua_createtable(L, 0, 4);
  lua_pushnumber(L, (double)ts_lua_context(L)->live_bytes);
  lua_setfield(L, -2, "live");
  lua_pushnumber(L, (double)s.live);
  lua_setfield(L, -2, "held");
  lua_pushnumber(L, (double)s.peak);
  lua_setfield(L, -2, "peak");
  lua_pushnumber(L, (double)s.cached);
  lua_setfield(L, -2, "cached");
  return 1;
}

static int trim(lua_State *L) {
  ts_lua_release_traces(L);
  ts_fft_clear();
  ts_memory_trim();
  ts_work_trim();
  for (int i = 0; i < TS_MAX_DEVICES; i++) {
    TsDevice *d = ts_device_at(i);
    if (d->opened && d->trim) d->trim(d);
  }
  return 0;
}

/* fail_after(n): the n-th allocation from now fails; 0: none. Gives what is left of the number
 * before, -1 if it has come. fail_after(n, "on"): and all behind it; "elsewhere": of the
 * threads that compile; "lua": of Lua's own. */
static int fail_after(lua_State *L) {
  static const char *const how[] = {"once", "on", "elsewhere", "lua", NULL};
  int64_t n = (int64_t)luaL_checknumber(L, 1);
  int way = luaL_checkoption(L, 2, "once", how);
  if (way == 2) return ts_memory_fail_elsewhere(n), 0;
  lua_pushnumber(L,
                 (double)(way == 3 ? ts_lua_fail_after(n) : ts_memory_fail_after(n, way == 1)));
  return 1;
}

/* sim_fail("sim:1", "launch", n [, "lost"]): the n-th of these calls from now fails on a
 * simulated GPU; lost: and all behind it; 0: it works again. "upload", "download", "copy",
 * "open" (kernels, from the n-th on) likewise; "miss": of those that meet other devices, it
 * never comes. Gives what is left of the number before. sim_fail("link", off): simulated GPUs
 * do not reach each other's memory, if nobody has asked yet. */
static int sim_fail(lua_State *L) {
  static const char *const calls[] = {"launch", "upload", "download", "copy",
                                      "open",   "miss",   NULL};
  TsContext *c = ts_lua_context(L);
  const char *name = luaL_checkstring(L, 1);
  if (!strcmp(name, "link")) return ts_sim_link(!lua_toboolean(L, 2)), 0;
  TsDevice *d = ts_device_find(name, &c->err);
  if (!d) return ts_lua_raise(L);
  luaL_argcheck(L, d->simulated, 1, "no simulated device");
  int call = luaL_checkoption(L, 2, "launch", calls);
  int64_t n = (int64_t)luaL_checknumber(L, 3);
  lua_pushnumber(L, (double)ts_sim_fail_after(d, (TsSimCall)call, n, lua_isstring(L, 4)));
  return 1;
}

/* meets([on]): whether GPUs add up by kernels that meet, else step by step; how many such sums
 * were queued, why the last one that went step by step did so, how many sections devices had
 * beside their own work, and how many meetings there were. */
static int meets(lua_State *L) {
  if (!lua_isnone(L, 1)) ts_collective_use(lua_toboolean(L, 1));
  lua_pushnumber(L, (double)ts_collective_count());
  lua_pushstring(L, ts_collective_why());
  lua_pushnumber(L, (double)ts_device_aside_count());
  lua_pushnumber(L, (double)ts_collective_meetings());
  return 4;
}

/* interrupt_after(n): Ctrl-C at the n-th allocation from now; interrupt_after(n,
 * "instructions"): at that of Lua's; "looks": at the n-th time that an operator looks for one;
 * 0: none, and the one that was is over. Gives what is left of the number before, of that kind,
 * <= 0 if it has come. */
static int interrupt_after(lua_State *L) {
  static const char *const kinds[] = {"allocations", "instructions", "looks", NULL};
  enum { ALLOCATIONS, INSTRUCTIONS, LOOKS };
  int64_t n = (int64_t)luaL_checknumber(L, 1);
  int kind = luaL_checkoption(L, 2, "allocations", kinds);
  int64_t allocations = ts_memory_call_after(kind == ALLOCATIONS ? n : 0, ts_interrupt_ask);
  int64_t looks = ts_cpu_call_at_look(kind == LOOKS ? n : 0, ts_interrupt_ask);
  if (!n)
    ts_interrupt_forget(L);
  else if (kind == INSTRUCTIONS)
    ts_interrupt_ask_after(L, (int)n);
  lua_pushnumber(L, (double)(kind == LOOKS ? looks : allocations));
  return 1;
}

/* arena_single(on): each allocation of an arena may be the one that fails. */
static int arena_single(lua_State *L) {
  ts_arena_single(lua_toboolean(L, 1));
  return 0;
}

/* memory_left([n]) -> bytes that the program may take; n: as if so many were left
 * and nothing came back, for all but Lua itself; -1: no more. */
static int memory_left(lua_State *L) {
  if (!lua_isnoneornil(L, 1)) ts_memory_pretend((int64_t)luaL_checknumber(L, 1));
  lua_pushnumber(L, (double)ts_memory_left());
  return 1;
}

static int poison(lua_State *L) {
  ts_memory_poison((int)luaL_checknumber(L, 1));
  return 0;
}

/* Of a GPU: the row of its code (devices/target.h), whether it has the matrix unit for which
 * all of 16 bits is made, and whether launches are of many runs. */
static void put_target(lua_State *L, const TsTarget *t) {
  if (!ts_target_gpu(t)) return;
  lua_pushstring(L, t->name), lua_setfield(L, -2, "target");
  lua_pushboolean(L, ts_target_has(t, TS_UNIT_mma)), lua_setfield(L, -2, "mma");
  lua_pushboolean(L, !t->portable), lua_setfield(L, -2, "together");
}

static int devices(lua_State *L) {
  lua_newtable(L);
  for (int i = 0; i < ts_device_count(); i++) {
    TsDevice *d = ts_device_at(i);
    char text[160] = "";
    if (d->describe) d->describe(d, text, sizeof text);
    lua_createtable(L, 0, 4);
    lua_pushnumber(L, (double)d->live);
    lua_setfield(L, -2, "live");
    lua_pushnumber(L, (double)d->peak);
    lua_setfield(L, -2, "peak");
    lua_pushstring(L, d->name);
    lua_setfield(L, -2, "name");
    lua_pushstring(L, text);
    lua_setfield(L, -2, "text");
    if (d->no_clock) lua_pushstring(L, d->no_clock), lua_setfield(L, -2, "no_clock");
    put_target(L, ts_target_of(d));
    lua_rawseti(L, -2, i + 1);
  }
  lua_newtable(L);
  const char *why, *kind;
  for (int i = 0; (kind = ts_device_missing(i, &why)); i++) {
    lua_pushstring(L, why);
    lua_setfield(L, -2, kind);
  }
  lua_setfield(L, -2, "missing");
  return 1;
}

/* default_device([name]) -> the name before; "auto": the CPU, and what pays moves by itself. */
static int default_device(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  const char *before = c->device_auto ? "auto" : ts_device_at(c->device)->name;
  if (!lua_isnoneornil(L, 1)) {
    const char *name = ts_lua_word(L, 1);
    bool automatic = !strcmp(name, "auto");
    TsDevice *d = automatic ? ts_device_at(0) : ts_device_find(name, &c->err);
    if (!d || ts_defer_settle(c, true) || ts_device_use(d, &c->err)) return ts_lua_raise(L);
    c->device = d->index;
    c->device_auto = automatic;
  }
  lua_pushstring(L, before);
  return 1;
}

/* synchronize([device]): waits for what is queued on it, or on every device in use. */
static int synchronize(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsDevice *only = NULL;
  if (!lua_isnoneornil(L, 1) && !(only = ts_device_find(ts_lua_word(L, 1), &c->err)))
    return ts_lua_raise(L);
  if (ts_defer_settle(c, true)) return ts_lua_raise(L);
  for (int i = 0; i < TS_MAX_DEVICES; i++) {
    TsDevice *d = ts_device_at(i);
    if ((only && d != only) || !d->opened || !d->synchronize) continue;
    if (c->offload && c->offload->flush(c, true)) return ts_lua_raise(L);
    if (d->synchronize(d, &c->err)) return ts_lua_raise(L);
  }
  return 0;
}

static int profile(lua_State *L) {
  static const char *const names[] = {"strict", "deterministic", "fast", NULL};
  TsContext *c = ts_lua_context(L);
  const char *old = names[c->profile];
  if (ts_defer_settle(c, true)) return ts_lua_raise(L);
  if (!lua_isnoneornil(L, 1)) c->profile = (TsProfile)luaL_checkoption(L, 1, NULL, names);
  lua_pushstring(L, old);
  return 1;
}

/* The last n records of the trace ring, newest first: operator names. */
static int trace(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  lua_createtable(L, 0, 2);
  lua_pushnumber(L, (double)c->trace.count);
  lua_setfield(L, -2, "count");
  if (c->trace.count) {
    TsTraceHead h = ts_trace_head(&c->trace, c->trace.last);
    lua_pushstring(L, ts_op_info((TsOp)h.op)->name);
    lua_setfield(L, -2, "last");
  }
  return 1;
}

/* wrapped(words, column, indent, width): lines, the first of which begins at the column. */
static int wrapped(lua_State *L) {
  TsText t = {0};
  ts_help_wrap(&t, luaL_checkstring(L, 1), (int)luaL_checkinteger(L, 2),
               (int)luaL_checkinteger(L, 3), (int)luaL_checkinteger(L, 4));
  ts_lua_push_text(L, &t);
  return 1;
}

static int help(lua_State *L) {
  TsText t = {0};
  int failed = ts_help_operator(luaL_checkstring(L, 1), (int)luaL_optinteger(L, 2, 80), &t);
  ts_lua_push_text(L, &t);
  lua_pushboolean(L, !failed);
  return 2;
}

static const char *word_of(const void *L, int i) {
  lua_State *l = (lua_State *)(uintptr_t)L;
  lua_rawgeti(l, 2, i + 1);
  const char *word = lua_tostring(l, -1);
  lua_pop(l, 1); /* the list holds it */
  return word ? word : "";
}

/* suggest(name [, words]) -> the operator, or the word, that is closest to a wrong one, or
 * nil */
static int suggest(lua_State *L) {
  const char *wanted = luaL_checkstring(L, 1), *name;
  if (lua_istable(L, 2))
    name = ts_text_closest(wanted, (int)lua_objlen(L, 2), word_of, L);
  else
    name = ts_op_suggest(wanted);
  if (name) lua_pushstring(L, name);
  return name != NULL;
}

/* elsewhere(table, name) -> what is here for a name that other libraries have there, or nil */
static int elsewhere(lua_State *L) {
  const char *hint = ts_lua_elsewhere(luaL_checkstring(L, 1), luaL_checkstring(L, 2));
  if (hint) lua_pushstring(L, hint);
  return hint != NULL;
}

static int display(lua_State *L) {
  TsText t = {0};
  ts_display_tensor(ts_lua_context(L), ts_lua_check_tensor(L, 1, "display"),
                    (int)luaL_optinteger(L, 2, 80), &t);
  ts_lua_push_text(L, &t);
  return 1;
}

/* The operator table for Lua: documentation, tests and tools read it. */
static int operators(lua_State *L) {
  lua_newtable(L);
  for (int i = 0; i < TS_OP_COUNT; i++) {
    const TsOpInfo *o = ts_op_info((TsOp)i);
    lua_createtable(L, 0, 8);
#define FIELD(name, value) (lua_pushstring(L, value), lua_setfield(L, -2, name))
    FIELD("name", o->name);
    FIELD("class", ts_op_class_name((TsClass)o->cls));
    FIELD("inputs", o->inputs);
    FIELD("attrs", o->attrs);
    FIELD("help", o->help);
    FIELD("family", o->family);
    FIELD("adjoint", o->adjoint);
#undef FIELD
    lua_pushinteger(L, o->types);
    lua_setfield(L, -2, "types");
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static int dtypes(lua_State *L) {
  lua_newtable(L);
  for (int i = 0; i < TS_DT_COUNT; i++) {
    lua_createtable(L, 0, 6);
#define FIELD(name, value) (lua_pushstring(L, value), lua_setfield(L, -2, name))
    FIELD("name", ts_dtypes[i].name);
    FIELD("npy", ts_dtypes[i].npy);
    FIELD("safetensors", ts_dtypes[i].safetensors);
    FIELD("help", ts_dtypes[i].help);
#undef FIELD
    lua_pushinteger(L, ts_dtypes[i].nbytes);
    lua_setfield(L, -2, "nbytes");
    lua_pushinteger(L, ts_dtypes[i].block);
    lua_setfield(L, -2, "block");
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

void ts_lua_open_system(lua_State *L) {
  static const luaL_Reg system[] = {{"tensor", tensor},
                                    {"fail", fail},
                                    {"from_bytes", from_bytes},
                                    {"is_tensor", is_tensor},
                                    {"threads", threads},
                                    {"seed", seed},
                                    {"rng_state", rng_state},
                                    {"keep_line", keep_line},
                                    {"keep_method", keep_method},
                                    {"keep_calls", ts_report_keep},
                                    {"isa", isa},
                                    {"memory", memory},
                                    {"trim", trim},
                                    {"fail_after", fail_after},
                                    {"sim_fail", sim_fail},
                                    {"meets", meets},
                                    {"poison", poison},
                                    {"interrupt_after", interrupt_after},
                                    {"memory_left", memory_left},
                                    {"arena_single", arena_single},
                                    {"devices", devices},
                                    {"default_device", default_device},
                                    {"synchronize", synchronize},
                                    {"profile", profile},
                                    {"trace", trace},
                                    {"help", help},
                                    {"wrapped", wrapped},
                                    {"display", display},
                                    {"operators", operators},
                                    {"dtypes", dtypes},
                                    {"suggest", suggest},
                                    {"elsewhere", elsewhere},
                                    {NULL, NULL}};
  luaL_register(L, NULL, system);
  lua_pushliteral(L, TS_VERSION);
  lua_setfield(L, -2, "version");
}
