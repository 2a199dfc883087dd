/* What is read next.
 *
 * Rows to come: while the pass of a row that computes most is at work, the next round's row is
 * asked for, since the processor's own prefetching stops at the end of a row that is read in
 * several passes. In a pass that only writes, requests and stores would crowd each other
 * out.
 *
 * But where every pass is cheap, a vector is a line and several rows are read, all passes are
 * over before those come from memory. There, on a processor that drops requests which come faster
 * than memory answers, the last one asks for all of the next row, into the first cache, and is
 * held up by instructions that do nothing (rows of 4096 f32, one thread of a Zen 5: rmsnorm(x + y)
 * 44 to 50 GB/s, layernorm(x + y, w, b) 40 to 44; without holding up 44 and 34). Others lose by
 * it (eight threads of an Emerald Rapids: rmsnorm(x + y) 180 to 150 GB/s).
 *
 * In a kernel of one pass that computes much and stores past the caches, what comes next is asked
 * for twice, far and near: computing and waiting for memory are then done at one time. Where an
 * element is cheap the processor's own prefetching is better alone, but not where the stages of
 * several rows make one pass (ir/tile/pass/vec_pipeline.c): the older rows are streams as well, and
 * the newest is lost among them (4096 rows of 4096 f32, two threads, a norm 20 instead of 40
 * GB/s). */
#include "ir/tile/pass/vec.h"

enum {
  LINE = 64,
  NEAR = 4 << 10,
  NEAR_ROWS = 2 << 10,
  FAR = 48 << 10,
  PACE = 48 /* instructions that do nothing, for a line that is written */
};

static bool moves_on(const TsTileValue *at) {
  const TsTileStmt *loop = at->region ? at->region->owner : NULL;
  return loop && loop->op == TS_TILE_for && at->index == 0 && ts_tile_attr(loop, "parallel")->i;
}

/* The row of stage 0 (ir/tile/pass/vec_pipeline.c): first + minimum(round, last). */
static bool newest_row(const TsTileValue *at) {
  const TsTileStmt *s = at->stmt;
  const TsTileStmt *least = s && s->op == TS_OP_add ? s->in[1]->stmt : NULL;
  if (!least || least->op != TS_OP_minimum) return false;
  const TsTileValue *round = least->in[0];
  const TsTileStmt *loop = round->region ? round->region->owner : NULL;
  return loop && loop->op == TS_TILE_for && round->index == 0;
}

/* The axis along which the load follows the parallel loop, or -1: it must read a whole row of a
 * parameter. */
static int round_axis(const TsTileStmt *s) {
  if (s->op != TS_TILE_load || s->out[0]->type.rank != 1) return -1;
  const TsTileType *memory = &s->in[0]->type;
  if (memory->space != TS_SPACE_global || memory->strided || memory->rank < 2) return -1;
  for (int i = 0; i < memory->rank - 1; i++)
    if (moves_on(s->in[1 + i])) return i;
  return -1;
}

/* Whether memory is read along, round by round, in its own order. */
static bool reads_along(const TsTileStmt *s) {
  if (s->op != TS_TILE_load || s->out[0]->type.rank != 1) return false;
  const TsTileType *memory = &s->in[0]->type;
  if (memory->space != TS_SPACE_global || memory->strided) return false;
  if (memory->rank == 2 && newest_row(s->in[1])) return true;
  return memory->rank == 1 ? moves_on(s->in[1]) : round_axis(s) == memory->rank - 2;
}

static void prefetch(TsVec *v, int n, const TsTileVal *in, bool far, int pace) {
  TsAttr hint[3] = {{.type = TS_ATTR_bool, .i = false},
                    {.type = TS_ATTR_bool, .i = far},
                    {.type = TS_ATTR_int, .i = pace}};
  for (int i = 0; i < n; i++)
    if (!in[i]) return;
  ts_tile_emit(&v->b, TS_TILE_prefetch, n, in, hint, 0, NULL);
}

/* element: of the chunk. The pass asks for one of 2^shift lines, those at the row's beginning. */
static void ask(TsVec *v, const TsTileStmt *s, int axis, int64_t element, int pace) {
  int shift = v->prefetch_shift;
  TsTileVal in[TS_TILE_RANK + 1];
  int n = s->in[0]->type.rank, last = v->at.vec;
  for (int i = 0; i <= n; i++) in[i] = ts_tile_vec_of(v, s->in[i])->now;
  in[0] = ts_tile_vec_of(v, s->in[0])->now;
  in[1 + axis] = ts_tile_op2(&v->b, TS_OP_add, in[1 + axis], ts_tile_vec_int(v, 1));
  TsTileVal base = v->at.base[last];
  if (base && shift) base = ts_tile_op2(&v->b, TS_TILE_shr, base, ts_tile_vec_int(v, shift));
  in[n] = ts_tile_vec_sum(v, in[n], base, (v->at.plus[last] + element) >> shift);
  prefetch(v, n + 1, in, !v->paced, pace);
}

/* What lies so many elements behind the chunk's. */
static void ask_along(TsVec *v, const TsTileStmt *s, int64_t element, bool far) {
  TsTileVal in[TS_TILE_RANK + 1];
  int n = s->in[0]->type.rank, last = v->at.vec;
  for (int i = 0; i <= n; i++) in[i] = ts_tile_vec_of(v, s->in[i])->now;
  TsTileVal at = ts_tile_vec_sum(v, v->at.base[last], NULL, v->at.plus[last] + element);
  in[n] = ts_tile_op2(&v->b, TS_OP_add, in[n], at);
  prefetch(v, n + 1, in, far, 0);
}

