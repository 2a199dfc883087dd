/* Records of the tape, for tape.c, tape_write.c and tape_graph.c. */
#ifndef TS_VM_TAPE_STATE_H
#define TS_VM_TAPE_STATE_H

#include "ir/graph/custom.h"
#include "vm/core/tape.h"

/* An output as the record knows it; a tensor's origin points here. */
typedef struct TsOutput {
  TsRecord *record;
  TsTensor *saved; /* a view of the result, without origin */
  uint32_t version;
} TsOutput;

typedef struct TsInput {
  TsTensor *t;      /* what made it has saved it; else a leaf, or a view with the tensor's id */
  TsOutput *from;   /* what made it, with a reference to the record, or NULL */
  uint32_t version; /* of its storage, when it was read */
} TsInput;

typedef struct TsTaped TsTaped; /* of tape_write.c */

typedef enum TsRecordKind {
  TS_RECORD_call,
  TS_RECORD_function, /* captured: graph. Its updates stand behind its results */
  TS_RECORD_custom,   /* from outside */
  TS_RECORD_write,    /* what a storage holds once in[1] was written at `onto`; in[0]: before */
  TS_RECORD_look      /* the elements of a storage that out[0] shows */
} TsRecordKind;

struct TsRecord {
  int refs;
  TsRecordKind kind;
  TsOp op;
  TsGraph *graph;
  TsCustom *custom;
  TsTensor *onto;
  TsTaped *taped; /* of a write that has begun: for its storage */
  int nin, nout;
  uint64_t serial; /* order of the calls */
  int mark;        /* of the walk that saw it last */
  TsInput *in;
  TsAttr *attr;
  uint64_t seed, stream; /* of a captured function's run */
  char *place;
  TsOutput out[];
};

/* A record of what runs here, with one reference; NULL with the error. */
TsRecord *ts_record_new(TsContext *c, TsRecordKind kind, int nin, int nout);
/* Input i; an output's tensor is shown without its origin. -1 with the error. */
int ts_record_take(TsRecord *r, int i, TsTensor *t);
void ts_record_from(TsRecord *r, int i, TsOutput *o); /* what a record made */
void ts_record_leave(TsRecord *r, int i);             /* input i is none any more */
int ts_record_give(TsRecord *r, int k, TsTensor *t);  /* output k as it is now */
void ts_record_made(TsRecord *r, int k, TsTensor *t); /* t's origin is output k from now on */
const char *ts_record_name(const TsRecord *r);
/* t's elements, counted as the tape's own. */
TsTensor *ts_record_alias(TsTensor *t);

/* What a changed storage held: t's elements of that version, or NULL. A new reference. */
TsTensor *ts_tape_kept(TsTensor *t, uint32_t version, bool *failed);
void ts_taped_free(TsTaped *t); /* NULL is fine */
/* A write or look as nodes: out[0] of its record. NULL after a failure of g's builder. */
TsVal ts_tape_emit(TsContext *c, TsGraph *g, const TsRecord *r, const TsVal *in);

#endif
