/* What the files of ts_sched_fuse (ir/sched/fuse.c) share: the groups being made. Not for
 * others. */
#ifndef TS_IR_SCHED_FUSE_STATE_H
#define TS_IR_SCHED_FUSE_STATE_H

#include "ir/sched/sched.h"
#include "ir/sched/space.h"
#include "ir/sched/why.h"

enum {
  TS_FUSE_MOST = 64,         /* nodes of a group */
  TS_FUSE_AFTER_PRODUCT = 24 /* of one with a head */
};

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

/* ---- ir/sched/fuse_fit.c: where *w is given it gets why not, if so */
bool ts_fuse_alone(int kind);                       /* nothing joins groups of this kind */
bool ts_fuse_has_head(int kind);                    /* its axes are those of the kernel */
bool ts_fuse_bare(const Fuse *f, const TsGroup *g); /* a product of a GPU */
TsSpaceAxes ts_fuse_space(const TsGroup *g);
bool ts_fuse_same_space(const TsGroup *g, const TsSpaceAxes *a);
bool ts_fuse_reduces(const TsNode *n);
const TsNode *ts_fuse_reducing(const TsGroup *g); /* the first that does, or NULL */
int64_t ts_fuse_columns_of(const TsNode *n);      /* that it sums down, 0: it does not */
bool ts_fuse_draws(const TsGroup *g);
/* The space of g once n is in it. */
bool ts_fuse_joined_space(const TsGroup *g, const TsNode *n, TsSpaceAxes *out, TsWhy *w);
/* Whether n's operand v does in the space: what g itself makes must be aligned with that. */
bool ts_fuse_operand_fits(const Fuse *f, const TsGroup *g, const TsSpaceAxes *a,
                          const TsNode *n, TsVal v, TsWhy *w);
/* g goes over long columns again, with what it reduced them to. */
bool ts_fuse_walks_far(const Fuse *f, const TsGroup *g, TsWhy *w);
/* False: n reduces what a group with a head makes. */
bool ts_fuse_reduces_tiles(const Fuse *f, const TsGroup *g, const TsNode *n, TsWhy *w);
/* Whether n can join g, which is the last that it reads. */
bool ts_fuse_fits(const Fuse *f, const TsGroup *g, const TsNode *n, TsSpaceAxes *space,
                  TsWhy *w);

/* ---- ir/sched/fuse_users.c: nodes that one later group alone reads move there; what makes the
 * operand of a head joins it; groups that read the same become one */
void ts_fuse_sink(Fuse *f);
void ts_fuse_prologues(Fuse *f);
void ts_fuse_siblings(Fuse *f);

#endif
