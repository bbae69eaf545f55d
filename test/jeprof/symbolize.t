#!/usr/bin/perl
# jeprof-symbolize: says of each address what addr2line says, of many files in one run; refuses what
# it cannot read with one line; jeprof uses it, tells that, and goes on without it.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
use POSIX ();
our ($dir, $jeprof, $source);

my $tool = "$jeprof-symbolize";
plan skip_all => 'jeprof-symbolize is not built (no libdw)' unless -x $tool;
plan skip_all => 'no g++, nm or addr2line' if grep { !which($_) } qw(g++ nm addr2line);

my $text = <<'CC';
#include <string>
#include <vector>
namespace box {
	template <class T> inline T *made(int n) { T *p = new T[n]; p[0] = 1; return p; }
	inline char *twice(int n) { return made<char>(2 * n); }
}
void *volatile sink;
struct Holder { std::vector<std::string> all; __attribute__((noinline)) void fill(int n); };
void Holder::fill(int n) { for (int i = 0; i < n; i++) { all.push_back(std::to_string(i) + " and more than fits inside"); } }
__attribute__((noinline)) void grow(int n) { sink = box::twice(n); { int k = n; sink = box::made<double>(k); } }
int main(int count, char **) { Holder *h = new Holder; h->fill(200 * count); for (int i = 0; i < 300; i++) { grow(1000 * count); } return 0; }
CC

# Addresses inside the functions of a program: each fifth byte.
sub addresses {
	my ($program) = @_;
	my @list;
	for my $line (`nm -S $program`) {
		my ($start, $size) = $line =~ /^([0-9a-f]+) ([0-9a-f]+) [tTwW] (?!_start)/ or next;
		push @list, map { sprintf '0x%x', hex($start) + 5 * $_ } 0 .. (hex($size) - 1) / 5;
	}
	return @list;
}

# { address => ["function file:line", ...] }; the function of the outermost frame is left out: the
# tools have it from different tables.
sub answers {
	my ($text) = @_;
	my (%found, $at, @pair);
	for my $line (split /\n/, $text) {
		if ($line =~ /^0x([0-9a-f]+)$/) {
			$at = $found{ hex $1 } = [];
		} elsif ($at && length $line && push(@pair, $line) == 2) {
			my ($function, $place) = splice @pair;
			$place =~ s/ \(discriminator \d+\)$//;
			$place =~ s{^.*/}{};
			$place =~ s/^(.*?):(\d+|\?)(?::\d+)?$/$1 . ':' . ($2 eq '?' ? 0 : $2)/e;
			push @$at, "$function $place";
		}
	}
	@$_ and $_->[-1] =~ s/^\S+ // for values %found;
	return \%found;
}

# The tool to compare with; addr2line misses half of clang's, and what lies in files *.dwo.
sub peer {
	my ($compiler, @flags) = @_;
	return $compiler eq 'g++' && "@flags" !~ /split/ ? qw(addr2line -a -f -i -e)
	    : qw(llvm-symbolizer --print-address --no-demangle --inlines --functions=linkage --obj);
}

my %program;
chdir $dir; # clang writes files *.dwo there
for my $case (['plain', 'g++'], ['dwarf4', 'g++', '-gdwarf-4'], ['packed', 'g++', '-gz'],
	['split', 'g++', '-gsplit-dwarf'], ['split4', 'g++', '-gdwarf-4', '-gsplit-dwarf'],
	['split5', 'clang++', '-gsplit-dwarf'], ['ranges', 'clang++']) {
	my ($name, $compiler, @flags) = @$case;
	spew("$dir/$name.cc", $text);
    SKIP: {
		skip "no $compiler", 3 if grep { !which($_) } $compiler, (peer($compiler, @flags))[0];
		skip "$compiler cannot make $name", 3
		    if (run($compiler, '-g', '-O2', @flags, '-o', "$dir/$name", "$dir/$name.cc"))[0];
		$program{$name} = "$dir/$name";
		my @asked = addresses("$dir/$name");
		my ($code, $out, $err) = run(\join("\n", "file $dir/$name", @asked, ''), $tool);
		is("$code|$err", '0|', "$name: done");
		my ($got, $want) = map { answers($_) } $out,
		    (run(\join("\n", @asked, ''), peer($compiler, @flags), "$dir/$name"))[1];
		my @deep = grep { @{ $got->{$_} } > 2 } keys %$got;
		cmp_ok(scalar(@deep), '>', 10, "$name: inlined calls");
		my @other = grep { "@{ $got->{$_} }" ne "@{ $want->{$_} }" } sort keys %$want;
		is(scalar(@other), 0, "$name: what " . (peer($compiler, @flags))[0] . " says of " . @asked
			    . ' addresses')
		    or diag map { sprintf "%x: @{ $got->{$_} }\n   want: @{ $want->{$_} }\n", $_ } @other
		    > 5 ? @other[0 .. 4] : @other;
	}
}

