#!/usr/bin/perl
# The symbol reader: both classes, both byte orders, which symbol wins, separate debug files, other
# roots.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
no warnings 'portable';
use File::Path ();
our ($dir, $jeprof);

my $id = 'ab' . '0123456789' x 3;
my @symbols = (['first', 0x1100, 0x40], ['second', 0x1200, 0x100], ['no_size', 0x1400, 0],
	['data', 0x1500, 0x40, 1],
	['wide', 0x1600, 0x400], ['inner', 0x1700, 0x10], ['_alias', 0x1800, 0x20],
	['alias', 0x1800, 0x20],
	['local_twin', 0x1900, 0x20, 2, 0], ['global_twin_name', 0x1900, 0x20, 2, 1],
	['versioned@@V_1.2', 0x1b00, 0x20],
	['resolver', 0x1c00, 0x20, 10]);
my %want = (0x1100 => 'first', 0x113f => 'first', 0x1140 => undef, 0x12ff => 'second',
	0x1300 => undef, 0x1400 => undef,
	0x1510 => undef, 0x1620 => 'wide', 0x1705 => 'inner', 0x1710 => 'wide', 0x1810 => 'alias',
	0x1910 => 'global_twin_name',
	0x1b08 => 'versioned', 0x1c01 => 'resolver', 0x10ff => undef);

sub names_of {
	my ($file, $bias, @options) = @_;
	my @address = sort { $a <=> $b } keys %want;
	# sums of distinct powers of two
	my @stacks = map { [[$bias + $address[$_], $bias + 0x1101], 1, 1 << (10 + $_)] } 0 .. $#address;
	our_dump("$dir/elf.heap", stacks => \@stacks,
		modules => [[$bias + 0x1000, $bias + 0x3000, $bias, $id, $file]]);
	my ($code, $out, $err) = jeprof('--collapsed', '--show_bytes', @options, "$dir/elf.heap");
	my %name;
	for my $line (split /\n/, $out) {
		my ($leaf, $bytes) = $line =~ /([^;]*) (\d+)$/;
		$name{ $address[$_] } = $leaf for grep { $bytes & 1 << (10 + $_) } 0 .. $#address;
	}
	return (\%name, $code, $err);
}

