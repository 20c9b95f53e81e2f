// Preloaded into a daemon by a test (preload.py), which has the same page mapped: the journal's fdatasync waits while
// `hold` is set and then fails `fail` times; the wall clock is `wall_ms` off; while `full` is set, files in search/ take
// no bytes. Everything else is left alone. Sanitizers' own wrappers of these functions call them in turn.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct Page {
  _Atomic int64_t hold, waiting, fail, wall_ms, loaded, full;
};

static struct Page* page(void) {
  static _Atomic(struct Page*) mapped;
  struct Page* known = atomic_load(&mapped);
  if (known) return known;
  static struct Page nobodys;
  const char* path = getenv("SESSIOND_TEST_PAGE");
  const int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
  void* at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(struct Page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fd >= 0) close(fd);
  known = at == MAP_FAILED ? &nobodys : at;
  atomic_store(&mapped, known);
  return known;
}

__attribute__((constructor)) static void tell(void) { atomic_store(&page()->loaded, 1); }

// Fills `target` with the path of an open file. Returns whether it is known.
static int path_of(int fd, char* target, size_t size) {
  char link[64] = "/proc/self/fd/";
  char digits[16];
  int n = 0;
  for (int rest = fd; n == 0 || rest; rest /= 10) digits[n++] = (char)('0' + rest % 10);
  size_t at = strlen(link);
  while (n) link[at++] = digits[--n];
  link[at] = 0;
  const ssize_t length = readlink(link, target, size - 1);
  if (length < 0) return 0;
  target[length] = 0;
  return 1;
}

// A segment lies in the journal's folder itself.
static int is_segment(int fd) {
  char target[4096];
  if (!path_of(fd, target, sizeof target)) return 0;
  const char* folder = strstr(target, "/journal/");
  return folder && !strchr(folder + strlen("/journal/"), '/');
}

static int is_full(int fd) {
  char target[4096];
  return atomic_load(&page()->full) && path_of(fd, target, sizeof target) && strstr(target, "/search/");
}

ssize_t pwrite(int fd, const void* bytes, size_t length, off_t at) {
  if (is_full(fd)) {
    errno = ENOSPC;
    return -1;
  }
  return syscall(SYS_pwrite64, fd, bytes, length, at);
}

ssize_t pwrite64(int fd, const void* bytes, size_t length, off_t at) { return pwrite(fd, bytes, length, at); }

int fdatasync(int fd) {
  struct Page* told = page();
  if (is_segment(fd)) {
    atomic_fetch_add(&told->waiting, 1);
    while (atomic_load(&told->hold)) {
      const struct timespec moment = {0, 1000000};
      syscall(SYS_nanosleep, &moment, NULL);
    }
    atomic_fetch_sub(&told->waiting, 1);
    if (atomic_load(&told->fail) > 0) {
      atomic_fetch_sub(&told->fail, 1);
      errno = EIO;
      return -1;
    }
  }
  return (int)syscall(SYS_fdatasync, fd);
}

int clock_gettime(clockid_t clock, struct timespec* time) {
  const long done = syscall(SYS_clock_gettime, clock, time);
  if (done != 0 || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return (int)done;
  const int64_t off = atomic_load(&page()->wall_ms);
  time->tv_sec += off / 1000;
  time->tv_nsec += off % 1000 * 1000000;
  if (time->tv_nsec >= 1000000000) time->tv_nsec -= 1000000000, ++time->tv_sec;
  if (time->tv_nsec < 0) time->tv_nsec += 1000000000, --time->tv_sec;
  return 0;
}

time_t time(time_t* into) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (into) *into = now.tv_sec;
  return now.tv_sec;
}

int gettimeofday(struct timeval* into, void* zone) {
  (void)zone;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  into->tv_sec = now.tv_sec;
  into->tv_usec = now.tv_nsec / 1000;
  return 0;
}
