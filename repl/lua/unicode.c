/* Cases of letters for Lua, which chat templates ask for (lib/lua/hf/jinja/strings.lua). */
#include <string.h>

#include "lib/text.h"
#include "repl/lua_api.h"
#include "text/char.h"

/* text_case(text, "lower", "upper" or "title"): each character in that case. */
static int text_case(lua_State *L) {
  size_t n;
  const char *s = luaL_checklstring(L, 1, &n), *how = luaL_checkstring(L, 2);
  if (!ts_text_is_utf8(s, n)) return ts_lua_fail(L, TS_ERR_format, "text_case: not UTF-8");
  luaL_Buffer out;
  luaL_buffinit(L, &out);
  for (size_t i = 0; i < n;) {
    uint32_t len, to[2];
    uint32_t c = ts_char_get(s + i, &len);
    int count = *how == 'l' ? ts_char_lower(c, to) : ts_char_upper(c, *how == 't', to);
    for (int k = 0; k < count; k++) {
      char bytes[4];
      luaL_addlstring(&out, bytes, ts_char_put(bytes, to[k]));
    }
    i += len;
  }
  luaL_pushresult(&out);
  return 1;
}

static int is_utf8(lua_State *L) {
  size_t n;
  const char *s = luaL_checklstring(L, 1, &n);
  lua_pushboolean(L, ts_text_is_utf8(s, n));
  return 1;
}

void ts_lua_open_unicode(lua_State *L) {
  lua_pushcfunction(L, text_case);
  lua_setfield(L, -2, "text_case");
  lua_pushcfunction(L, is_utf8);
  lua_setfield(L, -2, "is_utf8");
}
