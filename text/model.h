/* Models: what makes tokens of a word, that is of a piece of text that was not divided
 * further. */
#ifndef TS_TEXT_MODEL_H
#define TS_TEXT_MODEL_H

#include <stdbool.h>

#include "text/tree.h"
#include "text/trie.h"
#include "text/vocab.h"

typedef struct TsToken {
  int32_t id;
  uint32_t from, to; /* bytes of the word */
} TsToken;

typedef struct TsTokens {
  TsToken *at;
  uint32_t n, room;
} TsTokens;

int ts_tokens_add(TsTokens *t, int32_t id, uint32_t from, uint32_t to, TsError *err);

typedef enum TsModelKind {
  TS_MODEL_BPE,
  TS_MODEL_Unigram,
  TS_MODEL_WordPiece,
  TS_MODEL_WordLevel,
  TS_MODEL_n
} TsModelKind;

typedef struct TsModel {
  TsModelKind kind;
  TsVocab vocab;
  const char *unk; /* the unknown token as the file names it, or NULL; */
  size_t nunk;
  int32_t unk_id; /* -1: there is none in the vocabulary */
  bool fuse_unk, byte_fallback, ignore_merges;
  int32_t byte[256];           /* ids of <0x00> .., or -1 */
  const char *prefix, *suffix; /* of continuing subwords; of the end of a word; or NULL */
  size_t nprefix, nsuffix;
  size_t longest_word; /* WordPiece: characters */

  /* BPE: what two tokens become. `by_vocab`: any two whose bytes are a token, the least rank
   * first; else those that are listed. */
  bool by_vocab;
  uint32_t *rank; /* by id, of by_vocab */
  struct TsMerge *merge;
  uint32_t nmerge; /* slots, a power of two, or 0 */
  bool apart; /* words may be cut in front of a ▁, but behind a ▁ and behind these bytes: */
  bool held[256]; /* some token has one in front of a ▁ */

  double *score; /* Unigram, by id */
  double unk_score;
  TsTrie trie;

  bool raw;                 /* words are bytes that stand for GPT-2's characters */
  struct TsWords *words;    /* those of before */
  struct TsModelRoom *room; /* while it works */
} TsModel;

/* Of a value of tokenizer.json. */
int ts_model_read(TsModel *m, TsArena *a, const TsTree *t, TsError *err);
void ts_model_free(TsModel *m);
const char *ts_model_name(TsModelKind kind);

/* The tokens of a word of n > 0 bytes, behind those that are there. -1 with the error. */
int ts_model_tokens(TsModel *m, const char *s, uint32_t n, TsTokens *to, TsError *err);

/* ---- by kind */
int ts_bpe_read(TsModel *m, TsArena *a, const TsTree *t, TsError *err);
int ts_bpe_tokens(TsModel *m, const char *s, uint32_t n, TsTokens *to, TsError *err);
int ts_unigram_read(TsModel *m, const TsTree *t, TsError *err);
int ts_unigram_tokens(TsModel *m, const char *s, uint32_t n, TsTokens *to, TsError *err);
int ts_wordpiece_tokens(TsModel *m, const char *s, uint32_t n, TsTokens *to, TsError *err);

/* Room for a model's work, which lasts: one of a few pieces, of n bytes at least. */
void *ts_model_room(TsModel *m, int piece, size_t n, TsError *err);
/* The unknown token is missing: the error of whoever needs it. */
int ts_model_no_unknown(const TsModel *m, TsError *err);

#endif