# Units that are split, without their files: said, and read from a package by the tool that can.
SKIP: {
	my ($library) = libraries();
	skip 'no split program, library or llvm-dwp', 7
	    if !$program{split} || !$library || grep { !which($_) } qw(llvm-dwp llvm-symbolizer);
	my $dump = dump_of($library, 'lg_prof_sample:10', $program{split});
	my @ask = ('--text', '--lines', '--inlines', $dump);
	my (undef, $want, $silent) = jeprof(@ask);
	unlike($silent, qr/dwo|dwp/, 'split: nothing to say');
	my ($dwo) = glob "$dir/*split*.dwo";
	is((run('llvm-dwp', $dwo, '-o', "$dir/split.dwp"))[0], 0, 'a package');
	rename $dwo, "$dir/away";
	my (undef, $got, $err) = jeprof(@ask);
	is($got, $want, 'its lines and inlined calls');
	unlike($err, qr/dwo|dwp/, 'nothing to say');
	rename "$dir/split.dwp", "$dir/gone.dwp";
	(undef, $got, $err) = jeprof(@ask);
	like($err, qr/^jeprof: \S+split: \S*split\S*\.dwo \(-gsplit-dwarf\) not there: inlined calls are missing;/m, 'no package: said');
	unlike($got, qr/lacks/, 'and no frame');
	rename "$dir/gone.dwp", "$dir/split.dwp";
	is((jeprof('--tools=llvm-symbolizer:/bin/false,addr2line:/bin/false', @ask))[1], $got, 'a package that no tool reads: lines at least');
	rename "$dir/away", $dwo;
}

# Several files, in any order of addresses; what cannot be read does not stop the others.
my ($first) = addresses($program{plain});
my ($code, $out, $err) =
    run(\"file $dir/none\n0x1\nfile $dir/plain.cc\n0x1\nfile $program{plain}\n0xfffffffffffffff0\n$first\n0x1\n", $tool);
is($code, 1, 'a file that is none: exit 1');
like($err, qr/\Ajeprof-symbolize: \Q$dir\E\/none: cannot be opened\njeprof-symbolize: \Q$dir\E\/plain\.cc: not an ELF file\n\z/, 'a line for each');
is(join(' ', sort grep { /^0x/ } split /\n/, $out),
	join(' ', sort '0x1', '0xfffffffffffffff0', $first), 'the addresses of the last are answered');
like($out, qr/^0x1\n\?\?\n\?\?:0$/m, 'an address of no function: ??');
is((run(\"$_\n", $tool))[0], 2, 'input that is wrong: exit 2: ' . substr $_, 0, 20)
    for '0x12', "file $program{plain}\nwork", "file $program{plain}\n0x",
    "file $program{plain}\n0x" . 'f' x 17, "file \n0x1";
POSIX::mkfifo("$dir/pipe", 0600);
($code, undef, $err) = run(\"file $dir/pipe\n0x1\n", 'timeout', 60, $tool);
like("$code $err", qr/^1 jeprof-symbolize: \S+pipe: /, 'a pipe: exit 1, one line');
($code, undef, $err) = run(\"file $program{plain}\n0x1\n12\n", $tool);
like($err, qr/\Ajeprof-symbolize: line 3 is neither .*\n\z/, 'and a line that says which');
is((run($tool, '--nope'))[0], 2, 'an argument: exit 2');
($code, $out, $err) = run($tool, '--help');
like("$code $out$err", qr/\A0 usage: jeprof-symbolize .*\n\z/, '--help: its usage');
for my $case (["<$dir", 'Is a directory'], ['<&-', 'Bad file descriptor']) {
	($code, $out, $err) = run('sh', '-c', "exec \"\$0\" $case->[0]", $tool);
	is("$code $out$err", "1 jeprof-symbolize: stdin: $case->[1]\n", "stdin that cannot be read: $case->[1]");
}
SKIP: { # without addresses there is nothing to sort, and qsort() takes no NULL
	my @command = ('gcc', qw(-std=gnu11 -O1 -D_GNU_SOURCE -fsanitize=undefined -fno-sanitize-recover=undefined),
		"-I$source/src", "-I$source/bin", "-I$source/bin/agent", '-o', "$dir/checked", glob("$source/bin/symbolize/*.c"),
		"$source/bin/agent/intern.c", "$source/bin/agent/names/table.c", qw(-ldw -lelf -ldl));
	skip 'gcc cannot', 1 if (run(@command))[0];
	($code, $out, $err) = run(\"file $program{plain}\nfile $program{plain}\n$first\n", "$dir/checked");
	is("$code $err", '0 ', 'a file without addresses: no sanitizer speaks');
}
system('strip', '-o', "$dir/stripped", $program{plain});
($code, $out, $err) = run(\"file $dir/stripped\n$first\n", $tool);
is($code, 1, 'without DWARF: exit 1') or diag $out;
spew("$dir/half", substr slurp($program{plain}), 0, 20000);
($code, $out, $err) = run(\"file $dir/half\n$first\n", $tool);
like("$code $err", qr/^1 jeprof-symbolize: \S+half: /, 'half a file: exit 1, one line');

