#!/usr/bin/perl
# Names of a profile of the agent: by tables that jeprof-symbolize --table makes of a running process's objects. The functions hold what they
# hold in jeprof export; a table is made once, shared, bounded, and a forged one is as good as none; so is a forged ELF file.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
no warnings 'portable';
our ($dir, $data, $source, $convert, $jeprof);

my $tool = "$jeprof-symbolize";
plan(skip_all => "jeprof-symbolize is not built (no libdw)") unless -x $tool;
my ($library) = grep { $_ eq ($ENV{JEMALLOC_LIB} // '') } libraries();
plan skip_all => 'no library' unless $library;
plan skip_all => 'no g++' unless which('g++');
make_convert(split " ", "-fsanitize=address,undefined -fno-sanitize-recover=undefined");

my $text = <<'CC';
#include <map>
#include <string>
#include <unistd.h>
#include <vector>
namespace box {
	template <class T> inline T *made(int n) { T *p = new T[n]; p[0] = 1; return p; }
	inline char *twice(int n) { return made<char>(2 * n); }
}
void *volatile sink;
namespace { struct Holder { std::map<std::string, std::vector<int>> all; __attribute__((noinline)) void fill(int n); }; }
void Holder::fill(int n) { for (int i = 0; i < n; i++) all[std::to_string(i) + " and more than fits"].resize(100); }
__attribute__((noinline)) void grow(int n) { sink = box::twice(n); { int k = n; sink = box::made<double>(k); } }
int main(int count, char **) { auto *h = new Holder; h->fill(2000); for (int i = 0; i < 500; i++) grow(i); if (count > 1) pause(); return 0; }
CC
spew("$dir/serve.cc", $text);
system('g++', '-g', '-O2', '-o', "$dir/serve", "$dir/serve.cc") == 0 or die 'g++ failed';

# A running process of a program and a dump of the same program.
my @running;
END { kill 'KILL', @running if @running }

sub started {
	my @command = @_;
	my $pid = fork // die "fork: $!";
	if (!$pid) { exec @command or exit 127 }
	push @running, $pid;
	my ($name) = $command[-2] =~ m{([^/]+)$};
	for (1 .. 6000) { # until it is that program, behind a chroot, and its libraries are there
		last if (readlink("/proc/$pid/exe") // '') =~ m{/\Q$name\E$} && (slurp("/proc/$pid/wchan") =~ /pause/ || slurp("/proc/$pid/stat") =~ /\) S/);
		select undef, undef, undef, 0.01;
	}
	return $pid;
}

sub named { return converted('--symbolizer', $tool, @_) }
sub exported { my ($code, $out, $err) = jeprof('export', '--to', 'pprof', @_); diag $err if $code != 0 && $code != 3; return pprof_decode(unzip($out)) }

# Sums with all that has no name as one: jeprof shows where it lies, the agent leaves it to who has the symbols.
sub joined {
	my ($sums) = @_;
	my %joined;
	$joined{ /^0x[0-9a-f]+$|\+0x[0-9a-f]+$/ ? '(no name)' : $_ } += $sums->{$_} for keys %$sums;
	return \%joined;
}

# Functions whose sums differ by more than rounding.
sub differing {
	my ($got, $want, $at) = @_;
	my @out;
	for my $kind ([\&pprof_flat, 'flat'], [\&pprof_cumulative, 'cum']) {
		my ($g, $w) = map { joined($kind->[0]->($_, $at)) } $got, $want;
		delete @$_{ $kind->[1] eq 'cum' ? '(no name)' : () } for $g, $w;
		my %all = map { $_ => 1 } keys %$g, keys %$w;
		push @out, map { "$kind->[1] $_: " . ($g->{$_} // 0) . ' instead of ' . ($w->{$_} // 0) } grep { abs(($g->{$_} // 0) - ($w->{$_} // 0)) > @{ $got->{samples} } + @{ $want->{samples} } } sort keys %all;
	}
	return @out;
}

sub agrees {
	my ($what, $got, $want) = @_;
	my @other = map { differing($got, $want, $_) } 1, 3;
	is(scalar @other, 0, "$what: each function holds what jeprof export says") or diag map { "$_\n" } @other > 8 ? @other[0 .. 7] : @other;
}

my $dump = dump_of($library, 'prof_accum:true,lg_prof_sample:10', "$dir/serve");
my $pid = started("$dir/serve", 'wait');
my $cache = "$dir/cache";
my $got = named('--pid', $pid, '--cache', $cache, $dump);
my $want = exported($dump);
agrees('C++', $got, $want);
my %flat = %{ pprof_flat($got, 3) };
ok($flat{'box::made'}, 'names for people') or diag join ' ', keys %flat;
my ($made) = grep { @{ $_->{stack}[0]{frames} } && $_->{stack}[0]{frames}[0]{name} eq 'box::made' && @{ $_->{stack}[0]{frames} } == 3 } @{ $got->{samples} };
is(join(' ', map { $_->{name} . ' ' . ($_->{file} =~ s{.*/}{}r) . ":$_->{line}" } @{ $made->{stack}[0]{frames} }), 'box::made serve.cc:6 box::twice serve.cc:7 grow serve.cc:12', 'inlined calls with their lines');
is($made->{stack}[0]{frames}[2]{system}, '_Z4growi', "the linker's name");
is($made->{stack}[0]{mapping}{has}, '1111', 'the mapping says that it has functions, files, lines, inlined calls');
like($made->{stack}[0]{mapping}{build_id}, qr/^[0-9a-f]{40}$/, 'and its build-id');
my ($lines) = map { [map { map { "$_->{name} $_->{file}:$_->{line}" } @{ $_->{frames} } } @{ $_->{stack} }] } @{ $want->{samples} };
my %told = map { map { map { ("$_->{name} $_->{file}:$_->{line}" => 1) } @{ $_->{frames} } } @{ $_->{stack} } } @{ $got->{samples} };
is(join(' ', grep { !$told{$_} } @$lines), '', 'files and lines of jeprof export');

# The stacks of a profile, each place with all that is told of it.
sub told_stacks {
	my ($samples) = @_;
	my $place = sub { my ($p) = @_; my $m = $p->{mapping}; return join ' ', $p->{address}, (map { $_ // 0 } @{$m}{qw(start limit file)}), map { "$_->{name} $_->{system} $_->{file}:$_->{line}" } @{ $p->{frames} } };
	my %stacks = map { (join("\n", map { $place->($_) } @{ $_->{stack} }) => 1) } @$samples;
	return [sort keys %stacks];
}
my $otlp = otlp_decode((run($convert, '--otlp', 1, '--symbolizer', $tool, '--pid', $pid, '--cache', $cache, $dump))[1]);
is_deeply(told_stacks([map { @{ $_->{samples} } } @{ $otlp->{profiles} }]), told_stacks($got->{samples}), 'OTLP: the same places with the same names, files, lines and mappings');

# ---- the cache
sub tables { return map { s{.*/}{}r } sort glob "$cache/*.names" }
sub inodes { return join ' ', map { (stat)[1] } sort glob "$cache/*.names" }
my @first = tables();
cmp_ok(scalar @first, '>=', 2, 'a table for each object');
is(scalar(grep { (stat "$cache/$_")[2] & 077 } @first), 0, 'that nobody else may read or write');
my $inodes = inodes();
is_deeply(pprof_flat(named('--pid', $pid, '--cache', $cache, $dump), 3), \%flat, 'the second time the same');
is(inodes(), $inodes, 'and no table is made');
is_deeply(pprof_flat(converted('--symbolizer', '/bin/false', '--pid', $pid, '--cache', $cache, $dump), 3), \%flat, 'the program is not needed any more');
is_deeply(pprof_flat(named('--pid', $pid, '--times', 3, $dump), 3), \%flat, 'in memory too');
is_deeply(pprof_flat(named('--pid', $pid, '--cache', "$dir/serve/x", $dump), 3), \%flat, 'and where the directory cannot be opened');
is(scalar(grep { !/\.names$/ } map { s{.*/}{}r } glob "$cache/*"), 0, 'no draft is left');
my $part = our_dump("$dir/part.heap", meta => { pid => 1 }, modules => [[0x1000000, 0x2000000, 0x1000000, $made->{stack}[0]{mapping}{build_id}, "$dir/serve"]], stacks => [[[0x1000000 + 0x11aa], 1, 1000]]);
my ($table) = grep { /^$made->{stack}[0]{mapping}{build_id}/ } @first;
my $before = -s "$cache/$table";
named('--pid', $pid, '--cache', $cache, $part);
cmp_ok(-s "$cache/$table", '>', $before, 'another address: added to the table');
$inodes = inodes();
is_deeply(pprof_flat(named('--pid', $pid, '--cache', $cache, $dump), 3), \%flat, 'which has the others still');
is(inodes(), $inodes, 'and is not made anew');
# What else lies there: a draft that is written, one of a process that has died, what is no file or has another name.
my %aged = ('1.0.a.draft' => 590, '2.0.b.draft' => 700, '3.0.c.draft' => -100, 'other' => 9999);
for my $name (keys %aged) { spew("$cache/$name", 'half'); utime time - $aged{$name}, time - $aged{$name}, "$cache/$name" }
mkdir "$cache/4.0.d.draft";
utime 1, 1, "$cache/4.0.d.draft";
named('--pid', $pid, '--cache', $cache, '--bytes', 1, $part);
named('--pid', $pid, '--cache', $cache, '--bytes', 1, our_dump("$dir/p2.heap", modules => [[0x1000000, 0x2000000, 0x1000000, $made->{stack}[0]{mapping}{build_id}, "$dir/serve"]], stacks => [[[0x1000000 + 0x11ab], 1, 1000]]));
is(scalar tables(), 1, 'no room: what was not used for longest goes');
is(join(' ', grep { !/\.names$/ } map { s{.*/}{}r } sort glob "$cache/*"), '1.0.a.draft 3.0.c.draft 4.0.d.draft other', 'and drafts of 10 minutes ago');

# ---- a directory on a disk that is full: the table stays in memory
SKIP: {
	mkdir "$dir/full";
	spew("$dir/mounted", "mount -t tmpfs -o size=4k none '$dir/full' || exit 9\n\"\$@\" && ls -A '$dir/full' >&2\n");
	my @in = ('unshare', '-m', 'sh', "$dir/mounted");
	skip('no mount namespace', 3) if (run(@in, 'true'))[0];
	my @two = map { ('--symbolizer', $_, '--pid', $pid, '--cache', "$dir/full", $dump) } $tool, '/bin/false';
	my ($code, $out, $err) = run(@in, $convert, @two);
	is($code, 0, 'a full disk');
	is_deeply(pprof_flat(pprof_decode(unzip(substr $out, rindex $out, "\x1f\x8b\x08")), 3), \%flat, 'the names are there, also the second time');
	unlike($err, qr{draft}, 'no draft is left on it');
}

# ---- whose file it is
{
	my @s = stat "$dir/serve";
	chmod 0777, "$dir/serve";
	named('--pid', $pid, '--cache', "$dir/c2", $dump);
	is(scalar(grep { m{/\Q$made->{stack}[0]{mapping}{build_id}\E-u} } glob "$dir/c2/*.names"), 1, 'a file that others may write names nothing for them');
	chmod $s[2] & 07777, "$dir/serve";
}

# ---- no names
is(scalar(grep { grep { @{ $_->{frames} } } @{ $_->{stack} } } @{ named($dump)->{samples} }), 0, 'no process: no names');
my $other = our_dump("$dir/other.heap", modules => [[0x1000000, 0x2000000, 0x1000000, '00' x 20, "$dir/serve"]], stacks => [[[0x1000000 + 0x11aa], 1, 1000]]);
is(scalar(grep { grep { @{ $_->{frames} } } @{ $_->{stack} } } @{ named('--pid', $pid, $other)->{samples} }), 0, 'another build-id: no names');
is(named('--pid', $pid, $other)->{mappings}[0]{has}, '0000', 'and the mapping says so');
is(scalar(grep { grep { @{ $_->{frames} } } @{ $_->{stack} } } @{ converted('--symbolizer', '/nonexistent', '--pid', $pid, $dump)->{samples} }), 0, 'no program: no names');

# ---- stripped, with its debug file beside it, found by .gnu_debuglink; by build-id; C with -gdwarf-4 and clang
SKIP: {
	skip 'no objcopy', 2 unless which('objcopy');
	system('cp', "$dir/serve", "$dir/whole") == 0 && system('objcopy', '--only-keep-debug', "$dir/whole", "$dir/bare.debug") == 0
	    && system('objcopy', '--strip-all', "--add-gnu-debuglink=$dir/bare.debug", "$dir/whole", "$dir/bare") == 0 or die 'objcopy';
	my $bare = started("$dir/bare", 'wait');
	my $bare_dump = dump_of($library, 'prof_accum:true,lg_prof_sample:10', "$dir/bare");
	my $named = named('--pid', $bare, $bare_dump);
	agrees('stripped, with a debug file', $named, exported($bare_dump));
	ok(pprof_flat($named, 3)->{'box::made'}, 'which has inlined calls');
}
for my $case (['gdwarf4', 'g++', '-gdwarf-4', '-O2'], ['packed', 'g++', '-g', '-gz', '-O1'], ['clang', 'clang++', '-g', '-O2']) {
	my ($name, @compiler) = @$case;
    SKIP: {
		skip "no $compiler[0]", 1 if !which($compiler[0]) || system(@compiler, '-o', "$dir/$name", "$dir/serve.cc") != 0;
		my $case_dump = dump_of($library, 'prof_accum:true,lg_prof_sample:10', "$dir/$name");
		agrees($name, named('--pid', started("$dir/$name", 'wait'), $case_dump), exported($case_dump));
	}
}

SKIP: {
	skip 'no dwz', 1 unless which('dwz');
	mkdir "$dir/dwz";
	spew("$dir/other.cc", $text =~ s/2000/20/r);
	system('g++', '-g', '-O2', '-o', "$dir/dwz/other", "$dir/other.cc") == 0 && system("cd $dir/dwz && cp ../serve . && dwz -m common.debug serve other") == 0 or die 'dwz';
	my $dwz_dump = dump_of($library, 'prof_accum:true,lg_prof_sample:10', "$dir/dwz/serve");
	my $named = named('--pid', started("$dir/dwz/serve", 'wait'), $dwz_dump);
	agrees('debug information that two programs share', $named, exported($dwz_dump));
	system("cd $dir/dwz && g++ -g -O2 -o common.debug ../other.cc");
	my ($grow) = grep { $_->{name} eq 'grow' } map { @{ $_->{frames} } } map { @{ $_->{stack} } } @{ named('--pid', $running[-1], $dwz_dump)->{samples} };
	ok($grow, 'a file of another build-id in its place: the functions are there still');
}
SKIP: {
	skip 'no libdebuginfod', 2 unless glob('/usr/lib/*/libdebuginfod.so.1') && which('objcopy');
	my $build_id = $made->{stack}[0]{mapping}{build_id};
	local @ENV{qw(DEBUGINFOD_URLS DEBUGINFOD_CACHE_PATH)} = ("file://$dir/server", "$dir/debuginfod");
	system('mkdir', '-p', "$dir/server/buildid/$build_id", "$dir/client");
	system('objcopy', '--only-keep-debug', "$dir/serve", "$dir/server/buildid/$build_id/debuginfo");
	system('objcopy', '--strip-all', "$dir/serve", "$dir/client/serve");
	my $client = started("$dir/client/serve", 'wait');
	my $client_dump = dump_of($library, 'prof_accum:true,lg_prof_sample:10', "$dir/client/serve");
	ok(!pprof_flat(named('--pid', $client, $client_dump), 3)->{'box::made'}, 'debuginfod is not asked');
	ok(pprof_flat(named('--pid', $client, '--servers', 1, $client_dump), 3)->{'box::made'}, 'but if that is wanted');
}

# ---- a process with a root of its own: paths and links are those that it sees, and its tables are its own
SKIP: {
	skip 'not root', 3 if $> != 0;
	my $root = "$dir/root";
	for my $file ("$dir/serve", map { m{(/\S+)} ? $1 : () } `ldd $dir/serve`) {
		system('mkdir', '-p', "$root/" . ($file =~ s{/[^/]*$}{}r)) == 0 && system('cp', '-L', $file, "$root/$file") == 0 or die "cp $file";
	}
	my $real = "$dir/serve";
	symlink $real, "$root/link";
	rename $real, "$dir/serve.away";
	my $inside = started('chroot', $root, $real, 'wait');
	my $seen = our_dump("$dir/seen.heap", modules => [[0x1000000, 0x2000000, 0x1000000, $made->{stack}[0]{mapping}{build_id}, '/link']],
		stacks => [[[0x1000000 + $made->{stack}[0]{address} - $made->{stack}[0]{mapping}{start}], 1, 1000]]);
	my $found = named('--pid', $inside, '--cache', "$dir/c4", $seen);
	is(join(' ', map { $_->{name} } map { @{ $_->{frames} } } @{ $found->{samples}[0]{stack} }), 'box::made box::twice grow', 'an absolute link in it stays in it');
	is(scalar(grep { m{/\Q$made->{stack}[0]{mapping}{build_id}\E-r} } glob "$dir/c4/*.names"), 1, 'the table is of that root');
	named('--pid', $pid, '--cache', "$dir/c4", $dump);
	rename "$dir/serve.away", $real;
	is_deeply(pprof_flat(named('--pid', $pid, '--cache', "$dir/c4", $dump), 3), \%flat, 'others have their own');
}

# ---- two files with the same build-id, of which the first has no names; then a debug file comes
my $serve = $made->{stack}[0]{mapping};
sub at_serve {
	my ($name, $path, @offsets) = @_;
	return our_dump("$dir/$name.heap", modules => [[0x1000000, 0x2000000, 0x1000000, $serve->{build_id}, $path]], stacks => [map { [[0x1000000 + $_], 1, 1000] } @offsets]);
}
sub names_in { my ($profile) = @_; return join ' ', map { my $one = $_; join '<', map { $_->{name} } map { @{ $_->{frames} } } @{ $one->{stack} } } @{ $profile->{samples} } }
my $offset = $made->{stack}[0]{address} - $serve->{start};
my ($second) = map { $_->{stack}[0]{address} - $serve->{start} } grep { my $f = $_->{stack}[0]; $f->{mapping}{build_id} eq $serve->{build_id} && $f->{address} != $made->{stack}[0]{address} && @{ $f->{frames} } && $f->{frames}[0]{line} } @{ $got->{samples} };
my $low = our_dump("$dir/low.heap", modules => [[0, 0x1000, ~$offset + 1, $serve->{build_id}, "$dir/serve"], [0x1000000, 0x2000000, 0x1000000, $serve->{build_id}, "$dir/serve"]],
	stacks => [[[0x1000000 + $offset, 0], 1, 1000]]);
is(names_in(named('--pid', $pid, $low)), 'box::made<box::twice<grow<0x0', 'a forged object that covers address 0 does not name it');
system('cp', "$dir/serve", "$dir/gone") == 0 or die 'cp';
my $of_gone = started("$dir/gone", 'wait');
unlink "$dir/gone" or die "gone: $!";
my $pathless = our_dump("$dir/pathless.heap", modules => [[0x1000000, 0x2000000, 0x1000000, $serve->{build_id}, '']], stacks => [[[0x1000000 + $offset], 1, 1000]]);
is(named('--pid', $of_gone, $pathless)->{samples}[0]{stack}[0]{mapping}{file}, "$dir/gone", 'a program whose file was removed: its path, when only the kernel knows it');
SKIP: {
	skip 'no strip', 10 unless which('strip') && defined $second;
	for my $in (['in memory'], ['in a directory', '--cache', "$dir/c8"]) {
		my ($where, @cache) = @$in;
		system('cp', "$dir/serve", "$dir/unstripped") == 0 && system('strip', '-o', "$dir/stripped", "$dir/serve") == 0 or die 'strip';
		my @both = ('--symbolizer', $tool, '--pid', $pid, @cache, at_serve('stripped', "$dir/stripped", $offset), '--pid', $pid, at_serve('unstripped', "$dir/unstripped", $offset));
		my $out = (run($convert, @both))[1];
		is(names_in(pprof_decode(unzip(substr $out, rindex $out, "\x1f\x8b\x08"))), 'box::made<box::twice<grow', "$where: a file with names is read behind one without, of the same build-id");
	}
	is(names_in(named('--pid', $pid, '--cache', "$dir/c8", at_serve('s2', "$dir/stripped", $offset))), 'box::made<box::twice<grow', 'and its table serves the one without');
	named('--pid', $pid, '--cache', "$dir/c8", at_serve('s3', "$dir/stripped", $offset, $second));
	my $more = names_in(named('--pid', $pid, '--cache', "$dir/c8", at_serve('u3', "$dir/unstripped", $offset, $second)));
	like($more, qr/^box::made<box::twice<grow \w/, 'an address that the one without names has asked for gets its name from the other');
	my @inodes = map { (stat)[1] } sort glob "$dir/c8/*.names";
	named('--pid', $pid, '--cache', "$dir/c8", at_serve("again$_", "$dir/$_", $offset, $second)) for qw(stripped unstripped);
	is_deeply([map { (stat)[1] } sort glob "$dir/c8/*.names"], \@inodes, 'then both are served by what there is');
	skip 'not root or no objcopy', 5 unless $> == 0 && which('objcopy');
	my $root = "$dir/root";
	my ($front, $rest) = $serve->{build_id} =~ /^(..)(.*)/;
	# A root's time of change is in the keys of its tables: all that the root itself gets comes before the first one.
	my $debug = "$root/usr/lib/debug/.build-id/$front";
	system('mkdir', '-p', "$root/usr/lib/debug") == 0 && system('strip', '-o', "$root/stripped", "$dir/serve") == 0 or die 'strip';
	my $inside = started('chroot', $root, "$dir/serve", 'wait');
	my @ask = ('--pid', $inside, '--cache', "$dir/c9", at_serve('bare', '/stripped', $offset));
	is(names_in(named(@ask)), '', 'no debug file: no names');
	named('--pid', $inside, '--cache', "$dir/c10", at_serve('bare1', '/stripped', $offset));
	system('mkdir', '-p', $debug) == 0 && system('objcopy', '--only-keep-debug', "$dir/serve", "$debug/$rest.debug") == 0 or die 'objcopy';
	is(names_in(converted('--symbolizer', '/bin/false', @ask)), '', 'it is not looked for at once');
	# The debug file is found for one address more, but it can be read for that one only: the older rows stay, without lines.
	my $tired = spew("$dir/tired", "#!/bin/sh\necho >>$dir/tries\ncase \"\$*\" in *--old* | *--symbols*) exec $tool \"\$@\" ;; esac\nkill -SEGV \$\$\n");
	chmod 0755, $tired;
	for my $tries (3, 3) {
		converted('--symbolizer', $tired, '--pid', $inside, '--cache', "$dir/c10", at_serve('bare2', '/stripped', $offset, $second));
		is(-s "$dir/tries", $tries, 'with lines, anew, with symbols only; then the table has all addresses');
	}
	utime time - 120, time - 120, $_ for glob "$dir/c9/*.names";
	is(names_in(named(@ask)), 'box::made<box::twice<grow', 'but within minutes after it has come');
	system('rm', '-rf', "$root/usr/lib/debug/.build-id");
}

# ---- a process whose loader does not name the program, and without a memory map, as in a chroot without /proc
for my $exe ('', '/srv/serve') {
	my $nameless = our_dump("$dir/nameless.heap", meta => { version => '5.3.1', $exe ? (exe => $exe) : () },
		modules => [[0x55000000, 0x55100000, 0x55000000, $serve->{build_id}, ''], [0x20000000, 0x20100000, 0x20000000, 'ab' x 20, '/lib/other.so'], [0x7f0000000000, 0x7f0000001000, 0x7f0000000000, 'cd' x 20, ''], [0x7f0000002000, 0x7f0000003000, 0x7f0000002000, '-', '']],
		stacks => [[[0x55000000 + $offset], 1, 1000], [[0x7f0000000010], 1, 1000], [[0x7f0000002010], 1, 1000]]);
	my $profile = named('--pid', $pid, $nameless);
	my $what = $exe ? 'a program without a path, which the metadata tell' : 'a program without a path';
	is(names_in($profile), 'box::made<box::twice<grow  ', "$what: its names");
	is(join(' ', map { "$_->{build_id} $_->{file}" } @{ $profile->{mappings} }[0, 1]), "$serve->{build_id} " . ($exe || "$dir/serve") . ' ' . 'cd' x 20 . ' ', "$what: its mapping is the first, with a path");
	is(scalar @{ $profile->{mappings} }, 2, "$what: what has neither a path nor an id has none");
}
SKIP: {
	skip 'not root', 1 if $> != 0;
	system('mkdir', '-p', "$dir/root/lib") == 0 && system('cp', '-L', $library, "$dir/root/jemalloc.so") == 0 or die 'cp';
	for my $file (map { m{(/\S+)} ? $1 : () } `ldd $library`) {
		system('mkdir', '-p', "$dir/root/" . ($file =~ s{/[^/]*$}{}r)) == 0 && system('cp', '-L', $file, "$dir/root/$file") == 0 or die "cp $file";
	}
	my ($code, undef, $err) = run('perl', '-e', 'chroot shift or die; chdir "/"; $ENV{LD_PRELOAD} = "/jemalloc.so"; $ENV{MALLOC_CONF} = "prof:true,prof_final:true,prof_accum:true,lg_prof_sample:10,prof_prefix:/inside"; exec @ARGV', "$dir/root", "$dir/serve");
	my ($file) = glob "$dir/root/inside*.heap";
	my $profile = named('--pid', $pid, $file // die "no dump: $code $err");
	ok(pprof_flat($profile, 3)->{'box::made'}, 'a dump of such a process has names');
}

# ---- several at once: a table is made by one of them, and the thread sanitizer has nothing to say
{
	local $convert = "$dir/convert.threads";
	make_convert('-fsanitize=thread');
	my ($code, $out, $err) = run($convert, '--symbolizer', $tool, '--pid', $pid, '--cache', "$dir/c5", '--threads', 8, $dump);
	is("$code|$err", '0|', '8 threads at once, in a directory');
	is_deeply(pprof_flat(pprof_decode(unzip($out)), 3), \%flat, 'the same');
	($code, $out, $err) = run($convert, '--symbolizer', $tool, '--pid', $pid, '--threads', 8, $dump);
	is("$code|$err", '0|', 'in memory');
	is_deeply(pprof_flat(pprof_decode(unzip($out)), 3), \%flat, 'the same');
}

# ---- each name as jeprof has it: functions of libraries, one a stack
for my $name (qw(libstdc++ libc)) {
    SKIP: {
		my ($file) = map { m{ (/\S+)} ? $1 : () } grep { /\b\Q$name\E\.so/ } `ldd $dir/serve`;
		my ($build_id) = which('readelf') && $file ? `readelf -n $file` =~ /Build ID: (\w+)/ : ();
		skip "no $name, nm or readelf", 1 unless $build_id && which('nm');
		my %at = map { /^(\w+) (\w+) [tTwWi] / && hex $2 ? (hex $1 => 1) : () } `nm -DS --defined-only $file`;
		my @at = (sort { $a <=> $b } keys %at)[grep { $_ % 4 == 0 && $_ < keys %at } 0 .. 3999];
		my $all = our_dump("$dir/all.heap", modules => [[0x7f0000000000, 0x7f0010000000, 0x7f0000000000, $build_id, $file]], stacks => [map { [[0x7f0000000000 + $_], 1, 1000] } @at]);
		my ($mine, $its) = map { my %n = map { ($_->{stack}[0]{address} => join '<', map { $_->{name} } @{ $_->{stack}[0]{frames} }) } @{ $_->{samples} }; \%n } named('--pid', $pid, $all), exported($all);
		my @other = grep { $mine->{$_} ne $its->{$_} && length $mine->{$_} } sort keys %$its;
		is(scalar @other, 0, "$name: " . @at . ' names are those of jeprof') or diag map { "$mine->{$_} instead of $its->{$_}\n" } @other > 9 ? @other[0 .. 9] : @other;
	}
}

# ---- what reads DWARF breaks, or takes too long: the symbols are there still; no table is kept of what is not the object
{
	my $broken = spew("$dir/broken", "#!/bin/sh\ncase \"\$*\" in *--symbols*) exec $tool \"\$@\" ;; esac\nkill -SEGV \$\$\n");
	chmod 0755, $broken;
	my $symbols = converted('--symbolizer', $broken, '--pid', $pid, '--cache', "$dir/c6", $dump);
	my %cum = %{ pprof_cumulative($symbols, 3) };
	ok($cum{grow} && !$cum{'box::made'}, 'without DWARF: functions, no inlined calls');
	my $forged = our_dump("$dir/forged.heap", modules => [map { [0x1000000 * $_, 0x1000000 * ($_ + 1), 0x1000000 * $_, sprintf('%040x', $_), "$dir/serve"] } 1 .. 100], stacks => [map { [[0x1000000 * $_ + 0x11aa], 1, 1000] } 1 .. 100]);
	my $count = spew("$dir/counted", "#!/bin/sh\necho >>$dir/runs\nexec $tool \"\$@\"\n");
	chmod 0755, $count;
	converted('--symbolizer', $count, '--pid', $pid, '--cache', "$dir/c7", $forged);
	is(-s "$dir/runs", 64, '100 objects: 64 are looked at for one profile');
	is(scalar(() = glob "$dir/c7/*"), 0, 'and no table is kept of what is not the object');
}

# ---- forged tables: what is read is checked; the answer may be wrong, and no sanitizer has anything to say
srand 11;
my ($key) = grep { -s "$cache/$_" } tables();
named('--pid', $pid, '--cache', $cache, $dump);
my $good = slurp("$cache/$table");
my ($noise, $made_anew) = (0, 0);
for my $n (1 .. 60) {
	my $copy = $good;
	if ($n % 4 == 0) {
		$copy = substr $copy, 0, rand length $copy;
	} else {
		substr($copy, ($n % 2 ? 304 + int rand(length($copy) - 308) : int rand 304), 4) = pack 'L', ($n % 3 ? int rand 2**32 : (0, 0xffffffff, 1, 0x7fffffff)[rand 4]) for 1 .. 1 + $n % 5;
	}
	spew("$cache/$table", $copy);
	my ($code, $out, $err) = run($convert, '--symbolizer', '/bin/false', '--pid', $pid, '--cache', $cache, $dump);
	$noise++ if $code != 0 || length $err || !eval { pprof_decode(unzip($out)) };
	diag $err if length $err;
}
is($noise, 0, 'forged tables: nothing breaks');
spew("$cache/$table", 'x' x 5000);
is_deeply(pprof_flat(named('--pid', $pid, '--cache', $cache, $dump), 3), \%flat, 'one that is none is made anew');
chmod 0666, "$cache/$table";
spew("$cache/$table", $good =~ s/box::made/box::evil/gr);
chmod 0666, "$cache/$table";
is_deeply(pprof_flat(named('--pid', $pid, '--cache', $cache, $dump), 3), \%flat, 'one that others may write is not read');
unlink "$cache/$table";
symlink "$dir/evil.names", "$cache/$table";
spew("$dir/evil.names", $good =~ s/box::made/box::evil/gr);
is_deeply(pprof_flat(named('--pid', $pid, '--cache', $cache, $dump), 3), \%flat, 'nor is a link');

# ---- forged ELF: random words in a program; what reads it may fail, within its limits
my $elf = slurp("$dir/serve");
my $wrong = 0;
chmod 0755, "$dir/bad";
for my $n (1 .. 12) {
	my $copy = $elf;
	for (1 .. 1 + $n % 20) {
		my $at = $n % 3 ? int rand(length $copy) : (0, length($copy) - 3000)[rand 2] + int rand 3000;
		substr($copy, $at, 4) = pack 'L', rand 2**32 if $at + 4 < length $copy;
	}
	unlink "$dir/serve";
	spew("$dir/serve", $copy);
	my ($code, $out, $err) = run($convert, '--symbolizer', $tool, '--pid', $pid, $dump);
	$wrong++ if $code != 0 || length $err || !eval { pprof_decode(unzip($out)) };
	diag $err if length $err;
}
is($wrong, 0, 'forged ELF files: a valid profile comes out');
unlink "$dir/serve";
symlink '/dev/zero', "$dir/serve";
is((run($convert, '--symbolizer', $tool, '--pid', $pid, $dump))[0], 0, 'a device in its place');
unlink "$dir/serve";
system('mkfifo', "$dir/serve");
is((run($convert, '--symbolizer', $tool, '--pid', $pid, $dump))[0], 0, 'a pipe in its place');
agrees('and the program is found by /proc/PID/exe', named('--pid', $pid, '--cache', "$dir/c3", $dump), $want);
done_testing();
