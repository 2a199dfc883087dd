/* Post-processors: what is put around the tokens of one or two texts. */
#ifndef TS_TEXT_FINISH_H
#define TS_TEXT_FINISH_H

#include "text/encoding.h"
#include "text/tree.h"

/* Column heads: type in tokenizer.json. */
#define TS_POSTPROCESSORS(X)                                                                   \
  X(TemplateProcessing)                                                                        \
  X(BertProcessing)                                                                            \
  X(RobertaProcessing)                                                                         \
  X(ByteLevel)

typedef enum TsFinishKind {
#define X(name) TS_FINISH_##name,
  TS_POSTPROCESSORS(X)
#undef X
      TS_FINISH_n
} TsFinishKind;

/* Of a template: a text, or tokens that are put in. */
typedef struct TsSlotPiece {
  int text; /* 0, 1, or -1 */
  uint32_t type;
  const int32_t *ids;
  uint32_t n;
} TsSlotPiece;

typedef struct TsFinish {
  TsFinishKind kind;
  const TsSlotPiece *slots[2]; /* of one text, and of two */
  uint32_t nslots[2];
  int32_t cls, sep;
  bool trim, prefix; /* offsets leave out white space; but the one that was put in front */
} TsFinish;

typedef struct TsFinishes {
  TsFinish *at;
  int n;
  bool trims;
} TsFinishes;

int ts_finish_read(TsFinishes *all, TsArena *a, const TsTree *t, TsError *err);
void ts_finish_free(TsFinishes *all);

/* How many tokens are put in, for one text or two. */
int64_t ts_finish_count(const TsFinishes *all, bool pair);
/* e has one part a text. `other` is room for the work. `special`: with tokens that are put
 * in. */
int ts_finish_apply(const TsFinishes *all, bool special, TsEncoding *e, TsEncoding *other,
                    TsError *err);

#endif
