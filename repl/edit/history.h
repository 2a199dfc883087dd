/* The lines entered before: in memory, and in a file that several processes share. */
#ifndef TS_EDIT_HISTORY_H
#define TS_EDIT_HISTORY_H

#include <stddef.h>

#define TS_EDIT_HISTORY_MAX 10000

/* entries[count - unsaved ..] are not in the file yet. Oldest first. */
typedef struct TsEditHistory {
  char **entries;
  size_t count, unsaved;
  char *path; /* NULL: no file */
} TsEditHistory;

void ts_edit_history_free(TsEditHistory *h);
/* Adds a copy, unless empty or equal to the newest. Returns 1 if added, 0 if not, -1 when
   memory ran out. The oldest entry goes when there are too many. */
int ts_edit_history_add(TsEditHistory *h, const char *entry);

/* In repl/edit/history_file.c. Load appends the file's entries; save merges the unsaved ones into
   the file as it is by then, waiting at most wait_ms for another process. Both return 0, or -1
   with nothing lost: what could not be saved is saved the next time. */
int ts_edit_history_load(TsEditHistory *h, const char *path);
int ts_edit_history_save(TsEditHistory *h, int wait_ms);

/* The nearest entry before (after) index `from` that begins with the prefix and differs from
   `current`; -1 if there is none. */
long ts_edit_history_older(const TsEditHistory *h, long from, const char *prefix,
                           const char *current);
long ts_edit_history_newer(const TsEditHistory *h, long from, const char *prefix,
                           const char *current);

#endif
