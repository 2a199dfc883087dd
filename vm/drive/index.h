/* Index tensors: checked, as i64 in row-major order. */
#ifndef TS_VM_INDEX_H
#define TS_VM_INDEX_H

#include "vm/core/vm.h"

/* An element of 16 bytes: pairs of numbers are aligned to 8. */
typedef struct TsWide {
  uint64_t half[2];
} TsWide;

/* clang-format off */
/* X(bytes, T) for the sizes of elements that are moved without being looked at. */
#define TS_INDEX_WIDTHS(X)                                                                     \
  X(1, uint8_t) X(2, uint16_t) X(4, uint32_t) X(8, uint64_t) X(16, TsWide)

/* X(name, T) for the types in which numbers are added at indices; whole ones wrap around. */
#define TS_INDEX_SUMS(X)                                                                       \
  X(u8, uint8_t) X(u16, uint16_t) X(u32, uint32_t) X(u64, uint64_t)                            \
  X(f32, float) X(f64, double) X(complex64, float _Complex) X(complex128, double _Complex)
/* clang-format on */

#define TS_INDEX_SUM_ENUM(name, T) TS_INDEX_SUM_##name,
typedef enum TsIndexSum { TS_INDEX_SUMS(TS_INDEX_SUM_ENUM) TS_INDEX_SUM_COUNT } TsIndexSum;
#undef TS_INDEX_SUM_ENUM

/* Of dtypes that are their own compute type. */
TsIndexSum ts_index_sum(TsDtype d);

typedef struct TsIndex {
  TsTensor *t;       /* one reference */
  const int64_t *at; /* each in 0..size-1 */
  int64_t n;
} TsIndex;

/* What the numbers stand for, beside an axis (>= 0) of call->in[0]. Negative ones count
 * from the end, but those of a class, a segment, an expert or a start are errors. */
enum {
  TS_INDEX_FLAT = -1,
  TS_INDEX_CLASS = -2,
  TS_INDEX_SEGMENT = -3,
  TS_INDEX_EXPERT = -4,
  TS_INDEX_START =
      -5, /* the position of the first query of call->in[0], [B,H,S,D], in a table */
};

/* How many positions the first of `queries` has in a table of so many keys: the last one stands
 * in the table as well. */
static inline int64_t ts_index_starts(int64_t keys, int64_t queries) {
  return queries <= keys ? keys - queries + 1 : 0;
}

/* Opens call->in[input], numbers below size. The error names the number, the axis and
 * its size; after it ix is empty. */
int ts_index_open(TsCall *call, int input, int axis, int64_t size, TsIndex *ix);
/* Once or more often; of {0} nothing. */
void ts_index_close(TsIndex *ix);
/* The error of the number v; -1. */
int ts_index_wrong(TsCall *call, int axis, int64_t size, int64_t v);

#endif
