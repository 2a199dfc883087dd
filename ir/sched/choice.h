/* What ir/sched/choice.c and ir/sched/choice_product.c share. */
#ifndef TS_IR_SCHED_CHOICE_H
#define TS_IR_SCHED_CHOICE_H

#include "ir/sched/sched.h"

typedef struct TsChoiceList {
  const TsSched *s;
  const TsGroup *g;
  TsSchedChoice *at; /* room for TS_SCHED_CHOICES */
  int n;
} TsChoiceList;

void ts_sched_choice_add(TsChoiceList *l, TsSchedChoice c); /* unless it is there */

/* Blocks, register tiles, packing of a group with a product, or of attention. */
void ts_sched_choice_blocks(TsChoiceList *l);
/* Rows, output channels and register tiles of a convolution. */
void ts_sched_choice_conv(TsChoiceList *l);
double ts_sched_choice_product_usec(const TsSched *s, const TsGroup *g, const TsSchedChoice *c);

#endif
