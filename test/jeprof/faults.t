#!/usr/bin/perl
# Damaged dumps: whatever bytes are in them, jeprof ends with 0, 1 or 3, says what it saw, and makes
# no noise of its own.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
no warnings 'portable';
our ($dir, $data);

my $id = '66' x 20;
my $base = 0x555500000000;
elf_file("$dir/app", id => $id, symbols => [['main', 0x1100, 0x100], ['worker', 0x1200, 0x100]]);
our_dump("$dir/good.heap", modules => [[$base + 0x1000, $base + 0x3000, $base, $id, "$dir/app"]],
	meta => { pid => 5, version => '5.3.1' },
	maps => sprintf("%x-%x r-xp 00001000 08:01 9 %s\n", $base + 0x1000, $base + 0x3000, "$dir/app"),
	stacks => [map { [[$base + 0x1200 + $_, $base + 0x1111], $_, 1000 * $_] } 1 .. 12]);
my @sources = (slurp("$dir/good.heap"), slurp("$data/counts.heap"),
	(jeprof('--raw', "$dir/good.heap"))[1]);
my @insert = ('18446744073709551616', '-1', '0x', 'f' x 20, "\0", '@', "\n# module 1-2 3 4 5\n",
	"\n\n", "\n  t*: 0: 5 [0: 0]\n", 'heap_v2/0',
	"\n@\n  t*: 9: 9 [9: 9]\n", "\x1b[2J", "\n# jemalloc.exe=(\n", "\n--- symbol\n", '9' x 400,
	"\r\n");
my @modes = (['--text'], ['top'], ['--raw'], ['--dot'], ['--callgrind'], ['--collapsed'],
	['--text', '--thread=*'], ['--text', '--alloc_space'],
	['--text', "--base=$data/counts.heap", '--drop_negative'], ['top', '--json']);

sub mutate {
	my ($text) = @_;
	my $kind = int rand 4;
	if ($kind == 0) {
		substr($text, int rand length $text, 1) = chr int rand 256 for 1 .. 1 + int rand 12;
	} elsif ($kind == 1) {
		substr($text, int rand length $text, int rand 200) = '';
	} elsif ($kind == 2) {
		my @lines = split /^/, $text;
		splice @lines, int rand @lines, 0, @lines[map { int rand @lines } 1 .. 4];
		$text = join '', @lines;
	} else {
		substr($text, int rand length $text, 0) = $insert[rand @insert] for 1 .. 3;
	}
	return $text;
}

srand 20;
my @bad;
my $refused = 0;
my $rounds = $ENV{TEST_FULL} ? 240 : 80;
for my $round (1 .. $rounds) {
	spew("$dir/bad.heap", mutate($sources[rand @sources]));
	my $mode = $modes[rand @modes];
	my ($code, $out, $err) = run($^X, '-w', $main::jeprof, @$mode, "$dir/bad.heap");
	$refused++ if $code == 1 || $code == 3;
	push @bad, "round $round (@$mode): exit $code: $err"
	    if $code !~ /^[013]$/ || $err =~ /internal|uninit| at \S+ line \d+/
	    || "$out$err" =~ /[^\n\x20-\x7e\x80-\xff]/;
}
is(scalar(@bad), 0, 'damaged dumps: no crash, no noise, nothing for the terminal to obey')
    or diag @bad;
cmp_ok($refused, '>', $rounds / 4, 'and many of them are seen to be damaged');

# Numbers that a share is taken of.
my ($fault_code, undef, $fault) = jeprof('--text', spew("$dir/rate.heap",
		slurp("$dir/good.heap") =~ s{^heap_v2/\d+}{'heap_v2/' . '9' x 400}er));
like("$fault_code $fault", qr{^1 .*: not a heap profile }, 'a sampling interval of 400 digits');

for my $form ('heap_v3/524288', 'heap_v10/1', 'jeprof_pack/2') {
	($fault_code, undef, $fault) = jeprof('--text', spew("$dir/new.heap", "$form\n  t*: 1: 1 [0: 0]\n"));
	my ($name) = $form =~ m{^(heap_v\d+|.*)};
	is("$fault_code $fault", "1 jeprof: $dir/new.heap: its form, $name, is newer than this jeprof\n",
		"a form of later: $form");
}

# Names that would be obeyed by a terminal: of the program, objects, threads, functions and
# metadata; escapes of seven and of eight bits, marks that turn the direction of writing.
my $escape = "\x1b]0;x\x07\x1b[2J\x9b31m\xc2\x9b31m\xe2\x80\xae\xe2\x81\xa6\t";
(my $hostile = slurp("$dir/good.heap")) =~ s{^# end.*\n}{}m;
$hostile =~ s{^# jemalloc\.pid=.*}{# jemalloc.pid=1$escape\n# jemalloc.dump_time=2026$escape\n# jemalloc.exe=/x/exe$escape\n# jemalloc.kind=session$escape}m;
$hostile =~ s{^(  t\*: .*\n  t0: .*)}{$1 thread$escape}m;
$hostile =~ s{^(# module \S+ \S+) \S+ .*}{$1 - /x/exe$escape}m;
$hostile =~ s{ \S+/app$}{ /x/exe$escape}mg;
my $wrapped = "--- symbol\nbinary=/x/prog$escape\n"
    . join('', map { sprintf "0x%x name$escape--x\n", $base + 0x1200 + $_ } 1 .. 12)
    . "---\n--- heap\n$hostile";
for my $case ([plain => $hostile], [symbolized => $wrapped]) {
	my ($what, $text) = @$case;
	spew("$dir/hostile.heap", $text . sprintf "# end %d\n", length $hostile);
	my @raw;
	for my $mode (@modes, ['top', '--thread=0'], ['--text', '--lines'], ['--text', '--addresses'],
		['--list=name']) {
		my ($code, $out, $err) = jeprof(@$mode, "$dir/hostile.heap");
		push @raw, "@$mode"
		    if "$out$err" =~ /[^\n\x20-\x7e\x80-\xff]|\xc2[\x80-\x9f]|\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9]|\x9b/;
	}
	is("@raw", '', "hostile names, $what: nothing that a terminal obeys is printed");
}

my ($code, $out, $err) = jeprof('--text',
	our_dump("$dir/tiny.heap", rate => 1 << 40, stacks => [[[$base], 1 << 60, 1]]));
like($out, qr/^Total: /, 'counts that no program has do not divide by zero') or diag $err;
unlike($err, qr/internal/, 'nor break otherwise');
done_testing();
