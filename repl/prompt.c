/* The prompt.
 *
 * An input is tried as an expression first, whose values are shown, then as
 * statements. `local` at top level would end with its input, so that it is made
 * global there. What belongs to commands and to showing values is in Lua:
 * lib/lua/prompt.lua. */
#include "repl/prompt.h"

#include <ctype.h>
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
#include "repl/hint.h"
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

/* ---- globals of the prompt */
static const char *const modules[] = {"op",   "graph",    "dist",    "nn",       "optim",
                                      "rng",  "numerics", "profile", "autotune", "checkpoint",
                                      "data", "hf",       "image"};
enum { MODULES = sizeof modules / sizeof *modules };

/* Functions and values of the prompt: Out, _1 to _9, who. */
static bool is_kept(const char *name) {
  bool last = *name == '_' && name[1] >= '1' && name[1] <= '9' && !name[2];
  return last || !strcmp(name, "Out") || !strcmp(name, "who");
}

static void push_kept(lua_State *L, const char *name) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "tessera.prompt.values");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, *name == '_' ? "last" : name);
  lua_remove(L, -2);
  if (*name != '_') return;
  lua_rawgeti(L, -1, name[1] - '0');
  lua_remove(L, -2);
}

void ts_prompt_push_global(lua_State *L, const char *name) {
  char full[64];
  bool ours = is_kept(name) || !strcmp(name, "tessera") || !strcmp(name, "help");
  for (int i = 0; i < MODULES && !ours; i++) ours = !strcmp(modules[i], name);
  if (!ours) {
    lua_pushnil(L);
    return;
  }
  if (is_kept(name)) return push_kept(L, name);
  bool help = !strcmp(name, "help");
  lua_getglobal(L, "require");
  lua_pushstring(L, help ? "tessera.prompt" : "tessera");
  lua_call(L, 1, 1);
  if (!strcmp(name, "tessera")) return;
  lua_getfield(L, -1, name);
  lua_remove(L, -2);
  snprintf(full, sizeof full, "tessera.%s", name);
  if (!lua_isnil(L, -1) || !ts_run_embeds(full)) return;
  lua_pop(L, 1);
  lua_getglobal(L, "require");
  lua_pushstring(L, full);
  lua_call(L, 1, 1);
}

/* op and rng are C's; some parts stand in a folder (lib/lua/init.lua). */
static bool is_there(const char *name) {
  static const char *const forms[] = {"tessera.%s", "tessera.dist.%s", "tessera.%s.mesh"};
  if (!strcmp(name, "op") || !strcmp(name, "rng")) return true;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    TsText full = {0};
    ts_text_format(&full, forms[i], name);
    bool there = full.at && ts_run_embeds(full.at);
    ts_text_free(&full);
    if (there) return true;
  }
  return false;
}

const char *ts_prompt_global(int i) {
  for (int k = 0; k < MODULES; k++)
    if (is_there(modules[k]) && i-- == 0) return modules[k];
  return i == 0 ? "tessera" : i == 1 ? "help" : NULL;
}

static int load_global(lua_State *L) {
  if (lua_type(L, 2) != LUA_TSTRING) return 0;
  ts_prompt_push_global(L, lua_tostring(L, 2));
  if (lua_isnil(L, -1) || is_kept(lua_tostring(L, 2))) return 1;
  lua_pushvalue(L, 2);
  lua_pushvalue(L, -2);
  lua_rawset(L, 1);
  return 1;
}

void ts_prompt_add_globals(lua_State *L) {
  lua_pushvalue(L, LUA_GLOBALSINDEX);
  if (!lua_getmetatable(L, -1)) lua_newtable(L);
  lua_pushcfunction(L, load_global);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
  lua_pop(L, 1);
}

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

