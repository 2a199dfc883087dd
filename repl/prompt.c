/* The prompt: reads inputs (repl/input.h), runs them and has their values shown. What belongs to
 * commands and to showing values is in Lua: lib/lua/prompt.lua. */
#include "repl/prompt.h"

#include <ctype.h>
#include <errno.h>
#include <lauxlib.h>
#include <luajit.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "devices/cpu_pool.h"
#include "jit/jit.h"
#include "repl/command.h"
#include "repl/compare.h"
#include "repl/display.h"
#include "repl/edit/outside.h"
#include "repl/globals.h"
#include "repl/hint.h"
#include "repl/input.h"
#include "repl/interrupt.h"
#include "repl/lex.h"
#include "repl/lua_api.h"
#include "repl/report.h"
#include "repl/run.h"

static struct {
  lua_State *L;
  TsEdit *edit;
  int number; /* of the current input */
  bool told_about_locals, quit;
  int exit_code;
  bool hints;
  char *next; /* an input that was typed where something else was asked; NULL: none */
} prompt = {.hints = true};

/* ---- tessera.console */
static int console_width(lua_State *L) {
  lua_pushinteger(L, prompt.edit ? ts_edit_columns(prompt.edit) : ts_display_width());
  return 1;
}

static int console_quit(lua_State *L) {
  if (!prompt.edit) {
    lua_getglobal(L, "os");
    lua_getfield(L, -1, "exit");
    lua_pushinteger(L, luaL_optinteger(L, 1, 0));
    lua_call(L, 1, 0);
  }
  prompt.quit = true;
  prompt.exit_code = (int)luaL_optinteger(L, 1, 0);
  return 0;
}

/* rows(): of the terminal that is read from and printed to, or nil where there is none. */
static int console_rows(lua_State *L) {
  int rows = 0;
  if (prompt.edit && ts_edit_interactive(prompt.edit)) rows = ts_edit_rows(prompt.edit);
  if (!rows) return 0;
  lua_pushinteger(L, rows);
  return 1;
}

/* hints([on]): sets whether signatures are shown while a call is typed; whether they are. */
static int console_hints(lua_State *L) {
  if (!lua_isnoneornil(L, 1)) ts_prompt_set_hints(lua_toboolean(L, 1));
  lua_pushboolean(L, prompt.hints);
  return 1;
}

/* next_input(text): what the prompt reads next, as it was typed elsewhere. */
static int console_next_input(lua_State *L) {
  char *text = strdup(luaL_checkstring(L, 1));
  if (text) free(prompt.next), prompt.next = text;
  return 0;
}

/* last_error(): the report of the last one, every call that led to it, and its parts, or nils. */
static int console_last_error(lua_State *L) {
  lua_pushstring(L, ts_run_last_report());
  ts_report_push_chain(L);
  return 3;
}

/* text(chunkname): the kept source of a chunk, or nil. */
static int console_text(lua_State *L) {
  size_t size;
  const char *text = ts_run_text(L, luaL_checkstring(L, 1), &size);
  if (!text) return 0;
  lua_pushlstring(L, text, size);
  return 1;
}

/* outside(text, ending): a new file with the text, the command that opens it in the user's editor, and the
 * editor's name; or nil and why. */
static int console_outside(lua_State *L) {
  size_t size;
  const char *text = luaL_checklstring(L, 1, &size);
  TsEditOutside o;
  if (ts_edit_outside_begin(&o, text, size, luaL_checkstring(L, 2))) {
    lua_pushnil(L);
    lua_pushstring(L, strerror(errno));
    return 2;
  }
  lua_pushstring(L, o.path);
  lua_pushstring(L, o.command.data);
  lua_pushstring(L, ts_edit_outside_editor());
  ts_edit_text_free(&o.command);
  return 3;
}

