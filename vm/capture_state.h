/* What the files of capture share: what a capture knows of tensors, of symbols and of their bytes.
 * */
#ifndef TS_VM_CAPTURE_STATE_H
#define TS_VM_CAPTURE_STATE_H

#include "lib/activity.h"
#include "vm/core/capture.h"

/* A tensor from before, or the symbol of an argument, and its value at this point of the
 * function. One that was made of Lua's numbers meanwhile is made anew in each run: what the
 * function changes is no change of the tensor. */
typedef struct TsBound {
  TsTensor *t;
  TsVal value;
  int param;
  bool updated, anew;
} TsBound;

/* The bytes that a symbol would have if the function ran: views share those of what they look
 * at. A symbol's storage has the number of its memory, from 1, for a version. */
typedef struct TsMemory {
  const TsTensor *outside; /* a tensor from before, else NULL */
  const TsGraph *home;     /* the function or region where it was made */
  bool given;              /* to that region: the caller's */
  int param;               /* of the root, or -1 */
  uint64_t owner;          /* the tensor that is no view there, 0: none */
  /* When, by the clock that numbers tensors: a symbol knows of it if its own number or its `known`
   * is not before that. */
  uint64_t changed;
  TsVal first, now; /* its value when its first symbol was made, and at this point */
} TsMemory;

/* A value that the memory of number m had. */
typedef struct TsPast {
  TsVal v;
  uint32_t m;
} TsPast;

struct TsCapture {
  TsGraph *root, *g; /* g: the region that calls go into */
  TsBound *bound;
  int nbound, capbound;
  TsMemory *memory;
  int nmemory, capmemory;
  TsPast *past; /* beside the first */
  int npast, cappast;
  TsVal *used; /* what was differentiated: its errors are those of the reverse pass */
  int nused, capused;
  TsActivity *work;
  uint64_t serial; /* tells this capture's symbols from those of others */
};

static inline bool ts_capture_is_symbol(const TsTensor *t) { return t->storage->symbolic; }

static inline TsMemory *ts_capture_memory(const TsCapture *k, const TsTensor *symbol) {
  return &k->memory[symbol->storage->version - 1];
}

/* ---- vm/capture_view.c: changes in place of what others look at */
/* The memory of number m has the value v from now on: what looks at it will find out. */
int ts_capture_changed(TsContext *c, uint32_t m, TsVal v);
/* The symbol's value in the region that is open, made anew if its memory has changed. NULL with
 * the error. */
TsVal ts_capture_seen(TsContext *c, TsTensor *symbol);
/* The value of all of the view's memory once v stands where the view looks. NULL with the error. */
TsVal ts_capture_put(TsContext *c, TsTensor *view, TsVal v);
/* Whether v is a view of a value that the memory had: as a value of its own it needs a node of its
 * own, or one could not tell what is a view of which. */
bool ts_capture_shows(const TsCapture *k, uint32_t m, TsVal v);
/* -1, with the error of a change that graphs have no words for. */
int ts_capture_refuse_view(TsContext *c, const char *what);

#endif
