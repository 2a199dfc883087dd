/* Lua's tokens, for the prompt: colours, completion, locals that last. It reads
 * any text, also what does not compile yet. */
#ifndef TS_REPL_LEX_H
#define TS_REPL_LEX_H

#include <stdbool.h>
#include <stddef.h>

typedef enum TsLexKind {
  TS_LEX_END,
  TS_LEX_SPACE,
  TS_LEX_COMMENT,
  TS_LEX_NAME,
  TS_LEX_KEYWORD,
  TS_LEX_NUMBER,
  TS_LEX_STRING,
  TS_LEX_SYMBOL,
} TsLexKind;

typedef struct TsToken {
  TsLexKind kind;
  size_t start, size;
  bool open; /* a string or comment that goes on beyond the text */
} TsToken;

/* The token at text[at]; kind TS_LEX_END behind the last one. */
TsToken ts_lex_next(const char *text, size_t size, size_t at);
/* Is it this word or symbol? */
bool ts_lex_is(const char *text, const TsToken *t, const char *word);
/* Keyword i, or NULL. */
const char *ts_lex_keyword(int i);

#endif
