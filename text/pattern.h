/* What a text is searched for: a string, or a regular expression as tokenizers' files have
 * them, in the syntax of Oniguruma (Ruby's), which becomes one of PCRE2. */
#ifndef TS_TEXT_PATTERN_H
#define TS_TEXT_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/error.h"
#include "lib/text.h"

typedef struct TsPattern TsPattern;

/* NULL with the error. */
TsPattern *ts_pattern_string(const char *s, size_t n, TsError *err);
TsPattern *ts_pattern_regex(const char *s, size_t n, TsError *err);
void ts_pattern_free(TsPattern *p);

/* The matches of a text one after the other. Empty ones are matches, but not where another
 * ended. */
typedef struct TsMatches {
  const TsPattern *p;
  const char *s;
  size_t n, at, end; /* where it goes on; where the last match ended, or SIZE_MAX */
  size_t from, to;   /* the match */
} TsMatches;

TsMatches ts_pattern_matches(const TsPattern *p, const char *s, size_t n);
/* 1: there is one; 0: no more; -1 with the error: it takes more steps than anybody's text
 * needs, or Ctrl-C. */
int ts_matches_next(TsMatches *m, TsError *err);

/* The expression in PCRE2's syntax. */
int ts_pattern_translate(const char *s, size_t n, TsText *to, TsError *err);

#endif
