/* io.lines and file:lines. As LuaJIT's, but Ctrl-C means something: what reads a line is told of it
 * by an error of its own, "Interrupted system call". */
#include <errno.h>
#include <lauxlib.h>
#include <string.h>

#include "repl/interrupt.h"
#include "repl/run.h"

/* Behind upvalue 1, which is called with what the caller gave. */
static int call_through(lua_State *L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  return lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
}

/* The error on the top, with the caller's position where it had ours. */
static int raise(lua_State *L) {
  if (lua_type(L, -1) == LUA_TSTRING) {
    luaL_where(L, 1);
    luaL_gsub(L, lua_tostring(L, -2), "to '?'", "to 'lines'");
    lua_concat(L, 2);
  }
  return lua_error(L);
}

static int next_line(lua_State *L) {
  if (!call_through(L)) return lua_gettop(L);
  const char *text = lua_tostring(L, -1);
  if (!ts_interrupt_wanted() || !text || !strstr(text, strerror(EINTR))) return raise(L);
  ts_interrupt_raised(L);
  ts_interrupt_push_where(L, 1);
  lua_pushliteral(L, "interrupted");
  lua_concat(L, 2);
  return lua_error(L);
}

static int lines(lua_State *L) {
  if (call_through(L)) return raise(L);
  lua_pushvalue(L, 1);
  lua_pushcclosure(L, next_line, 1);
  lua_replace(L, 1);
  return lua_gettop(L);
}

/* t.lines, of the table on the top. */
static void wrap(lua_State *L) {
  lua_getfield(L, -1, "lines");
  lua_pushcclosure(L, lines, 1);
  lua_setfield(L, -2, "lines");
}

void ts_run_open_lines(lua_State *L) {
  lua_getglobal(L, "io");
  wrap(L);
  lua_pop(L, 1);
  luaL_getmetatable(L, "FILE*");
  if (lua_istable(L, -1)) wrap(L);
  lua_pop(L, 1);
}
