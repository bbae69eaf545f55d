#!/bin/sh
# malloc_stats_print: the frame of the text, JSON that a parser accepts whatever stands in
# the options, and the letters that leave parts out.
. "$JEMALLOC_SRC/test/include/tap.sh"

# stats OPTS [MORE]: what a preloaded program prints at its end
stats() {
	# A build without the profiler complains of its options first.
	MALLOC_CONF="stats_print:true,stats_print_opts:$1${2:+,$2}" LD_PRELOAD="$LIB" ./asks version 2>&1 >/dev/null |
		sed '/^<jemalloc>: Invalid conf pair/d; /^<jemalloc>: Hint: /d'
}

# json PATH: the value at a path of the text in the file "json"; "error" if it is no JSON
json() {
	perl -MJSON::PP -e '
	local $/; open my $f, "<", "json" or die; my $d = eval { decode_json(<$f>) };
	if (!defined $d) { print "error $@"; exit }
	for my $k (split m{/}, $ARGV[0]) { $d = ref $d eq "ARRAY" ? $d->[$k] : $d->{$k}; }
	print ref $d eq "ARRAY" ? "array " . @$d : ref $d eq "HASH" ? "object" :
	    JSON::PP::is_bool($d) ? ($d ? "true" : "false") : $d // "none";' "$1"
}

