/* The line editor of the prompt: reads Lua chunks of one or more lines from a terminal with
   editing, history, completion and hints, and from anything else line by line.

   It depends on libc alone and may be used in any program. An editor is used from one thread;
   only ts_edit_print may be called from others. The terminal is in raw mode only inside
   ts_edit_read, and is put back on every way out of it, exit() and fatal signals included. */
#ifndef TS_EDIT_H
#define TS_EDIT_H

#include <stddef.h>

typedef struct TsEdit TsEdit;
typedef struct TsCompletions TsCompletions;

typedef enum TsEditStatus {
  TS_EDIT_LINE,        /* a text was returned */
  TS_EDIT_EOF,         /* end of input: Ctrl-D on an empty line, or nothing more to read */
  TS_EDIT_INTERRUPTED, /* Ctrl-C, or SIGINT: the line was abandoned */
  TS_EDIT_FAILED,      /* errno says why: ENOMEM, or a failure to read */
} TsEditStatus;

/* What a byte of the text is, for colours. */
typedef enum TsEditAttribute {
  TS_EDIT_PLAIN,
  TS_EDIT_KEYWORD,
  TS_EDIT_STRING,
  TS_EDIT_NUMBER,
  TS_EDIT_COMMENT,
  TS_EDIT_NAME,
  TS_EDIT_ERROR,
  TS_EDIT_MATCH,
} TsEditAttribute;

/* All may be NULL. Texts are UTF-8, NUL-terminated, and belong to the editor. Hooks run inside
   ts_edit_read, with the terminal raw, and must not print. */
typedef struct TsEditHooks {
  void *arg;
  /* Offers candidates for what stands before the cursor with ts_edit_offer. */
  void (*complete)(void *arg, const char *text, size_t cursor, TsCompletions *out);
  /* Does Enter go on with another line? `size` tells of NUL bytes, which only piped input
   * has. */
  int (*incomplete)(void *arg, const char *text, size_t size);
  /* Dim text to show behind the end, or NULL; has to stay valid until the next hook call. */
  const char *(*hint)(void *arg, const char *text);
  /* Sets a TsEditAttribute for each byte of the text; they come all TS_EDIT_PLAIN. */
  void (*highlight)(void *arg, const char *text, unsigned char *attributes);
  /* One line to show dim under the text, as of the call that the cursor is in, or NULL; valid as a
   * hint is. What does not fit is cut. */
  const char *(*signature)(void *arg, const char *text, size_t cursor);
} TsEditHooks;

/* Editing needs both descriptors to be terminals, and TERM to be neither unset nor "dumb".
   history_path may be NULL; the file and its folders are made when first needed. NULL and errno
   when out of memory or descriptors. Descriptors stay the caller's. */
TsEdit *ts_edit_open(int in_fd, int out_fd, const char *history_path);
void ts_edit_close(TsEdit *e); /* saves the history; NULL is fine */
void ts_edit_set_hooks(TsEdit *e, const TsEditHooks *hooks);

/* Reads one text: a line, or several while hooks->incomplete says so. Returns it without the
   final newline, to be freed by the caller, or NULL; ts_edit_status tells which case it was.
   Prompts may hold colour escapes. Without a terminal \r\n ends a line as \n does, and prompts
   are printed only if in_fd is a terminal. */
char *ts_edit_read(TsEdit *e, const char *prompt, const char *continuation_prompt);
/* Ctrl-C waits until ts_edit_read waits for a line, and behind it again, so that each is heard by what was
   on the screen when it came. */
void ts_edit_hold_interrupts(int on);
TsEditStatus ts_edit_status(const TsEdit *e);
size_t ts_edit_size(const TsEdit *e);     /* bytes of the last text, NUL bytes counted */
int ts_edit_interactive(const TsEdit *e); /* does ts_edit_read edit? */
int ts_edit_columns(const TsEdit *e);     /* the terminal's width now */
int ts_edit_rows(const TsEdit *e);

/* Adds a text to the history and saves it; the same text twice in a row is kept once. */
void ts_edit_remember(TsEdit *e, const char *text);
size_t ts_edit_history_size(TsEdit *e);
const char *ts_edit_history_entry(TsEdit *e, size_t index); /* oldest first; NULL beyond */

/* Prints lines above the prompt while a text is being edited, else at once; a line end is added
   where it lacks. Any thread may call it. Returns 0, or -1 when memory ran out. */
int ts_edit_print(TsEdit *e, const char *text);

/* Inside the complete hook: the candidates replace text[start..cursor); start is 0 unless set.
   Help is one line shown beside the candidate, or NULL. Both are copied. Equal candidates are
   kept once. Returns 0, or -1 when memory ran out. */
void ts_edit_offer_from(TsCompletions *out, size_t start);
int ts_edit_offer(TsCompletions *out, const char *text, const char *help);

#endif
