/* A growing string, and the "did you mean" distance. */
#ifndef TS_LIB_TEXT_H
#define TS_LIB_TEXT_H

#include <stddef.h>
#include <stdint.h>

typedef struct TsText {
  char *at; /* NUL-terminated, or NULL while empty */
  size_t len, cap;
  int failed; /* an allocation failed: the text is incomplete */
} TsText;

void ts_text_add(TsText *t, const char *s, size_t len);
void ts_text_str(TsText *t, const char *s);
void ts_text_char(TsText *t, char c);
void ts_text_pad(TsText *t, char c, int n);
void ts_text_format(TsText *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends part behind `before`, if it has anything, and frees it; what it lacks t lacks. */
void ts_text_take(TsText *t, const char *before, TsText *part);
void ts_text_free(TsText *t);

/* s for a terminal: control bytes, what turns the direction of text, and what is no UTF-8 as
 * \x1b or \u{202e}, cut to size. What comes from files is somebody else's. */
const char *ts_text_shown(const char *s, char *to, size_t size);
/* The bytes of the sign at s, from 1 on; negative if it cannot be shown so. */
int ts_text_sign(const char *s);
int ts_text_is_utf8(const char *s, size_t len);
int ts_text_utf8(const char *s); /* the bytes of one sign of UTF-8 at s, or 0; a NUL ends s */

/* Edits (insert, delete, replace, swap of neighbours) that turn a into b,
 * compared without case; for names up to 63 characters. */
int ts_text_distance(const char *a, const char *b);

/* The closest of n names by distance, of several the first by the alphabet, or NULL when none is
 * close enough to be a likely slip. next(arg, i) gives name i, which lasts until its next call. */
const char *ts_text_closest(const char *wanted, int n, const char *(*next)(const void *, int),
                            const void *arg);

/* For tables by name: FNV-1a, whose low bits are mixed. */
uint32_t ts_text_hash(const char *s, size_t n);

#endif
