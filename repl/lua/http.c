/* net/http for Lua: what lib/lua/hf/server/ stands on. */
#include <lauxlib.h>
#include <signal.h>
#include <string.h>

#include "lib/clock.h"
#include "net/http/http.h"
#include "repl/lua_api.h"

static const char META[] = "tessera.http";
static volatile sig_atomic_t asked_to_stop;

/* The first SIGINT or SIGTERM asks for an end in order, the second ends the program. */
static void ask_to_stop(int number) { asked_to_stop = number; }

static TsHttp **box(lua_State *L) { return luaL_checkudata(L, 1, META); }

static TsHttp *server(lua_State *L) {
  TsHttp *h = *box(L);
  if (!h) luaL_error(L, "http: the server is closed");
  return h;
}

static int64_t id_of(lua_State *L) { return (int64_t)luaL_checknumber(L, 2); }

/* http_open(host, port, most_body, most_heads, patience) */
static int http_open(lua_State *L) {
  TsHttpOptions o = {.host = luaL_checkstring(L, 1),
                     .port = (int)luaL_checkinteger(L, 2),
                     .most_body = (size_t)luaL_checknumber(L, 3),
                     .most_heads = (size_t)luaL_checknumber(L, 4),
                     .patience = (int)luaL_checkinteger(L, 5)};
  TsHttp **h = lua_newuserdata(L, sizeof *h);
  *h = NULL;
  luaL_getmetatable(L, META);
  lua_setmetatable(L, -2);
  *h = ts_http_open(&o, &ts_lua_context(L)->err);
  if (!*h) return ts_lua_raise(L);
  asked_to_stop = 0;
  struct sigaction stop = {.sa_handler = ask_to_stop, .sa_flags = SA_RESETHAND};
  sigemptyset(&stop.sa_mask);
  sigaction(SIGINT, &stop, NULL);
  sigaction(SIGTERM, &stop, NULL);
  signal(SIGPIPE, SIG_IGN); /* who does not take its answer is an error of its own */
  return 1;
}

static int http_close(lua_State *L) {
  TsHttp **h = box(L);
  ts_http_close(*h);
  *h = NULL;
  return 0;
}

static int http_port(lua_State *L) {
  lua_pushinteger(L, ts_http_port(server(L)));
  return 1;
}

/* h:wait(milliseconds): whether it goes on: false behind SIGINT and SIGTERM. */
static int http_wait(lua_State *L) {
  TsHttp *h = server(L);
  if (!asked_to_stop)
    ts_http_wait(h, (int)luaL_checkinteger(L, 2));
  else
    ts_http_wait(h, 0);
  lua_pushboolean(L, !asked_to_stop);
  return 1;
}

/* h:next(): id, method, path, body of a request that came, or nothing. */
static int http_next(lua_State *L) {
  TsHttpRequest r;
  if (!ts_http_next(server(L), &r)) return 0;
  lua_pushnumber(L, (lua_Number)r.id);
  lua_pushstring(L, r.method);
  lua_pushstring(L, r.path);
  lua_pushlstring(L, r.body, r.nbody);
  return 4;
}

static int http_gone(lua_State *L) {
  lua_pushboolean(L, ts_http_is_gone(server(L), id_of(L)));
  return 1;
}

static int http_open_count(lua_State *L) {
  lua_pushinteger(L, ts_http_open_count(server(L)));
  return 1;
}

/* h:reply(id, status, type, body) */
static int http_reply(lua_State *L) {
  size_t n;
  const char *body = luaL_checklstring(L, 5, &n);
  ts_http_reply(server(L), id_of(L), (int)luaL_checkinteger(L, 3), luaL_checkstring(L, 4), body,
                n);
  return 0;
}

/* h:begin(id, type), h:send(id, piece), h:finish(id) */
static int http_begin(lua_State *L) {
  ts_http_begin(server(L), id_of(L), luaL_checkstring(L, 3));
  return 0;
}

static int http_send(lua_State *L) {
  size_t n;
  const char *piece = luaL_checklstring(L, 3, &n);
  ts_http_send(server(L), id_of(L), piece, n);
  return 0;
}

static int http_finish(lua_State *L) {
  ts_http_end(server(L), id_of(L));
  return 0;
}

/* h:seconds(): of a clock that only goes on. */
static int http_seconds(lua_State *L) {
  lua_pushnumber(L, (double)ts_clock_nsec() * 1e-9);
  return 1;
}

static int http_refuse(lua_State *L) {
  ts_http_refuse(server(L));
  return 0;
}

static const luaL_Reg methods[] = {
    {"wait", http_wait},
    {"next", http_next},
    {"gone", http_gone},
    {"reply", http_reply},
    {"begin", http_begin},
    {"send", http_send},
    {"finish", http_finish},
    {"refuse", http_refuse},
    {"open_count", http_open_count},
    {"seconds", http_seconds},
    {"port", http_port},
    {"close", http_close},
    {"__gc", http_close},
    {NULL, NULL},
};

void ts_lua_open_http(lua_State *L) {
  luaL_newmetatable(L, META);
  luaL_register(L, NULL, methods);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  lua_pushcfunction(L, http_open);
  lua_setfield(L, -2, "http_open");
}
