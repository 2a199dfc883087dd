/* Scripts, -e and -l: loading and protected calls. Ctrl-C is in repl/interrupt.c, the text of
 * reports is made in repl/report.c. */
#include "repl/run.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "devices/flags.h"
#include "jit/jit.h"
#include "lib/text.h"
#include "repl/compare.h"
#include "repl/embed.h"
#include "repl/guard.h"
#include "repl/interrupt.h"
#include "repl/interrupt_places.h"
#include "repl/lua_api.h"
#include "repl/report.h"
#include "repl/report_line.h"
#include "repl/script.h"
#include "repl/tail.h"

/* ---- modules */
static const TsEmbedded *find_embedded(const char *module) {
  for (const TsEmbedded *e = ts_embedded; e->module; e++)
    if (!strcmp(e->module, module)) return e;
  return NULL;
}

bool ts_run_embeds(const char *module) { return find_embedded(module) != NULL; }

static int load_embedded(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  const TsEmbedded *e = find_embedded(name);
  if (!e) {
    bool ours = !strncmp(name, "tessera", 7) || !strncmp(name, "jit.", 4);
    if (ours) lua_pushfstring(L, "\n\tno module '%s' inside tessera", name);
    return ours;
  }
  lua_pushfstring(L, "=%s", name);
  if (luaL_loadbuffer(L, e->begin, (size_t)(e->end - e->begin), lua_tostring(L, -1)))
    return lua_error(L);
  ts_tail_change(L);
  return 1;
}

/* Before the files: the library and jit.* have to fit this program, not what
 * happens to lie in the working directory. */
