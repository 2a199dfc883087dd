/* --hash: every tensor that a script returns, one line each:
 *
 *   1.weight f32[3,2] 8c1f0c4d9d6b3a55
 *
 * Tables are walked in order: positions first, then names bytewise. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/text.h"
#include "repl/lua_api.h"
#include "repl/run.h"

typedef struct Walk {
  lua_State *L;
  TsText name; /* path to the value on the stack top */
  int seen;    /* stack index of the tables on the way */
  int count, failed;
} Walk;

static void print_tensor(Walk *w, TsTensor *t) {
  char meta[TS_META_TEXT];
  uint64_t hash;
  TsContext *c = ts_lua_context(w->L);
  w->count++;
  if (ts_tensor_hash(c, t, &hash)) {
    fflush(stdout);
    fprintf(stderr, "tessera: %s: %s\n", w->name.at, c->err.message);
    ts_error_clear(&c->err);
    w->failed = 1;
    return;
  }
  printf("%s %s %016llx\n", w->name.at, ts_meta_text(&t->meta, meta), (unsigned long long)hash);
}

/* Keys as they are sorted: numbers by value before strings by bytes. */
typedef struct Key {
  const char *text; /* NULL for a number */
  size_t size;
  double number;
} Key;

static int compare(const void *a, const void *b) {
  const Key *x = a, *y = b;
  if (!x->text || !y->text) {
    if (x->text || y->text) return x->text ? 1 : -1;
    return (x->number > y->number) - (x->number < y->number);
  }
  size_t n = x->size < y->size ? x->size : y->size;
  int order = memcmp(x->text, y->text, n);
  return order ? order : (x->size > y->size) - (x->size < y->size);
}

/* The keys of the table on the top. Strings are kept alive by it. */
static Key *sorted_keys(lua_State *L, size_t *count) {
  size_t n = 0, room = 0;
  Key *keys = NULL;
  int table = lua_gettop(L);
  for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) {
    int type = lua_type(L, -2);
    if (type != LUA_TNUMBER && type != LUA_TSTRING) continue;
    if (n == room) {
      Key *more = realloc(keys, (room = room ? 2 * room : 16) * sizeof *keys);
      if (!more) break;
      keys = more;
    }
    keys[n] = (Key){.number = type == LUA_TNUMBER ? lua_tonumber(L, -2) : 0};
    if (type == LUA_TSTRING) keys[n].text = lua_tolstring(L, -2, &keys[n].size);
    n++;
  }
  if (n) qsort(keys, n, sizeof *keys, compare);
  *count = n;
  return keys;
}

static void walk_value(Walk *w);

static void walk_table(Walk *w) {
  lua_State *L = w->L;
  lua_pushvalue(L, -1);
  lua_rawget(L, w->seen);
  bool again = !lua_isnil(L, -1);
  lua_pop(L, 1);
  if (again || !lua_checkstack(L, 8)) return;
  lua_pushvalue(L, -1);
  lua_pushboolean(L, 1);
  lua_rawset(L, w->seen);
  size_t count, length = w->name.len;
  Key *keys = sorted_keys(L, &count);
  for (size_t i = 0; i < count; i++) {
    if (keys[i].text) {
      lua_pushlstring(L, keys[i].text, keys[i].size);
      ts_text_format(&w->name, "%s%s", length ? "." : "", keys[i].text);
    } else {
      lua_pushnumber(L, keys[i].number);
      ts_text_format(&w->name, "%s%.14g", length ? "." : "", keys[i].number);
    }
    lua_rawget(L, -2);
    walk_value(w);
    lua_pop(L, 1);
    w->name.at[w->name.len = length] = 0;
  }
  free(keys);
  lua_pushvalue(L, -1); /* shared tables are printed in every place, cycles end */
  lua_pushnil(L);
  lua_rawset(L, w->seen);
}

static void walk_value(Walk *w) {
  TsTensor *t = ts_lua_tensor(w->L, -1);
  if (t)
    print_tensor(w, t);
  else if (lua_istable(w->L, -1))
    walk_table(w);
}

int ts_run_print_hashes(lua_State *L, int first) {
  int last = lua_gettop(L);
  Walk w = {.L = L};
  lua_newtable(L);
  w.seen = lua_gettop(L);
  for (int i = first; i <= last; i++) {
    lua_pushvalue(L, i);
    /* A single table gives its own keys, without "1." before them. */
    ts_text_free(&w.name);
    ts_text_str(&w.name, "");
    if (ts_lua_tensor(L, -1) || last > first) ts_text_format(&w.name, "%d", i - first + 1);
    walk_value(&w);
    lua_pop(L, 1);
  }
  ts_text_free(&w.name);
  lua_pop(L, 1);
  if (!w.count) fprintf(stderr, "tessera: --hash: the script returned no tensor\n");
  return w.failed;
}
