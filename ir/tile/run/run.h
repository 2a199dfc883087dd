/* The parts of the interpreter of Tile IR that compute; ts_tile_run is in ir/tile/tile.h. */
#ifndef TS_IR_TILE_RUN_H
#define TS_IR_TILE_RUN_H

#include "ir/tile/tile.h"

/* n elements; out is none of in. */
typedef void TsTileOpFn(int64_t n, void *out, const void *const *in);

/* A primitive pointwise row, shl shr sar mulhi or ult; d is the type of its operands, of where
 * that of its values. NULL: there is none. */
TsTileOpFn *ts_tile_run_op(int op, TsDtype d);

/* Converts as operator cast does. -1: no such pair (complex, blocks). */
int ts_tile_run_cast(TsDtype to, void *out, TsDtype from, const void *in, int64_t n);

/* Element i: integers and bool; number as an element. */
int64_t ts_tile_run_int(TsDtype d, const void *x, int64_t i);
void ts_tile_run_number(TsDtype d, void *x, double number);

/* One of sum pairs prod max min argmax argmin of n elements into the first element of out,
 * whose type is `to`. work: room for n elements of 8 bytes. -1: not for the types. */
int ts_tile_run_reduce(int op, TsDtype to, void *out, TsDtype d, const void *x, int64_t n,
                       void *work);

/* acc[m,n] = fma(a[m,k], b[k,n], acc) for increasing k, all of type d. -1: not for d. */
int ts_tile_run_mma(TsDtype d, int64_t m, int64_t n, int64_t k, const void *a, const void *b,
                    void *acc);

/* Whether a matrix unit makes the products of s. */
bool ts_tile_run_by_unit(const TsTileStmt *s);

/* acc[m,n] = acc + a[m,k] b[k,n] of bf16 or f16, steps of 16 in increasing k, as the matrix units
 * of compute capability 9.0 add them (ir/tile/run/unit.c). spread: or NULL. -1: not for d, no
 * memory, or rows were left out. */
int ts_tile_run_unit(TsDtype d, int64_t m, int64_t n, int64_t k, const void *a, const void *b,
                     float *acc, TsTileSpread *spread);

/* Who looks at a run: ir/tile/debug. Functions are called around every statement, roles that
 * stand side by side being one, at the beginning of each region, and once when the run fails, with
 * what failed; -1 ends the run. With roles they run on the roles' own stacks. */
typedef struct TsTileRun TsTileRun;
typedef struct TsTileWatch {
  void *with;
  int (*before)(void *with, TsTileRun *r, const TsTileStmt *s);
  int (*after)(void *with, TsTileRun *r, const TsTileStmt *s);
  int (*enter)(void *with, TsTileRun *r, const TsTileRegion *region);
  void (*failed)(void *with, TsTileRun *r, const TsTileStmt *s, const char *text);
} TsTileWatch;

/* ---- ir/tile/run/decides.c: by the id of a value, whether where memory is touched, or which way
 * control goes, depends on it. For free(); NULL: no memory. */
unsigned char *ts_tile_decides(const TsTile *k);
/* The first statement by which elements of memory, or one of the sizes in this set of bits, come to
 * decide so; NULL: those that decide are the same in every run. */
const TsTileStmt *ts_tile_data_decides(const TsTile *k, const unsigned char *decides,
                                       unsigned sizes);
/* Whether a dry run leaves s out. */
bool ts_tile_run_spare(const TsTileStmt *s, const unsigned char *decides);

/* ts_tile_run_as with somebody who looks, or NULL. */
int ts_tile_run_watched(const TsTile *k, void *const *arg, const int64_t *dim,
                        const TsTileRunAs *as, const TsTileWatch *watch, TsError *err);

#endif