static void add_loader(lua_State *L) {
  lua_getfield(L, -1, "loaders");
  for (int i = (int)lua_objlen(L, -1); i >= 2; i--) {
    lua_rawgeti(L, -1, i);
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushcfunction(L, load_embedded);
  lua_rawseti(L, -2, 2);
  lua_pop(L, 1);
}

/* os.exit([code [, close]]) of LuaJIT, but nothing compiles while exit() destroys what LLVM
 * keeps. */
static int leave(lua_State *L) {
  TsJit *jit = ts_lua_context(L)->jit;
  int code = lua_isboolean(L, 1) ? (lua_toboolean(L, 1) ? EXIT_SUCCESS : EXIT_FAILURE)
                                 : (int)luaL_optinteger(L, 1, EXIT_SUCCESS);
  bool close = lua_toboolean(L, 2);
  if (close) lua_close(L);
  ts_jit_stop(jit);
  if (close) ts_flags_close();
  exit(code);
}

static char main_key;

lua_State *ts_run_main(lua_State *L) {
  lua_pushlightuserdata(L, &main_key);
  lua_rawget(L, LUA_REGISTRYINDEX);
  lua_State *main = lua_tothread(L, -1);
  lua_pop(L, 1);
  return main;
}

void ts_run_open(lua_State *L) {
  lua_pushlightuserdata(L, &main_key);
  lua_pushthread(L);
  lua_rawset(L, LUA_REGISTRYINDEX);
  lua_getglobal(L, "os");
  lua_pushcfunction(L, leave);
  lua_setfield(L, -2, "exit");
  lua_pushcfunction(L, ts_run_execute);
  lua_setfield(L, -2, "execute");
  lua_pop(L, 1);
  lua_getglobal(L, "package");
  add_loader(L);
  lua_getfield(L, -1, "path");
  lua_pushliteral(L, ";" TS_PREFIX "/share/tessera/lua/?.lua;" TS_PREFIX
                     "/share/tessera/lua/?/init.lua");
  lua_concat(L, 2);
  lua_setfield(L, -2, "path");
  lua_pop(L, 1);
  ts_run_open_lines(L);
  ts_run_open_sort(L);
  ts_interrupt_open_places(L);
}

/* ---- texts of chunks: a registry table by chunk name */
static char texts_key;

static void push_texts(lua_State *L) {
  lua_pushlightuserdata(L, &texts_key);
  lua_rawget(L, LUA_REGISTRYINDEX);
  if (!lua_isnil(L, -1)) return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_pushlightuserdata(L, &texts_key);
  lua_pushvalue(L, -2);
  lua_rawset(L, LUA_REGISTRYINDEX);
}

void ts_run_keep_text(lua_State *L, const char *chunkname, const char *text, size_t size) {
  push_texts(L);
  lua_pushlstring(L, text, size);
  lua_setfield(L, -2, chunkname);
  lua_pop(L, 1);
}

const char *ts_run_text(lua_State *L, const char *chunkname, size_t *size) {
  push_texts(L);
  lua_getfield(L, -1, chunkname);
  const char *text = lua_tolstring(L, -1, size); /* the table keeps it alive */
  lua_pop(L, 2);
  const TsEmbedded *e = text || *chunkname != '=' ? NULL : find_embedded(chunkname + 1);
  if (e) text = e->begin, *size = (size_t)(e->end - e->begin);
  return text;
}

int ts_run_compile(lua_State *L, const char *text, size_t size, const char *chunkname) {
  int status = luaL_loadbuffer(L, text, size, chunkname);
  if (!status) ts_tail_change(L);
  return status;
}

int ts_run_load(lua_State *L, const char *text, size_t size, const char *chunkname) {
  int status = ts_run_compile(L, text, size, chunkname);
  if (!status) ts_run_keep_text(L, chunkname, text, size);
  return status;
}

/* ---- calls */
/* Where the last call fits Lua's stack to the slot, no room is left for the handler of the
 * overflow. What is known then is the chunk, and of a chunk of one line the line. */
static void explain_overflow(lua_State *L, const lua_Debug *chunk) {
  size_t size;
  const char *text = *chunk->source == '=' ? ts_run_text(L, chunk->source, &size) : NULL;
  bool one = text && !memchr(text, '\n', size);
  lua_pushfstring(L, "%s%s: stack overflow", chunk->short_src, one ? ":1" : "");
  ts_report_load(L, chunk->source);
  lua_remove(L, -2);
}

/* The handler has not run. */
static void explain_unhandled(lua_State *L, const lua_Debug *chunk) {
  const char *why = lua_isstring(L, -1) ? lua_tostring(L, -1) : "error";
  if (!ts_interrupt_stopped() && !strcmp(why, "stack overflow"))
    return explain_overflow(L, chunk);
  lua_pushfstring(L, "tessera: %s", ts_interrupt_stopped() ? "interrupted" : why);
  lua_remove(L, -2);
}

/* Puts a Lua function under the one at base, which calls it. A function of C's may otherwise be all that
 * there is on the stack, as behind `return setmetatable(t, m)` of a script; where LuaJIT gives up a
 * trace there, its search for a Lua function, of which listeners are told, runs off the stack. The
 * one that is called is no variable there, so that reports give it no name. */
static int call_by_lua(lua_State *L, int base) {
  static const char key, code[] =
                             "local select = select local function all(...) return ... end "
                             "return function(...) return all((...)(select(2, ...))) end";
  lua_pushlightuserdata(L, (void *)(uintptr_t)&key);
  lua_rawget(L, LUA_REGISTRYINDEX);
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    if (luaL_loadbuffer(L, code, sizeof code - 1, "=tessera.run") || lua_pcall(L, 0, 1, 0)) {
      lua_pop(L, 1);
      return 0;
    }
    lua_pushlightuserdata(L, (void *)(uintptr_t)&key);
    lua_pushvalue(L, -2);
    lua_rawset(L, LUA_REGISTRYINDEX);
  }
  lua_insert(L, base);
  return 1;
}

int ts_run_call(lua_State *L, int nargs, int nresults) {
  int base = lua_gettop(L) - nargs;
  lua_Debug chunk;
  lua_pushvalue(L, base);
  lua_getinfo(L, ">S", &chunk);
  TsLuaState state = ts_lua_state(L);
  ts_lua_keep_memory();
  nargs += call_by_lua(L, base);
  lua_pushcfunction(L, ts_report_handler);
  lua_insert(L, base);
  ts_interrupt_open(L);
  int status = lua_pcall(L, nargs, nresults, base);
  ts_interrupt_close(L, status);
  if (status) ts_lua_restore(L, &state);
  lua_remove(L, base);
  if (status == LUA_ERRERR || status == LUA_ERRMEM) explain_unhandled(L, &chunk);
  return status;
}

