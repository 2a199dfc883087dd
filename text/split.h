/* Pre-tokenizers: steps that divide text into what the model sees at once, some of which
 * change it. */
#ifndef TS_TEXT_SPLIT_H
#define TS_TEXT_SPLIT_H

#include "text/normal.h"

/* Column heads: type in tokenizer.json. */
#define TS_PRETOKENIZERS(X)                                                                    \
  X(ByteLevel)                                                                                 \
  X(Split)                                                                                     \
  X(Whitespace)                                                                                \
  X(WhitespaceSplit)                                                                           \
  X(BertPreTokenizer)                                                                          \
  X(Metaspace)                                                                                 \
  X(Digits)                                                                                    \
  X(Punctuation)                                                                               \
  X(CharDelimiterSplit)                                                                        \
  X(FixedLength)

typedef enum TsSplitKind {
#define X(name) TS_SPLIT_##name,
  TS_PRETOKENIZERS(X)
#undef X
      TS_SPLIT_n
} TsSplitKind;

/* What becomes of the matches. */
typedef enum TsBehavior {
  TS_BEHAVIOR_Removed,
  TS_BEHAVIOR_Isolated,
  TS_BEHAVIOR_MergedWithPrevious,
  TS_BEHAVIOR_MergedWithNext,
  TS_BEHAVIOR_Contiguous,
  TS_BEHAVIOR_n
} TsBehavior;

typedef struct TsSplit {
  TsSplitKind kind;
  TsPattern *pattern; /* or NULL: nothing is divided by one */
  TsBehavior behavior;
  bool invert; /* what stands between the matches are the matches */
  bool prefix; /* ByteLevel: a space in front of text without one */
  enum { TS_PREPEND_never, TS_PREPEND_first, TS_PREPEND_always } prepend; /* Metaspace */
  char mark[5];           /* Metaspace: in place of a space */
  uint32_t nmark, length; /* FixedLength: characters */
  bool individual;        /* Digits */
} TsSplit;

typedef struct TsSplits {
  TsSplit *at;
  int n;
  bool exact;       /* what is made of text depends on where it comes from */
  bool raw;         /* the last one makes characters of bytes, which is left to the model */
  TsPattern *space; /* " " */
  TsLine line[2];
  TsPieces pieces[2];
} TsSplits;

int ts_split_read(TsSplits *all, const TsTree *t, TsError *err);
void ts_split_free(TsSplits *all);

/* All of them: *l and *p become what belongs to `all` until the next call. */
int ts_split_apply(TsSplits *all, const TsLine **l, const TsPieces **p, TsError *err);

#endif
