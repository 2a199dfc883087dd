/* The program: its options, then code from -e, a script, or the prompt. */
#include <errno.h>
#include <lauxlib.h>
#include <luajit.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "devices/cpu_pool.h"
#include "devices/device.h"
#include "jit/jit.h"
#include "jit/mesh/region.h"
#include "lib/text.h"
#include "net/flight.h"
#include "net/launch.h"
#include "net/world.h"
#include "repl/checkpoint.h"
#include "repl/forget.h"
#include "repl/globals.h"
#include "repl/interrupt.h"
#include "repl/lua_api.h"
#include "repl/models.h"
#include "repl/options.h"
#include "repl/prompt.h"
#include "repl/run.h"
#include "repl/tail.h"

/* ---- the parts that look like luajit's */
/* arg[0] is the script, arg[1] its first argument, arg[-1] what stands before it. */
static void set_arg(lua_State *L, const TsOptions *o) {
  lua_createtable(L, o->argc - o->script, o->script + 1);
  for (int i = 0; i < o->argc; i++) {
    lua_pushstring(L, o->argv[i]);
    lua_rawseti(L, -2, i - o->script);
  }
  lua_setglobal(L, "arg");
}

static int run_init(lua_State *L) {
  const char *init = getenv("LUA_INIT");
  int base = lua_gettop(L);
  if (!init || !*init) return TS_EXIT_OK;
  int code = TS_EXIT_OK;
  if (*init == '@') {
    code = ts_run_script(L, init + 1, NULL);
  } else if (ts_run_load(L, init, strlen(init), "=LUA_INIT")) {
    ts_run_explain(L, "=LUA_INIT");
    ts_run_print(L);
    code = TS_EXIT_ERROR;
  } else if (ts_run_call(L, 0, 0)) {
    ts_run_print(L);
    code = TS_EXIT_ERROR;
  }
  lua_settop(L, base);
  return code;
}

/* -jv tells what our tiers do. The others are LuaJIT's: -jon, -joff, -jflush; -jv=file: the
 * module jit.v started with its arguments. */
static int run_jit(lua_State *L, const char *command) {
  char name[64];
  if (!strcmp(command, "v")) {
    ts_jit_verbose(ts_lua_context(L)->jit, true);
    return TS_EXIT_OK;
  }
  int n = (int)strcspn(command, "=");
  snprintf(name, sizeof name, "%.*s", n, command);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "jit");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, name);
  if (lua_isfunction(L, -1)) {
    if (!ts_run_call(L, 0, 0)) return TS_EXIT_OK;
    ts_run_print(L);
    return TS_EXIT_ERROR;
  }
  char module[80];
  snprintf(module, sizeof module, "jit.%s", name);
  if (!ts_run_embeds(module)) {
    fprintf(stderr, "tessera: -j%s: LuaJIT has no module '%s'\n", command, module);
    return TS_EXIT_ERROR;
  }
  if (ts_run_require(L, module)) return TS_EXIT_ERROR;
  lua_getfield(L, -1, "start");
  int count = 0;
  for (const char *p = command + n; *p == '=' || *p == ','; count++) {
    size_t size = strcspn(++p, ",");
    lua_pushlstring(L, p, size);
    p += size;
  }
  if (!ts_run_call(L, count, 0)) return TS_EXIT_OK;
  ts_run_print(L);
  return TS_EXIT_ERROR;
}

static int optimise(lua_State *L, const char *level) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "jit.opt");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "start");
  int count = 0;
  for (const char *p = level; *p; count++) {
    size_t size = strcspn(p, ",");
    lua_pushlstring(L, p, size);
    p += size + (p[size] == ',');
  }
  if (!count) lua_pushliteral(L, "3"), count = 1;
  if (!ts_run_call(L, count, 0)) return TS_EXIT_OK;
  ts_run_print(L);
  return TS_EXIT_ERROR;
}

static int require_module(lua_State *L, const char *module) {
  int code = ts_run_require(L, module);
  if (code || strcmp(module, "tessera")) return code;
  lua_setglobal(L, "tessera");
  ts_globals_add(L);
  return TS_EXIT_OK;
}

/* ---- settings of ours */
static int failed(TsContext *c, const char *option) {
  fprintf(stderr, "tessera: %s: %s\n", option, c->err.message);
  if (c->err.hint[0]) fprintf(stderr, "  hint: %s\n", c->err.hint);
  return TS_EXIT_ERROR;
}

