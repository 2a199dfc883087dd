/* Results of the inner calls of a recursion, kept while its gradient runs: the gradient of an
 * outer call needs the value of an inner one, and so do those of all the calls in between.
 * Without them it would compute each again at every level. */
#ifndef TS_VM_MEMO_H
#define TS_VM_MEMO_H

#include "vm/core/tensor.h"

/* Which call: the code that is run again, and the streams of its random calls, which are
 * those of no other call at the same place forward and backward. What is found is used only
 * if the arguments have the same bits, so nothing depends on these being unique. */
typedef struct TsMemoKey {
  const void *code;
  uint64_t stream_base;
  int64_t stream_depth, site;
} TsMemoKey;

typedef struct TsMemo TsMemo;

/* Whether the results are there: one reference each. With take it is forgotten, as nobody asks
 * again. m may be NULL. */
bool ts_memo_find(TsMemo *m, const TsMemoKey *k, int nin, TsTensor *const *in, int nout,
                  TsTensor **out, bool take);
/* Keeps them if there is room; *m is made when it is NULL. */
void ts_memo_keep(TsContext *c, TsMemo **m, const TsMemoKey *k, int nin, TsTensor *const *in,
                  int nout, TsTensor *const *out);
void ts_memo_free(TsMemo *m);

#endif
