/* Fused instructions: several nodes of a graph as one call of a compiled kernel. The VM knows what
 * to call and with which tensors; who compiles, and when, is told by nobody here (jit/). */
#ifndef TS_VM_FUSED_H
#define TS_VM_FUSED_H

#include "ir/sched.h"
#include "vm/tensor.h"

/* A compiled kernel of a group. Counted by a reference each: bytecode that calls it, and whoever
 * compiled it. Only the thread of the context counts. */
typedef struct TsFused TsFused;
struct TsFused {
  int refs;
  int nin, nout; /* parameters of the kernel: read, then written, which are row-major */
  /* 0, or -1 with the error. Inputs lie as they did when it was compiled. */
  int (*run)(TsFused *f, TsContext *c, TsTensor *const *in, TsTensor *const *out);
  void (*free)(TsFused *f);
  const char *name;
  const int64_t **stride; /* by input: where it lies, in elements along its own axes; or NULL */
};

static inline TsFused *ts_fused_ref(TsFused *f) {
  f->refs++;
  return f;
}
static inline void ts_fused_unref(TsFused *f) {
  if (f && --f->refs == 0) f->free(f);
}

/* Runs it; inputs that lie elsewhere than expected are copied first. */
int ts_fused_run(TsFused *f, TsContext *c, TsTensor *const *in, TsTensor *const *out);

/* A group of a schedule and its kernel; value: the graph's value of each parameter. */
typedef struct TsFusedGroup {
  const TsGroup *group;
  TsFused *fused;
  TsVal *value;
} TsFusedGroup;

/* What lowering needs: a schedule, and for some of its groups a kernel. */
typedef struct TsFusion {
  const TsSched *sched;
  TsFusedGroup *of; /* by group; fused NULL: the VM runs its nodes */
} TsFusion;

/* Strides of all values of g that do not lie row-major: views, captured tensors. */
typedef struct TsLayouts {
  TsArena arena;
  int64_t **stride; /* by node */
} TsLayouts;
TsLayouts *ts_layouts_new(TsContext *c, const TsGraph *g);
void ts_layouts_free(TsLayouts *l);
bool ts_layouts_of(void *layouts, TsVal v, int64_t *stride); /* a TsLayoutFn */

#endif
