/* What the files of the tracer share: traces, runs, and who does what with them. */
#ifndef TS_JIT_TRACE_STATE_H
#define TS_JIT_TRACE_STATE_H

#include "jit/jit.h"
#include "jit/trace/trace.h"
#include "lib/arena.h"
#include "vm/core/defer.h"

enum {
  TRACE_MOST_CALLS = 320, /* in one trace */
  TRACE_MOST_INPUTS = 16, /* of a call that is put off */
  TRACE_MOST_ROOTS = 64,
  TRACE_MOST_OUTPUTS = 1024, /* of all calls on one path */
};

typedef struct Trace Trace;
typedef struct Node Node;
typedef struct Run Run;

/* Where an input comes from. External tensors of a run are numbered in the order in which they
 * come; bare numbers are external as well, whether they vary or not. */
typedef enum SourceKind {
  SOURCE_none,
  SOURCE_made,   /* value `at` of the run */
  SOURCE_seen,   /* external `at`, again */
  SOURCE_new,    /* the next external: any tensor of this type */
  SOURCE_number, /* a bare number with these bits */
  SOURCE_varies, /* a bare number */
} SourceKind;

typedef struct Source {
  uint8_t kind;
  bool may_vary; /* a number whose value cannot make the call fail */
  uint16_t at;
  TsMeta *meta;  /* new */
  uint64_t bits; /* number: of its double */
} Source;

/* A result of a call. base: the value whose bytes it shows; itself if it is no view. */
typedef struct Made {
  TsMeta meta;
  int64_t stride[TS_MAX_RANK];
  uint16_t base;
  bool contiguous;
  bool shown;      /* others show its bytes */
  bool wanted;     /* computed by the function */
  uint32_t forced; /* how often it was asked for when it was not */
} Made;

/* A function of a path: the calls from the root to a node that ends it. */
typedef struct Path {
  TsGraph *g;
  TsCode *code;
  TsFrame *frame;
  TsJitFunction *hot;
  int nparam, nresult;
  uint16_t *param, *result; /* externals and values */
  uint32_t layout;          /* of the trace when it was made */
  uint32_t runs;
  TsFrame *last; /* that ran: most runs of a short trace are not timed */
  uint32_t id;   /* the how manieth of the tracer's */
} Path;

/* One call. Children are what came behind it, the newest first. */
struct Node {
  Node *parent, *child, *sibling;
  Trace *trace;
  const char *place;
  int depth; /* calls before it */
  uint16_t op;
  uint16_t nin, nout, nattr;
  uint16_t first_out, first_ext,
      last_ext;   /* numbers of its values; of externals before, after */
  int16_t random; /* which stream since the run began it draws from, or -1 */
  bool end;       /* the run stops behind it */
  bool plain;     /* its options are the row's defaults */
  Source *in;
  TsAttr *attr; /* NULL: the row's defaults */
  Made *out;
  uint32_t passed, exits, observed; /* how often: matched; left behind it; read behind it */
  uint32_t quiet;                   /* runs that ended here since what is wanted changed */
  uint32_t wanted;                  /* the trace's when nwanted was counted */
  int nwanted;                      /* values of this path */
  Path *path;
};

struct Trace {
  TsArena arena;
  Trace *next, *start; /* of all; of those that begin with the same operator */
  TsTracer *t;
  Node root;
  int refs; /* by runs and by the tracer */
  int max_ext, max_out;
  uint32_t wanted; /* changes of Made.wanted */
  uint32_t layout; /* changes of what is a parameter */
  uint32_t runs, exits, builds;
  uint64_t calls;        /* put off */
  uint64_t used;         /* runs of all traces when it ran last */
  uint64_t judged_calls; /* when the length of runs was last looked at */
  uint32_t judged_runs;
  int64_t largest; /* elements of a value */
  bool dead;
  Run *spare;
};

/* An external of a run, in the list of those that look at its storage. t is NULL for a number
 * that is the recorded one, until somebody needs it as a tensor. */
typedef struct Ext {
  TsTensor *t;
  struct Ext *next, **at;
} Ext;

/* Calls that are or were put off, from the root of a trace to `end`. */
struct Run {
  Trace *trace;
  Run *next, **at; /* of all */
  Node *end;
  int cap_ext, cap_out;
  int next_ext, alive; /* pending values that somebody refers to */
  bool active, busy;
  uint64_t seed, stream;
  Ext *ext;
  TsWord
      *out; /* by value: its tensor; or with the lowest bit, the address of its holder's word;
                  0: not pending any more */
  uint64_t *made; /* by value: the id that its tensor has, or would have */
};

