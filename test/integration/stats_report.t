#!/bin/sh
# The numbers of a report are those of mallctl until the next epoch, while other threads change them: one snapshot for both.
. "$JEMALLOC_SRC/test/include/tap.sh"

[ "$(asks config.stats)" = true ] || skip_all "built without statistics"
perl -MJSON::PP -e 1 2>/dev/null || skip_all "no JSON::PP"
cat >report.c <<'C'
/* report: the JSON of malloc_stats_print, then, for each name on standard input, what mallctl says, while threads allocate */
#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static volatile int ends;
static char json[8 << 20], name[256];
static size_t length;
static void
take(void *opaque, const char *text) {
	size_t n = strlen(text);
	if (length + n < sizeof(json))
		memcpy(json + length, text, n);
	length += n;
}
static bool works[4];
static void *
work(void *arg) {
	static void *volatile kept[4][512];
	void *volatile *mine = kept[(uintptr_t)arg];
	for (unsigned i = 0; !ends; i = i * 5 + 1) {
		free(mine[i % 512]);
		mine[i % 512] = malloc(8 << i / 512 % 14);
		if (i / 16 % 256 == 0)
			mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
		__atomic_store_n(&works[(uintptr_t)arg], true, __ATOMIC_RELEASE);
	}
	return NULL;
}
int
main(void) {
	pthread_t threads[4];
	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	for (int i = 0; i < 4; i++) /* so that each run has the same arenas */
		while (!__atomic_load_n(&works[i], __ATOMIC_ACQUIRE))
			usleep(1000);
	for (int i = 0; i < 20; i++) {
		length = 0;
		malloc_stats_print(take, NULL, "J");
	}
	printf("%.*s\n", (int)length, json);
	while (fgets(name, sizeof(name), stdin) != NULL) {
		uint64_t value = 0;
		size_t size = 8;
		name[strcspn(name, "\n")] = '\0';
		int err = mallctl(name, &value, &size, NULL, 0);
		if (err != 0 && size < 8) {
			value = 0;
			err = mallctl(name, &value, &size, NULL, 0);
		}
		err == 0 ? printf("%s %llu\n", name, (unsigned long long)value) : printf("%s error %d\n", name, err);
	}
	ends = 1;
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
C
compile_linked report report.c || exit 1

# names.pl: the nodes of the numbers in the JSON on standard input, and the numbers; a few keys have another node or none
cat >names.pl <<'P'
use JSON::PP;
local $/; my $d = decode_json(scalar(<STDIN>) =~ s/\n.*//sr)->{jemalloc};
my %other = (sec_bytes => 1, name => 1, dss => 1);
sub each_of {
	my ($at, $d) = @_;
	$at =~ s/extent_allocation_distribution/alloc/;
	$at =~ s/uptime_ns/uptime/;
	if (ref $d eq 'HASH') { each_of("$at.$_", $d->{$_}) for grep { !$other{$_} && !/^(?:sec_|nretained_nonhuge)/ } sort keys %$d }
	elsif (ref $d eq 'ARRAY') { each_of("$at.$_", $d->[$_]) for 0 .. $#$d }
	elsif ($d =~ /^\d+$/) { print "$at $d\n" }
}
each_of('stats', { map { $_ => $d->{stats}{$_} } grep { $_ ne 'thp' } keys %{$d->{stats}} });
each_of('stats.arenas.' . ($_ eq 'merged' ? 4096 : $_), $d->{'stats.arenas'}{$_}) for keys %{$d->{'stats.arenas'}};
P
for conf in narenas:2 narenas:2,hpa:true narenas:2,prof:true,background_thread:true; do
	MALLOC_CONF=$conf ./report </dev/null >out
	perl names.pl <out | cut -d ' ' -f 1 >names
	MALLOC_CONF=$conf ./report <names >out
	perl names.pl <out | sort >told
	sed 1d out | sort >asked
	n=$(grep -c mutex asked)
	ok "$([ "$n" -gt 300 ]; echo $?)" "$n numbers of locks ($conf)"
	is "$(grep -c error asked)" 0 "all nodes are there ($conf)" || diag "$(grep error asked | head)"
	cmp -s told asked
	ok $? "$(wc -l <told) numbers of the report are those of mallctl ($conf)" "$(diff told asked | head -n 20)"
done

# HPA: the pages of each kind of slabs add up.
cat >sums.pl <<'P'
use JSON::PP;
local $/; my $d = decode_json(scalar(<STDIN>) =~ s/\n.*//sr)->{jemalloc};
my $pages = 2**21 / $d->{arenas}{page}; # a slab has 2 MiB, also where another huge page is configured
my ($bad, $seen, $retained) = (0, 0, 0);
for my $h (map { $_->{hpa_shard} } values %{$d->{'stats.arenas'}}) {
	for my $s ($h->{slabs}, $h->{full_slabs}, $h->{empty_slabs}, @{$h->{nonfull_slabs}}) {
		$seen++;
		$retained += $s->{nretained_nonhuge};
		$bad++ if $s->{nretained_nonhuge} + $s->{nactive_nonhuge} + $s->{ndirty_nonhuge} != $s->{npageslabs_nonhuge} * $pages;
	}
}
print "$bad ", $seen % 67, " ", $retained > 0 ? "some" : "none", "\n";
P
is "$(MALLOC_CONF=hpa:true ./report </dev/null | perl sums.pl)" "0 0 some" "hpa: active, dirty and retained pages are those of the slabs"
done_testing