# A working directory that the compiler was told to write as a relative path.
mkdir "$dir/src2";
spew("$dir/src2/a.c", "int one(int n) { return n * 3; }\nint main(int n, char **v) { (void)v; return one(n); }\n");
SKIP: {
	skip 'gcc cannot', 1 if (run('sh', '-c', 'cd "$0" && gcc -g -O0 -fdebug-prefix-map="$0"=src -o mapped src2/a.c', $dir))[0];
	($first) = map { /^([0-9a-f]+) . one$/ ? "0x$1" : () } `nm "$dir/mapped"`;
	like((run(\"file $dir/mapped\n$first\n", $tool))[1], qr{^one\nsrc/src2/a\.c:1$}m, 'a name that begins like the directory is below it nevertheless');
}

# Units that touch, without a table of their ranges: an address is of the unit that begins there.
SKIP: {
	my @unit = map { "$dir/unit$_" } 1 .. 3;
	spew("$unit[0].c", "int one(int n) { return n; }\n");
	spew("$unit[1].c", "\n\nint two(int n) { return n + 2; }\n");
	spew("$unit[2].c", "int two(int); int main(int n, char **v) { (void)v; return two(n); }\n");
	skip 'no objcopy', 1 if !which('objcopy') || grep {
		(run('gcc', '-g', '-Os', '-falign-functions=1', '-c', '-o', "$_.o", "$_.c"))[0]
	} @unit;
	run('gcc', '-o', "$dir/touching", map { "$_.o" } @unit);
	run('objcopy', '-R', '.debug_aranges', "$dir/touching");
	my %at = map { /^([0-9a-f]+) ([0-9a-f]+) T (one|two)$/ ? ($3 => [hex $1, hex $2]) : () }
	    `nm -S $dir/touching`;
	skip 'the functions do not touch', 1
	    if !$at{one} || $at{one}[0] + $at{one}[1] != $at{two}[0];
	my $asked = sprintf '0x%x', $at{two}[0];
	like((run(\"file $dir/touching\n$asked\n", $tool))[1], qr/^two\n\S*unit2\.c:3\b/m,
		'the first address of a unit, behind the last one of another');
}

# A function that the linker discards keeps its debug information, at addresses from 0 on.
for my $compiler (qw(gcc clang)) {
    SKIP: {
		skip "no $compiler", 2 if !which($compiler);
		my $steps = "x++;\n" x 3000;
		spew("$dir/gone.c", "volatile int x;\nstatic inline __attribute__((always_inline)) void "
			    . "gone_inline(void) {\n$steps}\nvoid gone(void) { gone_inline(); }\n"
			    . "__attribute__((noinline)) void stays(void) { x = 7; }\n"
			    . "int main(void) { stays(); return 0; }\n");
		skip "$compiler cannot", 2 if (run($compiler, qw(-g -O2 -fPIE -pie -ffunction-sections),
				'-Wl,--gc-sections', '-o', "$dir/gone", "$dir/gone.c"))[0];
		my ($at) = `nm $dir/gone` =~ /^([0-9a-f]+) T stays$/m;
		my $asked = (run(\"file $dir/gone\n0x$at\n", $tool))[1];
		like($asked, qr/^stays\n/m, "$compiler: the function that is there");
		unlike($asked, qr/^gone|gone\.c:(?!3005\b)\d/m,
			"$compiler: none that is not, nor its line");
	}
}

