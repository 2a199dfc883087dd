/* A tokenizer as tokenizer.json describes one: text becomes tokens, and tokens text.
 *
 *   text -> added tokens -> normalizers -> added tokens -> pre-tokenizers -> model
 *        -> post-processors
 *   ids -> strings -> decoders -> text
 *
 * It is exact where the package `tokenizers` is: the same ids, the same places. */
#ifndef TS_TEXT_TOKENIZER_H
#define TS_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/error.h"
#include "lib/text.h"
#include "text/encoding.h"

typedef struct TsTokenizer TsTokenizer;

/* Of a text of n bytes with a NUL behind them. NULL with the error. */
TsTokenizer *ts_tokenizer_read(const char *json, size_t n, TsError *err);
void ts_tokenizer_free(TsTokenizer *t);

/* How many tokens are kept, and which: of two texts of the longer one first. */
typedef struct TsTruncation {
  bool on, left; /* left: the first ones go */
  enum { TS_TRUNCATE_longest, TS_TRUNCATE_first, TS_TRUNCATE_second } strategy;
  int64_t most;   /* of all, those that are put in too */
  int64_t stride; /* tokens that pieces of what is cut off have in common with those before */
} TsTruncation;

typedef struct TsPadding {
  bool on, left;
  int64_t length; /* 0: as long as the longest of a batch */
  int64_t multiple, id, type;
  const char *token;
} TsPadding;

/* As the file has them. */
const TsTruncation *ts_tokenizer_truncation(const TsTokenizer *t);
const TsPadding *ts_tokenizer_padding(const TsTokenizer *t);

typedef struct TsEncodeInput {
  const char *text, *pair; /* pair NULL: there is none */
  size_t ntext, npair;
  bool special;        /* tokens are put in by the post-processor */
  bool in_text;        /* special tokens that stand in the text are tokens, not text */
  bool offsets, chars; /* the places are wanted; in characters, not bytes */
  bool overflow;       /* what a truncation cuts off is kept for ts_tokenizer_more */
  TsTruncation truncation;
} TsEncodeInput;

/* The tokens, which last until the next call. -1 with the error: no UTF-8, no memory, Ctrl-C,
 * or what a part of the tokenizer says. */
int ts_tokenizer_encode(TsTokenizer *t, const TsEncodeInput *in, const TsEncoding **out,
                        TsError *err);

/* After ts_tokenizer_encode with the same input: the next piece of what a truncation cut off, with
 * what is put in, as long as it may be; of a pair each piece of one text with each of the other.
 * 1, or 0: there is no more. -1 with the error. */
int ts_tokenizer_more(TsTokenizer *t, const TsEncodeInput *in, const TsEncoding **out,
                      TsError *err);

/* The text of n ids; those of no token are left out, as special ones are where that is asked
 * for. */
int ts_tokenizer_decode(TsTokenizer *t, const int64_t *ids, size_t n, bool skip_special,
                        TsText *to, TsError *err);

/* How many tokens there are; ids may reach further, below _end. */
int64_t ts_tokenizer_size(const TsTokenizer *t);
int64_t ts_tokenizer_end(const TsTokenizer *t);
/* The string of a token, NULL where there is none; whether it is special. */
const char *ts_tokenizer_token(const TsTokenizer *t, int64_t id, size_t *n, bool *special);
/* The bytes of the text that a token becomes behind others, none where it has none; they need
 * not be whole characters. */
int ts_tokenizer_bytes(TsTokenizer *t, int64_t id, TsText *to, TsError *err);
/* The id of a string, or -1. */
int64_t ts_tokenizer_id(const TsTokenizer *t, const char *s, size_t n);
/* The names of its parts, one line: "BPE, 32000 tokens, ..". */
void ts_tokenizer_shown(const TsTokenizer *t, TsText *to);

#endif
