/* Tensors as userdata: from tensors to Lua values and back, and what ends them.
 *
 * A finalizer would double what a small operator costs: the collector moves each dead userdata
 * to a list of its own, calls a Lua function for it, and frees it only in the next cycle. So
 * tensors have none. Instead the state's allocator, which ours stands before, is asked to free
 * a block; if that is one of a tensor, the tensor goes with it. A block is one of ours if it
 * has the size, and where the userdata's bytes lie a number that is made of its own address:
 * nothing else ends up with that. Blocks that were freed are kept for the next tensors. Like a
 * finalizer this runs while the collector works, in any allocation, so what ends a tensor calls
 * no Lua.
 *
 * LuaJIT's compiled code cannot make userdata. For the results of calls that it makes itself
 * there are empty ones made beforehand (repl/lua/fast.c), which then may hold a loose value
 * (vm/core/defer.h) instead of a tensor. *Rejected:* cdata, which compiled code can make:
 * half of Lua's library and of its errors tell it from userdata. */
#include <luajit.h>
#include <stdint.h>
#include <sys/mman.h>

#include "devices/memory.h"
#include "repl/interrupt.h"
#include "repl/lua/box.h"
#include "lib/clock.h"

typedef struct Spare {
  struct Spare *next;
} Spare;

typedef struct Block {
  char *at;
  size_t nbytes;
} Block;

static struct {
  lua_Alloc alloc; /* the state's own */
  void *arg;
  size_t nbytes, offset; /* of a block, and in it of the box; nothing: 0 */
  Spare *spare;
  Block seen[64]; /* given most recently, in a ring */
  unsigned nseen;
  const TsDefer *defer;
} boxes;

TsTensor *ts_lua_tensor(lua_State *L, int index) {
  TsBox *b = lua_touserdata(L, index); /* light ones have no length */
  if (!b || lua_objlen(L, index) != sizeof *b) return NULL;
  if (b->key != ts_box_key(b)) return NULL;
  if (!ts_word_is_loose(b->word)) return ts_word_tensor(b->word);
  TsTensor *t = boxes.defer->show(b->word);
  if (!t) luaL_error(L, "out of memory");
  return t;
}

/* ---- the collector does not see tensor memory: it is charged here. A full
 * collection runs when the storages made since the last one exceed a seventh of what
 * survived it, so that garbage never holds more than that beside live tensors. With
 * little alive the floor rules: 4 MiB, or more while collections of a large Lua heap
 * would take over an eighth of the time. Memory of devices is another: nothing but
 * tensors wants it, a program that fills it collects (ts_tensor_room), and what runs
 * there waits for nobody, so its floor is higher, and what counts is by how much more is
 * alive than the least since the last collection: a step of training, or a sum over
 * several devices, makes as many bytes as it frees itself, and leaves no garbage. */
typedef struct Charge {
  int64_t allocated; /* of the host: at the last collection */
  int64_t alive;     /* of devices: the least since then */
  int64_t allowance; /* bytes until the next one */
  int64_t floor, least, most;
} Charge;

static Charge here = {
    .allowance = 4 << 20, .floor = 4 << 20, .least = 4 << 20, .most = 64 << 20};
static Charge there = {
    .allowance = 16 << 20, .floor = 16 << 20, .least = 16 << 20, .most = 2048LL << 20};
static double finished; /* when the last collection ended, seconds */

static bool is_due(const Charge *c, int64_t allocated) {
  return allocated - c->allocated >= c->allowance;
}

static bool has_grown(Charge *c, int64_t live) {
  if (live < c->alive) c->alive = live;
  return live - c->alive >= c->allowance;
}

static void grow(Charge *c, double share) {
  if (share > 0.125 && c->floor < c->most) c->floor *= 2;
  if (share < 0.03 && c->floor > c->least) c->floor /= 2;
}

static void begin(Charge *c, int64_t allocated, int64_t live) {
  c->allocated = allocated, c->alive = live;
  c->allowance = live / 7 > c->floor ? live / 7 : c->floor;
}

