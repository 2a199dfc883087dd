/* Draws the edited text below what the terminal shows already. */
#ifndef TS_EDIT_SCREEN_H
#define TS_EDIT_SCREEN_H

#include "repl/edit/text.h"

/* What shall be seen. The prompt may hold escape sequences that set colours. */
typedef struct TsEditView {
  const char *prompt, *continuation;
  const char *text;
  size_t size, cursor;
  const unsigned char *attributes; /* a TsEditAttribute per byte, or NULL */
  const char *hint;                /* dim, behind the end of the text, or NULL */
  const char *below;               /* lines under the text, each narrower than the screen */
  int below_rows;
} TsEditView;

typedef struct TsEditScreen {
  int columns, rows;
  int cursor_row; /* of the last drawing, counted from the first row that is on the screen */
  int top;        /* the first row shown of a text that is higher than the screen */
  int colours;    /* attributes are shown */
  TsEditText out;
} TsEditScreen;

/* Rows that prompt and text take at this width. */
int ts_edit_screen_height(const TsEditScreen *s, const TsEditView *view);
/* Replaces the last drawing; appends to s->out what is to be written. */
void ts_edit_screen_draw(TsEditScreen *s, const TsEditView *view);
/* The last drawing: the whole text, however high, then `tail` and a line end. */
void ts_edit_screen_finish(TsEditScreen *s, const TsEditView *view, const char *tail);
/* Removes the last drawing, and leaves the cursor at its first row. */
void ts_edit_screen_erase(TsEditScreen *s);
/* After a resize: the terminal has wrapped the last drawing anew. */
void ts_edit_screen_resize(TsEditScreen *s, const TsEditView *view, int columns, int rows);

#endif
