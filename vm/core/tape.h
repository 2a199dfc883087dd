/* The tape: how tensors that require gradients were made, call by call, while the program
 * runs. backward() turns the calls below a tensor into graph: the saved values become its
 * bound parameters, the adjoints its nodes, and the VM runs it as any captured function.
 *
 * A record holds what made its inputs, and its outputs by views of their bytes; a tensor holds
 * the record that made it. So the tape lives exactly as long as something that could ask for it. */
#ifndef TS_VM_TAPE_H
#define TS_VM_TAPE_H

#include "ir/graph/graph.h"
#include "vm/core/vm.h"

typedef struct TsRecord TsRecord;

/* After a call whose inputs require gradients: outputs get their origin. */
int ts_tape_record(const TsCall *call);
/* After one that is not recorded although they do: what it shows of them is apart. */
void ts_tape_unrecorded(const TsCall *call);
/* Around a run of a captured function: in are the tensors of all its parameters. The backward
 * graph repeats it, with the random numbers from the stream at which it began; its adjoint
 * follows. update: by update of the function, the write that was begun for it, or NULL. */
TsRecord *ts_tape_begin_function(TsContext *c, TsGraph *g, TsTensor *const *in);
int ts_tape_end_function(TsContext *c, TsRecord *r, TsTensor *const *in, TsTensor *const *out,
                         TsRecord *const *update);
/* After a call of a function from outside. */
struct TsCustom;
int ts_tape_record_custom(TsContext *c, struct TsCustom *f, int nin, TsTensor *const *in,
                          int nout, TsTensor *const *out);
void ts_record_unref(void *origin); /* of a tensor that is not symbolic */
void ts_record_free(TsRecord *r);   /* what was begun, and nobody else refers to; or NULL */

/* ---- what is written in place (tape_write.c)
 * begin before any element changes, take what is written, and end when it is done. begin refuses
 * where gradients would be lost: NULL with the error. */
TsRecord *ts_tape_begin_write(TsContext *c, TsTensor *dst);
int ts_tape_take_write(TsRecord *w, TsTensor *src);
void ts_tape_end_write(TsRecord *w, TsTensor *dst);
/* What is written is result k of this record. */
void ts_tape_end_write_of(TsRecord *w, TsTensor *dst, TsRecord *made, int k);
int ts_tape_look(TsTensor *t);            /* see ts_tape_refresh */
void ts_tape_forget(struct TsStorage *s); /* only the tape has tensors of it */
void ts_tape_close(TsContext *c);

/* Whether what is computed from t has gradients to pass on. */
static inline bool ts_tape_asks(const TsTensor *t) {
  return t->requires_grad || (t->storage->taped && !t->apart);
}

/* t's origin, if its elements were written through another tensor since. */
static inline int ts_tape_refresh(TsTensor *t) {
  return t->storage->taped && !t->apart ? ts_tape_look(t) : 0;
}

/* True if a call on these inputs must be recorded. */
static inline bool ts_tape_wants(const TsContext *c, int nin, TsTensor *const *in) {
  if (c->no_grad) return false;
  for (int i = 0; i < nin; i++)
    if (in[i] && ts_tape_asks(in[i])) return true;
  return false;
}

/* The gradients of y (dy: ones if NULL) by every leaf below it that requires them are added
 * to the leaves' grad. The tape stays. */
int ts_tape_backward(TsContext *c, TsTensor *y, TsTensor *dy);
/* The graph of that without running it: results in the order of the leaves, which have one
 * reference each. */
TsGraph *ts_tape_graph(TsContext *c, TsTensor *y, TsTensor *dy, int *nleaf, TsTensor ***leaf);

#endif