static int64_t made_here(const TsContext *c) { return c->allocated - c->allocated_there; }

/* LuaJIT's traces hold the closures that they were made for, and so the tensors that these
 * hold, also when nobody else does any more. When what is alive has doubled, they are thrown
 * away and made again: garbage that they hold is never more than what is alive, or FEW. */
enum { FEW = 128 << 20 };
static int64_t
    released; /* what was alive when they were thrown away last, or the least since */

static int throw_away(lua_State *L) { /* an error while a finaliser runs */
  luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_FLUSH);
  return 0;
}

void ts_lua_release_traces(lua_State *L) {
  if (lua_cpcall(L, throw_away, NULL)) lua_pop(L, 1);
  lua_gc(L, LUA_GCCOLLECT, 0);
  released = ts_lua_context(L)->live_bytes;
}

/* Only the side that asked for it learns from what it took. */
static void collect(lua_State *L, TsContext *c) {
  bool asked = is_due(&here, made_here(c));
  double start = ts_clock_usec();
  lua_gc(L, LUA_GCCOLLECT, 0);
  if (c->live_bytes < released) released = c->live_bytes;
  if (c->live_bytes > FEW && c->live_bytes / 2 > released) ts_lua_release_traces(L);
  double end = ts_clock_usec(), share = (end - start) / (end - finished);
  if (ts_defer_settle(c, false)) ts_error_clear(&c->err); /* whoever reads them will be told */
  grow(asked ? &here : &there, share);
  finished = end;
  begin(&here, made_here(c), c->live_bytes - c->live_there);
  begin(&there, c->allocated_there, c->live_there);
}

bool ts_lua_box_is_due(const TsContext *c) {
  return is_due(&here, made_here(c)) || has_grown(&there, c->live_there);
}

/* ---- the allocator */
static void end(TsBox *b) {
  b->key = 0;
  if (ts_word_is_loose(b->word))
    boxes.defer->drop(b->word);
  else
    ts_tensor_unref(ts_word_tensor(b->word));
}

/* True if the block was a tensor's, and is kept. */
static bool take_back(void *at) {
  TsBox *b = (TsBox *)((char *)at + boxes.offset);
  if (b->key != ts_box_key(b)) return false;
  end(b);
  Spare *s = at;
  s->next = boxes.spare;
  boxes.spare = s;
  return true;
}

/* What Lua asks for itself. Code that LuaJIT has compiled does not survive being refused, so it
 * is given a little more, from what was kept for that, and the program gets its error at the
 * next instruction that is interpreted. Whoever is refused gets LuaJIT's error at once, and no
 * other. */
enum { KEPT = 1 << 20, LENIENCE = 16 << 20, LITTLE = 1 << 20, AHEAD = 64 << 10 };

static struct {
  void *kept;     /* goes back to the system when it has no more */
  int64_t beyond; /* bytes given although too few are left */
  int64_t until;  /* for tests: so many requests go well before one is refused */
  int64_t asked;  /* bytes that may still be given without asking; none while `until` counts */
} last;

int64_t ts_lua_fail_after(int64_t n) {
  int64_t left = last.until;
  last.until = n;
  last.asked = 0;
  return left;
}

void ts_lua_keep_memory(void) {
  last.beyond = 0;
  if (!last.kept) last.kept = ts_memory_map(KEPT);
}

static bool may_have(int64_t more) {
  bool refused = last.until > 0 && --last.until == 0;
  if (refused) last.until = -1;
  int64_t n = last.until > 0 ? more : more + AHEAD;
  if (!refused && (ts_memory_pretends() || ts_memory_may_grow(n)))
    return last.asked += n - more, true;
  if (more > LITTLE || (last.beyond += more) > LENIENCE) return false;
  ts_interrupt_out_of_memory();
  return true;
}

/* The system had no more. */
static void *ask_again(void *at, size_t before, size_t after) {
  void *p = ts_memory_reclaim() ? boxes.alloc(boxes.arg, at, before, after) : NULL;
  if (p || !last.kept) return p;
  munmap(last.kept, KEPT);
  last.kept = NULL;
  p = boxes.alloc(boxes.arg, at, before, after);
  if (p) ts_interrupt_out_of_memory();
  return p;
}