static int console_globals(lua_State *L) {
  lua_newtable(L);
  const char *name;
  for (int i = 0; (name = ts_globals_name(i)); i++) {
    lua_pushstring(L, name);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* The globals that were there when the prompt began, as the keys of a table. */
static char initial_key;

static void keep_initial(lua_State *L) {
  lua_pushlightuserdata(L, &initial_key);
  lua_newtable(L);
  lua_pushvalue(L, LUA_GLOBALSINDEX);
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
    lua_pushvalue(L, -2);
    lua_pushboolean(L, 1);
    lua_rawset(L, -6);
  }
  lua_pop(L, 1);
  lua_rawset(L, LUA_REGISTRYINDEX);
}

static int console_initial(lua_State *L) {
  lua_pushlightuserdata(L, &initial_key);
  lua_rawget(L, LUA_REGISTRYINDEX);
  return 1;
}

static int open_console(lua_State *L) {
  static const luaL_Reg functions[] = {{"width", console_width},
                                       {"quit", console_quit},
                                       {"text", console_text},
                                       {"globals", console_globals},
                                       {"initial", console_initial},
                                       {"outside", console_outside},
                                       {"rows", console_rows},
                                       {"last_error", console_last_error},
                                       {"hints", console_hints},
                                       {"next_input", console_next_input},
                                       {NULL, NULL}};
  lua_newtable(L);
  luaL_register(L, NULL, functions);
  return 1;
}

void ts_prompt_open(lua_State *L) {
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "preload");
  lua_pushcfunction(L, open_console);
  lua_setfield(L, -2, "tessera.console");
  lua_pop(L, 2);
}

/* ---- running */
static void tell_about_locals(void) {
  if (prompt.told_about_locals || !ts_edit_interactive(prompt.edit)) return;
  prompt.told_about_locals = true;
  printf("(a local is kept as a global at the prompt)\n");
}

/* Calls tessera.prompt.<function> with the n values on the top. True: it failed, and the report is
 * on the top. */
static bool call_library(lua_State *L, const char *function, int n, int nresults) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "tessera.prompt");
  if (ts_run_call(L, 1, 1)) return true;
  lua_getfield(L, -1, function);
  lua_remove(L, -2);
  lua_insert(L, -n - 1);
  return ts_run_call(L, n, nresults);
}

/* Whether the error of a command, whose report is on the top, was told as JSON: it has --json. */
static bool told_as_json(lua_State *L) {
  bool stopped = ts_interrupt_stopped();
  ts_run_keep_report(L);
  lua_pushboolean(L, stopped);
  if (call_library(L, "told", 1, 1)) return lua_pop(L, 1), false;
  bool told = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return told;
}

static void show_values(lua_State *L, int first, bool silenced) {
  int n = lua_gettop(L) - first + 1;
  if (n <= 0) return;
  lua_pushliteral(L, "_");
  lua_pushvalue(L, first);
  lua_rawset(L, LUA_GLOBALSINDEX);
  lua_pushinteger(L, prompt.number);
  lua_insert(L, first);
  lua_pushboolean(L, silenced);
  lua_insert(L, first);
  if (call_library(L, "keep", n + 2, 0)) ts_run_print(L);
}

static void run_chunk(lua_State *L, const char *text, size_t size) {
  char name[32];
  snprintf(name, sizeof name, "=input %d", ++prompt.number);
  ts_run_keep_text(L, name, text, size);
  int base = lua_gettop(L);
  TsInput in;
  if (ts_input_load(L, text, size, name, &in)) {
    ts_run_explain(L, name);
    ts_run_print(L);
    return;
  }
  if (in.locals) tell_about_locals();
  ts_compare_input(L, text, size);
  /* Interpreted, with the functions it defines: a compiled loop hears no Ctrl-C.
   * Code from files stays compiled. */
  luaJIT_setmode(L, -1, LUAJIT_MODE_ALLFUNC | LUAJIT_MODE_OFF);
  if (ts_run_call(L, 0, LUA_MULTRET))
    ts_run_print(L);
  else
    show_values(L, base + (in.values ? 2 : 1), ts_input_is_silenced(text, size));
  lua_settop(L, base);
}

static void run_command(lua_State *L, const char *text) {
  int base = lua_gettop(L);
  size_t n = 1;
  if (*text == '?' || *text == '!') {
    lua_pushstring(L, *text == '?' ? "help" : "shell");
  } else {
    while (isalnum((unsigned char)text[n]) || text[n] == '_') n++;
    lua_pushlstring(L, text + 1, n - 1);
  }
  const char *rest = ts_input_skip_spaces(text + n);
  size_t size = strlen(rest);
  while (size && isspace((unsigned char)rest[size - 1])) size--;
  lua_pushlstring(L, rest, size);
  bool json = strstr(rest, "--json") != NULL;
  if (ts_command_call(L, text) && !(json && told_as_json(L))) ts_run_print(L);
  lua_settop(L, base);
}

