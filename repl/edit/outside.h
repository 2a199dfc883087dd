/* A text in an editor of the user's choice, $VISUAL, $EDITOR or vi, by way of a file. */
#ifndef TS_EDIT_OUTSIDE_H
#define TS_EDIT_OUTSIDE_H

#include <limits.h>

#include "repl/edit/text.h"

typedef struct TsEditOutside {
  char path[PATH_MAX];
  TsEditText command; /* for a shell: the editor with the file */
} TsEditOutside;

const char *ts_edit_outside_editor(void);
/* A new file with the text in $TMPDIR or /tmp, whose name ends so; -1 with errno, and there is none. */
int ts_edit_outside_begin(TsEditOutside *o, const char *text, size_t size, const char *ending);
void ts_edit_outside_end(TsEditOutside *o); /* the file is gone */

#endif
