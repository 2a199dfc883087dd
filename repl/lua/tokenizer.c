/* Tokenizers for Lua: what lib/lua/hf/tokenizer.lua stands on. */
#include <string.h>

#include "repl/lua_api.h"
#include "text/tokenizer.h"

static const char TYPE[] = "tessera.tokenizer";

static TsTokenizer *check(lua_State *L) {
  TsTokenizer **t = luaL_checkudata(L, 1, TYPE);
  if (!*t) ts_lua_fail(L, TS_ERR_argument, "the tokenizer is closed");
  return *t;
}

/* tokenizer(json) -> tokenizer */
static int tokenizer(lua_State *L) {
  size_t n;
  const char *json = luaL_checklstring(L, 1, &n);
  TsTokenizer **t = lua_newuserdata(L, sizeof *t);
  *t = NULL;
  luaL_getmetatable(L, TYPE);
  lua_setmetatable(L, -2);
  *t = ts_tokenizer_read(json, n, &ts_lua_context(L)->err);
  return *t ? 1 : ts_lua_raise(L);
}

static void set(lua_State *L, const char *name) { lua_setfield(L, -2, name); }

/* A list of what each token has. */
static void list(lua_State *L, const TsEncoding *e, const char *name,
                 double (*of)(const TsItem *)) {
  lua_createtable(L, (int)e->n, 0);
  for (uint32_t i = 0; i < e->n; i++) {
    lua_pushnumber(L, of(&e->at[i]));
    lua_rawseti(L, -2, (int)i + 1);
  }
  set(L, name);
}

static double id_of(const TsItem *t) { return t->id; }
static double type_of(const TsItem *t) { return t->type; }
static double special_of(const TsItem *t) { return t->special; }
static double word_of(const TsItem *t) {
  return t->word == TS_NO_WORD ? 0 : (double)t->word + 1;
}

/* Places as string.sub takes them; {1, 0}, which is nothing, of what was put in. */
static void offsets(lua_State *L, const TsEncoding *e) {
  lua_createtable(L, (int)e->n, 0);
  for (uint32_t i = 0; i < e->n; i++) {
    lua_createtable(L, 2, 0);
    lua_pushnumber(L, (double)e->at[i].from + 1);
    lua_rawseti(L, -2, 1);
    lua_pushnumber(L, e->at[i].to);
    lua_rawseti(L, -2, 2);
    lua_rawseti(L, -2, (int)i + 1);
  }
  set(L, "offsets");
}

static bool flag(lua_State *L, const char *name) {
  lua_getfield(L, 4, name);
  bool is = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return is;
}

static const char *word(lua_State *L, const char *name) {
  lua_getfield(L, 4, name);
  const char *s = lua_tostring(L, -1);
  lua_pop(L, 1); /* the table has it */
  return s ? s : "";
}

/* The encoding as a table. */
static void push(lua_State *L, const TsEncodeInput *in, const TsEncoding *e) {
  lua_createtable(L, 0, 8);
  list(L, e, "ids", id_of);
  list(L, e, "types", type_of);
  list(L, e, "special", special_of);
  if (!in->offsets) return;
  list(L, e, "words", word_of);
  offsets(L, e);
}

static int64_t whole(lua_State *L, const char *name) {
  lua_getfield(L, 4, name);
  int64_t v = (int64_t)lua_tonumber(L, -1);
  lua_pop(L, 1);
  return v;
}

/* t:encoded(text, [pair], {add, in_text, offsets = "bytes" or "chars", truncate, most, stride,
 * strategy, left, overflow}) -> {ids, types, special, offsets, words, overflow}: offsets and
 * words where offsets are asked for, a list of what was cut off where that is */
static int encode(lua_State *L) {
  TsTokenizer *t = check(L);
  TsEncodeInput in = {0};
  const TsEncoding *e;
  in.text = luaL_checklstring(L, 2, &in.ntext);
  if (!lua_isnoneornil(L, 3)) in.pair = luaL_checklstring(L, 3, &in.npair);
  luaL_checktype(L, 4, LUA_TTABLE);
  in.special = flag(L, "add");
  in.in_text = flag(L, "in_text");
  const char *places = word(L, "offsets"), *strategy = word(L, "strategy");
  in.offsets = *places;
  in.chars = !strcmp(places, "chars");
  in.truncation.on = flag(L, "truncate");
  in.truncation.left = flag(L, "left");
  in.truncation.strategy = !strcmp(strategy, "first")    ? TS_TRUNCATE_first
                           : !strcmp(strategy, "second") ? TS_TRUNCATE_second
                                                         : TS_TRUNCATE_longest;
  in.truncation.most = whole(L, "most");
  in.truncation.stride = whole(L, "stride");
  in.overflow = flag(L, "overflow");
  TsError *err = &ts_lua_context(L)->err;
  if (ts_tokenizer_encode(t, &in, &e, err)) return ts_lua_raise(L);
  push(L, &in, e);
  if (!in.overflow) return 1;
  lua_newtable(L);
  for (int i = 1, more; (more = ts_tokenizer_more(t, &in, &e, err)) != 0; i++) {
    if (more < 0) return ts_lua_raise(L);
    push(L, &in, e);
    lua_rawseti(L, -2, i);
  }
  set(L, "overflow");
  return 1;
}

