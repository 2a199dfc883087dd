/* What the text was before each change, newest last. */
#ifndef TS_EDIT_UNDO_H
#define TS_EDIT_UNDO_H

#include "repl/edit/text.h"

/* Zero-initialised is empty. */
typedef struct TsEditUndo {
  struct TsEditState {
    char *text;
    size_t cursor;
  } * state;
  int count, room;
  TsEditText last; /* the text as it was noted last; its cursor is where that stood */
  int typing; /* the last change put in a character: more of the same word are one change */
} TsEditUndo;

/* Behind each command. `typed`: the byte that it put in, 0 for all others. */
void ts_edit_undo_note(TsEditUndo *u, const TsEditText *text, char typed);
/* Gives the text back what it was before the last change. */
void ts_edit_undo_run(TsEditUndo *u, TsEditText *text);
void ts_edit_undo_clear(TsEditUndo *u);

#endif
