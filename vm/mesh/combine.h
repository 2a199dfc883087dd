/* Summands of devices become sums. */
#ifndef TS_VM_MESH_COMBINE_H
#define TS_VM_MESH_COMBINE_H

#include "vm/mesh/leaves.h"

/* One sum. Parts whose places differ along `axes` alone have summands of it: sum[p][0..nsum[p]) of
 * part p, subtrees of a tree of so many leaves. The sum is of type `whole`. Where that lies as the
 * summands do (`from`), all parts get all of it, else each its piece. */
typedef struct TsMeshSum TsMeshSum;
struct TsMeshSum {
  const TsMeta *whole;
  const TsLayout *from;
  uint8_t axes;
  TsFactorKind kind;
  int leaves;
  TsLeafSum *const *sum;
  const int *nsum;
  TsTensor **out; /* by part, on its device: a reference each */
};

/* Whether parts p and q have summands of the same sum. */
bool ts_mesh_sum_joins(const TsMeshSum *s, int p, int q);

/* Elements of one device that go where `into` is, which is of the same shape and dtype. */
typedef struct TsMeshBox TsMeshBox;
struct TsMeshBox {
  TsTensor *from, *into;
};

/* Sums that need nothing of each other. 0, or -1 with nothing in their out. */
int ts_mesh_combine(TsContext *c, int n, const TsMeshSum *s);

#endif
