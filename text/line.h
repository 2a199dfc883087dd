/* Text on its way from what was given to what the model sees, and of each of its bytes where
 * in the given text it comes from. A line holds pieces one behind the other; who changes them
 * writes another line.
 *
 * A change is told character by character, as the field's libraries do, since what they say of
 * offsets follows from it: a character that replaces one has its place, an inserted one that
 * of the byte before, one in front of removed ones its own. */
#ifndef TS_TEXT_LINE_H
#define TS_TEXT_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/error.h"
#include "text/char.h"

typedef struct TsSpan {
  uint32_t from, to; /* bytes of the given text */
} TsSpan;

typedef struct TsLine {
  char *s;
  TsSpan *at; /* of each byte; NULL where nobody wants to know */
  uint32_t n, room, most;
  bool track;
  TsError *err;
} TsLine;

/* Room for n bytes more behind it: -1 with the error where it gets longer than `most`. */
int ts_line_room(TsLine *l, size_t n);
/* As they are; `at` is theirs, or NULL. */
int ts_line_add(TsLine *l, const char *s, const TsSpan *at, size_t n);
void ts_line_free(TsLine *l);

/* A part of a line: of text, or an added token. */
typedef struct TsPiece {
  uint32_t from, n; /* bytes of the line */
  uint32_t origin;  /* where it begins in the given text, if that is tracked */
  int32_t id;       /* of the token, or -1 */
} TsPiece;

typedef struct TsPieces {
  TsPiece *at;
  uint32_t n, room;
} TsPieces;

/* An empty one is not added. */
int ts_pieces_add(TsPieces *p, TsPiece piece, TsError *err);

/* n bytes at s become what is put, behind `to`. */
typedef struct TsEdit {
  const char *s;
  const TsSpan *at;
  uint32_t n, origin;
  uint32_t read; /* bytes of s that are replaced so far */
  TsLine *to;
  bool failed;
} TsEdit;

/* `removed` characters at the front are left out. */
void ts_edit_begin(TsEdit *e, TsLine *to, const char *s, const TsSpan *at, uint32_t n,
                   uint32_t origin, uint32_t removed);
/* change 0: c replaces the next character; 1: it is inserted; -k: it replaces it, and k behind
 * it are left out. */
void ts_edit_put(TsEdit *e, uint32_t c, int change);
/* 0, or -1 with the error of the line. */
int ts_edit_end(TsEdit *e);

#endif
