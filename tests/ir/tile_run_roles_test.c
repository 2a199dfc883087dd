/* The interpreter of Tile IR: roles, their barriers and groups of copies, against loops in C; orders that are
 * wrong are found. */
#include "tests/ir/tile_run.h"

/* ---- roles. y = 2 x, a producer copying pieces into two stages, a consumer behind. */
enum { PIECE = 64, PIECES = 7, STAGES = 2 };

typedef enum Flaw { RIGHT, NO_AWAIT, NO_RELEASE, TOO_MANY_BYTES } Flaw;

static TsTileBuild role(TsTileBuild *b, const char *name) {
  TsTileStmt *s = put(
      b, TS_TILE_role, 0, NULL, 2,
      (Set[]){{"name", {.type = TS_ATTR_str, .str = name}}, {"warps", ts_attr_int(1)}}, NULL);
  return (TsTileBuild){b->k, s->region[0], b->line};
}

typedef struct Stage {
  TsTileVal slot, parity; /* of the phase that is full; that it is empty is the other parity */
} Stage;

static Stage stage_of(TsTileBuild *b, TsTileVal i) {
  TsTileVal two = index_of(b, STAGES), half = ts_tile_op2(b, TS_OP_floordiv, i, two);
  return (Stage){ts_tile_op2(b, TS_OP_mod, i, two), ts_tile_op2(b, TS_OP_mod, half, two)};
}

static void produce(TsTileBuild b, TsTileVal x, TsTileVal s, TsTileVal full, TsTileVal empty,
                    Flaw flaw) {
  TsTileLoop l = ts_tile_for(&b, index_of(&b, 0), index_of(&b, PIECES), 1, false, 0, NULL);
  Stage at = stage_of(&b, l.i);
  TsTileVal zero = index_of(&b, 0), one = index_of(&b, 1);
  TsTileVal other = ts_tile_op2(&b, TS_OP_sub, one, at.parity);
  int64_t bytes = PIECE * 4 + (flaw == TOO_MANY_BYTES ? 4 : 0), shape = PIECE;
  b.line = ts_tile_place(b.k, "pipe.lua:11");
  ts_tile_emit(&b, TS_TILE_await, 3, (TsTileVal[]){empty, at.slot, other}, NULL, 0, NULL);
  put(&b, TS_TILE_expect, 2, (TsTileVal[]){full, at.slot}, 1,
      (Set[]){{"bytes", ts_attr_int(bytes)}}, NULL);
  TsTileVal start = ts_tile_op2(&b, TS_OP_mul, l.i, index_of(&b, PIECE));
  put(&b, TS_TILE_copy_bulk, 7, (TsTileVal[]){s, x, full, at.slot, at.slot, zero, start}, 1,
      (Set[]){{"shape", ts_attr_ints(&shape, 1)}}, NULL);
  ts_tile_emit(&b, TS_TILE_arrive, 2, (TsTileVal[]){full, at.slot}, NULL, 0, NULL);
  ts_tile_for_end(&b, &l, NULL, NULL);
}

static void consume(TsTileBuild b, TsTileVal y, TsTileVal s, TsTileVal full, TsTileVal empty,
                    Flaw flaw) {
  TsTileType t = ts_tile_vector(TS_DT_f32, PIECE);
  TsTileLoop l = ts_tile_for(&b, index_of(&b, 0), index_of(&b, PIECES), 1, false, 0, NULL);
  Stage at = stage_of(&b, l.i);
  TsTileVal zero = index_of(&b, 0);
  TsTileVal start = ts_tile_op2(&b, TS_OP_mul, l.i, index_of(&b, PIECE));
  b.line = ts_tile_place(b.k, "pipe.lua:22");
  if (flaw != NO_AWAIT)
    ts_tile_emit(&b, TS_TILE_await, 3, (TsTileVal[]){full, at.slot, at.parity}, NULL, 0, NULL);
  TsTileVal v = ts_tile_load(&b, s, (TsTileVal[]){at.slot, zero}, &t, NULL);
  if (flaw != NO_RELEASE)
    ts_tile_emit(&b, TS_TILE_arrive, 2, (TsTileVal[]){empty, at.slot}, NULL, 0, NULL);
  TsTileAccess edge = {.edge = true};
  ts_tile_store(&b, y, &start, ts_tile_op2(&b, TS_OP_add, v, v), &edge);
  ts_tile_for_end(&b, &l, NULL, NULL);
}

