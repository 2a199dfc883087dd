/* See jit/collective/kernel.h. */
#include "jit/collective/kernel.h"

#include <stdio.h>

#include "devices/flags.h"
#include "jit/collective/state.h"

typedef TsTileVal V;

typedef struct Sum {
  const TsSumKernel *s;
  TsTileBuild b;
  V value[TS_SUM_MOST]; /* the summands' tiles, in f32 where they are narrower */
} Sum;

static bool is_narrow(TsDtype d) { return d == TS_DT_bf16 || d == TS_DT_f16; }
static TsDtype wide(TsDtype d) { return is_narrow(d) ? TS_DT_f32 : d; }

/* As vm/mesh/leaves.c adds them: each sum is one of the summands' type. */
static V subtree(Sum *x, int level, int place) {
  const TsSumKernel *s = x->s;
  for (int i = 0; i < s->nsum; i++)
    if (s->level[i] == level && s->place[i] == place) return x->value[i];
  if (level == 0) TS_BUG("leaf %d of %d is missing", place, s->leaves);
  V left = subtree(x, level - 1, 2 * place);
  if (((int64_t)2 * place + 1) << (level - 1) >= s->leaves) return left;
  V both = ts_tile_op2(&x->b, s->op, left, subtree(x, level - 1, 2 * place + 1));
  return ts_tile_cast(&x->b, ts_tile_cast(&x->b, both, s->of), wide(s->of));
}

static V root(Sum *x) {
  int level = 0;
  while (1 << level < x->s->leaves) level++;
  return subtree(x, level, 0);
}

V ts_collective_size(TsTileBuild *b, int index) {
  TsTileType t = ts_tile_scalar(TS_DT_i64);
  TsAttr a = {.type = TS_ATTR_int, .i = index};
  return ts_tile_emit1(b, TS_TILE_dim, 0, NULL, &a, &t);
}

V ts_collective_met(TsTileBuild *b, int n, V own_words, V slot) {
  TsTileAccess inside = {.edge = false};
  TsTileType one = ts_tile_scalar(TS_DT_i32);
  V first = ts_tile_op2(b, TS_OP_mul, slot, ts_tile_index(b, n + 1));
  V at[1] = {ts_tile_op2(b, TS_OP_add, first, ts_tile_index(b, 1 + n))};
  return ts_tile_cast(b, ts_tile_load(b, own_words, at, &one, &inside), TS_DT_i64);
}

void ts_collective_meet(TsTileBuild *b, int n, const V *words, V rank, V slot, V met) {
  V in[TS_MAX_DEVICES + 3];
  TsAttr patience = {.type = TS_ATTR_int, .i = ts_flags_patience(0)};
  for (int i = 0; i < n; i++) in[i] = words[i];
  in[n] = rank, in[n + 1] = slot, in[n + 2] = met;
  ts_tile_emit(b, TS_TILE_meet, n + 3, in, &patience, 0, NULL);
}

int64_t ts_sum_rounds(const TsSumKernel *s) {
  return TS_FLAGS_ROOM / 2 / ((int64_t)s->nsum * s->tile * ts_dtypes[s->of].nbytes);
}

int ts_sum_params(const TsSumKernel *s) {
  return s->pushes ? s->nown * (s->apart ? s->n : 1) + s->nout + 2 * s->n + 2
                   : s->nsum + s->nout + s->n + 1;
}

/* ---- what a kernel is given */
typedef struct Given {
  V from[TS_SUM_PARAMS], to[TS_MAX_DEVICES], words[TS_MAX_DEVICES], room[TS_MAX_DEVICES],
      own_room, own_words, dim[TS_SUM_NDIM];
  int nfrom;
} Given;

static void params(TsTile *k, const char *name, int n, const TsTileType *t, bool written,
                   V *v) {
  char text[24];
  for (int i = 0; i < n; i++) {
    snprintf(text, sizeof text, "%s%d", name, i);
    v[i] = ts_tile_param(k, text, t, written);
  }
}

static void give(Sum *x, TsTile *k, Given *g) {
  static const char *const size[] = {"rows", "blocks", "rounds", "rank",
                                     "go",   "reads",  "chunks", "first"};
  const TsSumKernel *s = x->s;
  int64_t code[TS_SUM_NDIM];
  int ndim = s->pushes ? TS_SUM_NDIM : TS_SUM_reads;
  for (int i = 0; i < ndim; i++) code[i] = ts_tile_size(k, size[i]);
  int64_t reads = code[s->pushes ? TS_SUM_reads : TS_SUM_rows];
  int64_t room = TS_FLAGS_ROOM * TS_FLAGS_ROOMS / (s->width * ts_dtypes[s->of].nbytes);
  TsTileType in = ts_tile_type(s->of, 2, (int64_t[]){reads, s->width});
  TsTileType out = ts_tile_type(s->to, 2, (int64_t[]){code[TS_SUM_rows], s->width});
  TsTileType between = ts_tile_type(s->of, 2, (int64_t[]){room, s->width});
  TsTileType word = ts_tile_vector(TS_DT_i32, ts_flags_words(s->n));
  g->nfrom = !s->pushes ? s->nsum : s->nown * (s->apart ? s->n : 1);
  params(k, "x", g->nfrom, &in, false, g->from);
  if (s->pushes) params(k, "own_room", 1, &between, false, &g->own_room);
  params(k, "own_words", 1, &word, false, &g->own_words);
  params(k, "y", s->nout, &out, true, g->to);
  if (s->pushes) params(k, "room", s->n, &between, true, g->room);
  params(k, "words", s->n, &word, true, g->words);
  x->b = ts_tile_build(k);
  for (int i = 0; i < ndim; i++) g->dim[i] = ts_collective_size(&x->b, i);
}