static int apply(TsContext *c, const TsOptions *o) {
  c->trap = o->nan_trap;
  if (o->no_hints) ts_prompt_set_hints(false);
  if (o->no_jit) ts_jit_enable(c->jit, false);
  if (o->threads >= 0) ts_cpu_set_threads(o->threads);
  if (o->devices && ts_device_configure(o->devices, &c->err)) return failed(c, "--devices");
  if (!o->isa) return TS_EXIT_OK;
  const TsKernels *k = ts_kernels_use(o->isa);
  if (!k) {
    ts_error_set(&c->err, TS_ERR_device, "this CPU has no instruction set '%s'", o->isa);
    ts_error_hint(&c->err, "avx512, avx2 and base are known; the best one is the default");
    return failed(c, "--isa");
  }
  c->k = k;
  ts_jit_flush(c->jit); /* compiled code is for the same */
  return TS_EXIT_OK;
}

/* ---- what was asked for, in order */
static int run_steps(lua_State *L, const TsOptions *o) {
  int code = TS_EXIT_OK, number = 0;
  for (int i = 0; i < o->nsteps && !code; i++) {
    const TsStep *s = &o->step[i];
    int base = lua_gettop(L);
    bool last = i + 1 == o->nsteps && o->script == o->argc;
    switch (s->kind) {
    case 'e': code = ts_run_code(L, s->value, ++number); break;
    case 'l': code = require_module(L, s->value); break;
    case 'j': code = run_jit(L, s->value); break;
    default: code = optimise(L, s->value); break;
    }
    if (!code && last && s->kind == 'e' && o->hash) code = ts_run_print_hashes(L, base + 1);
    lua_settop(L, base);
  }
  return code;
}

static int run_file(lua_State *L, const TsOptions *o, const char *path) {
  int base = lua_gettop(L);
  int code = ts_run_script(L, path, path ? o->argv + o->script : NULL);
  if (!code && o->hash) code = ts_run_print_hashes(L, base + 1);
  lua_settop(L, base);
  return code;
}

/* ---- kernels that are debugged: lib/lua/debug/kernel.lua */
static bool debugs(lua_State *L, const char *function) {
  if (ts_run_require(L, "tessera.debug.kernel")) return false;
  lua_getfield(L, -1, function);
  lua_remove(L, -2);
  return true;
}

static int debug_tile(lua_State *L, const TsOptions *o) {
  if (!debugs(L, "file")) return TS_EXIT_ERROR;
  lua_pushstring(L, o->argv[o->script]);
  lua_newtable(L);
  for (int i = o->script + 1; i < o->argc; i++) {
    lua_pushstring(L, o->argv[i]);
    lua_rawseti(L, -2, i - o->script);
  }
  if (!ts_run_call(L, 2, 1)) return (int)lua_tonumber(L, -1);
  ts_run_print(L);
  return TS_EXIT_ERROR;
}

static bool is_tile(const char *path) {
  size_t n = strlen(path);
  return n > 5 && !strcmp(path + n - 5, ".tile");
}

static int debug_kernels(lua_State *L, const TsOptions *o) {
  int base = lua_gettop(L), code = TS_EXIT_ERROR;
  if (o->script == o->argc) {
    fprintf(stderr, "tessera: --debug-kernel takes file.tile or a script\n");
  } else if (is_tile(o->argv[o->script])) {
    code = debug_tile(L, o);
  } else if (debugs(L, "every")) {
    code = ts_run_call(L, 0, 0) ? TS_EXIT_ERROR : run_file(L, o, o->argv[o->script]);
  }
  lua_settop(L, base);
  return code;
}

static int prompt(lua_State *L) {
  ts_globals_add(L);
  return ts_prompt_run(L);
}

static int run(lua_State *L, const TsOptions *o) {
  bool script = o->script < o->argc, code_given = false;
  for (int i = 0; i < o->nsteps; i++) code_given |= o->step[i].kind == 'e';
  int code = o->ignore_environment ? TS_EXIT_OK : run_init(L);
  if (!code) code = run_steps(L, o);
  if (!code && o->command) return ts_models_run(L, o);
  if (!code && o->debug_kernel) return debug_kernels(L, o);
  if (!code && script) code = run_file(L, o, o->argv[o->script]);
  if (code && !o->interactive) return code;
  if (o->interactive) return prompt(L);
  if (script || code_given || o->version) return code;
  return isatty(STDIN_FILENO) ? prompt(L) : run_file(L, o, NULL);
}

/* tessera.program_profile.name(files): begin, which may refuse a file, or finish. */
static int profile(lua_State *L, const TsOptions *o, const char *name) {
  int base = lua_gettop(L);
  if (!o->profile) return TS_EXIT_OK;
  lua_getglobal(L, "require");
  lua_pushliteral(L, "tessera.program_profile");
  int failed = ts_run_call(L, 1, 1);
  if (!failed) {
    lua_getfield(L, -1, name);
    lua_createtable(L, o->nprofile_to, 0);
    for (int i = 0; i < o->nprofile_to; i++) {
      lua_pushstring(L, o->profile_to[i]);
      lua_rawseti(L, -2, i + 1);
    }
    failed = ts_run_call(L, 1, 0);
  }
  if (failed) ts_run_print(L);
  lua_settop(L, base);
  return failed ? TS_EXIT_ERROR : TS_EXIT_OK;
}

