/* Decoders: tokens become text again. */
#ifndef TS_TEXT_DECODE_H
#define TS_TEXT_DECODE_H

#include "lib/text.h"
#include "text/normal.h"

/* Column heads: type in tokenizer.json. */
#define TS_DECODERS(X)                                                                         \
  X(ByteLevel)                                                                                 \
  X(Metaspace)                                                                                 \
  X(WordPiece)                                                                                 \
  X(BPEDecoder)                                                                                \
  X(ByteFallback)                                                                              \
  X(Fuse)                                                                                      \
  X(Strip)                                                                                     \
  X(Replace)                                                                                   \
  X(CTC)

typedef enum TsDecodeKind {
#define X(name) TS_DECODE_##name,
  TS_DECODERS(X)
#undef X
      TS_DECODE_n
} TsDecodeKind;

typedef struct TsDecode {
  TsDecodeKind kind;
  const char *text,
      *other; /* prefix, suffix, content, replacement, pad token; word delimiter */
  size_t ntext, nother;
  int64_t start, stop; /* Strip */
  bool cleanup, prepended;
  TsPattern *pattern;
} TsDecode;

typedef struct TsDecodes {
  TsDecode *at;
  int n;
} TsDecodes;

int ts_decode_read(TsDecodes *all, TsArena *a, const TsTree *t, TsError *err);
void ts_decode_free(TsDecodes *all);

/* Strings one behind the other, each with its end. */
typedef struct TsStrings {
  TsText text;
  size_t *end;
  uint32_t n, room;
  bool failed;
} TsStrings;

void ts_strings_add(TsStrings *s, const char *text, size_t n);
/* What was put behind the last one in `text` becomes one. */
void ts_strings_end(TsStrings *s);
void ts_strings_free(TsStrings *s);

/* The tokens' strings through all decoders. `s` is what comes out. */
int ts_decode_apply(const TsDecodes *all, TsStrings *s, TsError *err);

/* The bytes that a token is behind others, which need not be whole characters; what decoders do
 * at the ends of a text (Strip) or with its neighbours is left out. */
int ts_decode_token(const TsDecodes *all, const char *s, size_t n, TsText *to, TsError *err);

#endif
