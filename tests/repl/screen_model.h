/* A terminal small enough to trust: what the line editor writes, as rows of text. It knows the
   sequences the editor uses, wraps at the margin as xterm does, and counts every other sequence
   as an error. Widths are libc's, not the editor's. */
#ifndef TS_TEST_SCREEN_MODEL_H
#define TS_TEST_SCREEN_MODEL_H

#include <stddef.h>

enum { MODEL_ROWS = 60, MODEL_COLUMNS = 200 };

typedef struct Model {
  int rows, columns, row, column;
  int waiting;       /* a full row: the next character wraps */
  int errors;        /* sequences it does not know */
  int scrolled;      /* rows that left at the top */
  int paste, hidden; /* modes: bracketed paste on, cursor hidden */
  int entered;       /* times that paste was switched on */
  int cleared;       /* times that the whole screen was erased */
  unsigned char held[64];
  int held_size; /* of an unfinished sequence */
  int style;     /* the last SGR number */
  char cells[MODEL_ROWS][MODEL_COLUMNS][24];
  unsigned char styles[MODEL_ROWS][MODEL_COLUMNS];
} Model;

void model_reset(Model *m, int columns, int rows);
void model_feed(Model *m, const char *bytes, size_t size);
/* The row's text without blanks at its end; valid until the next call. */
const char *model_row(const Model *m, int row);

#endif
