/* Inside the editor: its state, and what its parts call of each other. */
#ifndef TS_EDIT_STATE_H
#define TS_EDIT_STATE_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

#include "repl/edit/edit.h"
#include "repl/edit/history.h"
#include "repl/edit/keys.h"
#include "repl/edit/screen.h"
#include "repl/edit/term.h"
#include "repl/edit/text.h"
#include "repl/edit/undo.h"

struct TsEdit {
  TsEditHooks hooks;
  TsEditStatus status;
  int interactive, in, out;
  FILE *stream; /* of plain reading, opened when needed */

  TsEditTerm term;
  TsEditKeys keys;
  TsEditScreen screen;
  TsEditText text;
  const char *prompt, *continuation;

  /* What the moment adds to the view. */
  const char *search_prompt; /* stands in for the prompt */
  size_t match, match_size;  /* bytes shown as TS_EDIT_MATCH */
  const char *below;
  int below_rows;
  TsEditText attributes, signature;

  TsEditUndo undo;
  TsEditText killed;
  int killing, killed_before; /* this command, the one before, was a kill */
  int done;                   /* ts_edit_read returns; status says how */

  TsEditHistory history;
  char *history_path; /* of the file that is not read yet */
  long place;         /* of the entry shown; history.count: the draft */
  TsEditText draft;   /* what was being written before history was walked */
  size_t goal;        /* column that vertical moves keep */
  int goal_kept;

  pthread_mutex_t lock; /* of the two below */
  int reading;          /* the screen is the editor's: others leave messages */
  TsEditText messages;
};

/* repl/edit/edit.c: the history is there from now on. */
void ts_edit_need_history(TsEdit *e);

/* repl/edit/loop.c: draws unless more input waits, and returns the next key that is a user's. */
uint32_t ts_edit_loop_key(TsEdit *e);
void ts_edit_loop_view(TsEdit *e, TsEditView *view);
void ts_edit_loop_suspend(TsEdit *e);
/* Around another program that has the terminal. */
void ts_edit_loop_pause(TsEdit *e);
void ts_edit_loop_resume(TsEdit *e);
void ts_edit_loop_stop(TsEdit *e, TsEditStatus status);
char *ts_edit_loop_read(TsEdit *e);
void ts_edit_loop_set_reading(TsEdit *e, int reading);
void ts_edit_loop_write_messages(TsEdit *e); /* as they are; the lock is held */

/* repl/edit/commands.c: does what a key stands for. */
void ts_edit_commands_run(TsEdit *e, uint32_t key);
/* repl/edit/plain.c: reading without editing. */
char *ts_edit_plain_read(TsEdit *e);
/* repl/edit/complete.c, repl/edit/search.c: run until a key ends them, and return that key. */
uint32_t ts_edit_complete_run(TsEdit *e);
uint32_t ts_edit_search_run(TsEdit *e);

/* repl/edit/outside.c: the text in $VISUAL, $EDITOR or vi; as it was where that failed. */
void ts_edit_outside_run(TsEdit *e);

/* repl/edit/indent.c: blanks that begin the line after text[0..size). */
size_t ts_edit_indent_after(const char *text, size_t size);
/* Takes two blanks off the line around the cursor if it closes a block and is indented as its
   predecessor suggested. */
void ts_edit_indent_close(TsEditText *t);

#endif
