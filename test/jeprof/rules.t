#!/usr/bin/perl
# The reading rules: allocator frames cut by mapping, covering symbols only, build-id and offset
# before anything else, misspelt names, wrong, truncated, empty and foreign files.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
no warnings 'portable';
our $dir;

my ($code, $out, $err);
my ($app_id, $lib_id) = ('11' x 20, '22' x 20);
my @app_symbols = (['main', 0x1100, 0x100], ['worker', 0x1200, 0x100],
	['malloc_config', 0x1300, 0x100]);
my @lib_symbols = (['malloc', 0x1100, 0x100], ['odd_internal', 0x1200, 0x100],
	['malloc_usable_size', 0x1300, 0x100]);
elf_file("$dir/app", id => $app_id, symbols => \@app_symbols);
elf_file("$dir/libjemalloc.so.2", id => $lib_id, symbols => \@lib_symbols);

sub modules {
	my ($app, $lib, $library_path) = @_;
	return [[$app + 0x1000, $app + 0x3000, $app, $app_id, "$dir/app"],
		[$lib + 0x1000, $lib + 0x3000, $lib, $lib_id, $library_path // "$dir/libjemalloc.so.2"]];
}

sub leaves {
	my @arguments = @_;
	($code, $out, $err) = jeprof('--text', '--show_bytes', @arguments);
	my $row = table($out);
	return join ' ', map { "$_=$row->{$_}[0]" } sort grep { length && $row->{$_}[0] } keys %$row;
}

# Rule 1.
my ($app, $lib) = (0x555500000000, 0x7f0000000000);
my @cut = ([[$lib + 0x1210, $lib + 0x1311, $lib + 0x1900, $app + 0x1211, $app + 0x1111], 1, 4096]);
our_dump("$dir/cut.heap", stacks => \@cut, modules => modules($app, $lib));
is(leaves("$dir/cut.heap"), 'worker=4096',
	'rule 1: frames in libjemalloc go, whatever their names');
is($code, 0, 'no doubt') or diag $err;

our_dump("$dir/inner.heap", stacks => [[[$app + 0x1310, $app + 0x1211], 1, 4096]],
	modules => modules($app, $lib));
is(leaves("$dir/inner.heap"), 'malloc_config=4096',
	'rule 1: a function of the program keeps its name, although it begins with malloc');

rename "$dir/libjemalloc.so.2", "$dir/custom_heap.so";
our_dump("$dir/named.heap", stacks => \@cut, modules => modules($app, $lib, "$dir/custom_heap.so"),
	meta => { library => "$dir/custom_heap.so" });
is(leaves("$dir/named.heap"), 'worker=4096', 'rule 1: the dump names the library');

my @libgcc = (@{ modules($app, $lib, "$dir/custom_heap.so") },
	[0x7e0000001000, 0x7e0000003000, 0x7e0000000000, '-', '/lib/libgcc_s.so.1']);
our_dump("$dir/gcc.heap", stacks => [[[0x7e0000001010, @{ $cut[0][0] }], 1, 4096]],
	modules => \@libgcc, meta => { library => "$dir/custom_heap.so" });
like(leaves("$dir/gcc.heap"), qr/^worker=4096$/,
	'rule 1: an unwinder frame before them goes with them');

our_dump("$dir/all.heap", stacks => [[[$lib + 0x1210, $lib + 0x1311], 1, 4096]],
	modules => modules($app, $lib, "$dir/custom_heap.so"),
	meta => { library => "$dir/custom_heap.so" });
is(leaves("$dir/all.heap"), 'malloc_usable_size=4096',
	'rule 1: of a stack that is all allocator the outermost frame stays');

my @static_symbols = (['main', 0x1100, 0x100], ['worker', 0x1200, 0x100],
	['prof_note', 0x1300, 0x100], ['malloc', 0x1400, 0x100]);
elf_file("$dir/static", id => $app_id, symbols => \@static_symbols);
our_dump("$dir/static.heap", stacks =>
	    [[[$app + 0x1310, $app + 0x1411, $app + 0x1211, $app + 0x1111], 1, 4096]],
	modules => [[$app + 0x1000, $app + 0x3000, $app, $app_id, "$dir/static"]]);
is(leaves("$dir/static.heap"), 'worker=4096', 'rule 1: a static link is cut up to the entry point');

SKIP: {
	my ($archive) = grep { -e } glob '/usr/lib/*/libjemalloc.a';
	skip 'no libjemalloc.a', 2 unless $archive && which('gcc');
	my $program = eval { build('linked.c', <<'C', $archive, '-lm', '-lstdc++', '-lpthread',
#include <stdlib.h>
void *volatile sink;
__attribute__((noinline)) void worker(int n) { for (int i = 0; i < n; i++) { sink = malloc(3000); } }
int main(void) { worker(10000); return 0; }
C
			'-ldl') };
	skip 'cannot link with libjemalloc.a', 2 unless $program;
	my $dump = dump_of('', 'lg_prof_sample:14', $program);
	my $row = table((jeprof('--text', $program, $dump))[1]);
	like($row->{worker}[1], qr/^(?:9\d|100)\./, 'rule 1: a real static link');
	ok(!grep({ /^(?:malloc|je_|prof_)/ && $row->{$_}[0] > 0 } keys %$row),
		'rule 1: and nothing is charged to the allocator');
}

# Rule 2 is tested symbol by symbol in elf.t; here: a stripped library does not lend a neighbour's
# name.
elf_file("$dir/libthin.so", id => $lib_id, symbols => [['exported', 0x1100, 0x10]], dynamic => 1);
our_dump("$dir/thin.heap", stacks => [[[$lib + 0x1180, $app + 0x1111], 1, 4096]],
	modules => modules($app, $lib, "$dir/libthin.so"));
is(leaves("$dir/thin.heap"), 'libthin.so+0x1180=4096',
	'rule 2: beyond the end of a symbol its name is not used');

# Rule 4.
elf_file("$dir/libjemalloc.so.2", id => $lib_id, symbols => \@lib_symbols);
my @spots = (0x1211, 0x1281);
my @run = map { my ($a, $l, $bytes) = @$_;
	our_dump("$dir/run$bytes.heap", modules => modules($a, $l),
		stacks => [[[$l + 0x1210, $a + $spots[0], $a + 0x1111], 1, 8000],
			[[$l + 0x1210, $a + $spots[1], $a + 0x1111], 1, $bytes]]) }
    [$app, $lib, 4000], [0x555511110000, 0x7eee00000000, 9000];
is(leaves($run[1], "--base=$run[0]"), 'worker=5000',
	'rule 4: two runs at different addresses, by function');
($code, $out) = jeprof('--text', '--show_bytes', '--addresses', $run[1], "--base=$run[0]");
my @grown = grep { /^\s*5000 .*worker/ } split /\n/, $out;
is(scalar(@grown), 1, 'rule 4: by address, only the place that grew') or diag $out;
unlike($out, qr/8000/, 'rule 4: what stayed is gone');
($code, $out) = jeprof('--text', '--show_bytes', '--drop_negative', $run[0], "--base=$run[1]");
is($out, '', 'rule 4: --drop_negative matches stacks of the two runs');

# Rule 5.
for my $case (["$dir/no.heap"], ["$dir/app", "$dir/no.heap"], ["$dir/noprogram", $run[0]],
	["--base=$dir/no.heap", $run[0]], ['localhost:1', $run[0]]) {
	my $name = (grep { /no\.heap|noprogram|localhost/ } @$case)[0] =~ s/^--base=//r;
	($code, $out, $err) = jeprof('--text', @$case);
	is($code, 1, "rule 5: $name: exit 1");
	like($err, qr/^jeprof: \Q$name\E: no such file(?:; if it is a server: http:\S+)?$/m, 'rule 5: in so many words');
	is($out, '', 'rule 5: nothing on stdout');
}
for my $words (['-', '-'], ['--base=-', '-']) {
	($code, $out, $err) = jeprof(\slurp($run[0]), '--text', @$words);
	is("$code|$out", '2|', "@$words: exit 2");
	like($err, qr/^jeprof: -: standard input gives its bytes once, and is named twice$/m, 'and why');
}
# An explicit scheme is fetched by curl; here by one that needs no network.
my $curl = spew("$dir/curl", <<'SH');
#!/bin/sh
for url; do :; done
body=$(cat)
echo "$url $body" >>"${0%curl}asked"
case $url$body in
http://h/pprof/heap*) printf 'heap_v2/1\n  t*: 1: 100 [0: 0]\n@ 0x1234 0x2345\n  t*: 1: 100 [0: 0]\n\nMAPPED_LIBRARIES:\n00001000-00003000 r-xp 00000000 00:00 0 /remote/app\n' ;;
http://h/pprof/symbol) echo 'num_symbols: 1' ;;
http://h/pprof/symbol0x*) for a in $(echo "$body" | tr + ' '); do echo "$a name_$a"; done ;;
*) echo 'curl: (22) the reason' >&2; exit 22 ;;
esac
SH
chmod 0755, $curl;
my @fetch = ("--tools=curl:$curl", '--text', '--show_bytes');
($code, $out, $err) = jeprof(@fetch, 'http://h');
like($out, qr/ 100 100\.0% 100\.0% +100 100\.0% name_0x1234\n.* name_0x2344\n/,
	'rule 5: http://HOST: its heap, with the names it gives') or diag $err;
is("$code|$err", "0|Using what http://h answered.\n", 'rule 5: and it is no matter that its program is not here');
symlink 'loop', "$dir/loop";
for my $verb (['top'], ['--text'], ['ls'], ['salvage'], ['doctor'], ['--symbols']) {
	like((jeprof(@$verb, "$dir/loop"))[2], qr{^jeprof: \Q$dir\E/loop: Too many levels of symbolic links$}m, "@$verb: what keeps from a file that is there");
}
like((jeprof(@fetch, 'h:7071/pprof/heap'))[2], qr{^jeprof: h:7071/pprof/heap: no such file; if it is a server: http://h:7071/pprof/heap$}m, 'rule 5: without http://');
jeprof(@fetch, '--seconds=3', 'http://h/pprof/heap');
like(slurp("$dir/asked"), qr{^http://h/pprof/heap\?seconds=3 $}m, 'rule 5: --seconds');
for my $case (['http://h?x=1', 'http://h/pprof/heap?x=1'], ['http://h/?x=1', 'http://h/pprof/heap?x=1'], ['http://h/', 'http://h/pprof/heap'],
	['http://h?x=1/2', 'http://h/pprof/heap?x=1/2'], ['http://h#part', 'http://h/pprof/heap'], ['http://h/pprof/heap?x=1#part', 'http://h/pprof/heap?x=1']) {
	for my $more ([], ['--seconds=3']) {
		unlink "$dir/asked";
		($code, $out, $err) = jeprof(@fetch, @$more, $case->[0]);
		my $wanted = $case->[1] . (!@$more ? '' : $case->[1] =~ /\?/ ? '&seconds=3' : '?seconds=3');
		is((split ' ', slurp("$dir/asked"))[0], $wanted, "rule 5: @$more $case->[0]");
		like($out, qr/ name_0x1234$/m, 'its names come from the same server') or diag $err;
	}
}
# Addresses in upper case.
spew($curl, slurp($curl) =~ s/0x1234 0x2345/0x40A000 0xABCDE/r);
($code, $out, $err) = jeprof(@fetch, 'http://h');
like($out, qr/ name_0x40a000\n.* name_0xabcdd\n/, 'rule 5: addresses in upper case are asked for whole') or diag $err;
spew($curl, slurp($curl) =~ s/echo "\$a name_/echo "\${a#0x} name_/r =~ s/\@ 0x40A000 0x/@ 40A000 /r);
($code, $out, $err) = jeprof(@fetch, 'http://h');
like($out, qr/ name_0x40a000\n.* name_0xabcdd\n/, 'and in both directions without 0x') or diag $err;
my $named = "--- symbol\nbinary=/x\n0x000000000040A000 one\n0x00000000000ABCDD y+0xAB\n---\n--- heap\n"
    . "heap_v2/1\n  t*: 1: 100 [0: 0]\n@ 0x40A000 0xABCDE\n  t*: 1: 100 [0: 0]\n\nMAPPED_LIBRARIES:\n00001000-00003000 r-xp 00000000 00:00 0 /x\n";
($code, $out, $err) = jeprof('--text', '--show_bytes', spew("$dir/upper.heap", $named));
like($out, qr/ one\n.*0xAB/, 'names that a profile brings along too') or diag $err;
# A profile that brings all names along needs no file; of a file that is needed all doubts are told.
{
	my $all = $named =~ s/00001000-00003000/00001000-00100000/r =~ s/0x40A000/0xA000/gr =~ s/40A000 one/00A000 one/r =~ s/ y\+0xAB/ two/r;
	for my $path ('/nowhere/x', spew("$dir/rebuilt", slurp("$dir/app"))) {
		my $text = $all =~ s{ /x$}{ $path}mr;
		($code, $out, $err) = jeprof('top', spew("$dir/all.heap", $text));
		like($out, qr/ one /, "all names in the profile: $path");
		is($code, 0, 'no doubt') or diag $err;
		unlike($err, qr/missing|another build|newer/, 'nor a word about the file');
		($code, $out, $err) = jeprof('top', spew("$dir/most.heap", $text =~ s/^0x0+0ABCDD.*\n//mr));
		is($code, 3, 'but one: a doubt');
		is(scalar(() = $err =~ /^jeprof: \Q$path\E: /mg), 1, 'once') or diag $err;
	}
}
for my $case (['http://h/none', 1, qr/curl could not fetch it: \(22\) the reason$/m], ['ftp://h/x', 2, qr/only http/],
	['http://', 2, qr/: it names no host$/m]) {
	($code, $out, $err) = jeprof(@fetch, $case->[0]);
	is("$code|$out", "$case->[1]|", "rule 5: $case->[0]: exit $case->[1]");
	like($err, $case->[2], 'and why');
}

# Rule 7.
elf_file("$dir/app", id => '33' x 20, symbols => [['liar', 0x1100, 0x800]]);
($code, $out, $err) = jeprof('--text', '--show_bytes', $run[0]);
is($code, 3, 'rule 7: a rebuilt binary: exit 3');
unlike($out, qr/liar/, 'rule 7: its names are refused');
like($out, qr/12000 .* app\+0x1210|8000 .* app\+0x1210/, 'rule 7: object and offset are shown');
is(scalar(() = $err =~ /33333.*22222|another build/g), 1, 'rule 7: said once');
elf_file("$dir/kept", id => $app_id, symbols => \@app_symbols);
($code, $out, $err) = jeprof('--text', '--show_bytes', "$dir/kept", $run[0]);
is($code, 0, 'rule 7: the right binary under another name is taken');
like($out, qr/12000 .* worker$/m, 'rule 7: with its names');
($code, $out, $err) = jeprof('--text', "$dir/libthin.so", $run[0]);
is($code, 3, 'rule 7: a wrong PROGRAM: exit 3');
like($err, qr{libthin\.so: another build: build-id 2222}, 'rule 7: and which it was');
elf_file("$dir/app", id => $app_id, symbols => \@app_symbols);
($code, $out, $err) = jeprof('--text', '--show_bytes', "$dir/libthin.so", $run[0]);
is($code, 3, 'rule 7: a wrong PROGRAM beside the right file');
like($out, qr/12000 .* worker$/m, 'rule 7: the recorded file is used instead');

# Without a build-id: one segment in the mappings of two dumps, of which the first has no frame in it.
{
	my $at = 0x555500000000;
	my $maps = sub { join '', map { sprintf "%x-%x r-xp %08x 08:01 9 %s\n", $at + $_->[0], $at + $_->[1], $_->[0], "$dir/split" } @_ };
	my ($first, $second, $all) = ([0x1000, 0x2000], [0x2000, 0x3000], [0x1000, 0x3000]);
	elf_file("$dir/split", symbols => [['half', 0x2100, 0x100]]);
	for my $case (['two and two', [$first, $second], [$first, $second]], ['one and two', [$all], [$first, $second]],
		['two and one', [$first, $second], [$all]], ['a half and one', [$second], [$all]],
		['a half and two', [$first], [$first, $second]]) {
		my ($what, @of) = @$case;
		our_dump("$dir/idle.heap", maps => $maps->(@{ $of[0] }), stacks => [[[0x10], 1, 100]]);
		our_dump("$dir/busy.heap", maps => $maps->(@{ $of[1] }), stacks => [[[$at + 0x2110], 1, 4000]]);
		($code, $out, $err) = jeprof('top', '--sum', "$dir/idle.heap", "$dir/busy.heap");
		like($out, qr/ half$/m, "rule 7: a segment in $what mappings fits") or diag $err;
	}
	# Two builds in one command: the file has names for one of them, whichever comes first.
	our_dump("$dir/this.heap", maps => $maps->($all), stacks => [[[$at + 0x2110], 1, 4000]]);
	for my $case (['longer', [0x1000, 0x60000], 0x2110], ['shorter', [0x1000, 0x1800], 0x1610]) {
		my ($what, $code_of, $frame) = @$case;
		our_dump("$dir/that.heap", maps => $maps->($code_of), stacks => [[[$at + 0x1510], 1, 500]]);
		our_dump("$dir/that2.heap", maps => $maps->($code_of), stacks => [[[$at + $frame], 1, 300]]);
		for my $files ([qw(this that that2 this)], [qw(that this that2)], [qw(that2 that this)]) {
			my @files = map { "$dir/$_.heap" } @$files;
			($code, $out, $err) = jeprof('--text', '--show_bytes', @files);
			my $row = table($out);
			my $mine = 4000 * grep { $_ eq 'this' } @$files;
			is($row->{half}[0], $mine, "@$files, that of a $what build: names of the right one");
			is(scalar(() = $err =~ m{/split: another build: its code}g), 1, 'the other is refused, once') or diag $err;
		}
	}
	our_dump("$dir/busy.heap", maps => $maps->($first), stacks => [[[$at + 0x1110], 1, 4000]]);
	like((jeprof('top', "$dir/busy.heap"))[2], qr{/split: another build: its code}, 'rule 7: half of it does not');
}

SKIP: {
	my ($library) = libraries();
	skip 'no libjemalloc.so.2 or gcc', 3 unless $library && which('gcc');
	my $hold = "#include <stdlib.h>\nvoid *volatile sink;\n__attribute__((noinline)) void holder(void) { sink = malloc(100000); }\nint main(void) { holder(); return 0; }\n";
	my $program = build('changed.c', $hold);
	my $dump = dump_of($library, 'lg_prof_sample:0', $program);
	rename $program, "$dir/original";
	build('changed.c', $hold . 'int more(int x) { ' . 'x = x * 3 + (x >> 2) ^ sink != 0;' x 900
		    . "return x; }\n");
	($code, $out, $err) = jeprof('--text', $dump);
	is($code, 3, 'rule 7: a dump without build-ids: code that does not fit the mapping is refused');
	unlike($out, qr/holder/, 'rule 7: and gives no names');
	($code, $out, $err) = jeprof('--text', "$dir/original", $dump);
	like($out, qr/ holder$/m, 'rule 7: the original is taken');
}

# Truncation: of ours at every kind of place, of upstream's where it can be seen.
my $whole = slurp($run[0]);
my @unseen;
# The last newline alone is not missed.
for my $length (9 .. length($whole) - 2) {
	next unless $length < 30 || $length % 37 == 0 || $length > length($whole) - 12;
	spew("$dir/cut.heap", substr $whole, 0, $length);
	($code, $out, $err) = jeprof('--text', "$dir/cut.heap");
	push @unseen, $length if $code != 3 || $err !~ /truncated/ || $err =~ /internal|uninit/;
}
is("@unseen", '', 'a truncated dump of ours: said, exit 3, at every length');
is((jeprof('--text', spew("$dir/cut.heap", $whole =~ s/\n\z//r)))[0], 0,
	'a missing last newline is no truncation');
(my $damaged = $whole) =~ s/\n# module/\n\n# module/;
spew("$dir/cut.heap", $damaged);
($code, $out, $err) = jeprof('--text', "$dir/cut.heap");
is($code, 3, 'a byte too many: exit 3');
like($err, qr/damaged/, 'and said');
(my $plain = $whole) =~ s/^# .*\n//mg;
for my $case ([qr/\n\nMAPPED.*/s, "\n", 'without maps'], [qr/\n  t0: 1: 4000.*/s, '', 'in a stack'],
	[qr/( 0x\w\w)\w+\n  t\*: 1: 4000.*/s, '$1', 'in a frame']) {
	my ($from, $to, $what) = @$case;
	(my $text = $plain) =~ s/$from/$to eq '$1' ? $1 : $to/e;
	spew("$dir/cut.heap", $text);
	($code, $out, $err) = jeprof('--text', "$dir/app", "$dir/cut.heap");
	is($code, 3, "an upstream dump cut $what: exit 3");
	like($err, qr/truncated/, 'said');
}
like($out, qr/^Total/, 'what is there is shown');

# Empty and foreign files: one line, exit 1.
my %foreign = (empty => '', text => "hello\nworld\n", binary => join('', map { chr } 0 .. 255),
	headers => "heap_v1/12\n", contention => "--- contention:\ncycles/second = 1\n");
for my $name (sort keys %foreign) {
	spew("$dir/foreign", $foreign{$name});
	for my $arguments (["$dir/foreign"], ["$dir/app", "$dir/foreign"], ['top', "$dir/foreign"]) {
		($code, $out, $err) = jeprof($arguments->[0] eq 'top' ? () : '--text', @$arguments);
		is("$code|$out|" . scalar(() = $err =~ /\n/g), '1||1', "$name: exit 1, one line")
		    or diag $err;
	}
}
($code, $out, $err) = jeprof('--text', "$dir");
is($code, 1, 'a directory: exit 1');
($code, $out, $err) = jeprof('--text', "$dir/app");
is($code, 2, 'a program and no profile: usage');
# An object that is not there: its build-id and where that is to be had.
{
	local $ENV{DEBUGINFOD_URLS} = 'http://127.0.0.1:9/ http://127.0.0.1:8/';
	my $gone = our_dump("$dir/gone.heap",
		modules => [[0x7f0000001000, 0x7f0000003000, 0x7f0000000000, 'ab' x 20,
				'/nowhere/libgone.so.2']], stacks => [[[0x7f0000001111], 1, 100]]);
	my ($code, $out, $err) = jeprof('top', '--tools=debuginfod-find:/nonexistent', $gone);
	is($code, 3, 'an object that is not there: exit 3');
	my $id = 'ab' x 20;
	like($err, qr{^jeprof: /nowhere/libgone\.so\.2: not found .* \(build-id $id\): http://127\.0\.0\.1:9/buildid/$id/executable, or package libgone2 .*--sysroot=DIR}m, 'its build-id and where it is to be had');
	like($out, qr/ libgone\.so\.2\+0x1111$/m, 'its name is not guessed');
	like($err, qr{^jeprof: 100\.0% of the bytes have no name: /nowhere/libgone\.so\.2 is missing$}m,
		'how much that is');
	my $json = qr{"missing":\[\{"path":"/nowhere/libgone\.so\.2","build_id":"$id","share":100\.00,"where":"http://127\.0\.0\.1:9/buildid/$id/executable, or package libgone2 };
	for my $verb ('top', 'report') {
		($code, $out) = jeprof($verb, '--json', '--tools=debuginfod-find:/nonexistent', $gone);
		like($out, $json, "$verb --json has the same");
	}
	jeprof('report', '-o', "$dir/gone.html", '--tools=debuginfod-find:/nonexistent', $gone);
	like(slurp("$dir/gone.html"),
		qr{<p>100\.0% of the bytes have no name: /nowhere/libgone\.so\.2 is missing\.</p>\n<p>Doubts: [^<]*$id/executable}, 'and the page');
	# Of a difference: the share of all that has grown or shrunk.
	my @module = [0x7f0000001000, 0x7f0000003000, 0x7f0000000000, 'ab' x 20, '/nowhere/libgone.so.2'];
	my ($then, $now) = map { my $grown = $_;
		our_dump("$dir/gone.$grown.heap", modules => \@module,
			stacks => [[[0x7f0000001111], 1, 100 + $grown], [[0x7f0000001211], 1, 400 - $grown / 3]]) } 0, 300;
	for my $case ([$then, $now], [$now, $then]) {
		($code, $out, $err) = jeprof('top', '--json', '--tools=debuginfod-find:/nonexistent', "--base=$case->[0]", $case->[1]);
		like($out, qr/"share":100\.00,/, '--base: the share that has no name') or diag $err;
		like($err, qr/^jeprof: 100\.0% of the bytes have no name: /m, 'and the sentence');
	}
	# A doubt that comes twice is one.
	my $twice = our_dump("$dir/twice.heap",
		stacks => [[[0x10, 0x20], 1, 100], [[0x11, 0x21], 1, 100]]);
	spew($twice, slurp($twice) =~ s/ 0x1/ 0y1/gr);
	($code, $out, $err) = jeprof('top', '--json', $twice);
	my @told = $err =~ /^jeprof: /mg;
	is($out =~ /"doubts":(\d+)/ ? $1 : '', @told, 'top --json: as many doubts as are told') or diag $err;
	jeprof('report', '-o', "$dir/twice.html", $twice);
	is(scalar(() = slurp("$dir/twice.html") =~ /frames that are no addresses/g), 1,
		'the page tells it once');
	our_dump("$dir/libc.heap", modules =>
		    [[0x7f0000001000, 0x7f0000003000, 0x7f0000000000, 'ab' x 20, "$dir/libc.so.6"]],
		stacks => [[[0x7f0000001111], 1, 100]]);
	elf_file("$dir/libc.so.6", id => $id);
	($code, $out, $err) = jeprof('top', '--tools=debuginfod-find:/nonexistent', "$dir/libc.heap");
	like($err, qr{: \S+/libc\.so\.6 \(build-id $id\) has no symbols: .*, or package libc6-dbg \(by its name\)$}m,
		'the symbols of the C library are those of libc6-dbg');
}

# A dump that was written without /proc: the program has no path, and is found by its build-id.
sub nameless {
	my ($exe, $module_id) = @_;
	my $modules = modules($app, $lib);
	@{ $modules->[0] }[3, 4] = ($module_id // $app_id, '');
	return our_dump("$dir/nameless.heap", stacks => \@cut, modules => $modules,
		meta => { exe => $exe, version => '5.3.1' }, maps => sprintf "%x-%x r-xp 00000000 00:00 0 \n", $app + 0x1000, $app + 0x3000);
}
elf_file("$dir/moved", id => $app_id, symbols => \@app_symbols);
elf_file("$dir/other", id => '77' x 20, symbols => [['liar', 0x1100, 0x800]]);
for my $case (["--exe=$dir/moved"], ["$dir/moved"]) {
	my $file = nameless('');
	is(leaves(@$case, $file), 'worker=4096', "a program without a path: $case->[0]");
	is($code, 0, 'no doubt') or diag $err;
}
is(leaves(nameless("$dir/moved")), 'worker=4096', 'the path that it was started by');
is(leaves("--exe=$dir/moved", nameless('./gone')), 'worker=4096', 'a path that is not there, and --exe');
is(leaves("--exe=$dir/moved", nameless('', '-')), 'worker=4096', 'no build-id in the dump: the file that is given');
is(leaves(nameless('')), '[program]+0x1210=4096', 'neither: no name is guessed');
is($code, 3, 'exit 3');
like($err, qr/nameless\.heap: has no path of the program \(build-id (?:11){20}\); its names need --exe=FILE$/m, 'and what it needs');
unlike(leaves("--exe=$dir/other", nameless('')), qr/liar/, 'another build: its names are refused');
like($err, qr/; \S+other is another build \(build-id (?:77){20}\)$/m, 'and said');
# A program without any map; files whose names end as the kernel marks removed ones.
mkdir "$dir/elsewhere";
my $bare = spew("$dir/bare.heap", "heap profile: 1: 100 [ 1: 100] @ heapprofile\n 1: 100 [ 1: 100] @ 0x401108 0x401118\n");
for my $name ('fix ed', 'fixed (deleted)', "fi\xc3\xbfx") {
	elf_file("$dir/$name", type => 2, code => [0x1000, 0x401000, 0x1000], symbols => [['leak', 0x401100, 0x10], ['main', 0x401110, 0x10]]);
	($code, $out, $err) = jeprof('top', "$dir/$name", $bare);
	like($out, qr/ leak +main\n/, "no map, fixed addresses: $name");
	($code, $out, $err) = jeprof('top', "--sysroot=$dir/elsewhere", "$dir/$name", $bare);
	like($out, qr/ leak +main\n/, "with --sysroot: $name") or diag $err;
}
elf_file("$dir/moved", code => [0x1000, 0x1000, 0x1000], symbols => [['leak', 0x1100, 0x10]]);
($code, $out, $err) = jeprof('top', "$dir/moved", $bare);
is($code, 3, 'no map, no fixed address: a doubt');
like($err, qr/bare\.heap: does not tell where \S+moved was loaded, which is linked to no fixed address/, 'and why');
for my $case (["401000-402000 r-xp 00001000 08:01 1 $dir/fixed (deleted)\n", 'a map'],
	["# module 401000-402000 0 - $dir/fixed (deleted)\n", 'a module']) {
	spew("$dir/called.heap", slurp($bare) . "\nMAPPED_LIBRARIES:\n$case->[0]");
	($code, $out, $err) = jeprof('top', "$dir/called.heap");
	like($out, qr/ leak +main\n/, "a file that is called so, of $case->[1]") or diag $err;
}
done_testing();