static bool computes_and_streams(const TsVec *v) {
  int cost = 0;
  bool streams = false;
  for (int i = 0; i < v->nstmt; i++) {
    const TsTileStmt *s = v->stmt[i];
    streams |= s->op == TS_TILE_store && ts_tile_attr(s, "stream")->i;
    if (s->nout && s->out[0]->type.rank) cost += ts_tile_vec_cost(s->op);
  }
  return streams && cost >= VEC_DEAR;
}

/* Whether rows ask so, as far as the statements tell: what is kept depends on it. */
void ts_tile_vec_pace(TsVec *v) {
  bool streams = false, dear = false, pipelined = false;
  int rows = 0;
  for (int i = 0; i < v->nstmt; i++) {
    const TsTileStmt *s = v->stmt[i];
    streams |= s->op == TS_TILE_store && ts_tile_attr(s, "stream")->i;
    rows += round_axis(s) >= 0;
    dear |= s->nout && s->out[0]->type.rank && ts_tile_vec_cost(s->op) >= VEC_DEAR;
    pipelined |= s->op == TS_TILE_load && s->in[0]->type.rank == 2 && newest_row(s->in[1]);
  }
  v->pipelined = pipelined;
  bool drops = v->target->vector_bytes >= LINE && v->target->drops;
  v->paced = drops && v->past != VEC_CACHED && streams && rows > 1 && !dear && !pipelined;
}

/* Needs: levels of the stretch. Gives: the pass that asks, 0 for none, and for how much. A cheap
 * pass is over before a whole row can come from memory: there half of it is asked for, and the
 * processor's own prefetching, which then has begun, does the rest (rmsnorm of 16 KiB rows 31
 * instead of 26 GB/s; a softmax asks for all: 19 instead of 14). */
void ts_tile_vec_prefetch_plan(TsVec *v) {
  int most = 0;
  v->prefetch_pass = 0;
  for (int p = 1; p < v->npass; p++) {
    int cost = 0;
    bool walks = false;
    for (int i = 0; i < v->nroot; i++) walks |= v->root[i].pass == p && v->root[i].space.rank;
    for (int i = 0; i < v->nstmt; i++)
      if (v->stmt[i]->nout && ts_tile_vec_of(v, v->stmt[i]->out[0])->level == p &&
          v->stmt[i]->out[0]->type.rank)
        cost += ts_tile_vec_cost(v->stmt[i]->op);
    if (!walks || cost < most) continue;
    most = cost;
    v->prefetch_pass = p;
  }
  v->paced &= v->prefetch_pass > 0;
  if (v->paced) v->prefetch_pass = v->npass - 1;
  v->prefetch_shift = most < VEC_DEAR && !v->paced;
  v->along = v->pipelined || (v->npass == 1 && computes_and_streams(v));
}

/* Processors with vectors of less than a line are asked near only: a Zen 3 whose two threads
 * are asked for rows of 16 KiB both ways takes four times as long (1.4 instead of 0.35 ns an
 * element of a softmax, none with rows of 16448 bytes), and where not, asking far gave nothing.
 * So are others where several streams meet little arithmetic: more requests than the first
 * cache can have under way hold up its hits in the second (rmsnorm(x + y) on a Zen 5: 45
 * instead of 52 GB/s; of one stream 57 instead of 52). */
static bool asks_far(const TsVec *v) {
  int streams = 0;
  bool dear = !v->pipelined; /* such a kernel asks along only if it is */
  for (int i = 0; i < v->nstmt; i++) {
    streams += reads_along(v->stmt[i]);
    dear |= v->stmt[i]->nout && v->stmt[i]->out[0]->type.rank &&
            ts_tile_vec_cost(v->stmt[i]->op) >= VEC_DEAR;
  }
  return v->target->vector_bytes >= LINE && (dear || streams == 1);
}

static void along(TsVec *v) {
  bool far = asks_far(v);
  int64_t near = v->pipelined && far ? NEAR_ROWS : NEAR;
  for (int i = 0; i < v->nstmt; i++) {
    const TsTileStmt *s = v->stmt[i];
    if (!reads_along(s)) continue;
    int64_t size = ts_dtypes[s->in[0]->type.dtype].nbytes, line = LINE / size;
    for (int64_t k = 0; k < v->at.lanes; k += line) {
      ask_along(v, s, k + near / size, false);
      if (far) ask_along(v, s, k + FAR / size, true);
    }
  }
}

void ts_tile_vec_prefetch(TsVec *v) {
  if (v->along && v->pass == 0 && !v->rows && !v->at.edge) along(v);
  if (v->pass == 0 || v->pass != v->prefetch_pass || v->rows || v->at.edge) return;
  int pace = v->paced ? PACE : 0; /* for all of a line's requests */
  for (int i = 0; i < v->nstmt; i++) {
    const TsTileStmt *s = v->stmt[i];
    int axis = s->op == TS_TILE_load ? round_axis(s) : -1;
    if (axis < 0) continue;
    int64_t line = LINE / ts_dtypes[s->in[0]->type.dtype].nbytes;
    for (int64_t k = 0; k < v->at.lanes; k += line) {
      int64_t at = v->at.plus[v->at.vec] + k;
      if (at / line % (1 << v->prefetch_shift) || (v->paced && at % line)) continue;
      ask(v, s, axis, k, pace);
    }
    pace = 0;
  }
}
