// Preloaded into heed by kill_test.py: counts the calls of the C library that change files below one folder, and lets
// the k-th one kill the process or fail. Set by the environment:
//   HEED_SHIM_FOLDER   absolute path; calls on other paths are neither counted nor changed
//   HEED_SHIM_LOG      file that gets one line per counted call: its number, the function and the path
//   HEED_SHIM_AT       the number k, from 1; none: only count
//   HEED_SHIM_ERROR    the k-th call fails with this errno; none: SIGKILL right before the call
//   HEED_SHIM_HALF     set: where the k-th call is a write, the first half of its bytes is written before SIGKILL
//   HEED_SHIM_WITHOUT  functions with commas between them, such as link,linkat: every call fails with HEED_SHIM_ERROR
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE  // it defines some of these functions itself
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { kFiles = 4096 };

static const char *folder, *without;
static long at;
static int error, half, log_file = -1;
static atomic_long calls;
static char* tracked[kFiles];  // the path of a descriptor that was opened to write, or of a folder
static char* written[kFiles];  // the same, without folders

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static const char* setting(const char* name) {
  const char* value = getenv(name);
  return value != NULL && *value != 0 ? value : NULL;
}

__attribute__((constructor)) static void read_settings(void) {
  folder = setting("HEED_SHIM_FOLDER");
  without = setting("HEED_SHIM_WITHOUT");
  half = setting("HEED_SHIM_HALF") != NULL;
  at = setting("HEED_SHIM_AT") ? atol(setting("HEED_SHIM_AT")) : 0;
  error = setting("HEED_SHIM_ERROR") ? atoi(setting("HEED_SHIM_ERROR")) : 0;
  if (setting("HEED_SHIM_LOG")) {
    log_file =
        (int)syscall(SYS_openat, AT_FDCWD, setting("HEED_SHIM_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  }
}

// The absolute path, without links in its folder, into `into`; the path itself where its folder does not exist.
static const char* absolute(int base, const char* path, char* into) {
  char whole[PATH_MAX] = "", parent[PATH_MAX], link[64];
  if (path[0] != '/') {
    if (base == AT_FDCWD) {
      if (getcwd(whole, sizeof(whole)) == NULL) return path;
    } else {
      snprintf(link, sizeof(link), "/proc/self/fd/%d", base);
      if (readlink(link, whole, sizeof(whole) - 1) < 0) return path;
    }
    strncat(whole, "/", sizeof(whole) - strlen(whole) - 1);
  }
  strncat(whole, path, sizeof(whole) - strlen(whole) - 1);
  for (size_t end = strlen(whole); end > 1 && whole[end - 1] == '/'; whole[--end] = 0) {
  }
  char* name = strrchr(whole, '/');
  *name++ = 0;
  if (realpath(*whole ? whole : "/", parent) == NULL) return path;
  const int length = snprintf(into, PATH_MAX, "%s/%s", parent, name);
  return length > 0 && length < PATH_MAX ? into : path;
}

static _Bool is_below(const char* path) {
  const size_t length = folder ? strlen(folder) : 0;
  return length > 0 && strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static _Bool is_left_out(const char* function) {
  const size_t length = strlen(function);
  for (const char* name = without; name != NULL; name = strchr(name, ',') ? strchr(name, ',') + 1 : NULL) {
    if (strncmp(name, function, length) == 0 && (name[length] == ',' || name[length] == 0)) return 1;
  }
  return 0;
}

// Whether this call, if it is one of those counted, is the one that kills or fails. Does not return where it kills,
// except before a write of which half is due.
static _Bool is_hit(const char* function, const char* path, _Bool may_be_half) {
  if (!is_below(path)) return 0;
  if (is_left_out(function)) return 1;
  const long number = atomic_fetch_add(&calls, 1) + 1;
  if (log_file >= 0) {
    char line[PATH_MAX + 64];
    const int length = snprintf(line, sizeof(line), "%ld %s %s\n", number, function, path);
    syscall(SYS_write, log_file, line, (size_t)length);
  }
  if (number != at) return 0;
  if (error == 0 && !(half && may_be_half)) {
    syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
  }
  return 1;
}

static void forget(int file) {
  if (file < 0 || file >= kFiles) return;
  free(tracked[file]);
  tracked[file] = written[file] = NULL;
}

static void track(int file, const char* path, _Bool a_folder) {
  if (file < 0 || file >= kFiles || !is_below(path)) return;
  forget(file);
  tracked[file] = strdup(path);
  written[file] = a_folder ? NULL : tracked[file];
}

static const char* path_in(char* const* table, int file) {
  return file >= 0 && file < kFiles && table[file] ? table[file] : "";
}
static const char* path_of(int file) { return path_in(tracked, file); }

#define FAIL_IF_HIT(function, path, result) \
  if (is_hit(function, path, 0)) {          \
    errno = error;                          \
    return result;                          \
  }

// ---- Opening --------------------------------------------------------------------------------------------------------

static int open_at(int base, const char* path, int flags, mode_t mode) {
  char buffer[PATH_MAX];
  const char* whole = absolute(base, path, buffer);
  const _Bool writes = (flags & (O_CREAT | O_TRUNC)) != 0 || (flags & O_ACCMODE) != O_RDONLY;
  if (writes) FAIL_IF_HIT("open", whole, -1);
  const int file = REAL(openat)(base, path, flags, mode);
  if (file >= 0 && (writes || (flags & O_DIRECTORY) != 0)) track(file, whole, !writes);
  return file;
}

static mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

#define OPEN(name, parameters, base)               \
  int name parameters {                            \
    va_list arguments;                             \
    va_start(arguments, flags);                    \
    const mode_t mode = mode_of(flags, arguments); \
    va_end(arguments);                             \
    return open_at(base, path, flags, mode);       \
  }
OPEN(open, (const char* path, int flags, ...), AT_FDCWD)
OPEN(open64, (const char* path, int flags, ...), AT_FDCWD)
OPEN(openat, (int base, const char* path, int flags, ...), base)
OPEN(openat64, (int base, const char* path, int flags, ...), base)

int creat(const char* path, mode_t mode) { return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

FILE* fopen(const char* path, const char* mode) {
  char buffer[PATH_MAX];
  const char* whole = absolute(AT_FDCWD, path, buffer);
  const _Bool writes = strpbrk(mode, "wa+") != NULL;
  if (writes) FAIL_IF_HIT("fopen", whole, NULL);
  FILE* file = REAL(fopen)(path, mode);
  if (file != NULL && writes) track(fileno(file), whole, 0);
  return file;
}
FILE* fopen64(const char* path, const char* mode) { return fopen(path, mode); }

// ---- Writing --------------------------------------------------------------------------------------------------------

ssize_t write(int file, const void* bytes, size_t size) {
  if (is_hit("write", path_of(file), 1)) {
    if (error == 0) {
      syscall(SYS_write, file, bytes, size / 2);
      syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
    }
    errno = error;
    return -1;
  }
  return REAL(write)(file, bytes, size);
}

ssize_t pwrite(int file, const void* bytes, size_t size, off_t offset) {
  if (is_hit("pwrite", path_of(file), 1)) {
    if (error == 0) {
      syscall(SYS_pwrite64, file, bytes, size / 2, offset);
      syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
    }
    errno = error;
    return -1;
  }
  return REAL(pwrite)(file, bytes, size, offset);
}
ssize_t pwrite64(int file, const void* bytes, size_t size, off64_t offset) { return pwrite(file, bytes, size, offset); }

ssize_t writev(int file, const struct iovec* parts, int count) {
  FAIL_IF_HIT("writev", path_of(file), -1);
  return REAL(writev)(file, parts, count);
}

size_t fwrite(const void* bytes, size_t size, size_t count, FILE* file) {
  FAIL_IF_HIT("fwrite", path_of(fileno(file)), 0);
  return REAL(fwrite)(bytes, size, count, file);
}

int fflush(FILE* file) {
  if (file != NULL && __fpending(file) > 0) FAIL_IF_HIT("fflush", path_of(fileno(file)), EOF);
  return REAL(fflush)(file);
}

#define ON_FILE(name, parameters, arguments) \
  int name parameters {                      \
    FAIL_IF_HIT(#name, path_of(file), -1);   \
    return REAL(name) arguments;             \
  }
ON_FILE(ftruncate, (int file, off_t size), (file, size))
ON_FILE(ftruncate64, (int file, off64_t size), (file, size))
ON_FILE(fallocate, (int file, int mode, off_t offset, off_t size), (file, mode, offset, size))
ON_FILE(fallocate64, (int file, int mode, off64_t offset, off64_t size), (file, mode, offset, size))
ON_FILE(fsync, (int file), (file))
ON_FILE(fdatasync, (int file), (file))

int posix_fallocate(int file, off_t offset, off_t size) {
  if (is_hit("posix_fallocate", path_of(file), 0)) return error;
  return REAL(posix_fallocate)(file, offset, size);
}

// Changes nothing, but not every file system can do it.
int flock(int file, int operation) {
  if (is_left_out("flock") && is_below(path_of(file))) {
    errno = error;
    return -1;
  }
  return REAL(flock)(file, operation);
}

// The descriptor is closed also where close reports an error.
int close(int file) {
  const _Bool failed = is_hit("close", path_in(written, file), 0);
  forget(file);
  const int result = REAL(close)(file);
  if (!failed) return result;
  errno = error;
  return -1;
}

int fclose(FILE* file) {
  const int number = fileno(file);
  const _Bool failed = is_hit("fclose", path_of(number), 0);
  forget(number);
  const int result = REAL(fclose)(file);
  if (!failed) return result;
  errno = error;
  return EOF;
}

// ---- Names ----------------------------------------------------------------------------------------------------------

#define ON_PATH(name, base, path, parameters, arguments)  \
  int name parameters {                                   \
    char buffer[PATH_MAX];                                \
    FAIL_IF_HIT(#name, absolute(base, path, buffer), -1); \
    return REAL(name) arguments;                          \
  }
ON_PATH(unlink, AT_FDCWD, path, (const char* path), (path))
ON_PATH(unlinkat, base, path, (int base, const char* path, int flags), (base, path, flags))
ON_PATH(remove, AT_FDCWD, path, (const char* path), (path))
ON_PATH(rmdir, AT_FDCWD, path, (const char* path), (path))
ON_PATH(mkdir, AT_FDCWD, path, (const char* path, mode_t mode), (path, mode))
ON_PATH(mkdirat, base, path, (int base, const char* path, mode_t mode), (base, path, mode))
ON_PATH(truncate, AT_FDCWD, path, (const char* path, off_t size), (path, size))
ON_PATH(rename, AT_FDCWD, to, (const char* from, const char* to), (from, to))
ON_PATH(renameat, to_base, to, (int base, const char* from, int to_base, const char* to), (base, from, to_base, to))
ON_PATH(renameat2, to_base, to, (int base, const char* from, int to_base, const char* to, unsigned flags),
        (base, from, to_base, to, flags))
ON_PATH(link, AT_FDCWD, to, (const char* from, const char* to), (from, to))
ON_PATH(linkat, to_base, to, (int base, const char* from, int to_base, const char* to, int flags),
        (base, from, to_base, to, flags))
ON_PATH(symlink, AT_FDCWD, to, (const char* from, const char* to), (from, to))