/* ---- reports */
void ts_run_explain(lua_State *L, const char *chunkname) { ts_report_load(L, chunkname); }

static char *last_report;

const char *ts_run_last_report(void) { return last_report; }

void ts_run_keep_report(lua_State *L) {
  const char *text = lua_tostring(L, -1);
  free(last_report);
  last_report = text ? strdup(text) : NULL;
}

void ts_run_print(lua_State *L) {
  const char *text = lua_tostring(L, -1);
  ts_run_keep_report(L);
  fflush(stdout);
  if ((ts_interrupt_stopped() || ts_report_open_line()) && isatty(STDERR_FILENO))
    fputc('\n', stderr); /* behind the "^C", or a bar */
  ts_report_set_open_line(false);
  fprintf(stderr, "%s\n", text ? text : "tessera: unknown error");
  fflush(stderr);
  lua_pop(L, 1);
}

static int failed_load(lua_State *L, const char *chunkname) {
  ts_run_explain(L, chunkname);
  ts_run_print(L);
  return TS_EXIT_ERROR;
}

static int call_and_report(lua_State *L, int nargs, int nresults) {
  if (!ts_run_call(L, nargs, nresults)) return TS_EXIT_OK;
  ts_run_print(L);
  return ts_interrupt_stopped() ? TS_EXIT_INTERRUPTED : TS_EXIT_ERROR;
}

/* ---- what the command line runs */
/* Standard input is read whole, so that reports can show its lines; a first line
 * with #! is blanked. */
static int load_stdin(lua_State *L) {
  size_t size;
  if (!ts_script_read(L, stdin, "standard input")) return LUA_ERRFILE;
  const char *text = lua_tolstring(L, -1, &size);
  size_t skip = size && text[0] == '#' ? strcspn(text, "\n") : 0;
  ts_run_keep_text(L, "=stdin", text, size);
  int status = ts_run_compile(L, text + skip, size - skip, "=stdin");
  lua_remove(L, -2);
  return status;
}

/* With -jv: what only a reader sees. */
static void note(lua_State *L, const char *path) {
  FILE *f = path && ts_jit_is_verbose(ts_lua_context(L)->jit) ? ts_script_open(path) : NULL;
  TsText text = {0};
  char piece[4096];
  size_t n;
  if (!f) return;
  while ((n = fread(piece, 1, sizeof piece, f)) > 0) ts_text_add(&text, piece, n);
  fclose(f);
  if (!text.failed && text.at) ts_compare_script(text.at, text.len, path);
  ts_text_free(&text);
}

int ts_run_script(lua_State *L, const char *path, char **argv) {
  bool standard = !path || !strcmp(path, "-");
  int status = standard ? load_stdin(L) : ts_script_load(L, path), n = 0;
  if (!status && !standard) note(L, path);
  if (!status && !standard) ts_tail_change(L);
  if (status) {
    lua_pushfstring(L, "@%s", path ? path : "");
    const char *name = standard ? "=stdin" : lua_tostring(L, -1);
    lua_insert(L, -2);
    return failed_load(L, name);
  }
  for (; argv && argv[n] && argv[n + 1]; n++) {
    luaL_checkstack(L, 3, "too many arguments to script");
    lua_pushstring(L, argv[n + 1]);
  }
  return call_and_report(L, n, LUA_MULTRET);
}

int ts_run_code(lua_State *L, const char *code, int number) {
  char name[40] = "=(command line)";
  if (number > 1) snprintf(name, sizeof name, "=(command line %d)", number);
  if (ts_run_load(L, code, strlen(code), name)) {
    ts_run_keep_text(L, name, code, strlen(code));
    return failed_load(L, name);
  }
  return call_and_report(L, 0, LUA_MULTRET);
}

int ts_run_require(lua_State *L, const char *module) {
  lua_getglobal(L, "require");
  lua_pushstring(L, module);
  return call_and_report(L, 1, 1);
}