for my $wide (0, 1) {
	for my $order ('<', '>') {
		for my $dynamic (0, 1) {
			my $title = ($wide ? '64' : '32') . ' bits, ' . ($order eq '<' ? 'little' : 'big')
			    . ' end first' . ($dynamic ? ', dynamic' : '');
			elf_file("$dir/object", wide => $wide, order => $order, id => $id, symbols => \@symbols,
				dynamic => $dynamic);
			my $bias = $wide ? 0x555555550000 : 0x56550000;
			my ($name, $code, $err) = names_of("$dir/object", $bias);
			my %expect = map { $_ => $want{$_} // sprintf 'object+0x%x', $_ } keys %want;
			is_deeply($name, \%expect, "$title: each name by a covering function symbol");
		}
	}
}

load_jeprof();

# A label is a name where no function with a size covers the address and no other symbol lies in
# between.
{
	my @labels = (@symbols, ['label', 0x2000, 0, 0], ['mapping', 0x2200, 0x10],
		['$x', 0x2304, 0, 0], ['_start', 0x2300, 0, 0]);
	local @want{ 0x1410, 0x2008, 0x20ff, 0x2208, 0x2220, 0x2310 } =
	    ('no_size', 'label', 'label', 'mapping', undef, '_start');
	local $want{0x1400} = 'no_size';
	for my $wide (0, 1) {
		elf_file("$dir/object", id => $id, symbols => \@labels, is_linked => 1, wide => $wide);
		my ($name) = names_of("$dir/object", 0x56550000);
		is_deeply($name, { map { $_ => $want{$_} // sprintf 'object+0x%x', $_ } keys %want },
			'labels in assembler, ' . ($wide ? 64 : 32) . ' bits');
	}
	my @far = (['label', 0x1010, 0, 0], ['next', 0x6010, 0, 0], ['_start', 0x8000, 0x40]);
	elf_file("$dir/object", symbols => \@far, is_linked => 1, code => [0x1000, 0x1000, 0x8000]);
	my @asked = (0x1008, 0x1010, 0x1fff, 0x2fff, 0x3000, 0x6004, 0x7fff, 0x8010);
	my $near = { map({ $_ => 'label' } @asked[1 .. 3]), 0x7fff => 'next', 0x8010 => '_start' };
	is_deeply(Elf::open_file("$dir/object")->names_for(@asked), $near,
		'a label names its page and the next one');
	is_deeply(table_names("$dir/object", @asked), $near, 'for jeprofd too')
	    if -x "$jeprof-symbolize";
	elf_file("$dir/object", id => $id, symbols => \@labels, is_linked => 1, dynamic => 1);
	is((names_of("$dir/object", 0x56550000))[0]{0x2008}, 'object+0x2008',
		'not where only the exported symbols are known');
}

# Separate debug files.
elf_file("$dir/object", id => $id);
my ($name, $code, $err) = names_of("$dir/object", 0x7f0000000000);
is($name->{0x1100}, 'object+0x1100', 'no symbols at all: object and offset');
is($code, 3, 'most bytes without a name: exit 3');
mkdir "$dir/debug";
mkdir "$dir/debug/.build-id";
mkdir "$dir/debug/.build-id/ab";
my $debug = "$dir/debug/.build-id/ab/" . substr($id, 2) . '.debug';
elf_file($debug, id => $id, symbols => \@symbols);
($name, $code, $err) = names_of("$dir/object", 0x7f0000000000, "--debug-dir=$dir/debug");
is($name->{ 0x1700 + 5 }, 'inner', 'debug file by build-id');
elf_file($debug, id => 'cd' x 16, symbols => \@symbols);
($name) = names_of("$dir/object", 0x7f0000000000, "--debug-dir=$dir/debug");
is($name->{ 0x1700 + 5 }, 'object+0x1705', 'a debug file of another build is not used');
elf_file("$dir/object", id => $id, link => 'object.dbg');
mkdir "$dir/.debug";
elf_file("$dir/.debug/object.dbg", id => $id, symbols => \@symbols);
($name) = names_of("$dir/object", 0x7f0000000000);
is($name->{ 0x1700 + 5 }, 'inner', 'debug file by .gnu_debuglink');
# A .gnu_debuglink that has the name of its own file, which has no symbols.
{
	mkdir "$dir/own";
	mkdir "$dir/own/.debug";
	symlink 'object', "$dir/own/link";
	elf_file("$dir/own/object", id => $id, link => 'object');
	elf_file("$dir/own/.debug/object", id => $id, symbols => \@symbols);
	chdir $dir;
	for my $case (["$dir/own/object"], ["$dir/own/link"], ['/no/such/object', '--exe=own/object']) {
		($name) = names_of($case->[0], 0x7f0000000000, @$case[1 .. $#$case]);
		is($name->{0x1705}, 'inner', "a debug link of the object's own name: @$case");
	}
	elf_file("$dir/own/object", link => 'object');
	elf_file("$dir/own/.debug/object", symbols => \@symbols);
	for my $path (-x "$jeprof-symbolize" ? ('own/object', 'own/link') : ()) {
		is(table_names("$dir/$path", 0x1705)->{0x1705}, 'inner', "for jeprofd too: $path");
	}
	chdir '/';
}

# Other roots.
mkdir "$dir/root";
elf_file("$dir/root/moved", id => $id, symbols => \@symbols);
for my $case (["--sysroot=$dir/root"], ["--lib_prefix=/nowhere,$dir/root"],
	["--add_lib=$dir/root/moved"], ["--exe=$dir/root/moved"]) {
	($name, $code, $err) = names_of('/no/such/dir/moved', 0x7f0000000000, @$case);
	is($name->{0x1100}, 'first', "found by @$case");
	is($code, 0, 'and there is no doubt') or diag($err);
}
for my $option (qw(sysroot debug-dir)) {
	for my $none ("$dir/root/none", "$dir/root/moved") {
		(undef, $code, $err) = names_of('/no/such/dir/moved', 0x7f0000000000, "--$option=$none");
		is("$code $err", "2 jeprof: --$option takes a directory, and $none is none\n", "--$option=$none is refused");
	}
}
($name, $code, $err) = names_of('/no/such/dir/moved', 0x7f0000000000);
is($code, 3, 'an object that is not there: exit 3');
like($err, qr{/no/such/dir/moved: not found}, 'and its path');

# The program has a relative path, and no map tells another: it was started as ./moved, idle, and a chroot hid it and /proc before the
# session. It is the program all the same, not the first library with a path.
{
	elf_file("$dir/libother.so", id => 'cd' x 16);
	our_dump("$dir/relative.heap", meta => { pid => 77, exe => 'moved' }, stacks => [[[0x401100, 0x401101], 1, 1000]],
		modules => [[0x401000, 0x403000, 0x400000, $id, 'moved'], [0x7f0000001000, 0x7f0000003000, 0x7f0000000000, 'cd' x 16, "$dir/libother.so"]]);
	chdir "$dir/root";
	($code, my $out, $err) = jeprof('top', "$dir/relative.heap");
	like("$code $out", qr{^0 moved pid 77:.* first}s, 'a relative path: found here') or diag $err;
	chdir $dir;
	for my $option ('--exe=root/moved', "--add_lib=$dir/root/moved", "--sysroot=$dir/root") {
		($code, $out, $err) = jeprof('top', $option, "$dir/relative.heap");
		like("$code $out", qr{^0 moved pid 77:.* first}s, "a relative path: $option") or diag $err;
	}
	($code, $out, $err) = jeprof('top', "$dir/relative.heap");
	like("$code $out$err", qr{^3 moved pid 77:.*jeprof: moved: not found }s, 'a relative path: not here');
	chdir '/';
}

# The root directory of the process is above its profile, and has its objects and debug files.
{
	local $dir = "$dir/jail/tmp"; # where names_of() writes the profile
	my $inside = $dir =~ s{tmp$}{srv}r;
	File::Path::make_path($dir, $inside);
	elf_file("$inside/moved", id => $id, symbols => \@symbols);
	($name, $code, $err) = names_of('/srv/moved', 0x7f0000000000);
	is("$name->{0x1100} $code", 'first 0', 'found below a directory above the profile') or diag $err;
	elf_file("$inside/moved", id => 'cd' x 16, symbols => \@symbols);
	($name, $code, $err) = names_of('/srv/moved', 0x7f0000000000);
	is("$name->{0x1100} $code", 'moved+0x1100 3', 'another build there is refused');
	like($err, qr{jail/srv/moved: another build}, 'and said');
	elf_file("$inside/moved", symbols => \@symbols);
	($name) = names_of('/srv/moved', 0x7f0000000000);
	is($name->{0x1100}, 'moved+0x1100', 'and one without a build-id');
	elf_file("$inside/moved", id => $id);
	my $debugs = $dir =~ s{tmp$}{usr/lib/debug/.build-id/ab}r;
	File::Path::make_path($debugs);
	elf_file("$debugs/" . substr($id, 2) . '.debug', id => $id, symbols => \@symbols);
	($name) = names_of('/srv/moved', 0x7f0000000000);
	is($name->{ 0x1700 + 5 }, 'inner', 'a debug file of that root directory');
}
SKIP: {
	my $unshare = which('unshare');
	skip 'no namespace of mounts here', 1
	    unless $unshare && (run($unshare, '-m', qw(mount -t tmpfs none), $dir))[0] == 0;
	mkdir "$dir/mnt";
	my $pid = fork // die;
	exec $unshare, '-m', 'sh', '-c', 'mount -t tmpfs none "$0" && exec sleep 900', "$dir/mnt"
	    or exit 127 if !$pid;
	until_true(sub { (readlink("/proc/$pid/exe") // '') =~ m{/(?:sleep|coreutils|busybox)$} });
	local $dir = "/proc/$pid/root$dir/mnt";
	elf_file("$dir/object", id => $id, link => 'object.dbg');
	elf_file("$dir/object.dbg", id => $id, symbols => \@symbols);
	($name, $code, $err) = names_of($dir =~ s{^/proc/\d+/root}{}r . '/object', 0x7f0000000000);
	is("$name->{0x1705} $code", 'inner 0', 'below /proc/PID/root, where it stays for debug files')
	    or diag $err;
	kill 'KILL', $pid;
	waitpid $pid, 0;
}

# As the loader names them: a relative path, a link, an object without a file.
elf_file("$dir/object", id => $id, symbols => \@symbols);
my $maps = sprintf "%x-%x r--p 00000000 08:01 77 %s\n%x-%x r-xp 00001000 08:01 77 %s\n",
    0x7f0000000000, 0x7f0000001000, "$dir/object",
    0x7f0000001000, 0x7f0000003000, "$dir/object";
our_dump("$dir/loader.heap", maps => $maps, stacks => [[[0x7f0000001101, 0x7ffff7fc1101], 1, 4096]],
	modules => [
		[0x7f0000000000, 0x7f0000003000, 0x7f0000000000, $id, './object'],
		[0x7ffff7fc1000, 0x7ffff7fc2000, 0x7ffff7fc1000, '-', 'linux-vdso.so.1']]);
my $row = table((jeprof('--text', '--show_bytes', "$dir/loader.heap"))[1]);
is($row->{first} && $row->{first}[0], 4096,
	'a relative path in a module line: the map has the whole one');
ok($row->{'linux-vdso.so.1+0x100'}, 'an object without a file has an offset');

# Damaged files must not break anything.
elf_file("$dir/object", id => $id, symbols => \@symbols, is_linked => 1);
my $whole = slurp("$dir/object");
my $bad = 0;
for my $cut (0, 3, 16, 40, 63, 64, 100, 0x3001, map { length($whole) - $_ } 1, 40, 64, 65, 200, 448,
	500, 700) {
	spew("$dir/object", substr $whole, 0, $cut);
	(undef, $code, $err) = names_of("$dir/object", 0x7f0000000000);
	$bad++, diag("cut at $cut: $code $err")
	    if $code != 3 && $code != 0 || $err =~ /internal|uninit|substr|unpack/;
}
srand 11;
for (1 .. 60) {
	my $broken = $whole;
	substr($broken, 16 + int rand 48, 1) = chr int rand 256 for 1 .. 3;
	substr($broken, length($broken) - 1 - int rand 448, 1) = chr int rand 256 for 1 .. 6;
	spew("$dir/object", $broken);
	(undef, $code, $err) = names_of("$dir/object", 0x7f0000000000);
	$bad++, diag("$code $err") if $code != 3 && $code != 0
	    || $err =~ /internal|uninit|substr|unpack/;
}
is($bad, 0, 'cut and damaged ELF files: no crash, no noise');

# Sizes and counts beyond the file are cut to it: what is read is counted.
{
	my $bytes = \&Elf::bytes;
	my $reads = 0;
	no warnings 'redefine';
	local *Elf::bytes = sub { die "reads without end\n" if ++$reads > 1000; return $bytes->(@_) };
	my $table = unpack 'x40 Q<', $whole;
	for my $size (1 << 60, ~0) {
		my $broken = $whole;
		substr($broken, $table + 4 * 64 + 32, 8) = pack 'Q<', $size;
		my $names = eval { Elf::of_text('object', $broken)->names_for(0x1101, 0x2fff, 0x5000) };
		is_deeply($names, { 0x1101 => 'first' }, "a symbol table of $size bytes") or diag $@;
		$broken = $whole;
		substr($broken, 60, 2) = pack 'S<', 0;
		substr($broken, $table + 32, 8) = pack 'Q<', $size;
		$names = eval { Elf::of_text('object', $broken)->names_for(0x1101, 0x2fff) };
		is_deeply($names, { 0x1101 => 'first' }, "$size sections") or diag $@;
	}
}
done_testing();