typedef struct Recorder {
  Trace *trace;
  Node *at;
  int left;            /* calls until it ends */
  uint64_t *ext, *out; /* ids */
  int next_ext, nout, nrandom;
} Recorder;

struct TsTracer {
  TsContext *c;
  TsJit *jit;
  bool on, verbose, eager;
  TsStorage pending; /* of all pending tensors */
  Trace *first, *start[TS_OP_COUNT];
  int ntrace;
  Run *run;     /* the one that goes on, or NULL */
  Run *runs;    /* all with pending values */
  Recorder rec; /* trace NULL: nothing is recorded */
  Ext **held;   /* by TsStorage.held */
  uint16_t *free_held;
  int nfree_held, nheld, capheld;
  /* finding: sleep, then note where the ring stands, then look at what came since */
  bool noted;
  uint32_t note_at, nap;
  uint64_t note_count, note_words;
  uint32_t npath;   /* functions made so far */
  int given_up;     /* traces that were not worth it: the next one has to wait longer */
  int wait, period; /* calls until a recording begins; how many it takes */

  TsTracerStats stats;
};

static inline TsTracer *tracer_of(const TsContext *c) { return c->deferrer; }

static inline TsWord loose_of(const Run *r, int value) {
  return (TsWord)(uintptr_t)r | (TsWord)value << 48 | 1;
}
static inline Run *run_of(TsWord loose) {
  return (Run *)(uintptr_t)(loose & ((UINT64_C(1) << 48) - 2));
}
static inline int value_of(TsWord loose) { return (int)(loose >> 48); }

/* jit/trace/find.c */
void ts_trace_look(TsContext *c);
void ts_trace_sleep(TsTracer *t, bool found);
bool ts_trace_counts(TsOp op); /* calls of it are compared */

/* jit/trace/record.c */
/* A draw in a function of a control operator, which says from which stream: a run counts its
 * own. */
bool ts_trace_places_draw(const TsCall *call);
void ts_trace_begin(TsTracer *t, int ncalls);
void ts_trace_branch(TsTracer *t, Run *r, Node *at);
void ts_trace_record_call(TsTracer *t, const TsCall *call);
bool ts_trace_knows(const Recorder *rec, const TsTensor *x); /* made by a recorded call */
void ts_trace_end_record(TsTracer *t);
void ts_trace_free(Trace *tr); /* gives up the tracer's reference: jit/trace/run.c */
void ts_trace_unref(Trace *tr);
const char *ts_trace_span(const Trace *tr, const Node *end, char text[200]);

/* jit/trace/run.c */
Run *ts_run_new(Trace *tr);
void ts_run_free(Run *r);
int ts_run_hold(TsTracer *t, Ext *e, TsTensor *x);
TsTensor *ts_run_pend(Run *r, const Made *m, int value); /* a tensor for a pending value */
TsTensor *ts_run_show(Run *r, int value); /* a value's tensor, made now if it was loose */
uint64_t ts_run_made(const TsTensor *p);  /* see TsDefer.made */
int ts_run_touch(TsStorage *s);
int ts_run_force(Run *r, int value); /* of a run that has ended */
int ts_run_all(Run *r);
void ts_run_finish(Run *r); /* at a node that ends: computes what is wanted */
void ts_path_free(Path *p);

/* jit/trace/quick.c */
bool ts_trace_quick(TsContext *c, TsOp op, int nin, const TsWord *in, double number,
                    TsWord *home);
TsTensor *ts_trace_show(TsWord loose);
void ts_trace_drop(TsWord loose);

/* jit/trace/match.c */
bool ts_trace_same_meta(const TsMeta *a, const TsMeta *b);
bool ts_trace_same_attrs(const Node *n, const TsAttr *attr);
void ts_trace_stop(TsTracer *t, Run *r);            /* r goes on no more */
void ts_trace_abandon(TsTracer *t, Run *r);         /* and is freed if it holds nothing */
void ts_trace_passed(TsTracer *t, Run *r, Node *n); /* behind n: counts, the end */
void ts_trace_say(TsTracer *t, const char *what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