static void pipeline(Flaw flaw) {
  enum { N = PIECE * PIECES - 9 }; /* the last piece has an edge */
  static float x[N], y[N];
  fill(x, N);
  memset(y, 0, sizeof y);
  TsTile *k = ts_tile_new("pipe");
  k->target = "sm_90a";
  TsTileType all = ts_tile_vector(TS_DT_f32, N), shared = type2(TS_DT_f32, STAGES, PIECE);
  TsTileType bars = ts_tile_vector(TS_DT_i64, STAGES);
  bars.count = 1;
  TsTileVal px = ts_tile_param(k, "x", &all, false), py = ts_tile_param(k, "y", &all, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileLoop grid = ts_tile_for(&b, index_of(&b, 0), index_of(&b, 1), 1, true, 0, NULL);
  TsTileVal s = ts_tile_alloc(&b, TS_SPACE_shared, &shared);
  TsTileVal full = ts_tile_alloc(&b, TS_SPACE_barrier, &bars);
  TsTileVal empty = ts_tile_alloc(&b, TS_SPACE_barrier, &bars);
  full->name = "full", empty->name = "empty";
  produce(role(&b, "load"), px, s, full, empty, flaw);
  consume(role(&b, "math"), py, s, full, empty, flaw);
  ts_tile_for_end(&b, &grid, NULL, NULL);
  int failed = run(k, (void *[]){x, y}, NULL);
  int64_t bad = 0;
  for (int64_t i = 0; i < N; i++) bad += y[i] != 2 * x[i];
  if (flaw == RIGHT) check(!failed && !bad, "pipeline", bad, 0);
  if (flaw == NO_AWAIT) check(bad || failed, "reading too early is seen", bad, failed);
  if (flaw == NO_RELEASE)
    check(failed && strstr(err.message, "deadlock: load waits for parity 0 of %empty slot 0 at "
                                        "pipe.lua:11; math waits for parity 1 of %full"),
          "deadlock", failed, bad);
  if (flaw == TOO_MANY_BYTES)
    check(failed &&
              strstr(err.message, "math waits for parity 0 of %full slot 0 at pipe.lua:22"),
          "bytes are counted", failed, bad);
}

/* One thread of control: groups of copies, `pending` of them left under way. */
static void groups(int64_t pending) {
  enum { N = 4 * PIECE };
  static float x[N], y[N];
  fill(x, N);
  memset(y, 0, sizeof y);
  TsTile *k = ts_tile_new("groups");
  k->target = "sm_90a";
  TsTileType all = ts_tile_vector(TS_DT_f32, N), t = ts_tile_vector(TS_DT_f32, PIECE);
  TsTileVal px = ts_tile_param(k, "x", &all, false), py = ts_tile_param(k, "y", &all, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileLoop grid = ts_tile_for(&b, index_of(&b, 0), index_of(&b, 1), 1, true, 0, NULL);
  TsTileVal s[4], zero = index_of(&b, 0);
  for (int i = 0; i < 4; i++) {
    s[i] = ts_tile_alloc(&b, TS_SPACE_shared, &t);
    ts_tile_emit(&b, TS_TILE_copy_async, 3, (TsTileVal[]){s[i], px, index_of(&b, i * PIECE)},
                 NULL, 0, NULL);
    ts_tile_emit(&b, TS_TILE_commit, 0, NULL, NULL, 0, NULL);
  }
  put(&b, TS_TILE_wait, 0, NULL, 1, (Set[]){{"pending", ts_attr_int(pending)}}, NULL);
  for (int i = 0; i < 4; i++) {
    TsTileVal at = index_of(&b, i * PIECE);
    ts_tile_store(&b, py, &at, ts_tile_load(&b, s[i], &zero, &t, NULL), NULL);
  }
  ts_tile_for_end(&b, &grid, NULL, NULL);
  check(!run(k, (void *[]){x, y}, NULL), "groups run", pending, 0);
  int64_t here = 0;
  for (int64_t i = 0; i < N; i++) here += x[i] == y[i];
  check(here == N - pending * PIECE, "groups", pending, here);
}

/* Three roles meet at a named barrier; what the first two wrote is then there. */
static void meeting(bool all) {
  static int64_t y[3];
  TsTile *k = ts_tile_new("meeting");
  k->target = "sm_90a";
  TsTileType t = ts_tile_vector(TS_DT_i64, 3), one = ts_tile_scalar(TS_DT_i64);
  TsTileVal py = ts_tile_param(k, "y", &t, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileLoop grid = ts_tile_for(&b, index_of(&b, 0), index_of(&b, 2), 1, true, 0, NULL);
  TsTileVal s = ts_tile_alloc(&b, TS_SPACE_shared, &t);
  for (int i = 0; i < 3; i++) {
    TsTileBuild r = role(&b, (const char *[]){"a", "b", "c"}[i]);
    TsTileVal at = index_of(&r, i), last = index_of(&r, (i + 1) % 3);
    ts_tile_store(&r, s, &at, index_of(&r, 10 * i), NULL);
    if (all || i < 2)
      put(&r, TS_TILE_barrier, 0, NULL, 2,
          (Set[]){{"name", ts_attr_int(1)}, {"threads", ts_attr_int(96)}}, NULL);
    ts_tile_store(&r, py, &at, ts_tile_load(&r, s, &last, &one, NULL), NULL);
  }
  ts_tile_for_end(&b, &grid, NULL, NULL);
  int failed = run(k, (void *[]){y}, NULL);
  if (all)
    check(!failed && y[0] == 10 && y[1] == 20 && y[2] == 0, "meeting", y[0], y[1]);
  else
    check(failed && strstr(err.message, "a waits at barrier 1; b waits at barrier 1"),
          "one is missing", failed, 0);
}

int main(void) {
  for (int flaw = RIGHT; flaw <= TOO_MANY_BYTES; flaw++) pipeline((Flaw)flaw);
  for (int64_t pending = 0; pending < 4; pending++) groups(pending);
  meeting(true), meeting(false);
  return told();
}
