/* Reasons: why neighbouring nodes are one kernel, or two (ir/sched/why.def). The fuser records
 * one where it decides, and not for people alone: what is shown is what it did. */
#ifndef TS_IR_SCHED_WHY_H
#define TS_IR_SCHED_WHY_H

#include "ir/sched/sched.h"
#include "ir/sched/space.h"

typedef enum TsWhyName {
  TS_WHY_none,
#define WHY(name, rank, a, b, text) TS_WHY_##name,
#include "ir/sched/why.def"
#undef WHY
} TsWhyName;

typedef struct TsWhyRow {
  const char *name;
  int rank;
  const char *a, *b, *text;
} TsWhyRow;
const TsWhyRow *ts_why_row(int name); /* NULL: TS_WHY_none */

typedef struct TsWhy {
  uint8_t name; /* TsWhyName */
  int64_t a, b;
  const TsNode *from, *to, *other; /* NULL: those of the pair that it is said of */
  int naxis;                       /* of the space, -1: none is said */
  int64_t axis[TS_TILE_RANK];
} TsWhy;

static inline TsWhy ts_why(TsWhyName name, int64_t a, int64_t b) {
  return (TsWhy){.name = (uint8_t)name, .a = a, .b = b, .naxis = -1};
}
/* False, so that a test can return it. */
static inline bool ts_why_not(TsWhy *w, TsWhyName name, int64_t a, int64_t b) {
  *w = ts_why(name, a, b);
  return false;
}
TsWhy ts_why_space(TsWhyName name, const TsSpaceAxes *a);

/* What a schedule keeps: by operand of each node, and by node. */
typedef struct TsWhyBook TsWhyBook;
/* NULL: out of memory. It lies in s's arena. */
TsWhyBook *ts_why_book(TsSched *s);
/* Of n's input i, which is made by another kernel; one that is there and as strong stays. */
void ts_why_apart(TsWhyBook *b, const TsNode *n, int i, const TsWhy *w);
/* The same for all that `to` reads of `from`. */
void ts_why_apart_groups(const TsSched *s, const TsGroup *from, const TsGroup *to,
                         const TsWhy *w);
/* Whatever was said before: n's input i is made where n has it, by a kernel of its own. */
void ts_why_in_place(TsWhyBook *b, const TsNode *n, int i);
/* Why n is where it is. */
void ts_why_member(TsWhyBook *b, const TsNode *n, const TsWhy *w);
const TsWhy *ts_why_of(const TsSched *s, const TsNode *n); /* NULL: nobody said */

/* A kernel, or operator by itself, that reads what another makes. */
typedef struct TsWhyPair {
  int from, to; /* groups */
  TsVal value;  /* the first that goes from one to the other */
  int nvalue;
  double bytes;     /* of all of them */
  const TsWhy *why; /* NULL: nobody said */
} TsWhyPair;
/* All pairs, by `to`, then by `from`; for free(). NULL: out of memory. */
TsWhyPair *ts_why_pairs(const TsSched *s, int *n);

/* A sentence. */
void ts_why_text(const TsWhy *w, TsText *text);

#endif