/* Closing the state runs the finalizers of scripts, as luajit does. Tensors would only give
 * memory back that the process is about to give back. */
static void close_state(lua_State *L) {
  ts_lua_close_box(L);
  lua_close(L);
}

/* What was printed has to arrive: a full disk is an error of the program, however it printed and
 * ends. */
static int after_output(int code) {
  if (!code && ts_checkpoint_lost()) code = TS_EXIT_ERROR;
  errno = 0;
  if (!fflush(stdout) && !ferror(stdout)) return code;
  int why = errno; /* 0: it failed earlier, and nobody knows why */
  fprintf(stderr, "tessera: cannot write standard output%s%s\n", why ? ": " : "",
          why ? strerror(why) : "");
  return code ? code : TS_EXIT_ERROR;
}

/* Other processes of the job hear how this one has ended. */
static void leave_world(int code) {
  fflush(stdout);
  const char *report = code ? ts_run_last_report() : NULL;
  char line[300] = "";
  if (report) snprintf(line, sizeof line, "%.*s", (int)strcspn(report, "\n"), report);
  ts_world_close(code == TS_EXIT_OK, line);
}

static void at_exit(int code, void *arg) {
  (void)arg;
  ts_checkpoint_finish();
  leave_world(code);
  int now = after_output(code);
  if (now != code) _Exit(now);
}

/* LuaJIT draws a seed for the hash of strings, by which pairs() walks. Processes of a job draw the same,
 * so that those that send what they come to there come to it in the same order. */
static bool same_seed;
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

long __wrap_syscall(long number, ...) {
  long a[6];
  va_list list;
  va_start(list, number);
  for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
  va_end(list);
  if (!same_seed || number != SYS_getrandom)
    return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  memset((void *)(uintptr_t)a[0], 0x5a, (size_t)a[1]);
  return a[1];
}

static lua_State *new_state(void) {
  same_seed = ts_launched().size > 1;
  lua_State *L = luaL_newstate();
  same_seed = false;
  return L;
}

static int show_flight(const char *path) {
  TsText t = {0};
  TsError err = {0};
  int failed = ts_flight_text(path, &t, &err);
  if (failed)
    fprintf(stderr, "tessera: --flight: %s\n", err.message);
  else
    fputs(t.at ? t.at : "", stdout);
  ts_text_free(&t);
  return failed ? TS_EXIT_ERROR : TS_EXIT_OK;
}

static void forget(TsOptions *o) {
  free(o->step);
  free(o->word);
}

int main(int argc, char **argv) {
  TsOptions o;
  on_exit(at_exit, NULL);
  int code = ts_options_read(&o, argc, argv);
  if (code >= 0) {
    forget(&o);
    return code;
  }
  if (o.flight) {
    forget(&o);
    return show_flight(o.flight);
  }
  ts_forget_start();
  lua_State *L = new_state();
  TsContext *c = ts_context_open();
  if (c) c->jit = ts_jit_open(c), c->spread = &ts_mesh_regions;
  if (!L || !c || !c->jit) {
    fprintf(stderr, "tessera: out of memory\n");
    return TS_EXIT_ERROR;
  }
  lua_gc(L, LUA_GCSTOP, 0);
  if (o.ignore_environment) {
    lua_pushboolean(L, 1);
    lua_setfield(L, LUA_REGISTRYINDEX, "LUA_NOENV");
  }
  luaL_openlibs(L);
  ts_lua_open(L, c);
  ts_run_open(L);
  ts_tail_open(L);
  ts_prompt_open(L);
  set_arg(L, &o);
  code = ts_run_require(L, "tessera.luajit");
  lua_gc(L, LUA_GCRESTART, -1);
  ts_interrupt_set_script(true);
  if (!code) code = apply(c, &o);
  if (!code) code = profile(L, &o, "begin");
  if (!code) {
    code = run(L, &o);
    int told = profile(L, &o, "finish");
    if (!code) code = told;
  }
#ifdef __SANITIZE_ADDRESS__
  lua_close(L);
  ts_jit_close(c->jit);
  ts_context_close(c);
  forget(&o);
  exit(code); /* looks for leaks */
#endif
  ts_checkpoint_finish();
  leave_world(code);
  ts_interrupt_leave(code);
  close_state(L);
  code = after_output(code);
  fflush(NULL);
  _Exit(code); /* threads that compile or wait end with the process */
}
