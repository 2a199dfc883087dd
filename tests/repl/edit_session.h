/* A line editor in a child process behind a pseudo terminal, and this end of it: keys to type,
   a model of the screen, and the texts that the child's reads returned. Nothing is timed: a
   check waits until it holds, and fails only after seconds. */
#ifndef TS_TEST_EDIT_SESSION_H
#define TS_TEST_EDIT_SESSION_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <termios.h>

#include "tests/repl/screen_model.h"

#define PATIENCE_MS 30000

/* Keys and texts as a terminal sends them. */
#define UP          "\x1b[A"
#define DOWN        "\x1b[B"
#define RIGHT       "\x1b[C"
#define LEFT        "\x1b[D"
#define HOME        "\x1b[H"
#define END         "\x1b[F"
#define PASTE(text) "\x1b[200~" text "\x1b[201~"
#define ACUTE       "\xcc\x81"
#define WIDE        "\xe4\xb8\xad"

extern int failures;
extern const char *subject; /* what is tested, for messages */
void fail(const char *what, const char *got, const char *wanted);
void begin_tests(void);          /* locale and signals as a terminal's programs have them */
int end_tests(const char *name); /* says whether all went well: an exit code */

typedef struct Setup {
  int columns, rows;
  const char *history, *terminal; /* the file, or NULL; TERM, or NULL for unset */
  long allocations;               /* before they fail; 0: no limit */
  int plain_words;                /* candidates have no help */
  int many_words;                 /* 500 more candidates: word000 and so on */
} Setup;

typedef struct Session {
  int terminal, results;
  int reads; /* of the child that have ended */
  int raw;   /* the child edits: it has to be ready before keys are typed */
  pid_t child;
  Model model;
  struct termios before;
} Session;

Session start(Setup setup);
Session start_usual(void); /* 40 columns, 10 rows, no file */
/* What the child does: reads until the end, and sends each result. */
void edit_until_end(const Setup *setup, int in, int out, int results);
int allocations_can_fail(void); /* linked with --wrap=malloc,--wrap=realloc,--wrap=strdup? */

int64_t now_ms(void);
int listen_for(Session *s, int timeout_ms); /* feeds the model; 0 when nothing came */
#define listen_until(s, condition)                                                             \
  for (int64_t end_ms = now_ms() + PATIENCE_MS; !(condition) && now_ms() < end_ms;)            \
  listen_for(s, 20)

void type(Session *s, const char *keys);
void type_bytes(Session *s, const char *keys, size_t size); /* does not wait for the child */

/* The next result as text, to be freed; "<status n>" for one without text. */
char *result(Session *s, size_t *size);
void expect(Session *s, const char *wanted);
void expect_row(Session *s, int row, const char *wanted);
void expect_cursor(Session *s, int row, int column);

int count_of(const char *text, const char *word);
int same_mode(const struct termios *a, const struct termios *b);
/* Waits for the child's end, and checks that the terminal is as it was before. */
void finish(Session *s, const char *wanted_exit);
void end_of_input(Session *s); /* Ctrl-D, and finish */

#endif