# A stripped object with its functions in .gnu_debugdata, as Fedora makes them: jeprof and jeprofd name
# what is not exported, from there, and what is, from .dynsym.
SKIP: {
	skip 'no xz or objcopy', 6 unless which('xz') && which('objcopy');
	spew("$dir/mini.c", "__attribute__((noinline)) static int hidden(int n) { return n * 3; }\n"
		    . "int shown_one(int n) { return hidden(n) + hidden(n + 1); }\n");
	my $so = "$dir/mini.so";
	run(qw(gcc -O0 -fPIC -shared -o), $so, "$dir/mini.c");
	my %at = map { /^([0-9a-f]+) [tT] (hidden|shown_one)$/ ? ($2, hex $1) : () } split /\n/, `nm $so`;
	spew("$dir/keep", "hidden\n");
	run(qw(objcopy --only-keep-debug), $so, "$dir/mini.debug");
	run('objcopy', '-S', "--keep-symbols=$dir/keep", "$dir/mini.debug", "$dir/mini.elf");
	run('xz', '-k', "$dir/mini.elf");
	run('strip', '--strip-all', $so);
	run('objcopy', '--add-section', ".gnu_debugdata=$dir/mini.elf.xz", $so);
	is(`nm $so 2>&1` =~ /hidden/ ? 'not stripped' : 'stripped', 'stripped', 'the object has no symbol table');
	my $name = table_names($so, map { $_ + 4 } @at{qw(hidden shown_one)});
	is_deeply([map { $name->{ $at{$_} + 4 } } qw(hidden shown_one)], [qw(hidden shown_one)], 'the table of jeprofd');
	my $start = 0x7f0000000000;
	my $dump = our_dump("$dir/mini.heap", stacks => [map { [[$start + $_ + 5], 1, 4096] } @at{qw(hidden shown_one)}],
		modules => [[$start, $start + 0x8000, $start, '-', $so]]);
	my ($mini_code, $mini_out, $mini_err) = jeprof('top', $dump);
	like($mini_out, qr/ hidden$/m, 'jeprof: what is not exported') or diag $mini_out, $mini_err;
	like($mini_out, qr/ shown_one$/m, 'and what is');
	is($mini_code, 0, 'nothing is missing') or diag $mini_err;
	my $packed = "$dir/mini.jepack";
	jeprof('pack', $dump, '-o', $packed);
	unlink $so;
	like((jeprof('top', $packed))[1], qr/ hidden$/m, 'a pack keeps them');
}

# jeprof: the same answer by whatever program is there, and it says by which.
my ($library) = libraries();
SKIP: {
	skip 'no library', 9 unless $library;
	my $dump = dump_of($library, 'lg_prof_sample:10', $program{plain});
	my @ask = ('--text', '--lines', '--inlines', '--debug', $dump);
	($code, $out, $err) = jeprof(@ask);
	like($err, qr/^jeprof: \Q$program{plain}\E: lines by jeprof-symbolize$/m, 'jeprof uses it');
	like($out, qr/ box::made \S*plain\.cc:4$/m, 'inlined functions have their lines') or diag $out;
	my $html = (jeprof('report', $dump))[1];
	like($html, qr/Source lines: by jeprof-symbolize\./, 'the report says so');
	my ($code2, $out2, $err2) = jeprof('--tools=jeprof-symbolize:/nonexistent', @ask);
	like($err2, qr/: lines by (?:llvm-symbolizer|addr2line)$/m, 'without it: another');
	s{(?<= )\S*/}{}g for $out, $out2;
	is($out2, $out, 'which says the same') if which('llvm-symbolizer');
	my $empty = spew("$dir/empty", "#!/bin/sh\nwhile read -r at; do printf '%s\\n??\\n??:0\\n\\n' \"\$at\"; done\n");
	chmod 0755, $empty;
	my $failing = '--tools=jeprof-symbolize:/bin/false,llvm-symbolizer:' . $empty;
	($code, $out, $err) = jeprof($failing, @ask);
	like($err, qr/^jeprof: \Q$program{plain}\E: lines by addr2line$/m, 'one fails, the next knows nothing: the third');
	($code, $out, $err) = jeprof("$failing,addr2line:$empty", @ask);
	like("$code $err", qr/^3 .*^jeprof: \Q$program{plain}\E: jeprof-symbolize and llvm-symbolizer and addr2line failed; its lines are missing$/ms, 'all: a doubt');
	rename build('other.cc', $text), "$dir/ended"; # the same code, of a file of another name
	spew("$dir/ended\n", slurp($program{plain}));
	chmod 0755, "$dir/ended\n";
	my $lines = (jeprof('--text', '--lines', dump_of($library, 'lg_prof_sample:10', "$dir/ended\n")))[1];
	like($lines, qr/plain\.cc:\d/, 'a path that ends in a line end: the lines of its file');
	unlike($lines, qr/other\.cc/, 'and not of the one without it');
}
done_testing();
