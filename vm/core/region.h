/* Functions that the program gives to an operator, while they run eagerly. What they do is what
 * they do as graphs, whose values nobody else sees: they change nothing that was there before
 * them, and their random calls have the streams that they have in a captured function. */
#ifndef TS_VM_REGION_H
#define TS_VM_REGION_H

#include "vm/core/tensor.h"

/* A call by a control operator, or one round of it. Random streams are `moved` from `origin` as
 * ts_control_distance says, and behind the call come those behind a block of its level. */
typedef struct TsRegion {
  struct TsRegion *up, *down; /* the one around; room for the next one inside, or NULL */
  const char *name;           /* of the operator */
  uint64_t id;                /* among those of tensors: when it began */
  uint64_t since;             /* tensors from before are outside: the first id of the round */
  TsTensor *const *given; /* of a function from outside: arguments are outside whenever made */
  int ngiven;
  int inside; /* TsContext.inside, while its functions run and not what they call */
  int nested, level, depth;       /* regions around it; those of the function's text; loops */
  uint64_t before, origin, moved; /* the stream at the call; see above */
  int sites;  /* of a call of a recursion: its inner calls so far, as its text has them; */
  int first;  /* else those at the call, of the recursion around it */
  bool inner; /* a call of a recursion within itself */
  bool plain; /* behind it the streams go on where its functions left them */
} TsRegion;

/* The innermost one from here on; its first round begins, without a number. NULL: no memory. */
TsRegion *ts_region_enter(TsContext *c, const char *name);
/* A call of the recursion `of` in itself. Its random calls are those of the outermost one,
 * moved. */
TsRegion *ts_region_enter_again(TsContext *c, TsRegion *of);
/* A function from outside that is an operator: it may change what its caller might, but not its
 * arguments. */
TsRegion *ts_region_enter_foreign(TsContext *c, const char *name, int n,
                                  TsTensor *const *given);
/* A round of a loop begins: what was made so far is outside. round < 0: it is like the others. */
void ts_region_round(TsContext *c, TsRegion *r, int64_t round);
/* r ends, and those inside of it as well, if an error broke them off. */
void ts_region_leave(TsContext *c, TsRegion *r);
TsRegion *ts_region_find(TsContext *c, uint64_t id); /* NULL: it has ended */
void ts_region_free_all(TsContext *c);

/* t comes from outside of the innermost region. */
bool ts_region_is_outside(const TsContext *c, const TsTensor *t);
/* Of the results t of the innermost region t[i] was made in it, and those before have other
 * memory. */
bool ts_region_is_own(const TsContext *c, TsTensor *const *t, int i);

#endif
