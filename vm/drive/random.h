/* Random tensors, whole or in part. Which bits make which element:
 * vm/kernels/random.h. */
#ifndef TS_VM_RANDOM_H
#define TS_VM_RANDOM_H

#include "lib/mesh.h"
#include "vm/core/vm.h"

/* A result that is part of a larger tensor: its elements are those of their places in the whole.
 * While TsContext.box is set, random rows run on the CPU. */
typedef struct TsRandomBox {
  const TsLayout *layout;
  const TsMeta *whole;
  int part;
} TsRandomBox;

/* Calls run for each stretch of neighbours in the whole: where it begins in a part of n elements,
 * and in the whole. box NULL: the part is the whole. */
void ts_random_runs(const TsRandomBox *box, int64_t n,
                    void (*run)(void *arg, int64_t own, int64_t whole, int64_t count), void *arg);

/* Elements lo..hi-1, in row-major order of the whole tensor, of what op (uniform,
 * normal, truncated_normal, bernoulli or randint) makes with these attributes, written
 * to dst as dtype d. A shard fills its runs with it, and equals the unsharded tensor.
 * The attributes' shape, dtype, seed and stream are not looked at. */
int ts_random_fill(TsContext *c, TsOp op, const TsAttr *attr, TsDtype d, uint64_t seed,
                   uint64_t stream, int64_t lo, int64_t hi, void *dst);

/* The seed and stream of a call: those given (a seed alone has stream 0), else the
 * context's seed and its next stream. The last two attributes of a row. */
void ts_random_pick(TsContext *c, const TsAttr *seed_and_stream, uint64_t *seed,
                    uint64_t *stream);

/* Puts them into the attributes, so that the call can be repeated. */
void ts_random_pin(TsContext *c, TsAttr *seed_and_stream);

/* Rows with a file of their own, vm/exec/draw.c. */
int ts_random_permutation(TsCall *call, uint64_t seed, uint64_t stream);
int ts_random_categorical(TsCall *call, uint64_t seed, uint64_t stream);

#endif
