/* The machine code of LuaJIT's traces and their lines, as lib/lua/luajit.lua tells. An entry is
 * filled before it is counted: the handler may come at any time. */
#include "repl/interrupt_places.h"

#include <lauxlib.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "repl/report.h"

enum { MOST = 1024, WORDS = 64 };

static TsMachineCode trace[MOST];
static volatile sig_atomic_t ntrace;

int ts_interrupt_traces(TsMachineCode const **first) {
  *first = trace;
  return ntrace;
}

/* note(address, size, place [, number, loop, exit]) */
static int note(lua_State *L) {
  if (ntrace == MOST) return 0;
  TsMachineCode *t = &trace[ntrace];
  t->start = (uintptr_t)(intptr_t)luaL_checknumber(L, 1);
  t->end = t->start + (uintptr_t)luaL_checknumber(L, 2);
  strncpy(t->place, luaL_checkstring(L, 3), sizeof t->place - 1);
  t->number = (int)luaL_optinteger(L, 4, 0);
  t->loop = (int)luaL_optinteger(L, 5, 0);
  t->exit = (uintptr_t)(intptr_t)luaL_optnumber(L, 6, 0);
  atomic_signal_fence(memory_order_release);
  ntrace++;
  return 0;
}

static int forget(lua_State *L) {
  (void)L;
  ntrace = 0;
  return 0;
}

/* The newest has the place of those that were thrown away. */
static const TsMachineCode *trace_at(uintptr_t at) {
  for (int i = ntrace; i-- > 0;)
    if (at >= trace[i].start && at < trace[i].end) return &trace[i];
  return NULL;
}

/* The instruction, and the words of C's stack above it: what a trace calls stands there, and with it
 * where that returns to. */
static uintptr_t address(const ucontext_t *at, int i) {
#if defined __x86_64__
  uintptr_t pc = (uintptr_t)at->uc_mcontext.gregs[REG_RIP];
  uintptr_t sp = (uintptr_t)at->uc_mcontext.gregs[REG_RSP];
#elif defined __aarch64__
  uintptr_t pc = (uintptr_t)at->uc_mcontext.pc, sp = (uintptr_t)at->uc_mcontext.sp;
#else
  uintptr_t pc = 0, sp = 0;
  (void)at;
#endif
  return i < 0 ? pc : sp ? ((const uintptr_t *)sp)[i] : 0;
}

const TsMachineCode *ts_interrupt_running(const ucontext_t *at) {
  const TsMachineCode *t = NULL;
  for (int i = -1; !t && i < WORDS; i++) t = trace_at(address(at, i));
  return t;
}

bool ts_interrupt_is_between(const ucontext_t *at, uintptr_t from, uintptr_t to) {
  for (int i = -1; i < WORDS; i++)
    if (address(at, i) >= from && address(at, i) < to) return true;
  return false;
}

bool ts_interrupt_place(lua_State *L, const ucontext_t *at, char place[TS_PLACE_ROOM]) {
  const TsMachineCode *t = ts_interrupt_running(at);
  if (!t) return ts_report_place(L, 0, place, TS_PLACE_ROOM);
  memcpy(place, t->place, TS_PLACE_ROOM);
  return true;
}

void ts_interrupt_open_places(lua_State *L) {
  static const luaL_Reg functions[] = {{"note", note}, {"forget", forget}, {NULL, NULL}};
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "loaded");
  lua_newtable(L);
  luaL_register(L, NULL, functions);
  lua_setfield(L, -2, "tessera.interrupt");
  lua_pop(L, 2);
}
