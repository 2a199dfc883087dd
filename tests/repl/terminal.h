/* The built program behind a pseudo terminal: what it prints is waited for, without its escape
 * sequences, or given to a screen. Nothing is timed: a wait ends when the text is there or the program
 * is not; the time after which it fails, which ends what hangs, is far beyond what a busy machine
 * takes. What failed is told with the state of the program, and the last that it said. */
#ifndef TS_TEST_TERMINAL_H
#define TS_TEST_TERMINAL_H

#include <stddef.h>
#include <sys/types.h>

enum { PATIENCE_S = 120 };

extern char seen[]; /* what came since the last match, escapes removed */
extern int terminal;
extern pid_t child;
/* Gets every byte as it came; may be NULL. */
extern void (*on_bytes)(const char *bytes, size_t size);

/* `self`: argv[0], from which the program's place follows. 0: it cannot begin. */
int open_terminals(const char *self, const char *name);
/* Says what was counted; the exit code. */
int close_terminals(void);
void check(int good, const char *what);

void start(int columns, int rows, const char *term);
void start_with(int columns, int rows, const char *term, const char *option);
int more(void); /* reads on; 0: nothing came, or nothing will */
/* Waits for the text, and forgets what came up to its end. */
void expect(const char *text);
/* Waits until the program edits a line: what is typed before, the system echoes and edits. */
void expect_editor(void);
void type(const char *keys);
/* The exit status as a shell says it. */
int finish(void);
const char *home_folder(void);

#endif