static int console_globals(lua_State *L) {
  lua_newtable(L);
  const char *name;
  for (int i = 0; (name = ts_prompt_global(i)); i++) {
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

/* ---- locals: "local x, y = 1" at top level becomes "      x, y = 1", and
 * "local x" becomes "      x = nil;". Columns stay what they were. */
static size_t skip_blanks(const char *text, size_t size, size_t at, TsToken *t) {
  for (;; at += t->size) {
    *t = ts_lex_next(text, size, at);
    if (t->kind != TS_LEX_SPACE && t->kind != TS_LEX_COMMENT) return at;
  }
}

static size_t put_local(const char *text, size_t size, size_t at, TsText *out) {
  TsToken t;
  size_t start = at + strlen("local"), end = start;
  ts_text_pad(out, ' ', (int)strlen("local"));
  for (at = skip_blanks(text, size, start, &t); t.kind == TS_LEX_NAME;) {
    end = at + t.size;
    at = skip_blanks(text, size, end, &t);
    if (!ts_lex_is(text, &t, ",")) break;
    at = skip_blanks(text, size, at + 1, &t);
  }
  ts_text_add(out, text + start, end - start);
  if (end > start && !ts_lex_is(text, &t, "="))
    ts_text_str(out, ts_lex_is(text, &t, ";") ? " = nil" : " = nil;");
  return end;
}

static int depth_change(const char *text, const TsToken *t) {
  static const char *const opens[] = {"function", "do", "if", "repeat", "{", "("};
  static const char *const closes[] = {"end", "until", "}", ")"};
  for (size_t i = 0; i < sizeof opens / sizeof *opens; i++)
    if (ts_lex_is(text, t, opens[i])) return 1;
  for (size_t i = 0; i < sizeof closes / sizeof *closes; i++)
    if (ts_lex_is(text, t, closes[i])) return -1;
  return 0;
}

static bool without_locals(const char *text, size_t size, TsText *out) {
  int depth = 0, found = 0;
  for (size_t at = 0; at < size;) {
    TsToken t = ts_lex_next(text, size, at);
    bool word = t.kind == TS_LEX_KEYWORD || t.kind == TS_LEX_SYMBOL;
    if (word && depth == 0 && ts_lex_is(text, &t, "local")) {
      found++;
      at = put_local(text, size, at, out);
      continue;
    }
    if (word) depth += depth_change(text, &t);
    ts_text_add(out, text + at, t.size);
    at += t.size;
  }
  return found > 0 && !out->failed;
}

/* ---- compiling */
static int load_prefixed(lua_State *L, const char *prefix, const char *text, size_t size,
                         const char *name) {
  TsText t = {0};
  ts_text_str(&t, prefix);
  ts_text_add(&t, text, size);
  int status = ts_run_compile(L, t.at, t.len, name);
  ts_text_free(&t);
  return status;
}

static void tell_about_locals(void) {
  if (prompt.told_about_locals || !ts_edit_interactive(prompt.edit)) return;
  prompt.told_about_locals = true;
  printf("(a local is kept as a global at the prompt)\n");
}

/* A first line that begins with # would be left out, as of a script. */
static const char *statements_prefix(const char *text) { return *text == '#' ? " " : ""; }

static int load_statements(lua_State *L, const char *text, size_t size, const char *name,
                           bool *locals) {
  TsText changed = {0};
  *locals = without_locals(text, size, &changed);
  int status = *locals ? ts_run_compile(L, changed.at, changed.len, name) : 1;
  ts_text_free(&changed);
  if (!status) return 0;
  if (*locals) lua_pop(L, 1);
  *locals = false;
  return load_prefixed(L, statements_prefix(text), text, size, name);
}

/* Is the message on the top about the end of the text? Then more text could complete it. */
static bool is_about_end(lua_State *L) {
  static const char mark[] = "'<eof>'";
  size_t n;
  const char *message = lua_tolstring(L, -1, &n);
  return message && n >= sizeof mark - 1 && !strcmp(message + n - (sizeof mark - 1), mark);
}

/* How far the compiler reads a text that it refuses: it asks for one byte after the other. */
typedef struct Fed {
  const char *prefix, *text;
  size_t size, at;
} Fed;

static const char *feed(lua_State *L, void *data, size_t *n) {
  Fed *fed = data;
  (void)L;
  *n = 1;
  if (*fed->prefix) return fed->prefix++;
  if (fed->at == fed->size) *n = 0;
  return fed->at < fed->size ? &fed->text[fed->at++] : NULL;
}

static size_t reach(lua_State *L, const char *prefix, const char *text, size_t size) {
  Fed fed = {prefix, text, size, 0};
  lua_load(L, feed, &fed, "=input");
  size_t end =
      is_about_end(L) ? size + 1 : fed.at; /* a sign's end is seen by what follows it */
  lua_pop(L, 1);
  return end;
}

/* What the input turned out to be. */
typedef struct Input {
  bool values; /* expressions: the chunk returns nil, then their values */
  bool locals; /* statements with locals, which are global now */
} Input;

/* A Lua status. The nil keeps a single call from being a tail call, whose frame, and
 * with it the line of an error, would be gone. Of two messages, that of the reading that got
 * furthest is about what was meant. */
static int load_input(lua_State *L, const char *text, size_t size, const char *name,
                      Input *in) {
  static const char values[] = "return nil, ";
  *in = (Input){.values = !load_prefixed(L, values, text, size, name)};
  if (in->values) return 0;
  int status = load_statements(L, text, size, name, &in->locals);
  if (status && reach(L, values, text, size) > reach(L, statements_prefix(text), text, size))
    lua_pop(L, 1);
  else
    lua_remove(L, -2);
  return status;
}

static bool is_command(const char *text) {
  return *text == '?' || *text == '!' || (*text == ':' && text[1] != ':');
}

static const char *skip_spaces(const char *s) {
  while (isspace((unsigned char)*s)) s++;
  return s;
}

/* A string in quotes that its line does not end is a mistake, not a beginning. */
static bool breaks_string(const char *text, size_t size) {
  TsToken t = {.size = 0};
  for (size_t at = 0; at < size; at += t.size) t = ts_lex_next(text, size, at);
  bool quotes = t.size && (text[t.start] == '"' || text[t.start] == '\'');
  return quotes && t.open && text[size - 1] != '\\';
}

static int is_incomplete(void *arg, const char *text, size_t size) {
  lua_State *L = arg;
  const char *start = skip_spaces(text);
  size_t skipped = (size_t)(start - text);
  if (is_command(start) || skipped >= size || breaks_string(text, size)) return 0;
  if (*start == '=') start++, skipped++;
  Input in;
  if (!load_input(L, start, size - skipped, "=input", &in)) {
    lua_pop(L, 1);
    return 0;
  }
  bool more = is_about_end(L);
  lua_pop(L, 1);
  return more;
}

/* ---- running */
static bool is_silenced(const char *text, size_t size) {
  size_t last = 0;
  for (size_t at = 0; at < size;) {
    TsToken t = ts_lex_next(text, size, at);
    if (t.kind != TS_LEX_SPACE && t.kind != TS_LEX_COMMENT) last = t.start;
    at += t.size;
  }
  return size > 0 && text[last] == ';';
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
  Input in;
  if (load_input(L, text, size, name, &in)) {
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
    show_values(L, base + (in.values ? 2 : 1), is_silenced(text, size));
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
  const char *rest = skip_spaces(text + n);
  size_t size = strlen(rest);
  while (size && isspace((unsigned char)rest[size - 1])) size--;
  lua_pushlstring(L, rest, size);
  bool json = strstr(rest, "--json") != NULL;
  if (ts_command_call(L, text) && !(json && told_as_json(L))) ts_run_print(L);
  lua_settop(L, base);
}

static void run_input(lua_State *L, const char *text, size_t size) {
  const char *start = skip_spaces(text);
  if (start == text + size) return;
  if (is_command(start)) {
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
  if (is_command(skip_spaces(text))) return;
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
                                   .incomplete = is_incomplete,
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
