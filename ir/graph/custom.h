/* Functions from outside: what a custom node calls, and a call whose derivative is given.
 * Whoever makes one embeds this in a struct of its own and counts references; every module
 * whose nodes name it holds one for each of them. */
#ifndef TS_IR_CUSTOM_H
#define TS_IR_CUSTOM_H

#include "lib/shape.h"

struct TsContext; /* of vm/, for which functions run */
struct TsTensor;
struct TsAdjoint; /* of ir/adjoint, for which they have derivatives */

typedef struct TsCustom TsCustom;
struct TsCustom {
  int refs;
  uint64_t identity; /* equal: the same function with the same options */
  const char *name;
  /* Results of the given types, with one reference each. NULL: it only differentiates. */
  int (*run)(TsCustom *f, struct TsContext *c, int nin, struct TsTensor *const *in, int nout,
             const TsMeta *const *type, struct TsTensor **out);
  int (*adjoint)(TsCustom *f, struct TsAdjoint *a); /* NULL: it has no derivative */
  void (*release)(TsCustom *f);                     /* after the last reference */
};

static inline TsCustom *ts_custom_ref(TsCustom *f) {
  f->refs++;
  return f;
}
static inline bool ts_custom_same(const TsCustom *a, const TsCustom *b) {
  return a == b || (a && b && a->identity == b->identity);
}
void ts_custom_unref(TsCustom *f); /* NULL is fine */

/* One that nothing is known of: a text does not say what its custom nodes call. */
TsCustom *ts_custom_unknown(void);

#endif
