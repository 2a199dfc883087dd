/* Added tokens: strings that are tokens wherever they stand in a text, whatever the model
 * makes of the rest. Some are looked for in the text as it is given, others in the normalized
 * one. */
#ifndef TS_TEXT_ADDED_H
#define TS_TEXT_ADDED_H

#include "text/model.h"
#include "text/normal.h"

typedef struct TsAddedToken {
  const char *s, *found; /* as the file has it; as it is looked for, and decoded */
  size_t n, nfound;
  int32_t id;
  bool single_word, lstrip, rstrip, normalized, special;
} TsAddedToken;

typedef struct TsAdded {
  TsAddedToken *at;
  int32_t n;
  TsVocab vocab;            /* what they are called: ids */
  TsVocab special;          /* what special ones are called */
  TsTrie given, normalized; /* positions in `at` */
  int32_t *of_id;           /* position in `at` by id, or -1 */
  uint32_t end;             /* ids are below it */
  TsPattern *word;          /* a character of words */
} TsAdded;

/* Of the list "added_tokens"; what stands in the model's vocabulary has its id, others follow
 * it. */
int ts_added_read(TsAdded *all, TsArena *a, const TsTree *list, const TsModel *m,
                  TsNormals *normal, TsError *err);
void ts_added_free(TsAdded *all);

/* The token with this id, or NULL. */
const TsAddedToken *ts_added_get(const TsAdded *all, int32_t id);
/* A piece of a line as pieces: tokens, and what stands between. */
int ts_added_divide(const TsAdded *all, const TsTrie *trie, bool special, const TsLine *l,
                    TsPiece p, TsPieces *to, TsError *err);

#endif
