/* Sorting rows of numbers by integer keys: a total order in which NaN is largest, all
 * NaNs are equal and -0 equals +0, as in NumPy. Every sort is stable, so the result is
 * one, whatever the algorithm and the number of threads. After an interrupt results are
 * anything, indices out of range too. */
#ifndef TS_VM_SORT_H
#define TS_VM_SORT_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/dtype.h"

/* Bits of the keys of a type: 8, 16, 32 or 64. No blocks, no complex. */
static inline int ts_sort_bits(TsDtype d) { return ts_dtypes[d].nbytes * 8; }

/* The keys of x[0..n): their order is that of the values, or its reverse for
 * descending. */
void ts_sort_keys(TsDtype d, bool descending, int64_t n, const void *x, uint64_t *key);

/* The bits of a value with that key, not descending. */
uint64_t ts_sort_pattern(TsDtype d, uint64_t key);
/* The key of NaN, not descending; only for floats. */
static inline uint64_t ts_sort_nan(TsDtype d) { return UINT64_MAX >> (64 - ts_sort_bits(d)); }

/* Bytes of scratch for the functions below, aligned to 8. */
int64_t ts_sort_spare(int64_t n, int bits);

/* Puts key[0..n) in increasing order; index[i] tells where the key at i stood. */
void ts_sort_index(int64_t n, int bits, uint64_t *key, int64_t *index, void *spare);
/* The same with all threads, from the context's thread. */
void ts_sort_index_parallel(int64_t n, int bits, uint64_t *key, int64_t *index, void *spare);

/* Where the first k of x[0..n) stood when sorted, in order; 0 <= k <= n. spare: of
 * ts_sort_first_bytes, aligned to 8. */
void ts_sort_first(TsDtype d, bool descending, int64_t n, const void *x, int64_t k,
                   int64_t *index, void *spare);
int64_t ts_sort_first_bytes(int64_t k, int bits);

/* The key at place k of the sorted ones, 0 <= k < n. Destroys key. */
uint64_t ts_sort_select(int64_t n, int64_t k, int bits, uint64_t *key);

#endif
