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
  V in[TS_SUM_MOST + 2];
  TsAttr patience = {.type = TS_ATTR_int, .i = TS_FLAGS_PATIENCE};
  for (int i = 0; i < n; i++) in[i] = words[i];
  in[n] = rank, in[n + 1] = slot;
  ts_tile_emit(b, TS_TILE_meet, n + 2, in, &patience, 0, NULL);
}

/* One round: a tile of each summand, added up and written everywhere. */
static void add_tile(Sum *x, V const *from, V const *to, V row) {
  const TsSumKernel *s = x->s;
  TsTileAccess edge = {.edge = true};
  V at[2] = {row, ts_tile_index(&x->b, 0)};
  TsTileType tile = ts_tile_type(s->of, 2, (int64_t[]){TS_SUM_TILE / s->width, s->width});
  for (int i = 0; i < s->nsum; i++)
    x->value[i] = ts_tile_load(&x->b, from[i], at, &tile, &edge);
  for (int i = 0; i < s->nsum; i++) x->value[i] = ts_tile_cast(&x->b, x->value[i], wide(s->of));
  V sum = ts_tile_cast(&x->b, root(x), s->to);
  for (int i = 0; i < s->nout; i++) ts_tile_store(&x->b, to[i], at, sum, &edge);
}

static void build(Sum *x, TsTile *k) {
  const TsSumKernel *s = x->s;
  static const char *const size[] = {"rows", "blocks", "rounds", "rank", "go"};
  V from[TS_SUM_MOST], to[TS_SUM_MOST], words[TS_SUM_MOST], dim[TS_SUM_NDIM];
  char name[16];
  int64_t rows = ts_tile_size(k, size[0]);
  for (int i = 1; i < TS_SUM_NDIM; i++) ts_tile_size(k, size[i]);
  TsTileType in = ts_tile_type(s->of, 2, (int64_t[]){rows, s->width});
  TsTileType out = ts_tile_type(s->to, 2, (int64_t[]){rows, s->width});
  TsTileType word = ts_tile_vector(TS_DT_i32, ts_flags_words(s->n));
  for (int i = 0; i < s->nsum; i++) {
    snprintf(name, sizeof name, "x%d", i);
    from[i] = ts_tile_param(k, name, &in, false);
  }
  for (int i = 0; i < s->nout; i++) {
    snprintf(name, sizeof name, "y%d", i);
    to[i] = ts_tile_param(k, name, &out, true);
  }
  for (int i = 0; i < s->n; i++) {
    snprintf(name, sizeof name, "words%d", i);
    words[i] = ts_tile_param(k, name, &word, true);
  }
  TsTileBuild *b = &x->b;
  *b = ts_tile_build(k);
  for (int i = 0; i < TS_SUM_NDIM; i++) dim[i] = ts_collective_size(b, i);
  TsTileLoop block = ts_tile_for(b, ts_tile_index(b, 0), dim[TS_SUM_blocks], 1, true, 0, NULL);
  TsTileLoop go = ts_tile_for(b, ts_tile_index(b, 0), dim[TS_SUM_go], 1, false, 0, NULL);
  ts_collective_meet(b, s->n, words, dim[TS_SUM_rank], block.i);
  TsTileLoop round = ts_tile_for(b, ts_tile_index(b, 0), dim[TS_SUM_rounds], 1, false, 0, NULL);
  V tile = ts_tile_op2(b, TS_OP_mul, round.i, dim[TS_SUM_blocks]);
  tile = ts_tile_op2(b, TS_OP_add, tile, block.i);
  add_tile(x, from, to,
           ts_tile_op2(b, TS_OP_mul, tile, ts_tile_index(b, TS_SUM_TILE / s->width)));
  ts_tile_for_end(b, &round, NULL, NULL);
  ts_collective_meet(b, s->n, words, dim[TS_SUM_rank], block.i);
  ts_tile_for_end(b, &go, NULL, NULL);
  ts_tile_for_end(b, &block, NULL, NULL);
}

TsTile *ts_sum_kernel(const TsSumKernel *s, const char *target, TsError *err) {
  TS_ASSERT(s->nsum <= TS_SUM_MOST && s->n <= TS_SUM_MOST);
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
