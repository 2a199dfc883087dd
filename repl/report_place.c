/* The lines of the program: of what runs, whichever functions of the library stand in between. A
 * coroutine whose whole body is an operator has none; then it is that of who runs it. */
#include <string.h>

#include "repl/report.h"
#include "repl/run.h"
#include "repl/tail.h"

bool ts_report_is_users(const lua_Debug *ar) {
  return strcmp(ar->what, "C") && strncmp(ar->source, "=tessera", 8);
}

/* For handlers of signals, too: nothing is asked for, or pushed. */
static void put_place(const lua_Debug *ar, char *place, size_t room) {
  char digits[12], *d = digits + sizeof digits;
  *--d = 0;
  for (int n = ar->currentline; n; n /= 10) *--d = (char)('0' + n % 10);
  *--d = ':';
  size_t size = strnlen(ar->short_src, room - sizeof digits);
  memcpy(place, ar->short_src, size);
  strcpy(place + size, d);
}

bool ts_report_place(lua_State *L, int level, char *place, size_t room) {
  lua_Debug ar;
  for (; lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sl", &ar);
    if (ar.currentline <= 0 || !ts_report_is_users(&ar)) continue;
    put_place(&ar, place, room);
    return true;
  }
  return false;
}

/* ---- who runs a coroutine: Lua does not keep it, but who waits has called coroutine.resume or what
 * coroutine.wrap gave last */
static lua_State *coroutine_of(lua_State *L) {
  lua_Debug ar;
  int top = lua_gettop(L);
  lua_State *co = NULL;
  if (!lua_checkstack(L, 4) || !lua_getstack(L, 0, &ar)) return NULL;
  lua_getinfo(L, "f", &ar);
  if (lua_iscfunction(L, -1) && lua_getupvalue(L, -1, 1)) co = lua_tothread(L, -1);
  if (!co && lua_getlocal(L, &ar, 1)) co = lua_tothread(L, -1);
  lua_settop(L, top);
  return co;
}

/* NULL: the main program itself, or unknown. */
static lua_State *runner_of(lua_State *L) {
  enum { MOST = 200 };
  lua_State *at = lua_checkstack(L, 2) ? ts_run_main(L) : NULL;
  if (at == L) return NULL;
  for (int i = 0; at && i < MOST; i++) {
    lua_State *next = coroutine_of(at);
    if (!next || next == L) return at;
    at = next;
  }
  return NULL;
}

bool ts_report_place_of_program(lua_State *L, char *place, size_t room) {
  bool found = false;
  for (; L && !found; L = found ? L : runner_of(L)) found = ts_report_place(L, 0, place, room);
  return found;
}

static bool push_line(lua_State *to, lua_State *L, int level) {
  char place[LUA_IDSIZE + 20];
  bool found = ts_report_place(L, level, place, sizeof place);
  if (found) lua_pushfstring(to, "%s: ", place);
  return found;
}

/* Whether a coroutine.wrap that a line of Lua has called is what L waits for: it puts that line in
 * front of the message itself. */
static bool is_told(lua_State *L) {
  lua_Debug ar;
  if (!lua_getstack(L, 1, &ar)) return false;
  lua_getinfo(L, "l", &ar);
  if (ar.currentline <= 0) return false;
  lua_getstack(L, 0, &ar);
  lua_getinfo(L, "f", &ar);
  bool told = ts_tail_is_wrapped(L, -1);
  lua_pop(L, 1);
  return told;
}

void ts_report_where(lua_State *L, int level) {
  if (push_line(L, L, level)) return;
  for (lua_State *at = runner_of(L); at && !is_told(at); at = runner_of(at))
    if (push_line(L, at, 1)) return;
  lua_pushliteral(L, "");
}