/* ---- tiles */
static V add(Sum *x, V a, V b) { return ts_tile_op2(&x->b, TS_OP_add, a, b); }
static V mul(Sum *x, V a, V b) { return ts_tile_op2(&x->b, TS_OP_mul, a, b); }
static V number(Sum *x, int64_t n) { return ts_tile_index(&x->b, n); }

static TsTileType tile_of(const TsSumKernel *s) {
  return ts_tile_type(s->of, 2, (int64_t[]){s->tile / s->width, s->width});
}

/* The summands' tiles are there: they are added up and written everywhere. */
static void add_up(Sum *x, const Given *g, const V *at) {
  const TsSumKernel *s = x->s;
  TsTileAccess edge = {.edge = true};
  for (int i = 0; i < s->nsum; i++) x->value[i] = ts_tile_cast(&x->b, x->value[i], wide(s->of));
  V sum = ts_tile_cast(&x->b, root(x), s->to);
  for (int i = 0; i < s->nout; i++) ts_tile_store(&x->b, g->to[i], at, sum, &edge);
}

static void meet(Sum *x, const Given *g, V block, V met) {
  ts_collective_meet(&x->b, x->s->n, g->words, g->dim[TS_SUM_rank], block, met);
}

/* Where tile number t begins. */
static V row_of(Sum *x, V t) { return mul(x, t, number(x, x->s->tile / x->s->width)); }

static void pull(Sum *x, const Given *g, V block) {
  const TsSumKernel *s = x->s;
  TsTileBuild *b = &x->b;
  TsTileAccess edge = {.edge = true};
  TsTileType tile = tile_of(s);
  V met = ts_collective_met(b, s->n, g->own_words, block);
  meet(x, g, block, met);
  TsTileLoop round = ts_tile_for(b, number(x, 0), g->dim[TS_SUM_rounds], 1, false, 0, NULL);
  V t = add(x, mul(x, round.i, g->dim[TS_SUM_blocks]), block);
  V at[2] = {row_of(x, t), number(x, 0)};
  for (int i = 0; i < s->nsum; i++) x->value[i] = ts_tile_load(b, g->from[i], at, &tile, &edge);
  add_up(x, g, at);
  ts_tile_for_end(b, &round, NULL, NULL);
  meet(x, g, block, add(x, met, number(x, 1)));
}

/* ---- by way of the room */
/* The first row of summand i's tile of this round, in half `half` of this block's room. */
static V place_of(Sum *x, V block, V half, V i, V round) {
  const TsSumKernel *s = x->s;
  int64_t row = (int64_t)s->width * ts_dtypes[s->of].nbytes;
  V side = add(x, mul(x, block, number(x, 2)), half);
  V tile = add(x, mul(x, i, number(x, ts_sum_rounds(s))), round);
  return add(x, mul(x, side, number(x, TS_FLAGS_ROOM / 2 / row)), row_of(x, tile));
}

/* A round of a chunk: its loop, where there are more than one, its number, and its tile. */
typedef struct Round {
  TsTileLoop loop;
  V i, tile;
} Round;

static Round round_of(Sum *x, const Given *g, V chunk, V block) {
  Round r = {.i = number(x, 0), .tile = block};
  if (x->s->once) return r;
  r.loop = ts_tile_for(&x->b, r.i, g->dim[TS_SUM_rounds], 1, false, 0, NULL);
  r.i = r.loop.i;
  V all = add(x, mul(x, chunk, g->dim[TS_SUM_rounds]), r.i);
  r.tile = add(x, mul(x, all, g->dim[TS_SUM_blocks]), block);
  return r;
}

static void round_end(Sum *x, Round *r) {
  if (!x->s->once) ts_tile_for_end(&x->b, &r->loop, NULL, NULL);
}

/* What goes to device q of own summand i. */
static V own_tile(Sum *x, const Given *g, int i, int q, V tile) {
  const TsSumKernel *s = x->s;
  TsTileAccess edge = {.edge = true};
  TsTileType type = tile_of(s);
  V at[2] = {row_of(x, tile), number(x, 0)};
  return ts_tile_load(&x->b, g->from[s->apart ? i * s->n + q : i], at, &type, &edge);
}

