// A time of day that a test sets: the time of the machine plus an offset in nanoseconds. The offset
// is read from a file that the test writes. The library is loaded before the C library, and calls
// nothing that may allocate: an allocator may read the time before it can serve an allocation.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile long long *offset;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("DISTLOCK_TEST_CLOCK");
  if (!path) return;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) abort();
  void *p = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (p == MAP_FAILED) abort();
  offset = p;
}

int clock_gettime(clockid_t id, struct timespec *ts) {
  int r = syscall(SYS_clock_gettime, id, ts);
  if (r || !offset || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)) return r;
  long long ns = ts->tv_sec * 1000000000LL + ts->tv_nsec + *offset;
  ts->tv_sec = ns / 1000000000LL;
  ts->tv_nsec = ns % 1000000000LL;
  return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict tz) {
  struct timespec ts;
  (void)tz;
  if (clock_gettime(CLOCK_REALTIME, &ts)) return -1;
  tv->tv_sec = ts.tv_sec;
  tv->tv_usec = ts.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *t) {
  struct timespec ts;
  clock_gettime(CLOCK_REALTIME, &ts);
  if (t) *t = ts.tv_sec;
  return ts.tv_sec;
}
