/* The terminal's mode while a line is edited: raw on, raw off whatever happens, and signals. */
#ifndef TS_EDIT_TERM_H
#define TS_EDIT_TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

/* What happened while raw, as bits. */
enum {
  TS_EDIT_EVENT_interrupt = 1, /* SIGINT: from outside, or Ctrl-C */
  TS_EDIT_EVENT_stop = 2,      /* SIGTSTP from outside; Ctrl-Z is a key */
  TS_EDIT_EVENT_resume = 4,    /* continued, or the mode got lost: enter again and redraw */
  TS_EDIT_EVENT_resize = 8,
};

typedef struct TsEditTerm {
  int in, out;
  int raw;
  int wake[2]; /* a pipe: written by signal handlers and by ts_edit_term_wake */
  struct termios cooked;
} TsEditTerm;

int ts_edit_term_open(TsEditTerm *t, int in, int out); /* 0, or -1 with errno */
void ts_edit_term_close(TsEditTerm *t);

/* Raw mode, bracketed paste and signal handlers on; one terminal at a time in a process.
   Returns 0, or -1 when the terminal refuses. Entering again while raw sets the mode anew. */
int ts_edit_term_enter(TsEditTerm *t);
void ts_edit_term_leave(TsEditTerm *t); /* all as it was before */
/* Stops the process group as the shell expects, and returns, raw again, once it goes on. */
int ts_edit_term_suspend(TsEditTerm *t);

/* Blocks SIGINT for this thread, or lets it through; whether it was blocked. While raw it is let through,
   whatever the caller has. */
bool ts_edit_term_hold(bool on);

void ts_edit_term_forget(TsEditTerm *t);     /* what was typed and is not read yet */
void ts_edit_term_wake(TsEditTerm *t);       /* makes the pipe readable; from any thread */
unsigned ts_edit_term_events(TsEditTerm *t); /* takes the events and empties the pipe */
void ts_edit_term_size(const TsEditTerm *t, int *columns, int *rows);
int ts_edit_term_write(int fd, const char *bytes, size_t size); /* all of it; 0 or -1 */

#endif
