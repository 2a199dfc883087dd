/* Fused instructions: several nodes of a graph as one call of a compiled kernel. The VM knows
 * what to call and with which tensors; who compiles, and when, is told by nobody here
 * (jit/). */
#ifndef TS_VM_FUSED_H
#define TS_VM_FUSED_H

#include "ir/sched/sched.h"
#include "vm/core/tensor.h"

/* A compiled kernel of a group. Counted by a reference each: bytecode that calls it, and
 * whoever compiled it. Only the thread of the context counts. */
typedef struct TsFused TsFused;
struct TsFused {
  int refs;
  int nin, nout; /* parameters of the kernel: read, then written, which are row-major */
  /* 0, or -1 with the error. Inputs lie as they did when it was compiled. */
  int (*run)(TsFused *f, TsContext *c, TsTensor *const *in, TsTensor *const *out);
  /* Before that, with inputs wherever they lie: what may refuse them; or NULL. */
  int (*before)(TsFused *f, TsContext *c, TsTensor *const *in);
  void (*free)(TsFused *f);
  const char *name;
  const char *what;       /* for people: "add gelu sum at model.lua:3,4", or NULL */
  double flops;           /* that its nodes do */
  const uint64_t *over;   /* by output: the inputs over whose bytes it may lie, a bit each */
  const int64_t **stride; /* by input: where it lies, in elements along its own axes; or NULL */
};

static inline TsFused *ts_fused_ref(TsFused *f) {
  f->refs++;
  return f;
}
/* Output k may be written over input i, as long as all inputs that show the same bytes are
 * among those of which f says so. root: of the bytes of each input. */
bool ts_fused_over(const TsFused *f, int k, int i, const uint32_t *root);
static inline void ts_fused_unref(TsFused *f) {
  if (f && --f->refs == 0) f->free(f);
}

/* Runs it; inputs that lie elsewhere than expected are copied first. */
int ts_fused_run(TsFused *f, TsContext *c, TsTensor *const *in, TsTensor *const *out);

/* A group of a schedule and its kernel; value: the graph's value of each parameter. */
enum { TS_FUSED_PARTS = 4 };
typedef struct TsFusedGroup {
  const TsGroup *group;
  TsFused *fused;
  TsVal *value;
  /* A concat of the graph, which runs no more, or NULL: the kernel's one result is what that
   * gives, and what the kernel writes lies in it, these bytes behind its beginning. */
  const TsNode *into;
  int64_t shift[TS_FUSED_PARTS];
  /* Microseconds of the kernel that it had, which was slower, and of its nodes; or 0. */
  double usec, usec_without;
} TsFusedGroup;

/* What lowering needs: a schedule, and for some of its groups a kernel. One for the function,
 * and one for each of those inside: bodies of loops, branches, called graphs. */
typedef struct TsFusion {
  const TsGraph *g;
  const TsSched *sched;
  TsFusedGroup *of; /* by group; fused NULL: the VM runs its nodes */
  struct TsFusion *next;
} TsFusion;
/* That of g in the list, or NULL. */
const TsFusion *ts_fusion_of(const TsFusion *all, const TsGraph *g);

/* Strides of all values of g that do not lie row-major: views, captured tensors. A list of the
 * function and those inside, as above. */
typedef struct TsLayouts {
  TsArena arena;
  const TsGraph *g;
  int64_t **stride; /* by node */
  struct TsLayouts *next;
} TsLayouts;
TsLayouts *ts_layouts_new(TsContext *c, const TsGraph *g);
void ts_layouts_free(TsLayouts *l);
/* v, which lay row-major, has its third and second last axes exchanged in memory; -1: no
 * memory. */
int ts_layouts_transpose(TsLayouts *l, const TsGraph *g, const TsValue *v);
/* The results of v's node, which lay row-major, have these strides, NULL: do so again; -1: no
 * memory. */
int ts_layouts_set(TsLayouts *l, const TsValue *v, const int64_t *stride);
bool ts_layouts_of(void *layouts, TsVal v, int64_t *stride); /* a TsLayoutFn */

#endif
