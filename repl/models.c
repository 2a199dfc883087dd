/* Models at the command line: what is asked for goes to lib/lua/hf/cli/command.lua; lines of a
 * conversation are read here, by the editor of the prompt. */
#include "repl/models.h"

#include <lauxlib.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "repl/edit/edit.h"
#include "repl/interrupt.h"
#include "repl/run.h"

/* {{is an option, word}, ..} */
static void push_words(lua_State *L, const TsOptions *o) {
  lua_createtable(L, o->nwords, 0);
  for (int i = 0; i < o->nwords; i++) {
    lua_createtable(L, 2, 0);
    lua_pushboolean(L, o->word[i].kind == 'o');
    lua_rawseti(L, -2, 1);
    lua_pushstring(L, o->word[i].value);
    lua_rawseti(L, -2, 2);
    lua_rawseti(L, -2, i + 1);
  }
}

static void push_names(lua_State *L) {
  lua_newtable(L);
  const char *word, *last = NULL;
  for (int i = 0, n = 0; (word = ts_options_word(i)); i++) {
    if (word != last) {
      lua_pushstring(L, word);
      lua_rawseti(L, -2, ++n);
    }
    last = word;
  }
}

static int failed(lua_State *L) {
  ts_run_print(L);
  return ts_interrupt_stopped() ? TS_EXIT_INTERRUPTED : TS_EXIT_ERROR;
}

/* One line of the function at `turn`. -1: go on. */
static int say(lua_State *L, int turn, const char *line, size_t size, int *worst) {
  lua_pushvalue(L, turn);
  lua_pushlstring(L, line, size);
  if (ts_run_call(L, 1, 1)) {
    *worst = failed(L);
    return -1;
  }
  bool quit = lua_isboolean(L, -1) && lua_toboolean(L, -1);
  if (lua_isnumber(L, -1)) *worst = (int)lua_tointeger(L, -1);
  lua_pop(L, 1);
  fflush(stdout);
  return quit ? TS_EXIT_OK : -1;
}

/* As at the prompt, Ctrl-C is held back except where somebody waits for a line or an answer. Of a
 * pipe a line that failed is the exit code. */
static int converse(lua_State *L, int turn) {
  bool terminal = isatty(STDIN_FILENO);
  if (terminal) {
    struct sigaction action = {.sa_handler = ts_interrupt_keep};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    ts_interrupt_set_script(false);
  }
  TsEdit *edit = ts_edit_open(STDIN_FILENO, STDOUT_FILENO, NULL);
  if (!edit) {
    perror("tessera: --chat");
    return TS_EXIT_ERROR;
  }
  if (ts_edit_interactive(edit))
    printf("/help lists commands; Ctrl-C ends an answer, Ctrl-D the conversation\n");
  int code = -1, worst = TS_EXIT_OK;
  while (code < 0) {
    if (terminal) ts_edit_hold_interrupts(true);
    if (terminal && ts_interrupt_drop()) printf("\n"), fflush(stdout);
    char *line = ts_edit_read(edit, "> ", "> ");
    size_t size = line ? ts_edit_size(edit) : 0;
    if (terminal) ts_interrupt_drop(), ts_edit_hold_interrupts(false);
    TsEditStatus status = ts_edit_status(edit);
    if (!line && status == TS_EDIT_INTERRUPTED && terminal) {
      if (!ts_edit_interactive(edit)) printf("\n"), fflush(stdout);
      continue;
    }
    if (!line) {
      if (status == TS_EDIT_FAILED) perror("tessera: --chat"), worst = TS_EXIT_ERROR;
      if (status == TS_EDIT_INTERRUPTED) worst = TS_EXIT_INTERRUPTED;
      break;
    }
    if (terminal) ts_edit_remember(edit, line);
    code = say(L, turn, line, size, &worst);
    free(line);
    if (!terminal && worst == TS_EXIT_INTERRUPTED) break;
  }
  ts_edit_close(edit);
  return terminal ? TS_EXIT_OK : worst;
}

int ts_models_run(lua_State *L, const TsOptions *o) {
  int base = lua_gettop(L);
  if (ts_run_require(L, "tessera.hf.cli.command")) return TS_EXIT_ERROR;
  lua_getfield(L, -1, "run");
  lua_pushstring(L, o->command);
  lua_pushstring(L, o->model);
  push_words(L, o);
  push_names(L);
  int code;
  if (ts_run_call(L, 4, 2))
    code = failed(L);
  else if (lua_isnumber(L, -2))
    code = (int)lua_tointeger(L, -2);
  else
    code = converse(L, lua_gettop(L));
  lua_settop(L, base);
  return code;
}
