/* The lexer of IR text, one for Graph, Schedule and Tile IR. The grammar of values (numbers,
 * types, attributes) stands on it in ir/text/value.h.
 *
 * A failure fills the error slot once, with the line, a quote of it and a caret:
 *
 *   line 4: matmul: inner sizes differ: f32[8,64] x f32[32,8] (64 vs 32)
 *       %s = matmul %q, %t : f32[8,8]
 *            ^
 *
 * and the token that is left is TS_TOKEN_wrong, which nothing expects. So readers go on until
 * something is missing and need few checks. */
#ifndef TS_IR_TEXT_LEX_H
#define TS_IR_TEXT_LEX_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/arena.h"
#include "lib/error.h"

/* Other tokens are one character, which is their kind. */
enum {
  TS_TOKEN_end,
  TS_TOKEN_wrong,
  TS_TOKEN_word,   /* matmul  f32  inf  _ */
  TS_TOKEN_value,  /* %q  %12 */
  TS_TOKEN_symbol, /* @attend */
  TS_TOKEN_number, /* 12  -0.5  1e-5 */
  TS_TOKEN_string, /* "as it stands, with its quotes" */
  TS_TOKEN_arrow,  /* -> */
  TS_TOKEN_range,  /* .. */
  TS_TOKEN_shape,  /* 8x768 */
};

typedef struct TsToken {
  int kind, len;
  const char *at; /* with % and @ */
} TsToken;

typedef struct TsReader {
  const char *text;
  TsToken now;
  TsToken before;  /* the token before this one */
  TsToken comment; /* behind it on its line, without "//"; of kind end if there is none */
  TsArena *arena;  /* of strings and lists that are read */
  TsError *err;
  const int64_t *symbol; /* values of B, T, N, M in sizes (ir/text/size.h), 0: none; or NULL */
  const struct TsMesh *mesh; /* whose axes types name (ir/text/mesh.h); NULL: there is none */
  int leaves;
  bool sized;            /* numbers that are read may be symbolic sizes later */
  bool failed;
} TsReader;

/* Reads the first token. */
void ts_read_open(TsReader *r, const char *text, TsArena *arena, TsError *err);
/* -1 if the next token is wrong. */
int ts_read_next(TsReader *r);
bool ts_read_is_word(const TsReader *r, const char *word);
/* Takes the token if it is of this kind. */
bool ts_read_accept(TsReader *r, int kind);
/* The same, and a failure if it is not: "expected <what>, not '...'". */
int ts_read_expect(TsReader *r, int kind, const char *what);
int ts_read_unexpected(TsReader *r, const char *what);

/* Fails at a place of the text; returns -1. The first failure stays. */
int ts_read_fail(TsReader *r, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int ts_read_no_memory(TsReader *r);
/* Makes the message in the slot, which came from elsewhere, one about this place. */
int ts_read_blame(TsReader *r, const char *at);

#endif
