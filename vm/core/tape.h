/* The tape: how tensors that require gradients were made, call by call, while the program
 * runs. backward() turns the calls below a tensor into graph: the saved values become its
 * bound parameters, the adjoints its nodes, and the VM runs it as any captured function.
 *
 * A record holds its inputs, and its outputs by views of their bytes; a tensor holds the
 * record that made it. So the tape lives exactly as long as something that could ask for it. */
#ifndef TS_VM_TAPE_H
#define TS_VM_TAPE_H

#include "ir/graph/graph.h"
#include "vm/core/vm.h"

typedef struct TsRecord TsRecord;

/* After a call whose inputs require gradients: outputs get their origin. */
int ts_tape_record(const TsCall *call);
/* After a run of a captured function: in are the tensors of all its parameters. The backward
 * graph repeats it, with the random numbers from the stream at which it began; its adjoint
 * follows. */
int ts_tape_record_function(TsContext *c, TsGraph *g, TsTensor *const *in, TsTensor *const *out,
                            uint64_t stream);
/* After a call of a function from outside. */
struct TsCustom;
int ts_tape_record_custom(TsContext *c, struct TsCustom *f, int nin, TsTensor *const *in,
                          int nout, TsTensor *const *out);
void ts_record_unref(void *origin); /* of a tensor that is not symbolic */

/* True if a call on these inputs must be recorded. */
static inline bool ts_tape_wants(const TsContext *c, int nin, TsTensor *const *in) {
  if (c->no_grad) return false;
  for (int i = 0; i < nin; i++)
    if (in[i] && in[i]->requires_grad) return true;
  return false;
}

/* The gradients of y (dy: ones if NULL) by every leaf below it that requires them are added
 * to the leaves' grad. The tape stays. */
int ts_tape_backward(TsContext *c, TsTensor *y, TsTensor *dy);
/* The graph of that without running it: results in the order of the leaves, which have one
 * reference each. */
TsGraph *ts_tape_graph(TsContext *c, TsTensor *y, TsTensor *dy, int *nleaf, TsTensor ***leaf);

#endif