static void *give(void *arg, void *at, size_t before, size_t after) {
  (void)arg;
  if (!after) {
    if (at && before == boxes.nbytes && take_back(at)) return NULL;
    return boxes.alloc(boxes.arg, at, before, 0);
  }
  if (!at && after == boxes.nbytes && boxes.spare) {
    Spare *s = boxes.spare;
    boxes.spare = s->next;
    return s;
  }
  int64_t more = after > before ? (int64_t)(after - before) : 0;
  if (more <= last.asked)
    last.asked -= more;
  else if (!may_have(more))
    return NULL;
  void *p = boxes.alloc(boxes.arg, at, before, after);
  return p ? p : ask_again(at, before, after);
}

/* As ever, for the collector may run meanwhile and free tensors. */
static void *watch(void *arg, void *at, size_t before, size_t after) {
  at = give(arg, at, before, after);
  if (after) boxes.seen[boxes.nseen++ % 64] = (Block){at, after};
  return at;
}

/* How large the block of a value is, and where its bytes are, is LuaJIT's matter: one is made
 * to see. Its block need not be the last that was given: the collector may move tables and the
 * compiler ask for room before the value's maker returns. */
static void measure(TsBox *b) {
  b->key = 0;
  boxes.nbytes = 0;
  for (unsigned i = 1; i <= 64 && i <= boxes.nseen && !boxes.nbytes; i++) {
    Block *s = &boxes.seen[(boxes.nseen - i) % 64];
    if ((char *)b < s->at || (char *)(b + 1) > s->at + s->nbytes) continue;
    boxes.offset = (size_t)((char *)b - s->at);
    boxes.nbytes = s->nbytes;
  }
  boxes.nseen = 0;
  if (!boxes.nbytes) TS_BUG("LuaJIT's values are not where they were allocated");
}

void ts_lua_open_box(lua_State *L) {
  luaL_checkstack(L, 4, "tensors");
  boxes.alloc = lua_getallocf(L, &boxes.arg);
  lua_setallocf(L, watch, NULL);
  TsBox *b = lua_newuserdata(L, sizeof *b);
  lua_setallocf(L, give, NULL);
  measure(b);
  lua_pop(L, 1);
}

void ts_lua_loose_boxes(const TsDefer *defer) { boxes.defer = defer; }

void ts_lua_close_box(lua_State *L) {
  if (boxes.alloc) lua_setallocf(L, boxes.alloc, boxes.arg);
}

/* ---- pushing */
static int metatable_ref = LUA_NOREF; /* in the registry; by number it is fastest */

void ts_lua_box_metatable(lua_State *L) { metatable_ref = luaL_ref(L, LUA_REGISTRYINDEX); }

void ts_lua_push_metatable(lua_State *L) { lua_rawgeti(L, LUA_REGISTRYINDEX, metatable_ref); }

void ts_lua_fill_boxes(lua_State *L, int n, TsBox **box) {
  int table = lua_gettop(L);
  lua_rawgeti(L, LUA_REGISTRYINDEX, metatable_ref);
  for (int i = 0; i < n; i++) {
    box[i] = lua_newuserdata(L, sizeof *box[i]);
    box[i]->key = 0;
    lua_pushvalue(L, table + 1);
    lua_setmetatable(L, table + 2);
    lua_rawseti(L, table, i + 1);
  }
  lua_settop(L, table);
}

void ts_lua_push(lua_State *L, TsTensor *t) {
  TsBox *b = lua_newuserdata(L, sizeof *b);
  b->word = ts_word_of(t);
  b->key = ts_box_key(b);
  lua_rawgeti(L, LUA_REGISTRYINDEX, metatable_ref);
  lua_setmetatable(L, -2);
  TsContext *c = t->storage->ctx;
  if (ts_lua_box_is_due(c)) collect(L, c);
}
