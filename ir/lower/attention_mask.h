/* The mask of attention as parameters of a kernel, and blocks of it, as they lie or turned. */
#ifndef TS_IR_LOWER_ATTENTION_MASK_H
#define TS_IR_LOWER_ATTENTION_MASK_H

#include "ir/sched/sched.h"

typedef struct TsAttentionMask {
  TsVal v;          /* [batch, heads, queries, keys], or what broadcasts to it; NULL: none */
  bool moves[4];    /* along each: others are no axes of the parameters */
  TsTileVal plain;  /* with queries as rows */
  TsTileVal turned; /* the same numbers with keys as rows; plain where one axis is left */
  int64_t s, t;     /* queries, keys */
} TsAttentionMask;

/* A block of it: of n queries and keys from these on. */
typedef struct TsMaskBlock {
  TsTileVal b, h, query, key;
  int64_t queries, keys;
  bool turned; /* keys are rows of the tile */
} TsMaskBlock;

/* Puts the parameters of v in front of those that k writes. */
void ts_attention_mask_params(TsAttentionMask *m, TsTile *k, TsVal v, TsLayoutFn *layout,
                              void *arg, const int64_t size[4]);
/* Their values in that order: how many there are. */
int ts_attention_mask_values(const TsAttentionMask *m, TsVal *value);

/* Scores x, f32, with the mask: hidden ones are -inf. */
TsTileVal ts_attention_mask_apply(const TsAttentionMask *m, TsTileBuild *b,
                                  const TsMaskBlock *at, TsTileVal x);

#endif