/* ahead: NULL, or tiles that were read before. */
static void push_tiles(Sum *x, const Given *g, const Round *r, V block, V half,
                       const V *ahead) {
  const TsSumKernel *s = x->s;
  TsTileAccess inside = {.edge = false};
  V value = NULL;
  for (int i = 0; i < s->nown; i++) {
    V which = add(x, g->dim[TS_SUM_first], number(x, i));
    V there[2] = {place_of(x, block, half, which, r->i), number(x, 0)};
    for (int q = 0; q < s->n; q++) {
      if (!q || s->apart)
        value = ahead ? ahead[s->apart ? i * s->n + q : i] : own_tile(x, g, i, q, r->tile);
      ts_tile_store(&x->b, g->room[q], there, value, &inside);
    }
  }
}

static void push_chunk(Sum *x, const Given *g, V chunk, V block, V half) {
  Round r = round_of(x, g, chunk, block);
  push_tiles(x, g, &r, block, half, NULL);
  round_end(x, &r);
}

static void add_chunk(Sum *x, const Given *g, V chunk, V block, V half) {
  const TsSumKernel *s = x->s;
  TsTileAccess inside = {.edge = false};
  TsTileType tile = tile_of(s);
  Round r = round_of(x, g, chunk, block);
  V at[2] = {row_of(x, r.tile), number(x, 0)};
  for (int i = 0; i < s->nsum; i++) {
    V here[2] = {place_of(x, block, half, number(x, i), r.i), number(x, 0)};
    x->value[i] = ts_tile_load(&x->b, g->own_room, here, &tile, &inside);
  }
  add_up(x, g, at);
  round_end(x, &r);
}

static V half_of(Sum *x, V met) { return ts_tile_op2(&x->b, TS_OP_mod, met, number(x, 2)); }

static void push_chunks(Sum *x, const Given *g, V block) {
  TsTileBuild *b = &x->b;
  V met = ts_collective_met(b, x->s->n, g->own_words, block);
  TsTileLoop chunk = ts_tile_for(b, number(x, 0), g->dim[TS_SUM_chunks], 1, false, 0, NULL);
  V now = add(x, met, chunk.i), half = half_of(x, now);
  push_chunk(x, g, chunk.i, block, half);
  meet(x, g, block, now);
  add_chunk(x, g, chunk.i, block, half);
  ts_tile_for_end(b, &chunk, NULL, NULL);
  if (x->s->nout > 1) meet(x, g, block, add(x, met, g->dim[TS_SUM_chunks]));
}

/* A tile a block. What it has is read while the number of meetings comes, which says where it
 * goes. */
static void push_once(Sum *x, const Given *g, V block) {
  enum { AHEAD = 8 };
  V ahead[AHEAD], none = number(x, 0);
  bool all = g->nfrom <= AHEAD;
  Round r = round_of(x, g, none, block);
  for (int i = 0; i < g->nfrom && all; i++)
    ahead[i] = own_tile(x, g, x->s->apart ? i / x->s->n : i, i % x->s->n, block);
  V met = ts_collective_met(&x->b, x->s->n, g->own_words, block), half = half_of(x, met);
  push_tiles(x, g, &r, block, half, all ? ahead : NULL);
  meet(x, g, block, met);
  add_chunk(x, g, none, block, half);
  if (x->s->nout > 1) meet(x, g, block, add(x, met, number(x, 1)));
}

/* What others write into their results has to be seen by those: a meeting at the end. */
static void push(Sum *x, const Given *g, V block) {
  (x->s->once ? push_once : push_chunks)(x, g, block);
}

static void build(Sum *x, TsTile *k) {
  Given g;
  TsTileBuild *b = &x->b;
  give(x, k, &g);
  TsTileLoop block = ts_tile_for(b, number(x, 0), g.dim[TS_SUM_blocks], 1, true, 0, NULL);
  TsTileLoop go = ts_tile_for(b, number(x, 0), g.dim[TS_SUM_go], 1, false, 0, NULL);
  (x->s->pushes ? push : pull)(x, &g, block.i);
  ts_tile_for_end(b, &go, NULL, NULL);
  ts_tile_for_end(b, &block, NULL, NULL);
}

TsTile *ts_sum_kernel(const TsSumKernel *s, const char *target, TsError *err) {
  TS_ASSERT(ts_sum_params(s) <= TS_SUM_PARAMS && s->nsum <= TS_SUM_MOST);
  TS_ASSERT(!s->pushes || ts_sum_rounds(s) > 0);
  TsTile *k = ts_tile_new(s->name);
  if (!k) return ts_error_memory(err), NULL;
  Sum x = {.s = s};
  k->target = target;
  k->threads = s->threads;
  build(&x, k);
  if (!k->failed) return k;
  ts_tile_free(k);
  return ts_error_memory(err), NULL;
}
