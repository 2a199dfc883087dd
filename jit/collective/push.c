/* See jit/collective/push.h. */
#include "jit/collective/push.h"

#include <stdio.h>

#include "devices/flags.h"
#include "jit/collective/kernel.h"
#include "jit/collective/state.h"

typedef TsTileVal V;

typedef struct Push {
  const TsPushKernel *p;
  TsTileBuild b;
  V from[TS_PUSH_MOST], own_words, own_room[TS_PUSH_MOST], to[TS_PUSH_MOST], into[TS_PUSH_MOST],
      far[TS_PUSH_MOST], words[TS_SUM_MOST], dim[TS_PUSH_NDIM];
} Push;

static V op(Push *x, int op, V a, V b) { return ts_tile_op2(&x->b, op, a, b); }
static V number(Push *x, int64_t n) { return ts_tile_index(&x->b, n); }

static int runs_of(const TsPushKernel *p) { return p->tile / (p->width * p->across); }

int64_t ts_push_tiles(const TsPushKernel *p, const int64_t *dim) {
  int runs = runs_of(p);
  return (dim[TS_PUSH_outer] + runs - 1) / runs * dim[TS_PUSH_inner];
}

int ts_push_params(const TsPushKernel *p) {
  return p->nin + 1 + 2 * p->nget + p->nout + p->nfar + p->n;
}

/* ---- tiles */
static TsTileType tile_of(const TsPushKernel *p) {
  return ts_tile_type(p->word, 3, (int64_t[]){runs_of(p), p->across, p->width});
}

/* A round: its loop, where there is one, its number, and where its tile of a box is. */
typedef struct Round {
  TsTileLoop loop;
  V i, at[3];
} Round;

static Round round_of(Push *x, V block) {
  Round r = {.i = number(x, 0)};
  V blocks = x->dim[TS_PUSH_blocks], inner = x->dim[TS_PUSH_inner], t = block;
  V runs = number(x, runs_of(x->p));
  if (!x->p->once) {
    V up = op(x, TS_OP_add, x->dim[TS_PUSH_outer], number(x, runs_of(x->p) - 1));
    V tiles = op(x, TS_OP_mul, op(x, TS_OP_floordiv, up, runs), inner);
    V left = op(x, TS_OP_sub, op(x, TS_OP_add, tiles, blocks),
                op(x, TS_OP_add, block, number(x, 1)));
    r.loop = ts_tile_for(&x->b, r.i, op(x, TS_OP_floordiv, left, blocks), 1, false, 0, NULL);
    r.i = r.loop.i;
    t = op(x, TS_OP_add, op(x, TS_OP_mul, r.i, blocks), block);
  }
  r.at[0] = op(x, TS_OP_mul, op(x, TS_OP_floordiv, t, inner), runs);
  r.at[1] = op(x, TS_OP_mul, op(x, TS_OP_mod, t, inner), number(x, x->p->across));
  r.at[2] = number(x, 0);
  return r;
}

static void round_end(Push *x, Round *r) {
  if (!x->p->once) ts_tile_for_end(&x->b, &r->loop, NULL, NULL);
}

static V read(Push *x, int i, const Round *r) {
  TsTileAccess edge = {.edge = true};
  TsTileType tile = tile_of(x->p);
  return ts_tile_load(&x->b, x->from[i], r->at, &tile, &edge);
}

static void write(Push *x, V memory, const Round *r, V value) {
  TsTileAccess edge = {.edge = true};
  ts_tile_store(&x->b, memory, r->at, value, &edge);
}

static void meet(Push *x, V block, V met) {
  ts_collective_meet(&x->b, x->p->n, x->words, x->dim[TS_PUSH_rank], block, met);
}

/* ---- where they belong, between two meetings */
static void copy(Push *x, V block) {
  V met = ts_collective_met(&x->b, x->p->n, x->own_words, block), value = NULL;
  meet(x, block, met);
  if (x->p->nout) {
    Round r = round_of(x, block);
    for (int i = 0; i < x->p->nout; i++) {
      if (i < x->p->nin) value = read(x, i, &r);
      write(x, x->to[i], &r, value);
    }
    round_end(x, &r);
  }
  meet(x, block, op(x, TS_OP_add, met, number(x, 1)));
}

/* ---- by way of rooms */
static int64_t rows_of(const TsPushKernel *p, int64_t bytes) {
  return bytes / ((int64_t)p->across * p->width * ts_dtypes[p->word].nbytes);
}

/* The first row of the tile of this round in this half of the room of a block. */
static void place_of(Push *x, V block, V half, const Round *r, V *at) {
  V side = op(x, TS_OP_add, op(x, TS_OP_mul, block, number(x, 2)), half);
  V row = op(x, TS_OP_mul, side, number(x, rows_of(x->p, TS_FLAGS_ROOM / 2)));
  at[0] = op(x, TS_OP_add, row, op(x, TS_OP_mul, r->i, number(x, runs_of(x->p))));
  at[1] = at[2] = number(x, 0);
}

