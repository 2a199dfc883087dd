/* Capture: while one is open in the context, operator calls do not run but become nodes.
 * Tensors that go in and out of calls are symbols then (vm/core/tensor.h); those that were made
 * before are parameters of the graph that it finds by itself, one for each tensor. In-place
 * changes give the symbol a new value; those of earlier tensors become updates. */
#ifndef TS_VM_CAPTURE_H
#define TS_VM_CAPTURE_H

#include "ir/graph/graph.h"
#include "vm/core/vm.h"

typedef struct TsCapture TsCapture;

/* Begins a function: its graph's unit belongs to the capture until _end. */
int ts_capture_begin(TsContext *c, const char *name);
/* A parameter of the function, or of the region opened last. */
TsTensor *ts_capture_param(TsContext *c, const TsMeta *m, const char *name);
/* Ends it: results as values of the graph. Gives the graph; the tensors that it captured
 * are its bound parameters, with a reference each. NULL with the error, nothing kept. */
TsGraph *ts_capture_end(TsContext *c, int n, TsTensor *const *result);
void ts_capture_abort(TsContext *c); /* all of it, regions too */
void ts_capture_ref(TsGraph *g);
void ts_capture_hold(TsGraph *g);    /* a copy's bound tensors become its own */
void ts_capture_release(TsGraph *g); /* the last one unrefs bound tensors, frees the graph */

/* A region of a control operator. While it is open, calls go into it. Its random calls come behind
 * those before it, or begin where those of `instead` do: one of the two runs. */
int ts_capture_region(TsContext *c, const char *name, const TsGraph *instead);
TsGraph *ts_capture_region_end(TsContext *c, int n, TsTensor *const *result);
/* The operator of these regions is complete: random calls come behind its block of streams
 * (ts_control_block), whatever they draw. */
void ts_capture_behind(TsContext *c, const TsGraph *first_region);

/* Regions opened since the mark are given up, and the random calls in them. */
typedef struct TsCaptureMark {
  TsGraph *g;
  int64_t nrandom;
} TsCaptureMark;
TsCaptureMark ts_capture_mark(TsContext *c);
void ts_capture_reset(TsContext *c, TsCaptureMark mark);

/* Calls go into g, of the capture that is open or another, until _back: adjoints written in
 * Lua. The nodes keep the line that g has. */
typedef struct TsCaptureInto {
  TsCapture *capture, *made;
  TsGraph *g;
  const char *(*where)(void *arg);
} TsCaptureInto;
int ts_capture_into(TsContext *c, TsGraph *g, TsCaptureInto *before);
void ts_capture_back(TsContext *c, const TsCaptureInto *before);

/* The graph that calls go into; the value of a tensor in it. */
TsGraph *ts_capture_graph(TsContext *c);
TsVal ts_capture_value(TsContext *c, TsTensor *t);
/* A symbol of a value that eagerly would be a tensor with bytes of its own. */
TsTensor *ts_capture_symbol(TsContext *c, TsVal v);
/* Names a captured tensor for the text: a parameter's path in its module. */
int ts_capture_name(TsContext *c, TsTensor *t, const char *name);

/* The values so far of what the function changes in place, to v unless it is NULL: how many. */
int ts_capture_updated(TsContext *c, TsVal *v);

/* The values are read, as far as errors go: by a reverse pass, which finds what is wrong again. */
int ts_capture_use(TsContext *c, int n, const TsVal *v);

/* What vm.c does instead of running. */
int ts_capture_call(TsContext *c, TsOp op, int nin, TsTensor *const *in, const TsAttr *attr,
                    int room, int *nout, TsTensor **out);
int ts_capture_assign(TsContext *c, TsTensor *dst, TsTensor *src);
/* v as it is assigned to a tensor of type m: cast and stretched. NULL after a failure. */
TsVal ts_capture_fitted(TsGraph *g, TsVal v, const TsMeta *m);

#endif
