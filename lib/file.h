/* Files on which more depends than their text: whose they are, seen through the descriptor and
 * never through a name that may mean another file a moment later; and files that are replaced
 * whole or not at all. Failures leave errno. */
#ifndef TS_LIB_FILE_H
#define TS_LIB_FILE_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>

enum { TS_FILE_NAME = 256, TS_FILE_PATH = 4096 };

/* NULL if the open file (or folder) belongs to the user this process acts as and nobody else may
 * write to it; else what is wrong with it. */
const char *ts_file_foreign(int fd, bool folder);

/* All n bytes. */
bool ts_file_read(int fd, void *to, size_t n);
bool ts_file_write(int fd, const void *from, size_t n);

/* A name that begins so and that nobody can guess; a new file for writing in the folder, under one. */
void ts_file_name(const char *before, char name[TS_FILE_NAME]);
/* What is written under a name that begins so is locked by who writes it, and is left over where it
 * is not; whether a name is such a one. */
#define TS_FILE_TEMPORARY ".tessera-new-"
bool ts_file_is_temporary(const char *name);
/* The open file or folder has this name in the folder: it was neither removed nor renamed. */
bool ts_file_is_named(int fd, int folder, const char *name);
int ts_file_new(int folder, const char *before, int mode, char name[TS_FILE_NAME]);

/* What stands in an open folder, for readdir and closedir; NULL: it cannot be listed. */
DIR *ts_file_list(int folder);

/* A plain file for reading, and its size; it waits for nobody at the other end of a pipe. Of others
 * -1, with *why (else NULL) where errno does not tell. */
int ts_file_open(const char *path, size_t *size, const char **why);

/* What becomes path. Links are followed; mode, owner and group of the file that was there are
 * kept. What replacements that were killed have left behind in the folder is removed. */
typedef struct TsReplace {
  int fd; /* to write to, by ts_file_write */
  int folder;
  const char *why; /* of a failure that errno does not tell, or NULL */
  char base[TS_FILE_NAME], name[TS_FILE_NAME];
  bool there;
  unsigned mode, group, owner;
} TsReplace;

int ts_replace_begin(TsReplace *r, const char *path);
/* The new file in place of the old one, on the disk; or, if not `good`, all as it was. */
int ts_replace_end(TsReplace *r, bool good);

#endif
