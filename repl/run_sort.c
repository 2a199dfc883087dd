/* table.sort of long lists of numbers or strings, by their own order: LuaJIT's looks at no Ctrl-C. The
 * list is sorted beside the table, which stays as it was if that is interrupted. Everything else,
 * with NaN among the numbers too, is LuaJIT's. */
#include <lauxlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "repl/interrupt.h"
#include "repl/run.h"

enum { LONG = 20000, LOOK = 1 << 15 };

typedef struct Item {
  const char *text; /* of a string; the table holds it */
  double number;    /* or its length */
  int place;
} Item;

static bool before(const Item *a, const Item *b) {
  if (!a->text) return a->number < b->number;
  size_t n = (size_t)a->number, m = (size_t)b->number;
  int order = memcmp(a->text, b->text, n < m ? n : m);
  return order ? order < 0 : n < m;
}

static void look(lua_State *L) {
  if (!ts_interrupt_wanted() || ts_cpu_holds_interrupts()) return;
  ts_interrupt_raised(L);
  ts_interrupt_push_where(L, 1);
  lua_pushliteral(L, "interrupted");
  lua_concat(L, 2);
  lua_error(L);
}

/* Of table 1; false: not all are numbers, or all strings. */
static bool read_items(lua_State *L, Item *item, int n) {
  for (int i = 0; i < n; i++) {
    if (i % LOOK == 0) look(L);
    lua_rawgeti(L, 1, i + 1);
    size_t size = 0;
    bool string = lua_type(L, -1) == LUA_TSTRING, number = lua_type(L, -1) == LUA_TNUMBER;
    item[i].text = string ? lua_tolstring(L, -1, &size) : NULL;
    item[i].number = string ? (double)size : number ? lua_tonumber(L, -1) : 0;
    item[i].place = i + 1;
    lua_pop(L, 1);
    if ((!string && !number) || string != (item[0].text != NULL)) return false;
    if (item[i].number != item[i].number) return false;
  }
  return true;
}

static void merge(const Item *from, Item *to, int lo, int mid, int hi) {
  for (int a = lo, b = mid, at = lo; at < hi; at++)
    to[at] = b == hi || (a < mid && !before(&from[b], &from[a])) ? from[a++] : from[b++];
}

/* Runs of twice the length each time, from one array to the other. */
static const Item *sorted(lua_State *L, Item *item, Item *other, int n) {
  for (int64_t size = 1; size < n; size *= 2) {
    int64_t done = 0;
    for (int64_t lo = 0; lo < n; lo += 2 * size) {
      int64_t mid = lo + size < n ? lo + size : n, hi = lo + 2 * size < n ? lo + 2 * size : n;
      merge(item, other, (int)lo, (int)mid, (int)hi);
      done += hi - lo;
      if (done >= LOOK) done = 0, look(L);
    }
    Item *was = item;
    item = other, other = was;
  }
  return item;
}

static int sort(lua_State *L) {
  lua_CFunction plain = lua_tocfunction(L, lua_upvalueindex(1));
  int n = lua_istable(L, 1) && lua_isnoneornil(L, 2) ? (int)lua_objlen(L, 1) : 0;
  if (n < LONG) return plain(L);
  lua_settop(L, 1);
  Item *item = lua_newuserdata(L, sizeof *item * (size_t)n * 2);
  if (!read_items(L, item, n)) return lua_settop(L, 1), plain(L);
  const Item *in = sorted(L, item, item + n, n);
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    if (i % LOOK == 0) look(L);
    lua_rawgeti(L, 1, in[i].place);
    lua_rawseti(L, 3, i + 1);
  }
  for (int i = 1; i <= n; i++) lua_rawgeti(L, 3, i), lua_rawseti(L, 1, i);
  return 0;
}

void ts_run_open_sort(lua_State *L) {
  lua_getglobal(L, "table");
  lua_getfield(L, -1, "sort");
  lua_pushcclosure(L, sort, 1);
  lua_setfield(L, -2, "sort");
  lua_pop(L, 1);
}
