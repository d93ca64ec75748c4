/*
 * Page traffic of a known kind, for recordings. cc -O2 -static -o traffic traffic.c
 *
 *   traffic small MB ROUNDS   map MB of memory without huge pages, touch every page, unmap
 *   traffic huge MB ROUNDS    the same with huge pages (transparent_hugepage/enabled: madvise)
 *   traffic hold MB           as small, then say "ready" and sleep: its exit is another's to choose
 *   traffic pipes N           fill N pipes of 64 KB, whose pages cannot be moved; then close them
 *
 * Prints what it did: every figure is also a check that it did it.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static char *touched(size_t bytes, int advice)
{
	/* Room to start at a multiple of 2 MB: a huge page cannot start elsewhere. */
	size_t huge = 2 << 20;
	char *map = mmap(NULL, bytes + huge, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		fail("mmap");
	char *begin = map + (huge - (size_t)map % huge) % huge;
	if (madvise(begin, bytes, advice))
		fail("madvise");
	for (size_t at = 0; at < bytes; at += 4096)
		begin[at] = 1;
	return map;
}

static void rounds(size_t bytes, int advice, int count)
{
	for (int round = 0; round < count; round++) {
		char *map = touched(bytes, advice);
		if (munmap(map, bytes + (2 << 20)))
			fail("munmap");
	}
	printf("touched %zu MB %d times\n", bytes >> 20, count);
}

static void pipes(int count)
{
	static char block[65536];
	struct rlimit limit = { count * 2 + 16, count * 2 + 16 };
	int (*ends)[2] = calloc(count, sizeof(*ends));
	size_t filled = 0;
	if (!ends || setrlimit(RLIMIT_NOFILE, &limit))
		fail("room for pipes");
	for (int i = 0; i < count; i++) {
		if (pipe2(ends[i], O_NONBLOCK))
			fail("pipe2");
		ssize_t written = write(ends[i][1], block, sizeof(block));
		filled += written > 0 ? (size_t)written : 0;
	}
	printf("filled %d pipes with %zu MB\n", count, filled >> 20);
	for (int i = 0; i < count; i++) {
		close(ends[i][0]);
		close(ends[i][1]);
	}
}

int main(int count, char **words)
{
	size_t amount = count > 2 ? strtoul(words[2], NULL, 10) : 0;
	int times = count > 3 ? atoi(words[3]) : 1;
	if (amount == 0 || times < 1) {
		fprintf(stderr, "usage: traffic small|huge MB ROUNDS | hold MB | pipes N\n");
		return 2;
	}
	if (!strcmp(words[1], "small")) {
		rounds(amount << 20, MADV_NOHUGEPAGE, times);
	} else if (!strcmp(words[1], "huge")) {
		rounds(amount << 20, MADV_HUGEPAGE, times);
	} else if (!strcmp(words[1], "pipes")) {
		pipes((int)amount);
	} else if (!strcmp(words[1], "hold")) {
		touched(amount << 20, MADV_NOHUGEPAGE);
		printf("ready\n");
		fflush(stdout);
		pause();
	} else {
		fprintf(stderr, "traffic: no kind %s\n", words[1]);
		return 2;
	}
	return 0;
}
