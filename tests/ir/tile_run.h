/* Kernels written by hand for tests of the interpreter of Tile IR, how they run, and what is checked. Included
 * once by each. */
#ifndef TS_TESTS_IR_TILE_RUN_H
#define TS_TESTS_IR_TILE_RUN_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/tile/tile.h"
#include "vm/core/vm.h"

static int failures, checks;
static TsError err;
static uint64_t seed = 88172645463325252u;

static inline void check(bool ok, const char *what, long long a, long long b) {
  checks++;
  if (ok) return;
  failures++;
  printf("%s (%lld, %lld) %s\n", what, a, b, err.message);
}

static inline uint64_t rnd(void) {
  seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
  return seed * 2685821657736338717u;
}

static inline double uniform(void) { return ldexp((double)(int64_t)rnd(), -63); }

/* ---- building */
typedef struct Set {
  const char *name;
  TsAttr value;
} Set;

static inline TsTileStmt *put(TsTileBuild *b, int op, int nin, const TsTileVal *in, int nset,
                              const Set *set, const TsTileType *out) {
  TsAttr attr[TS_MAX_ATTR];
  int n;
  const TsAttrSpec *spec = ts_tile_op_attrs(op, &n);
  for (int i = 0; i < n; i++) {
    attr[i] = spec[i].preset;
    for (int k = 0; k < nset; k++)
      if (!strncmp(spec[i].name, set[k].name, (size_t)spec[i].namelen)) attr[i] = set[k].value;
  }
  return ts_tile_emit(b, op, nin, in, attr, out != NULL, out);
}

static inline TsTileVal make(TsTileBuild *b, int op, int nin, const TsTileVal *in,
                             const char *name, TsAttr value, TsTileType out) {
  TsTileStmt *s = put(b, op, nin, in, 1, (Set[]){{name, value}}, &out);
  return s ? s->out[0] : NULL;
}

static inline TsTileType type2(TsDtype d, int64_t m, int64_t n) {
  return ts_tile_type(d, 2, (int64_t[]){m, n});
}

static inline TsTileVal index_of(TsTileBuild *b, int64_t i) { return ts_tile_index(b, i); }

/* x repeated along the last axis of type, or along its first for a row of it. */
static inline TsTileVal spread(TsTileBuild *b, TsTileVal x, const TsTileType *type) {
  return ts_tile_broadcast(b, x, type, NULL);
}

/* Inside of a phase of one round. */
static inline TsTileBuild phase(TsTile *k) {
  TsTileBuild b = ts_tile_build(k);
  ts_tile_for(&b, index_of(&b, 0), index_of(&b, 1), 1, true, 0, NULL);
  return b;
}

static inline int run_any(TsTile *k, void *const *arg, const int64_t *dim) {
  err.message[0] = 0;
  int failed = k->failed ? -2 : ts_tile_run(k, arg, dim, &err);
  ts_tile_free(k);
  return failed;
}

/* Of a legal kernel. */
static inline int run(TsTile *k, void *const *arg, const int64_t *dim) {
  bool legal = k->failed || !ts_tile_check(k, NULL, &err);
  if (!legal) check(err.code == TS_ERR_memory, "legal", 0, 0);
  return run_any(k, arg, dim);
}

static inline void fill(float *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) x[i] = (float)uniform();
}

static inline int told(void) {
  printf("%d checks, %d failures\n", checks, failures);
  return failures != 0;
}

#endif
