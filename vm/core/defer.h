/* Calls that are put off: a tier above may take a call, give its results as tensors without
 * bytes and compute them later, together with others (jit/trace/match.c). The VM knows no more
 * than this: whom to show calls, and whom to ask before bytes are read or written.
 *
 * A pending tensor has its type and strides and the deferrer's one storage, which has no bytes.
 * Forcing it gives it a storage of its own. Everything that reads bytes goes through
 * ts_tensor_read or _write, or forces before. */
#ifndef TS_VM_DEFER_H
#define TS_VM_DEFER_H

#include "vm/core/vm.h"

/* Most pending values are read by the next call and then garbage. So whoever holds one may have a
 * word in place of a tensor's address: its run, its number above, the lowest bit set. */
typedef uint64_t TsWord;

static inline bool ts_word_is_loose(TsWord w) { return w & 1; }
static inline TsTensor *ts_word_tensor(TsWord w) { return (TsTensor *)(uintptr_t)w; }
static inline TsWord ts_word_of(const TsTensor *t) { return (TsWord)(uintptr_t)t; }

typedef struct TsDefer {
  /* An eager call comes: true if it is taken; out and nout are set. */
  bool (*call)(TsCall *call);
  /* The same for a call without options: operands as words, 0 for the bare number. *home is the
   * holder's word for the result, and stays at its place. Not taken does not mean that `call`
   * would not take it. */
  bool (*quick)(TsContext *c, TsOp op, int nin, const TsWord *in, double number, TsWord *home);
  TsTensor *(*show)(TsWord loose); /* *home becomes a tensor; NULL: out of memory */
  void (*drop)(TsWord loose);      /* its holder is gone */
  void (*ran)(const TsCall *call); /* it was not taken, and has run */
  void (*wrote)(TsTensor *t);      /* its elements are about to change in place */
  void (*look)(TsContext *c);      /* trace.countdown reached zero */
  int (*force)(TsTensor *t);       /* -1 with the error */
  void (*forget)(TsTensor *t);     /* nobody refers to this pending tensor any more */
  uint64_t (*made)(
      const TsTensor *t); /* when a pending one's call was put off, a view's base's */
  /* Somebody writes into a storage that calls put off will read: they get what it holds. */
  int (*touch)(TsStorage *s);
  int (*settle)(TsContext *c, bool all); /* computes all pending tensors; not those of calls
                                            that go on, unless all */
} TsDefer;

enum { TS_HELD_NEVER = 0xffff }; /* somebody outside writes when they like: never put off */

static inline int ts_defer_force(TsTensor *t) {
  return t->storage->pending ? t->storage->ctx->defer->force(t) : 0;
}

void ts_snapshot_touch(TsStorage *s); /* vm/core/snapshot.h */

static inline int ts_defer_touch(TsStorage *s) {
  if (s->snapped) ts_snapshot_touch(s);
  return s->held && s->held != TS_HELD_NEVER ? s->ctx->defer->touch(s) : 0;
}

static inline int ts_defer_force_all(int n, TsTensor *const *t) {
  for (int i = 0; i < n; i++)
    if (t[i] && ts_defer_force(t[i])) return -1;
  return 0;
}

/* When the memory of t was made, or would have been if no call were put off. */
static inline uint64_t ts_defer_made(const TsTensor *t) {
  return t->storage->pending ? t->storage->ctx->defer->made(t) : ts_tensor_made(t);
}

/* Before statistics of memory are read, or what decides about results changes. */
static inline int ts_defer_settle(TsContext *c, bool all) {
  return c->npending ? c->defer->settle(c, all) : 0;
}

#endif
