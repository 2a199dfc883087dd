/* The text being edited: growable bytes with a cursor, and the places a cursor can go. It also
   serves as a plain growable buffer. */
#ifndef TS_EDIT_TEXT_H
#define TS_EDIT_TEXT_H

#include <stddef.h>

/* Zero-initialised is empty. `failed` is set, and stays, once memory ran out: the text keeps
   what it had. data is NUL-terminated, or NULL while nothing was ever put in. */
typedef struct TsEditText {
  char *data;
  size_t size, capacity, cursor;
  int failed;
} TsEditText;

void ts_edit_text_free(TsEditText *t);
const char *ts_edit_text_string(const TsEditText *t); /* never NULL */

/* These return 0, or -1 when memory ran out. */
int ts_edit_text_append(TsEditText *t, const char *s, size_t size);
int ts_edit_text_append_string(TsEditText *t, const char *s);
int ts_edit_text_insert(TsEditText *t, const char *s,
                        size_t size); /* at the cursor, which moves */
int ts_edit_text_set(TsEditText *t, const char *s, size_t size); /* cursor to the end */

/* Appends as much of s as fits, and returns the columns it took. */
int ts_edit_text_fit(TsEditText *t, const char *s, int columns);

void ts_edit_text_erase(TsEditText *t, size_t from, size_t to); /* the cursor goes along */
void ts_edit_text_clear(TsEditText *t);

size_t ts_edit_text_line_start(const TsEditText *t, size_t at);
size_t ts_edit_text_line_end(const TsEditText *t, size_t at);
size_t ts_edit_text_next(const TsEditText *t, size_t at);
size_t ts_edit_text_previous(const TsEditText *t, size_t at);
/* Words are runs of letters, digits, underscores and anything beyond ASCII. */
size_t ts_edit_text_word_end(const TsEditText *t, size_t at);
size_t ts_edit_text_word_start(const TsEditText *t, size_t at);
size_t ts_edit_text_blank_start(const TsEditText *t, size_t at); /* words between blanks */
/* The place in the line that begins at `start` which is nearest to a display column. */
size_t ts_edit_text_at_column(const TsEditText *t, size_t start, size_t column);

#endif
