/* Normalizers: steps that change text before it is divided. */
#ifndef TS_TEXT_NORMAL_H
#define TS_TEXT_NORMAL_H

#include "text/charsmap.h"
#include "text/form.h"
#include "text/line.h"
#include "text/pattern.h"
#include "text/tree.h"

/* Column heads: type in tokenizer.json. */
#define TS_NORMALIZERS(X)                                                                      \
  X(NFC)                                                                                       \
  X(NFD)                                                                                       \
  X(NFKC)                                                                                      \
  X(NFKD)                                                                                      \
  X(Lowercase)                                                                                 \
  X(StripAccents)                                                                              \
  X(Strip)                                                                                     \
  X(Replace)                                                                                   \
  X(Prepend)                                                                                   \
  X(BertNormalizer)                                                                            \
  X(Precompiled)                                                                               \
  X(Nmt)                                                                                       \
  X(ByteLevel)

typedef enum TsNormalKind {
#define X(name) TS_NORMAL_##name,
  TS_NORMALIZERS(X)
#undef X
      TS_NORMAL_n
} TsNormalKind;

typedef struct TsNormal {
  TsNormalKind kind;
  bool left, right;                    /* Strip */
  bool clean, chinese, accents, lower; /* BertNormalizer; accents: they are stripped */
  bool longest;                        /* Precompiled: as SentencePiece */
  TsPattern *pattern;                  /* Replace */
  const char *text;                    /* Replace, Prepend */
  size_t ntext;
  TsCharsmap *map; /* Precompiled */
} TsNormal;

typedef struct TsNormals {
  TsNormal *at;
  int n;
  bool exact;     /* what is made of text depends on where it comes from */
  TsLine line[2]; /* while it works */
} TsNormals;

/* Of a value of tokenizer.json, in which sequences are spread out. */
int ts_normal_read(TsNormals *all, TsArena *a, const TsTree *t, TsError *err);
void ts_normal_free(TsNormals *all);

/* n bytes at s through all of them, behind `to`. */
int ts_normal_apply(TsNormals *all, const char *s, const TsSpan *at, uint32_t n,
                    uint32_t origin, TsLine *to);

/* What several kinds of steps read: {"String": ..} or {"Regex": ..}. */
TsPattern *ts_normal_pattern(const TsTree *object, TsError *err);
/* The matches of p become text. */
int ts_normal_replace(const TsPattern *p, const char *text, size_t ntext, const char *s,
                      const TsSpan *at, uint32_t n, uint32_t origin, TsLine *to);
/* Text in front of it, unless it is empty. */
int ts_normal_prepend(const char *text, size_t ntext, const char *s, const TsSpan *at,
                      uint32_t n, uint32_t origin, TsLine *to);
/* Bytes as GPT-2's characters. */
int ts_normal_bytes(const char *s, const TsSpan *at, uint32_t n, uint32_t origin, TsLine *to);
/* The row of a table of names, or -1 with an error that lists what there is. */
int ts_normal_kind(const TsTree *t, const char *const *names, int n, const char *what,
                   TsError *err);

#endif
