/* See jit/collective/push.h. */
#include "jit/collective/push.h"

#include <stdio.h>

#include "devices/flags.h"
#include "jit/collective/kernel.h"
#include "jit/collective/state.h"

typedef TsTileVal V;

static V op(TsTileBuild *b, int op, V x, V y) { return ts_tile_op2(b, op, x, y); }

/* Tile number t, of so many side by side in a run. */
static void copy_tile(TsTileBuild *b, const TsPushKernel *p, const V *from, const V *to, V t,
                      V side_by_side, int runs) {
  TsTileAccess edge = {.edge = true};
  V row = op(b, TS_OP_floordiv, t, side_by_side), column = op(b, TS_OP_mod, t, side_by_side);
  V at[3] = {op(b, TS_OP_mul, row, ts_tile_index(b, runs)),
             op(b, TS_OP_mul, column, ts_tile_index(b, p->across)), ts_tile_index(b, 0)};
  TsTileType tile = ts_tile_type(p->word, 3, (int64_t[]){runs, p->across, p->width});
  V x = NULL;
  for (int i = 0; i < p->nout; i++) {
    if (i < p->nin) x = ts_tile_load(b, from[i], at, &tile, &edge);
    ts_tile_store(b, to[i], at, x, &edge);
  }
}

static void copy(TsTileBuild *b, const TsPushKernel *p, const V *from, const V *to,
                 const V *dim, V block) {
  int runs = TS_SUM_TILE / (p->width * p->across);
  V up = op(b, TS_OP_add, dim[TS_PUSH_outer], ts_tile_index(b, runs - 1));
  V down = op(b, TS_OP_floordiv, up, ts_tile_index(b, runs));
  V tiles = op(b, TS_OP_mul, down, dim[TS_PUSH_inner]);
  V left = op(b, TS_OP_sub, op(b, TS_OP_add, tiles, dim[TS_PUSH_blocks]),
              op(b, TS_OP_add, block, ts_tile_index(b, 1)));
  V rounds = op(b, TS_OP_floordiv, left, dim[TS_PUSH_blocks]);
  TsTileLoop round = ts_tile_for(b, ts_tile_index(b, 0), rounds, 1, false, 0, NULL);
  V t = op(b, TS_OP_add, op(b, TS_OP_mul, round.i, dim[TS_PUSH_blocks]), block);
  copy_tile(b, p, from, to, t, dim[TS_PUSH_inner], runs);
  ts_tile_for_end(b, &round, NULL, NULL);
}

static void params(TsTile *k, const char *name, int n, const TsTileType *t, bool written,
                   V *v) {
  char text[24];
  for (int i = 0; i < n; i++) {
    snprintf(text, sizeof text, "%s%d", name, i);
    v[i] = ts_tile_param(k, text, t, written);
  }
}

static void build(TsTile *k, const TsPushKernel *p) {
  static const char *const size[] = {"outer", "from", "to", "inner", "blocks", "rank", "go"};
  V from[TS_PUSH_MOST], to[TS_PUSH_MOST], words[TS_MAX_DEVICES], dim[TS_PUSH_NDIM];
  int64_t code[TS_PUSH_NDIM];
  for (int i = 0; i < TS_PUSH_NDIM; i++) code[i] = ts_tile_size(k, size[i]);
  TsTileType in =
      ts_tile_type(p->word, 3, (int64_t[]){code[TS_PUSH_outer], code[TS_PUSH_from], p->width});
  TsTileType out =
      ts_tile_type(p->word, 3, (int64_t[]){code[TS_PUSH_outer], code[TS_PUSH_to], p->width});
  TsTileType word = ts_tile_vector(TS_DT_i32, ts_flags_words(p->n));
  params(k, "x", p->nin, &in, false, from);
  params(k, "y", p->nout, &out, true, to);
  params(k, "words", p->n, &word, true, words);
  TsTileBuild b = ts_tile_build(k);
  for (int i = 0; i < TS_PUSH_NDIM; i++) dim[i] = ts_collective_size(&b, i);
  TsTileLoop block =
      ts_tile_for(&b, ts_tile_index(&b, 0), dim[TS_PUSH_blocks], 1, true, 0, NULL);
  TsTileLoop go = ts_tile_for(&b, ts_tile_index(&b, 0), dim[TS_PUSH_go], 1, false, 0, NULL);
  ts_collective_meet(&b, p->n, words, dim[TS_PUSH_rank], block.i);
  if (p->nout) copy(&b, p, from, to, dim, block.i);
  ts_collective_meet(&b, p->n, words, dim[TS_PUSH_rank], block.i);
  ts_tile_for_end(&b, &go, NULL, NULL);
  ts_tile_for_end(&b, &block, NULL, NULL);
}

TsTile *ts_push_kernel(const TsPushKernel *p, const char *target, TsError *err) {
  TS_ASSERT(p->nout <= TS_PUSH_MOST && p->n <= TS_MAX_DEVICES);
  TsTile *k = ts_tile_new("push");
  if (!k) return ts_error_memory(err), NULL;
  k->target = target;
  k->threads = TS_SUM_THREADS;
  build(k, p);
  if (!k->failed) return k;
  ts_tile_free(k);
  return ts_error_memory(err), NULL;
}
