/* The context's error as one of Lua's, with the line of the call; and texts, whose memory Lua may not
 * have. See repl/lua_api.h. */
#include <stdarg.h>
#include <stdio.h>

#include "lib/text.h"
#include "repl/interrupt.h"
#include "repl/lua_api.h"
#include "repl/report.h"
#include "vm/core/mapped.h"

int ts_lua_raise(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsError *e = &c->err;
  ts_mapped_settle(c); /* if bytes were gone, whatever else went wrong follows from that */
  if (e->code == TS_OK) ts_error_memory(e);
  if (e->code == TS_ERR_interrupt) ts_interrupt_raised(L);
  char name[40];
  if (ts_report_function(L, 0, name, sizeof name)) ts_op_error_of(e, name);
  ts_report_note_code(e);
  ts_report_where(L, 1);
  lua_pushstring(L, e->message);
  if (e->hint[0]) {
    lua_pushliteral(L, "\n  hint: ");
    lua_pushstring(L, e->hint);
  }
  lua_concat(L, e->hint[0] ? 4 : 2);
  ts_error_clear(e);
  return lua_error(L);
}

int ts_lua_fail(lua_State *L, TsErrorCode code, const char *format, ...) {
  va_list ap;
  char text[400];
  va_start(ap, format);
  vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  ts_error_set(&ts_lua_context(L)->err, code, "%s", text);
  return ts_lua_raise(L);
}

static int push_whole(lua_State *L) {
  const TsText *t = lua_touserdata(L, 1);
  lua_pushlstring(L, t->at ? t->at : "", t->len);
  return 1;
}

void ts_lua_push_text(lua_State *L, TsText *t) {
  bool whole = !t->failed;
  luaL_checkstack(L, 4, "text");
  lua_pushcfunction(L, push_whole);
  lua_pushlightuserdata(L, t);
  int status = whole ? lua_pcall(L, 1, 1, 0) : 0; /* Lua's memory may run out */
  ts_text_free(t);
  if (!whole) ts_lua_fail(L, TS_ERR_memory, "out of memory for a text");
  if (status) lua_error(L);
}
