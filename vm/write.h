/* Who may change a tensor in place. A destination whose elements overlap has no defined result,
 * and the functions of control operators change nothing that was there before them: captured they
 * are graphs, whose values nobody else sees, so eagerly they may not either. */
#ifndef TS_VM_WRITE_H
#define TS_VM_WRITE_H

#include "vm/tensor.h"

/* An eager call of functions by a control operator, or of one round of them. The random calls
 * inside have the streams that they have in a captured function: `moved` from `origin` as
 * ts_control_distance says, and behind the call come those behind a block of its level. */
typedef struct TsRegion {
  struct TsRegion *up; /* the one around */
  const char *name;    /* of the operator */
  uint64_t since;      /* tensors from before are outside: the first id inside */
  TsTensor *const *given;
  int ngiven; /* arguments and carries, which are outside wherever they were made */
  int inside; /* TsContext.inside, while its functions run and not what they call */
  int nested, level, depth;       /* regions around it; those of the function's text; loops */
  uint64_t before, origin, moved; /* the stream at the call; see above */
  int sites;  /* of a call of a recursion: its inner calls so far, as its text has them; */
  int first;  /* else those at the call, of the recursion around it */
  bool inner; /* a call of a recursion within itself */
  bool plain; /* behind it the streams go on where its functions left them */
} TsRegion;

/* t comes from outside of the innermost region. */
bool ts_write_is_outside(const TsContext *c, const TsTensor *t);
/* Before a change of t: -1 with the error if it is the program's own, and it may not. */
int ts_write_check(TsContext *c, const TsTensor *t);
int ts_write_refuse(TsContext *c, const char *name); /* -1 with the error for what is outside */

#endif
