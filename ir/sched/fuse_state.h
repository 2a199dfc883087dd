/* What the files of ts_sched_fuse (ir/sched/fuse.c) share: the groups being made. Not for
 * others. */
#ifndef TS_IR_SCHED_FUSE_STATE_H
#define TS_IR_SCHED_FUSE_STATE_H

#include "ir/sched/sched.h"
#include "ir/sched/space.h"
#include "ir/sched/why.h"

enum { TS_FUSE_AFTER_PRODUCT = 24 /* nodes of a group with a head, at most */ };

typedef struct Fuse {
  TsSched *s;
  const TsGraph *g;
  unsigned char *live;
  unsigned char *runs; /* by node: it must be in a group */
  TsError *err;
  bool failed;
} Fuse;

/* ---- ir/sched/fuse.c */
void ts_fuse_no_memory(Fuse *f);
void ts_fuse_add(Fuse *f, TsGroup *g, const TsNode *n);
void ts_fuse_sort(TsGroup *g); /* its nodes, in the graph's order */
/* All nodes of one go to the other if they fit, because of w; else nothing happens, and why not is
 * kept. Whether they went. */
bool ts_fuse_join(Fuse *f, TsGroup *from, TsGroup *to, const TsWhy *w);
/* The node that it began with, NULL: it is elsewhere by now. */
const TsNode *ts_fuse_first(const Fuse *f, const TsGroup *g);
const TsNode *ts_fuse_origin(TsVal v);        /* that made what v shows */
int ts_fuse_group_of(const Fuse *f, TsVal v); /* that made what v shows, -1: none */
TsSpaceAxes ts_fuse_space(const TsGroup *g);
bool ts_fuse_same_space(const TsGroup *g, const TsSpaceAxes *a);

/* ---- ir/sched/fuse_users.c: nodes that one later group alone reads move there; what makes the
 * operand of a head joins it; groups that read the same become one */
void ts_fuse_sink(Fuse *f);
void ts_fuse_prologues(Fuse *f);
void ts_fuse_siblings(Fuse *f);

#endif