# tables: checks the text on stdin: prints the number of its tables, and a line for each that is not as it should be.
# A table is a line of titles and the lines under it.  Cells are right-justified, so a row ends each cell where the title
# ends; "(#/sec)" is the number before it per second of uptime; a row of classes has a number, "ind", and each series of
# numbers that are left out is one line "---", at the end of the table too.
tables() {
	perl -e '
	my %last = ("bins:", $ARGV[0] - 1, "large:", $ARGV[0] + $ARGV[1] - 1, "extents:", $ARGV[1] + 2);
	my ($n, $uptime, $name, @title) = (0, 0);
	my ($next, $is_gap, @end);
	sub ends { my ($line, @ends) = @_; push @ends, $+[0] while $line =~ /\S+/g; return @ends }
	sub close_table {
		return if !defined $name;
		print "$name: no gap at the end: $next\n" if defined $last{$name} && $next <= $last{$name} && !$is_gap;
		undef $name;
	}
	while (my $line = <STDIN>) {
		$uptime = $1 if $line =~ /^uptime: (\d+)$/;
		if ($line =~ /^(?:(bins:|large:|extents:|decaying:)| {20}).* [a-z_]+(?: +\(#\/sec\))?$/ && $line !~ /[0-9]/) {
			close_table();
			$n++;
			($name, $next, $is_gap) = ($1 // "", 0, 0);
			$next = $ARGV[0] if $name eq "large:";
			@title = $line =~ /\S+/g;
			@end = ends($line);
			if ($name ne "") { shift @title; shift @end }
			next;
		}
		next if !defined $name;
		if ($line =~ /^ {21}---$/) {
			print "$name: two gaps, or no class has a number: $next\n" if $is_gap || !exists $last{$name};
			$is_gap = 1;
			next;
		}
		my @cell = $line =~ /\S+/g;
		my @ends = ends($line);
		if (@cell > @title) { shift @cell; shift @ends }
		if (@cell != @title || !grep { /^\d/ } @cell) { close_table(); next }
		for my $i (0 .. $#title) {
			print "$name: $title[$i] ends at $end[$i], $cell[$i] at $ends[$i]: $line" if $end[$i] != $ends[$i];
			next if $title[$i] ne "(#/sec)";
			my $rate = $uptime < 1e9 ? $cell[$i - 1] : int($cell[$i - 1] / int($uptime / 1e9));
			print "$name: $title[$i - 1] $cell[$i - 1], a second $cell[$i]: $line" if $cell[$i] != $rate && $uptime;
		}
		for my $i (grep { $title[$_] =~ /^n(?:malloc|dalloc|requests|fills?|flush(?:es)?)$/ } 0 .. $#title) {
			print "$name: no rate behind $title[$i]\n" if ($title[$i + 1] // "") ne "(#/sec)";
		}
		next if !exists $last{$name};
		print "$name: gap $is_gap between $next and $cell[1]\n" if $is_gap != ($cell[1] > $next);
		($next, $is_gap) = ($cell[1] + 1, 0);
	}
	close_table();
	print "$n tables\n"' "$(asks arenas.nbins)" "$(asks arenas.nlextents)"
}

has_stats=$(asks config.stats)
stats "" >text
is "$(head -n 1 text)" "___ Begin jemalloc statistics ___" "first line"
is "$(tail -n 1 text)" "--- End jemalloc statistics ---" "last line"
for part in 'Version: "5.3.1-' 'Build-time option settings' 'Run-time option settings' 'Arenas: ' \
    'Quantum size: 16' 'Page size: ' 'Number of bin size classes: '; do
	has "$(cat text)" "$part" "the text has: $part"
done
if [ "$has_stats" = true ]; then
	ok "$(grep -q '^Allocated: [0-9]*, active: [0-9]*, metadata: .*, resident: .*, mapped: .*, retained: ' text; echo $?)" \
	    "the line of sums"
	# Programs that read these tables cut them at fixed columns.
	stats ax >titles
	while read -r title; do
		ok "$(grep -qxF "$title" titles; echo $?)" "columns of ${title%% *}"
	done <<-'T'
	bins:           size ind    allocated      nmalloc (#/sec)      ndalloc (#/sec)    nrequests   (#/sec)  nshards      curregs     curslabs  nonfull_slabs regs pgs   util       nfills (#/sec)     nflushes (#/sec)       nslabs     nreslabs (#/sec)
	large:          size ind    allocated      nmalloc (#/sec)      ndalloc (#/sec)    nrequests (#/sec)  curlextents
	extents:        size ind       ndirty        dirty       nmuzzy        muzzy    nretained     retained       ntotal        total
	T
	echo '#include <stdlib.h>
	void *volatile kept[4];
	int main(void) { for (int i = 0; i < 4; i++) kept[i] = malloc((int[]){100, 3000, 90000, 2000000}[i]); return 0; }' >spread.c
	$CC -w -O1 -fno-builtin -o spread spread.c || exit 1
	MALLOC_CONF=stats_print:true,narenas:1,tcache:false LD_PRELOAD=$LIB ./spread 2>long
	ok "$(sed -n '/^large:/,/^extents:/p' long | grep -A1 -e --- | grep -q '^ *[0-9]'; echo $?)" "there are large blocks far apart"
	is "$(tables <long)" "7 tables" "all tables, where most classes have nothing"
	stats "" narenas:1 >long
	is "$(tables <long)" "7 tables" "rows of all tables end where their titles do; a gap stands where a number is left out"
	stats "" narenas:1,prof:true,lg_prof_sample:12 >long
	is "$(tables <long)" "7 tables" "with columns of the profiler too"
	stats bl >short
	ok "$(grep -q '^bins:' short; [ $? -ne 0 ]; echo $?)" "letter b leaves them out"
	stats g >short
	ok "$(grep -q 'Run-time option' short; [ $? -ne 0 ]; echo $?)" "letter g leaves the general part out"
fi
# An option whose value may change later is followed by the value of its node: at the end of a program that changed nothing, the same.
live=dirty_decay_ms:123,muzzy_decay_ms:45,background_thread:true,prof:true,prof_active:false,prof_thread_active_init:false,lg_prof_sample:17
live=$live,prof_budget:2.5,prof_threshold_alloc:1048577,prof_threshold_large:67108865,prof_threshold_highwater:1048579
live=$live,prof_highwater_step:1048580,prof_highwater_metric:active,prof_threshold_time_ms:86400001
live=$live,prof_dump_min_gap_ms:1001,prof_dump_max_files:11,prof_dump_max_bytes:1073741825,prof_dump_keep:newest
stats "" "$live" >text
ok "$(grep -q '^  opt.dirty_decay_ms: 123 (arenas.dirty_decay_ms: 123)$' text; echo $?)" "an option and its node"
is "$(perl -ne 'print if /^  opt\.\w+: (.*) \([a-z_.]+: (.*)\)$/ && $1 ne $2' text)" "" "no node differs from its option"
if [ "$(asks config.prof)" = true ]; then
	is "$(grep -o 'opt.prof_budget: .*' text)" 'opt.prof_budget: "2.5" (prof.budget: "2.5")' "a ratio too"
	is "$(grep -c '^  opt\.\w*: .* (prof\.' text)" 14 "options with a node of the profiler"
fi
# A pipe that does not block and is read only when it is full: the report comes whole.
cat >late_reader.pl <<'P'
use strict;
use Fcntl;
use POSIX ();
pipe my $r, my $w or die;
my $size = fcntl($w, 1031, 4096) or die;    # F_SETPIPE_SZ
my $child = fork // die;
if ($child == 0) {
	fcntl($w, F_SETFL, O_WRONLY | O_NONBLOCK) or die;
	open STDERR, ">&", $w or die;
	open STDOUT, ">", "/dev/null" or die;
	@ENV{qw(MALLOC_CONF LD_PRELOAD)} = ("stats_print:true", $ARGV[0]);
	exec "./asks", "version" or POSIX::_exit(1);
}
close $w;
my $queued = pack "i", 0;
while (unpack("i", $queued) < $size && waitpid($child, POSIX::WNOHANG()) == 0) {
	select undef, undef, undef, 0.01;
	ioctl $r, 0x541b, $queued or die;        # FIONREAD
}
print while <$r>;
P
perl late_reader.pl "$LIB" >late
is "$(sed -n '1p;$p' late)" "___ Begin jemalloc statistics ___
--- End jemalloc statistics ---" "to a pipe that does not block and has a late reader"
if ! perl -MJSON::PP -e 1 2>/dev/null; then
	skip "no JSON::PP"
	done_testing
fi
for conf in "" narenas:1 prof:true,lg_prof_sample:0 'prof_ctl_fd:true,prof_prefix:a"b\c	d' tcache:false; do
	stats J "$conf" >json
	is "$(json jemalloc)" object "JSON parses ($conf)"
done
stats J 'prof_ctl_fd:true,prof_prefix:a"b\c,prof_dump_mode:640' >json
case $(json jemalloc/version) in
5.3.1-*) ok 0 "jemalloc/version" ;;
*) ok 1 "jemalloc/version" "$(json jemalloc/version)" ;;
esac
is "$(json jemalloc/config/debug)" "$(asks config.debug)" "config/debug"
is "$(json jemalloc/opt/stats_print)" true "opt/stats_print"
is "$(json jemalloc/opt/stats_print_opts)" J "opt/stats_print_opts"
is "$(json jemalloc/arenas/quantum)" 16 "arenas/quantum"
nbins=$(json jemalloc/arenas/nbins)
is "$(json jemalloc/arenas/bin)" "array $nbins" "arenas/bin has nbins entries"
is "$(json jemalloc/arenas/bin/0/size)" 8 "arenas/bin/0/size"
if [ "$(asks config.prof)" = true ]; then
	is "$(json jemalloc/opt/prof_prefix)" 'a"b\c' "a string with quotes comes through whole"
	is "$(json jemalloc/prof/active)" false "prof/active"
	is "$(json jemalloc/opt/prof_dump_mode)" 640 "a mode as it was written"
fi
if [ "$has_stats" = true ]; then
	is "$(json jemalloc/stats)" object "stats"
	is "$(json jemalloc/stats.arenas)" object "stats.arenas"
	is "$(json jemalloc/stats.arenas/0/bins)" "array $nbins" "stats.arenas/0/bins"
	allocated=$(json jemalloc/stats/allocated)
	ok "$([ "$allocated" -gt 0 ]; echo $?)" "stats/allocated $allocated"
	stats Jg >json
	is "$(json jemalloc/opt)" none "letter g leaves opt out"
	is "$(json jemalloc/stats)" object "but not stats"
	stats Jx >json
	is "$(json jemalloc/stats.arenas/0/mutexes)" none "letter x leaves the mutexes out"
	stats Jbl >json
	is "$(json jemalloc/stats.arenas/0/bins)" none "letter b leaves the bins out"
	is "$(json jemalloc/stats.arenas/0/lextents)" none "letter l the large classes"
fi
done_testing
