/* Functions of control operators over a mesh: a tier above runs them in pieces (jit/mesh/region.c). The VM
 * knows no more than this: whom to ask. What is refused runs call by call, with the same bits. */
#ifndef TS_VM_SPREAD_H
#define TS_VM_SPREAD_H

#include "ir/graph/graph.h"
#include "vm/core/vm.h"

typedef struct TsSpread {
  /* 1: results are there, a reference each; 0: it cannot be cut into pieces, and nothing happened; -1: the
   * error is filled. While that is planned 2: what is sent was told, and types follow from the calls. slot: what is remembered of the function, NULL at first. */
  int (*run)(TsContext *c, void **slot, const TsGraph *g, TsTensor *const *args,
             TsTensor **results);
  void (*forget)(void *slot);
} TsSpread;

#endif
