/* Recursion in graphs: a recursive node runs its region on its operands, and a recur node in
 * that region, at any depth of regions, runs the region again on other operands. What the
 * region uses from outside is among its parameters as in every region, so recur has operands
 * for these too: a call says all that it depends on, and its derivative is one more call. */
#ifndef TS_IR_RECURSION_H
#define TS_IR_RECURSION_H

#include "ir/graph/graph.h"

/* Attributes, by their order in ir/graph/graph.def. The site tells the recur nodes of a region
 * apart: each draws random numbers of its own. A recursive node that has one stands for the
 * recur of that site, whose numbers it draws. */
enum { TS_RECURSIVE_max, TS_RECURSIVE_site, TS_RECURSIVE_nattr };
enum { TS_RECUR_site, TS_RECUR_nattr };

/* While the adjoint of a body is built: which of the body's parameters get a gradient and
 * which results have one, in the outer call or an inner one. */
typedef struct TsRecursion {
  const TsGraph *body;
  bool *wanted, *given;
  bool grew; /* an inner call needs more of them: the adjoint is built anew */
} TsRecursion;

/* Whether g, a region of a recursive node or within one, calls that node again. */
bool ts_recursion_in(const TsGraph *g);
/* Every call in the body has the types of its parameters and results. */
int ts_recursion_check(const TsGraph *body, TsError *err);
/* Which parameters of the body its results depend on: read[i], with operands of inner calls
 * counted only where the parameter that they become is read. */
int ts_recursion_read(const TsGraph *body, unsigned char *read);

/* What becomes of recur nodes in a copy. */
typedef struct TsRecurEdit {
  const unsigned char *keep; /* by operand: those that stay, or NULL for all */
  TsGraph *top;              /* passes its parameters from number `more` on as well; or NULL */
  int more;
  TsGraph *body; /* a recursive node over this body takes the place; or NULL */
  TsAttr max;    /* of that */
} TsRecurEdit;

/* As ts_graph_inline, within one module. Parameters that are not kept have no args. */
int ts_recursion_inline(TsGraph *to, const TsGraph *from, const TsVal *args, TsVal *results,
                        const TsRecurEdit *e);

#endif