static void run_input(lua_State *L, const char *text, size_t size) {
  const char *start = ts_input_skip_spaces(text);
  if (start == text + size) return;
  if (ts_input_is_command(start)) {
    run_command(L, start);
  } else {
    if (*start == '=') start++;
    run_chunk(L, start, size - (size_t)(start - text));
  }
  fflush(stdout);
}

/* ---- the editor's hooks */
static void highlight(void *arg, const char *text, unsigned char *attributes) {
  static const unsigned char attribute[] = {
      [TS_LEX_COMMENT] = TS_EDIT_COMMENT, [TS_LEX_KEYWORD] = TS_EDIT_KEYWORD,
      [TS_LEX_NUMBER] = TS_EDIT_NUMBER,   [TS_LEX_STRING] = TS_EDIT_STRING,
      [TS_LEX_SYMBOL] = TS_EDIT_PLAIN,
  };
  (void)arg;
  size_t size = strlen(text);
  if (ts_input_is_command(ts_input_skip_spaces(text))) return;
  for (size_t at = 0; at < size;) {
    TsToken t = ts_lex_next(text, size, at);
    memset(attributes + at, attribute[t.kind], t.size);
    at += t.size;
  }
}

/* ---- the loop */
static char *history_path(void) {
  const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
  TsText t = {0};
  if (state && *state == '/')
    ts_text_format(&t, "%s/tessera/history", state);
  else if (home && *home)
    ts_text_format(&t, "%s/.local/state/tessera/history", home);
  return t.at;
}

static void set_hooks(void) {
  ts_edit_set_hooks(prompt.edit,
                    &(TsEditHooks){.arg = prompt.L,
                                   .complete = ts_complete,
                                   .incomplete = ts_input_is_incomplete,
                                   .hint = prompt.hints ? ts_hint_rest : NULL,
                                   .signature = prompt.hints ? ts_hint_signature : NULL,
                                   .highlight = highlight});
}

void ts_prompt_set_hints(bool on) {
  prompt.hints = on;
  if (prompt.edit) set_hooks();
}

static void print_banner(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  int threads = ts_cpu_threads();
  printf("Tessera %s (%.10s, %d thread%s, %s)   ? for help, :quit to leave\n", TS_VERSION,
         LUAJIT_VERSION, threads, threads == 1 ? "" : "s", c->k->isa);
  fflush(stdout);
}

/* Between the editor and ts_run_call, which have handlers of their own, Ctrl-C is kept for the
 * call; behind the call it does nothing. Where there is no editor it abandons the line being
 * read. So that none comes between two of them and is heard by a later input, it is held back
 * except where somebody waits for a line or runs one. */
static void catch_interrupts(int flags) {
  struct sigaction action = {.sa_handler = ts_interrupt_keep, .sa_flags = flags};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
}

int ts_prompt_run(lua_State *L) {
  bool terminal = isatty(STDIN_FILENO);
  if (terminal) catch_interrupts(SA_RESTART); /* the banner comes whole */
  char *path = terminal ? history_path() : NULL;
  prompt.L = L;
  prompt.edit = ts_edit_open(STDIN_FILENO, STDOUT_FILENO, path);
  free(path);
  if (!prompt.edit) {
    perror("tessera: cannot open the prompt");
    return TS_EXIT_ERROR;
  }
  set_hooks();
  keep_initial(L);
  if (terminal) print_banner(L);
  if (terminal && ts_lua_context(L)->jit) ts_jit_shows(ts_lua_context(L)->jit);
  if (terminal) catch_interrupts(0);
  ts_interrupt_set_script(false);
  ts_report_keep_chain(true);
  while (!prompt.quit) {
    ts_edit_hold_interrupts(true);
    if (ts_interrupt_drop() && terminal) printf("\n"), fflush(stdout); /* behind the "^C" */
    char *text = prompt.next;
    size_t size = text ? strlen(text) : 0;
    prompt.next = NULL;
    if (!text && (text = ts_edit_read(prompt.edit, "> ", ". ")))
      size = ts_edit_size(prompt.edit), ts_interrupt_drop(); /* it came before the line */
    ts_edit_hold_interrupts(false);
    if (!text && ts_edit_status(prompt.edit) == TS_EDIT_INTERRUPTED) {
      if (!ts_edit_interactive(prompt.edit)) printf("\n"), fflush(stdout);
      continue;
    }
    if (!text) break;
    ts_edit_remember(prompt.edit, text);
    run_input(L, text, size);
    free(text);
  }
  ts_edit_close(prompt.edit);
  prompt.edit = NULL;
  return prompt.exit_code;
}
