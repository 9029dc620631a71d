// A record of the data that is certainly on the disk. For every file that the server syncs, the
// library appends the file's inode and its length at the time of the call to a file that the test
// reads. The library is loaded before the C library.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int record = -1;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("DISTLOCK_TEST_POWER");
  if (!path) return;
  record = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
  if (record < 0) abort();
}

// sync_file reads the length before the call: data that is written during the call need not be on
// the disk after it.
static int sync_file(long call, int fd) {
  struct stat st;
  int known = record >= 0 && !fstat(fd, &st);
  int r = syscall(call, fd);
  if (!r && known) {
    uint64_t entry[2] = {st.st_ino, st.st_size};
    if (write(record, entry, sizeof entry) != sizeof entry) abort();
  }
  return r;
}

int fsync(int fd) { return sync_file(SYS_fsync, fd); }
int fdatasync(int fd) { return sync_file(SYS_fdatasync, fd); }
