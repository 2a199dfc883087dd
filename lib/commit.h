/* Folders of files that are written whole or not at all.
 *
 * Files are written into a folder of a name that nobody reads, and go to the disk; then the folder
 * gets its name; then a file in it, the mark, says that it is whole. A program that is killed in
 * between leaves a folder without a mark, which is none for readers, and which the next one removes:
 * whoever writes one holds its lock. What is removed loses its name first. */
#ifndef TS_LIB_COMMIT_H
#define TS_LIB_COMMIT_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/file.h"

typedef struct TsCommit {
  int parent, folder;
  char temporary[TS_FILE_NAME];
  char name[TS_FILE_NAME]; /* what it was called in the end */
  char at[TS_FILE_NAME];   /* the file that failed, or "" */
} TsCommit;

/* A new folder within dir, which is made if it is not there, with those above it. All give -1 with
 * errno. */
int ts_commit_begin(TsCommit *c, const char *dir);
/* Files in it, one after the other: to write to; closed when it is on the disk. */
int ts_commit_open(TsCommit *c, const char *file);
int ts_commit_close(TsCommit *c, int fd);
/* Its name, or, where one of that name is there, "name~1", "name~2" ..; then the mark. */
int ts_commit_end(TsCommit *c, const char *name, const char *mark, const char *text, size_t n);
/* Nothing was written; after a failure of any of these, but _begin. Keeps errno. */
void ts_commit_drop(TsCommit *c);

/* Such a folder in dir. */
int ts_commit_remove(const char *dir, const char *name);
/* What killed programs have left in dir: folders of temporary names, and those whose file `manifest`
 * begins with `head`, but that have no whole mark, as whole() says of its text. */
void ts_commit_sweep(const char *dir, const char *mark, const char *manifest, const char *head,
                     bool (*whole)(const char *text, size_t n));

#endif
