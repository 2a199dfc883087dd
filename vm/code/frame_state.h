/* What the files of frames share: a frame, and what is done to its registers while it runs. The
 * essay stands in vm/code/frame.c. Not for others; they use vm/code/bytecode.h. */
#ifndef TS_VM_FRAME_STATE_H
#define TS_VM_FRAME_STATE_H

#include "devices/cpu_pool.h"
#include "vm/code/bytecode.h"

typedef struct TsStep {
  TsHandler *run;
  TsCall call;
  const TsInstr *instr;
  bool fresh, sets; /* outputs are allocated before; outputs are registers that change */
  bool into;        /* outputs are in rooms that change */
} TsStep;

struct TsFrame {
  TsContext *ctx;
  const TsCode *code;
  TsTensor **reg;  /* by register: those that stay are owned */
  bool *changes;   /* by register */
  TsTensor **slot; /* by operand: what calls read and write */
  int *reader;     /* chains of operands that read a changing register */
  int *first_reader;
  TsStep *step;
  TsFrame **sub; /* made when they are first called */
  TsStorage slab;
  int device;        /* whose memory the slab is; 0: the CPU's */
  void *slab_at;     /* there, while it runs */
  TsFrame *there;    /* the same code on a device, once it was needed */
  void *launches;    /* what the device remembers of runs (vm/core/offload.h) */
  void *pieces;      /* and what runs over a mesh left behind (vm/core/spread.h) */
  int64_t *shortest; /* nanoseconds, by instruction; or NULL */
  bool measured;     /* they are being measured */
  bool busy;
  bool by_calls; /* whoever calls it runs over a mesh, and leaves are declared */
  bool moved;    /* it runs on the device, and what it was given belongs to the CPU */
  /* while it runs */
  TsStep *at;
  TsFrame *caller;
  uint64_t stream_base;
  int stream_depth;
  /* recursion */
  TsFrame *owner;      /* whose code recur runs again: the body around, or itself */
  TsFrame *deeper;     /* of a body: the frame of its inner calls */
  int64_t level, most; /* of a body: calls so far, and how many there may be */
  bool saves;          /* of a body: a gradient will ask for the results of inner calls */
};

/* ---- vm/code/frame_bind.c */
TsFrame *ts_frame_bind(TsContext *c, const TsCode *code, int device);
/* t as one of the device where f runs, of the same bytes: a number, or what is there, is itself.
 * One reference, or NULL with the error. */
TsTensor *ts_frame_follow(const TsFrame *f, TsTensor *t);
/* Frames of inner calls below f, but for the first few; one after the other, as there may be
 * many. */
void ts_frame_free_deeper(TsFrame *f, int kept);
TsFrame *ts_frame_sub(TsFrame *f, uint32_t k, bool body); /* function k of the code, bound */

/* ---- vm/code/frame_call.c */
/* From here on f runs, on these arguments; its random calls are those of a call by itself at
 * this site, unless that is negative. */
int ts_frame_enter(TsFrame *f, TsTensor *const *args, int64_t site);
int ts_frame_leave(TsFrame *f, int failed, TsTensor **results);
/* Begins the call that stands at f's place. callee is the frame that runs now, or NULL if the
 * results are there. */
int ts_frame_begin_call(TsFrame *f, TsFrame **callee);
/* The call at f's place has come back with its results, or has failed. */
int ts_frame_end_call(TsFrame *f, int failed);
void ts_frame_forget_inner(TsContext *c); /* results that the memo keeps */

/* ---- vm/code/frame_spread.c */
/* A run on tensors of which some are spread over a mesh. */
int ts_frame_run_spread(TsFrame *f, TsTensor *const *args, TsTensor **results);

/* ---- vm/code/frame.c */
/* Errors inside say where the operator stands. */
int ts_frame_explain(TsFrame *f, const TsStep *s);
int ts_frame_tell_interrupt(TsFrame *f, const TsStep *s);

/* ---- short names of its files */
static inline void put(TsFrame *f, uint32_t r, TsTensor *t) {
  f->reg[r] = t;
  for (int k = f->first_reader[r]; k >= 0; k = f->reader[k]) f->slot[k] = t;
}

/* Written over something that a run makes: parameters are there before it. */
static inline bool in_room(const TsCode *code, uint32_t r) {
  return code->reg[r].kind == TS_REG_into && code->reg[r].of >= (uint32_t)code->nparam;
}

/* Results of control instructions are new tensors, whatever their kind. */
static inline void take_results(TsFrame *f, TsStep *s) {
  for (uint32_t k = 0; k < s->instr->nout; k++) {
    uint32_t at = s->instr->at + s->instr->nin + k;
    put(f, f->code->operand[at], f->slot[at]);
  }
}

/* s has run, or is what runs next: its place is that of the interrupt. */
static inline int interrupted(TsFrame *f, const TsStep *s) {
  return ts_cpu_interrupted() ? ts_frame_tell_interrupt(f, s) : 0;
}

#endif
