/* Texts of IR that Lua gives. See repl/lua/text.h. */
#include "repl/lua/text.h"

#include <lauxlib.h>
#include <string.h>

#include "repl/lua_api.h"

int ts_lua_text_whole(const char *text, size_t len, TsError *err) {
  size_t end = strlen(text);
  int line = 1;
  if (end == len) return 0;
  for (size_t i = 0; i < end; i++) line += text[i] == '\n';
  ts_error_set(err, TS_ERR_format,
               "line %d: the text contains a zero byte, behind %zu of its %zu bytes", line, end,
               len);
  return ts_error_hint(err, "texts of IR are plain text: is this a file of another kind?");
}

const char *ts_lua_check_text(lua_State *L, int index, const char *who) {
  size_t len;
  TsError e = {0};
  const char *text = luaL_checklstring(L, index, &len);
  if (ts_lua_text_whole(text, len, &e))
    ts_lua_fail(L, e.code, "%s: %s\n  hint: %s", who, e.message, e.hint);
  return text;
}