/* What is far goes first: it has the longest way. */
static void send_tiles(Push *x, V block, V half, const Round *r, const V *ahead) {
  const TsPushKernel *p = x->p;
  TsTileAccess inside = {.edge = false};
  V there[3], value = NULL;
  place_of(x, block, half, r, there);
  for (int i = 0; i < p->nfar; i++) {
    int k = p->nin == 1 ? 0 : p->nout + i;
    if (!i || p->nin > 1) value = ahead ? ahead[k] : read(x, k, r);
    ts_tile_store(&x->b, x->far[i], there, value, &inside);
  }
  for (int i = 0; i < p->nout; i++) {
    if (i ? p->nin > 1 : !p->nfar || p->nin > 1) value = ahead ? ahead[i] : read(x, i, r);
    write(x, x->to[i], r, value);
  }
}

/* Where there is a tile a block, what it has is read while the number of meetings comes, which
 * says where it goes. */
static void send(Push *x, V block, V *met, V *half) {
  enum { AHEAD = 8 };
  const TsPushKernel *p = x->p;
  V ahead[AHEAD];
  bool all = p->once && p->nin <= AHEAD;
  Round r;
  if (p->once) r = round_of(x, block);
  for (int i = 0; i < p->nin && all; i++) ahead[i] = read(x, i, &r);
  *met = ts_collective_met(&x->b, p->n, x->own_words, block);
  *half = op(x, TS_OP_mod, *met, number(x, 2));
  if (!p->once) r = round_of(x, block);
  send_tiles(x, block, *half, &r, all ? ahead : NULL);
  round_end(x, &r);
}

static void get(Push *x, V block, V half) {
  TsTileAccess inside = {.edge = false};
  TsTileType tile = tile_of(x->p);
  V here[3];
  Round r = round_of(x, block);
  place_of(x, block, half, &r, here);
  for (int i = 0; i < x->p->nget; i++)
    write(x, x->into[i], &r, ts_tile_load(&x->b, x->own_room[i], here, &tile, &inside));
  round_end(x, &r);
}

static void by_rooms(Push *x, V block) {
  V met, half;
  send(x, block, &met, &half);
  meet(x, block, met);
  if (x->p->nget) get(x, block, half);
}

/* ---- the kernel */
static void params(TsTile *k, const char *name, int n, const TsTileType *t, bool written,
                   V *v) {
  char text[24];
  for (int i = 0; i < n; i++) {
    snprintf(text, sizeof text, "%s%d", name, i);
    v[i] = ts_tile_param(k, text, t, written);
  }
}

static void give(Push *x, TsTile *k) {
  static const char *const size[] = {"outer", "from", "to", "inner", "blocks", "rank", "go"};
  const TsPushKernel *p = x->p;
  int64_t code[TS_PUSH_NDIM];
  for (int i = 0; i < TS_PUSH_NDIM; i++) code[i] = ts_tile_size(k, size[i]);
  int64_t in_dim[] = {code[TS_PUSH_outer], code[TS_PUSH_from], p->width},
          out_dim[] = {code[TS_PUSH_outer], code[TS_PUSH_to], p->width};
  int64_t all = rows_of(p, (int64_t)TS_FLAGS_ROOM * TS_FLAGS_ROOMS);
  TsTileType in = ts_tile_type(p->word, 3, in_dim), out = ts_tile_type(p->word, 3, out_dim);
  TsTileType room = ts_tile_type(p->word, 3, (int64_t[]){all, p->across, p->width});
  TsTileType word = ts_tile_vector(TS_DT_i32, ts_flags_words(p->n));
  params(k, "x", p->nin, &in, false, x->from);
  params(k, "own_words", 1, &word, false, &x->own_words);
  params(k, "own_room", p->nget, &room, false, x->own_room);
  params(k, "y", p->nout, &out, true, x->to);
  params(k, "z", p->nget, &out, true, x->into);
  params(k, "room", p->nfar, &room, true, x->far);
  params(k, "words", p->n, &word, true, x->words);
  x->b = ts_tile_build(k);
  for (int i = 0; i < TS_PUSH_NDIM; i++) x->dim[i] = ts_collective_size(&x->b, i);
}

static void build(Push *x, TsTile *k) {
  give(x, k);
  TsTileLoop block = ts_tile_for(&x->b, number(x, 0), x->dim[TS_PUSH_blocks], 1, true, 0, NULL);
  TsTileLoop go = ts_tile_for(&x->b, number(x, 0), x->dim[TS_PUSH_go], 1, false, 0, NULL);
  (x->p->rooms ? by_rooms : copy)(x, block.i);
  ts_tile_for_end(&x->b, &go, NULL, NULL);
  ts_tile_for_end(&x->b, &block, NULL, NULL);
}

TsTile *ts_push_kernel(const TsPushKernel *p, const char *target, TsError *err) {
  TS_ASSERT(p->nout + p->nfar <= TS_PUSH_MOST && p->nget <= TS_PUSH_MOST &&
            p->n <= TS_MAX_DEVICES);
  TsTile *k = ts_tile_new("push");
  if (!k) return ts_error_memory(err), NULL;
  Push x = {.p = p};
  k->target = target;
  k->threads = p->threads;
  build(&x, k);
  if (!k->failed) return k;
  ts_tile_free(k);
  return ts_error_memory(err), NULL;
}