/* t:decoded(list of ids, skip special ones) -> text */
static int decode(lua_State *L) {
  TsTokenizer *t = check(L);
  TsContext *c = ts_lua_context(L);
  luaL_checktype(L, 2, LUA_TTABLE);
  size_t n = lua_objlen(L, 2);
  int64_t *ids = lua_newuserdata(L, n * sizeof *ids + 1);
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, 2, (int)i + 1);
    if (lua_type(L, -1) != LUA_TNUMBER || !ts_lua_whole(lua_tonumber(L, -1), &ids[i]))
      return ts_lua_fail(L, TS_ERR_argument, "decode: id %d is no whole number", (int)i + 1);
    if (ids[i] < 0)
      return ts_lua_fail(L, TS_ERR_index, "decode: id %d is %lld, ids begin with 0", (int)i + 1,
                         (long long)ids[i]);
    lua_pop(L, 1);
  }
  TsText text = {0};
  if (ts_tokenizer_decode(t, ids, n, lua_toboolean(L, 3), &text, &c->err)) {
    ts_text_free(&text);
    return ts_lua_raise(L);
  }
  ts_lua_push_text(L, &text);
  return 1;
}

/* t:string_of(id) -> string, whether it is special; nil: there is none */
static int token(lua_State *L) {
  TsTokenizer *t = check(L);
  int64_t id;
  size_t n;
  bool special;
  if (!ts_lua_whole(luaL_checknumber(L, 2), &id))
    return ts_lua_fail(L, TS_ERR_argument, "token: an id is a whole number");
  const char *s = ts_tokenizer_token(t, id, &n, &special);
  if (!s) return 0;
  lua_pushlstring(L, s, n);
  lua_pushboolean(L, special);
  return 2;
}

/* t:bytes_of(id) -> the bytes that it is behind others */
static int bytes_of(lua_State *L) {
  TsTokenizer *t = check(L);
  int64_t id;
  TsText text = {0};
  if (!ts_lua_whole(luaL_checknumber(L, 2), &id))
    return ts_lua_fail(L, TS_ERR_argument, "token: an id is a whole number");
  if (ts_tokenizer_bytes(t, id, &text, &ts_lua_context(L)->err)) {
    ts_text_free(&text);
    return ts_lua_raise(L);
  }
  ts_lua_push_text(L, &text);
  return 1;
}

/* t:id_of(string) -> id, or nil */
static int id(lua_State *L) {
  TsTokenizer *t = check(L);
  size_t n;
  const char *s = luaL_checklstring(L, 2, &n);
  int64_t found = ts_tokenizer_id(t, s, n);
  if (found < 0) return 0;
  lua_pushnumber(L, (double)found);
  return 1;
}

static void number(lua_State *L, const char *name, int64_t v) {
  lua_pushnumber(L, (double)v);
  set(L, name);
}

/* t:about() -> {truncation = {..} or nil, padding = {..} or nil}: what the file says */
static int about(lua_State *L) {
  static const char *const strategies[] = {"longest", "first", "second"};
  TsTokenizer *t = check(L);
  const TsTruncation *k = ts_tokenizer_truncation(t);
  const TsPadding *p = ts_tokenizer_padding(t);
  lua_createtable(L, 0, 2);
  if (k->on) {
    lua_createtable(L, 0, 4);
    number(L, "length", k->most);
    number(L, "stride", k->stride);
    lua_pushstring(L, strategies[k->strategy]);
    set(L, "strategy");
    lua_pushstring(L, k->left ? "left" : "right");
    set(L, "side");
    set(L, "truncation");
  }
  if (p->on) {
    lua_createtable(L, 0, 8);
    if (p->length) number(L, "length", p->length);
    if (p->multiple) number(L, "multiple", p->multiple);
    number(L, "id", p->id);
    number(L, "type", p->type);
    lua_pushstring(L, p->left ? "left" : "right");
    set(L, "side");
    set(L, "padding");
  }
  return 1;
}

static int collect(lua_State *L) {
  TsTokenizer **t = luaL_checkudata(L, 1, TYPE);
  if (*t) ts_tokenizer_free(*t);
  *t = NULL;
  return 0;
}

static int size(lua_State *L) {
  lua_pushnumber(L, (double)ts_tokenizer_size(check(L)));
  return 1;
}

static int shown(lua_State *L) {
  TsText text = {0};
  ts_tokenizer_shown(check(L), &text);
  ts_lua_push_text(L, &text);
  return 1;
}

/* core.tokenizer(json), and core.tokenizer_class, the metatable, to which the library adds
 * methods. */
void ts_lua_open_tokenizer(lua_State *L) {
  static const luaL_Reg method[] = {
      {"encoded", encode},   {"decoded", decode}, {"string_of", token}, {"bytes_of", bytes_of},
      {"id_of", id},         {"about", about},    {"__len", size},      {"__gc", collect},
      {"__tostring", shown}, {NULL, NULL}};
  ts_lua_metatable(L, TYPE, method);
  lua_pushcfunction(L, tokenizer);
  lua_setfield(L, -2, "tokenizer");
  luaL_getmetatable(L, TYPE);
  lua_setfield(L, -2, "tokenizer_class");
}
