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

void ts_collective_meet(TsTileBuild *b, int n, const V *words, V rank, V slot) {
  V in[TS_MAX_DEVICES + 2];
  TsAttr patience = {.type = TS_ATTR_int, .i = ts_flags_patience(0)};
  for (int i = 0; i < n; i++) in[i] = words[i];
  in[n] = rank, in[n + 1] = slot;
  ts_tile_emit(b, TS_TILE_meet, n + 2, in, &patience, 0, NULL);
}

int64_t ts_sum_rounds(const TsSumKernel *s) {
  return TS_FLAGS_ROOM / 2 / ((int64_t)s->nsum * s->tile * ts_dtypes[s->of].nbytes);
}

int ts_sum_params(const TsSumKernel *s) {
  return s->pushes ? s->nown * (s->apart ? s->n : 1) + s->nout + 2 * s->n + 2
                   : s->nsum + s->nout + s->n;
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
  if (s->pushes) params(k, "own_words", 1, &word, false, &g->own_words);
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

/* Where tile number t begins. */
static V row_of(Sum *x, V t) { return mul(x, t, number(x, x->s->tile / x->s->width)); }

static void pull(Sum *x, const Given *g, V block) {
  const TsSumKernel *s = x->s;
  TsTileBuild *b = &x->b;
  TsTileAccess edge = {.edge = true};
  TsTileType tile = tile_of(s);
  ts_collective_meet(b, s->n, g->words, g->dim[TS_SUM_rank], block);
  TsTileLoop round = ts_tile_for(b, number(x, 0), g->dim[TS_SUM_rounds], 1, false, 0, NULL);
  V t = add(x, mul(x, round.i, g->dim[TS_SUM_blocks]), block);
  V at[2] = {row_of(x, t), number(x, 0)};
  for (int i = 0; i < s->nsum; i++) x->value[i] = ts_tile_load(b, g->from[i], at, &tile, &edge);
  add_up(x, g, at);
  ts_tile_for_end(b, &round, NULL, NULL);
  ts_collective_meet(b, s->n, g->words, g->dim[TS_SUM_rank], block);
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

/* Rounds of chunk c; the tile of this round. */
static TsTileLoop rounds_of(Sum *x, const Given *g, V c, V block, V *t) {
  TsTileLoop round = ts_tile_for(&x->b, number(x, 0), g->dim[TS_SUM_rounds], 1, false, 0, NULL);
  V all = add(x, mul(x, c, g->dim[TS_SUM_rounds]), round.i);
  *t = add(x, mul(x, all, g->dim[TS_SUM_blocks]), block);
  return round;
}

static void push_chunk(Sum *x, const Given *g, V c, V block, V half) {
  const TsSumKernel *s = x->s;
  TsTileAccess edge = {.edge = true}, inside = {.edge = false};
  TsTileType tile = tile_of(s);
  V t, value = NULL;
  TsTileLoop round = rounds_of(x, g, c, block, &t);
  V at[2] = {row_of(x, t), number(x, 0)};
  for (int i = 0; i < s->nown; i++) {
    V which = add(x, g->dim[TS_SUM_first], number(x, i));
    V there[2] = {place_of(x, block, half, which, round.i), number(x, 0)};
    for (int q = 0; q < s->n; q++) {
      int from = s->apart ? i * s->n + q : i;
      if (!q || s->apart) value = ts_tile_load(&x->b, g->from[from], at, &tile, &edge);
      ts_tile_store(&x->b, g->room[q], there, value, &inside);
    }
  }
  ts_tile_for_end(&x->b, &round, NULL, NULL);
}

static void add_chunk(Sum *x, const Given *g, V c, V block, V half) {
  const TsSumKernel *s = x->s;
  TsTileAccess inside = {.edge = false};
  TsTileType tile = tile_of(s);
  V t;
  TsTileLoop round = rounds_of(x, g, c, block, &t);
  V at[2] = {row_of(x, t), number(x, 0)};
  for (int i = 0; i < s->nsum; i++) {
    V here[2] = {place_of(x, block, half, number(x, i), round.i), number(x, 0)};
    x->value[i] = ts_tile_load(&x->b, g->own_room, here, &tile, &inside);
  }
  add_up(x, g, at);
  ts_tile_for_end(&x->b, &round, NULL, NULL);
}

/* What others write into their results has to be seen by those: a meeting at the end. */
static void push(Sum *x, const Given *g, V block) {
  const TsSumKernel *s = x->s;
  TsTileBuild *b = &x->b;
  TsTileAccess inside = {.edge = false};
  TsTileType one = ts_tile_scalar(TS_DT_i32);
  V slot = mul(x, block, number(x, s->n + 1)), at[1] = {add(x, slot, number(x, 1 + s->n))};
  V met = ts_tile_cast(b, ts_tile_load(b, g->own_words, at, &one, &inside), TS_DT_i64);
  TsTileLoop chunk = ts_tile_for(b, number(x, 0), g->dim[TS_SUM_chunks], 1, false, 0, NULL);
  V half = ts_tile_op2(b, TS_OP_mod, add(x, met, chunk.i), number(x, 2));
  push_chunk(x, g, chunk.i, block, half);
  ts_collective_meet(b, s->n, g->words, g->dim[TS_SUM_rank], block);
  add_chunk(x, g, chunk.i, block, half);
  ts_tile_for_end(b, &chunk, NULL, NULL);
  if (s->nout > 1) ts_collective_meet(b, s->n, g->words, g->dim[TS_SUM_rank], block);
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
  k->threads = TS_SUM_THREADS;
  build(&x, k);
  if (!k->failed) return k;
  ts_tile_free(k);
  return ts_error_memory(err), NULL;
}
