/* Tensors as userdata: from tensors to Lua values and back, and what ends them.
 *
 * A finalizer would double what a small operator costs: the collector moves each dead userdata to
 * a list of its own, calls a Lua function for it, and frees it only in the next cycle. So tensors
 * have none. Instead the state's allocator, which ours stands before, is asked to free a block;
 * if that is one of a tensor, the tensor goes with it. A block is one of ours if it has the size,
 * and where the userdata's bytes lie a number that is made of its own address: nothing else ends
 * up with that. Blocks that were freed are kept for the next tensors. Like a finalizer this runs
 * while the collector works, in any allocation, so what ends a tensor calls no Lua. */
#include <stdint.h>
#include <time.h>

#include "repl/lua_api.h"
#include "vm/defer.h"

/* What the userdata holds. The first word tells our userdata from others', so that checking a
 * type needs no look-up of metatables. */
typedef struct Box {
  uint64_t key;
  TsTensor *t;
} Box;

static uint64_t key_of(const Box *b) {
  return UINT64_C(0x7465737365726174) ^ (uint64_t)(uintptr_t)b;
}

TsTensor *ts_lua_tensor(lua_State *L, int index) {
  Box *b = lua_touserdata(L, index); /* light ones have no length */
  if (!b || lua_objlen(L, index) != sizeof(Box)) return NULL;
  return b->key == key_of(b) ? b->t : NULL;
}

/* ---- the collector does not see tensor memory: it is charged here. A full
 * collection runs when the storages made since the last one exceed a sixth of what
 * survived it, so that garbage never holds more than that beside live tensors. With
 * little alive the floor rules: 4 MiB, or more while collections of a large Lua heap
 * would take over an eighth of the time. */
enum { LEAST_ALLOWANCE = 4 << 20, MOST_ALLOWANCE = 64 << 20 };

static struct {
  int64_t allocated, allowance; /* at the last collection; until the next one */
  int64_t floor;
  double finished; /* when the last one ended, seconds */
} charged = {.allowance = LEAST_ALLOWANCE, .floor = LEAST_ALLOWANCE};

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void collect(lua_State *L, TsContext *c) {
  double start = seconds();
  lua_gc(L, LUA_GCCOLLECT, 0);
  double end = seconds(), share = (end - start) / (end - charged.finished);
  if (ts_defer_settle(c, false)) ts_error_clear(&c->err); /* whoever reads them will be told */
  if (share > 0.125 && charged.floor < MOST_ALLOWANCE) charged.floor *= 2;
  if (share < 0.03 && charged.floor > LEAST_ALLOWANCE) charged.floor /= 2;
  charged.finished = end;
  charged.allocated = c->allocated;
  charged.allowance = c->live_bytes / 6 > charged.floor ? c->live_bytes / 6 : charged.floor;
}

/* ---- the allocator */
typedef struct Spare {
  struct Spare *next;
} Spare;

static struct {
  lua_Alloc alloc; /* the state's own */
  void *arg;
  size_t nbytes, offset; /* of a block, and in it of the userdata's bytes */
  size_t last;           /* asked for most recently */
  char *at;              /* and given */
  Spare *spare;
} blocks;

static void *give(void *arg, void *at, size_t before, size_t after) {
  (void)arg;
  if (before == blocks.nbytes && at && !after) {
    Box *b = (Box *)((char *)at + blocks.offset);
    if (b->key == key_of(b)) {
      b->key = 0;
      ts_tensor_unref(b->t);
      Spare *s = at;
      s->next = blocks.spare;
      blocks.spare = s;
      return NULL;
    }
  }
  if (!at && after == blocks.nbytes && blocks.spare) {
    at = blocks.spare;
    blocks.spare = blocks.spare->next;
    return at;
  }
  return blocks.alloc(blocks.arg, at, before, after);
}

static void *watch(void *arg, void *at, size_t before, size_t after) {
  (void)arg;
  at = blocks.alloc(blocks.arg, at, before, after);
  if (after) blocks.last = after, blocks.at = at;
  return at;
}

/* How large the block of a userdata is, and where its bytes are, is LuaJIT's matter: one is made
 * to see. */
void ts_lua_open_box(lua_State *L) {
  luaL_checkstack(L, 4, "tensors");
  blocks.alloc = lua_getallocf(L, &blocks.arg);
  lua_setallocf(L, watch, NULL);
  char *box = lua_newuserdata(L, sizeof(Box)); /* its block is the last that is asked for */
  lua_setallocf(L, give, NULL);
  ((Box *)box)->key = 0;
  blocks.nbytes = blocks.last;
  blocks.offset = (size_t)(box - blocks.at);
  if (box < blocks.at || blocks.offset + sizeof(Box) > blocks.nbytes)
    TS_BUG("LuaJIT's userdata are not where they were allocated");
  lua_pop(L, 1);
}

void ts_lua_close_box(lua_State *L) {
  if (blocks.alloc) lua_setallocf(L, blocks.alloc, blocks.arg);
}

/* ---- pushing */
static int metatable_ref = LUA_NOREF; /* in the registry; by number it is fastest */

void ts_lua_box_metatable(lua_State *L) { metatable_ref = luaL_ref(L, LUA_REGISTRYINDEX); }

void ts_lua_push(lua_State *L, TsTensor *t) {
  Box *b = lua_newuserdata(L, sizeof *b);
  b->t = t;
  b->key = key_of(b);
  lua_rawgeti(L, LUA_REGISTRYINDEX, metatable_ref);
  lua_setmetatable(L, -2);
  TsContext *c = t->storage->ctx;
  if (c->allocated - charged.allocated >= charged.allowance) collect(L, c);
}
