# What the jeprof tests share: running jeprof, making programs and dumps, writing small ELF files.
# Each test works in its own temporary directory and leaves nothing behind.

use strict;
use warnings;
use Cwd ();
use File::Temp ();
use POSIX ();
use Test::More;

our $source = Cwd::abs_path(__FILE__) =~ s{/test/jeprof/common\.pl$}{}r;
our $data = "$source/test/jeprof/data";
our $dir = File::Temp::tempdir('jeprof-test-XXXXXX', TMPDIR => 1, CLEANUP => 1);
our $jeprof = made(); # the one joined by make, or one joined here if no build is named
our $peer = '/usr/bin/jeprof'; # Debian's own, of the package libjemalloc-dev

delete @ENV{qw(JEPROF_TOOLS MALLOC_CONF DEBUGINFOD_URLS LD_PRELOAD)};
$ENV{LC_ALL} = 'C';

sub made {
	my $built = ($ENV{JEMALLOC_BUILD} // '') . '/bin/jeprof';
	return $built if $ENV{JEMALLOC_BUILD} && -x $built;
	system("$source/scripts/join-jeprof", "$dir/jeprof") == 0 or die 'join-jeprof failed';
	return "$dir/jeprof";
}

sub slurp {
	my ($path) = @_;
	open(my $fh, '<:raw', $path) or die "$path: $!";
	local $/;
	return scalar <$fh> // '';
}

sub spew {
	my ($path, $text) = @_;
	open(my $fh, '>:raw', $path) or die "$path: $!";
	print {$fh} $text;
	close($fh) or die "$path: $!";
	return $path;
}

# Runs a command; returns (exit code, stdout, stderr).
sub run {
	my @command = @_;
	my $in = ref $command[0] ? ${ shift @command } : '';
	spew("$dir/.in", $in);
	my $pid = fork // die "fork: $!";
	if (!$pid) {
		open STDIN, '<', "$dir/.in";
		open STDOUT, '>', "$dir/.out";
		open STDERR, '>', "$dir/.err";
		exec { $command[0] } @command or exit 127;
	}
	waitpid $pid, 0;
	return ($? >> 8, slurp("$dir/.out"), slurp("$dir/.err"));
}

sub jeprof {
	my @input = ref $_[0] ? shift : ();
	return run(@input, $^X, $jeprof, @_);
}

# Waits until the sub returns true, five minutes at most: a machine may be slow. Whether it did.
sub until_true {
	my ($is_so) = @_;
	my $end = time + 300;
	until ($is_so->()) {
		return 0 if time >= $end;
		select undef, undef, undef, 0.02;
	}
	return 1;
}

# jeprof compiled once in this process, and run in a child: for tests that run it hundreds of times.
my $is_loaded = 0;

sub load_jeprof {
	return if $is_loaded++;
	local $^W = 1;
	package Loaded;
	eval main::slurp($main::jeprof) =~ s/^exit Main::main\(\@ARGV\);$//mr;
	die $@ if $@;
}

sub in_child {
	my @arguments = @_;
	load_jeprof();
	my $pid = fork // die "fork: $!";
	if (!$pid) {
		open STDIN, '<', '/dev/null';
		open STDOUT, '>', "$dir/.out";
		open STDERR, '>', "$dir/.err";
		POSIX::_exit(do { my $code = Main::main(@arguments); close STDERR; $code });
	}
	waitpid $pid, 0;
	return ($? & 127 ? 99 : $? >> 8, slurp("$dir/.out"), slurp("$dir/.err"));
}

sub has_peer {
	return 0 unless -x $peer && slurp($peer) =~ /gperftools/;
	return 1;
}

# The options by which Debian's jeprof asks for no names: those take it most of its time, and totals need
# none. Its programs are one that says nothing.
sub peer_nameless {
	our $dir;
	my $none = "$dir/says-nothing";
	if (!-x $none) {
		spew($none, "#!/bin/sh\nexit 0\n");
		chmod 0755, $none or die "$none: $!";
	}
	return '--tools=' . join ',', map { "$_:$none" } qw(nm addr2line objdump c++filt);
}

sub which {
	my ($name) = @_;
	return (grep { -x } map { "$_/$name" } split /:/, $ENV{PATH})[0];
}

# A program that finds source lines for jeprof.
sub line_tool {
	return (grep { defined && -x } "$jeprof-symbolize",
		map { which($_) } qw(llvm-symbolizer addr2line))[0];
}

# Of a report's data: the number of the name of each node of its tree.
sub node_names {
	my ($data) = @_;
	my @fresh = @{ $data->{fresh} };
	my (@follow, @name);
	for my $node (1 .. $#{ $data->{up} }) {
		my $list = $follow[$name[$node - $data->{up}[$node]] // 0] //= [];
		push @$list, shift @fresh if @$list == $data->{step}[$node - 1];
		$name[$node] = $list->[$data->{step}[$node - 1]];
	}
	return (0, @name[1 .. $#name]);
}

# The libraries to make dumps with: Debian's, and ours if JEMALLOC_LIB says where it is.
sub libraries {
	my @list = grep { -e } glob '/usr/lib/*/libjemalloc.so.2';
	push @list, $ENV{JEMALLOC_LIB} if $ENV{JEMALLOC_LIB} && -e $ENV{JEMALLOC_LIB};
	return @list;
}

# Compiles C text (C++ if the name ends in .cc) in the test's directory; returns the path made.
sub build {
	my ($name, $text, @flags) = @_;
	my ($out) = "$dir/$name" =~ /^(.*)\.cc?$/;
	my $compiler = $name =~ /\.cc$/ ? 'g++' : 'gcc';
	$out = "$1.so" if grep({ $_ eq '-shared' } @flags) && $out =~ /^(.*)$/;
	spew("$dir/$name", $text);
	system($compiler, '-g', '-O1', '-fno-omit-frame-pointer', '-o', $out, "$dir/$name", @flags) == 0
	    or die "$compiler failed";
	return $out;
}

my $dumps = 0;

# Runs a program on a library with profiling; returns the path of its final dump.
sub dump_of {
	my ($library, $options, @command) = @_;
	my $prefix = "$dir/d" . ++$dumps;
	local $ENV{LD_PRELOAD} = $library;
	local $ENV{MALLOC_CONF} = "prof:true,prof_final:true,prof_prefix:$prefix"
	    . (length $options ? ",$options" : '');
	my $pid = fork // die "fork: $!";
	if (!$pid) {
		exec { $command[0] } @command or exit 127;
	}
	waitpid $pid, 0;
	my @files = glob "$prefix.*.f.heap";
	die "no dump of @command" unless @files == 1;
	return $files[0];
}

# { NAME => [flat, flat%, running%, cum, cum%] } of a text table, with the total under ''.
sub table {
	my ($text) = @_;
	my %row;
	for my $line (split /\n/, $text) {
		if ($line =~ /^Total[^:]*: (\S+)/) {
			$row{''} = $1;
		} elsif ($line =~ /^\s*(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+) (.*)$/) {
			$row{$6} = [$1, $2, $3, $4, $5];
		}
	}
	return \%row;
}

# A small ELF file. order '<' or '>', wide 0 or 1, symbols [[name, value, size, type, bind], ...],
# id in hex, link = name in .gnu_debuglink, code = [offset, vaddr, size] of the text segment.
sub elf_file {
	my ($path, %want) = @_;
	my $o = $want{order} // '<';
	my $wide = $want{wide} // 1;
	my ($offset, $vaddr, $size) = @{ $want{code} // [0x1000, 0x1000, 0x2000] };
	my $fix = sub { my ($shape) = @_; my $address = $wide ? 'Q' : 'L'; $shape =~ s/A/$address/g;
		$shape =~ s/([SLQ])/$1$o/g; $shape };
	my $strings = "\0";
	my $symbols = "\0" x ($wide ? 24 : 16);
	for my $symbol (@{ $want{symbols} // [] }) {
		my ($name, $value, $length, $type, $bind) = @$symbol;
		my $info = (($bind // 1) << 4) | ($type // 2);
		$symbols .= $wide ? pack($fix->('LCCSQQ'), length $strings, $info, 0, 1, $value, $length)
		    : pack($fix->('LLLCCS'), length $strings, $value, $length, $info, 0, 1);
		$strings .= "$name\0";
	}
	my $note = defined $want{id} ? pack($fix->('LLL'), 4, length($want{id}) / 2, 3) . "GNU\0"
	    . pack('H*', $want{id}) : '';
	my $link = defined $want{link} ? pack('a*x', $want{link}) : '';
	$link .= "\0" x (-length($link) % 4) . "\1\2\3\4" if length $link;
	my @sections = (['', 0, '', 0], ['.text', 1, '', 0], ['.note.gnu.build-id', 7, $note, 0],
		['.gnu_debuglink', 1, $link, 0],
		[$want{dynamic} ? '.dynsym' : '.symtab', $want{dynamic} ? 11 : 2, $symbols, 5],
		['.strtab', 3, $strings, 0], ['.shstrtab', 3, '', 0]);
	splice @sections, 4, 2, ['.a', 1, '', 0], ['.b', 1, '', 0] unless $want{symbols};
	my %title;
	for my $section (@sections) {
		$title{ $section->[0] } = length $sections[6][2];
		$sections[6][2] .= "$section->[0]\0";
	}
	my ($header, $entry) = $wide ? (64, 56) : (52, 32);
	my $segment = $wide ? pack($fix->('LLQQQQQQ'), 1, 5, $offset, $vaddr, $vaddr, $size, $size,
		0x1000)
	    : pack($fix->('LLLLLLLL'), 1, $offset, $vaddr, $vaddr, $size, $size, 5, 0x1000);
	my $body = '';
	my $table = '';
	my $start = $offset + $size;
	for my $section (@sections) {
		my ($name, $type, $content, $link_to) = @$section;
		my $is_code = $want{is_linked} && $name eq '.text';
		$table .= pack $fix->('LLAAAALLAA'), $title{$name}, $type,
		    $is_code ? (4, $vaddr, $offset, $size)
		    : (0, 0, $start + length $body, length $content), $link_to, 0, 1,
		    $type == 2 || $type == 11 ? ($wide ? 24 : 16) : 0;
		$body .= $content;
	}
	my $shoff = $start + length $body;
	my $head = "\x7fELF" . pack('CCC', $wide ? 2 : 1, $o eq '<' ? 1 : 2, 1) . "\0" x 9;
	$head .= pack $fix->('SSLAAALSSSSSS'), $want{type} // 3, $want{machine} // 62, 1, 0, $header,
	    $shoff, 0, $header, $entry, 1,
	    $wide ? 64 : 40, scalar @sections, 6;
	my $file = $head . $segment;
	$file .= "\0" x ($start - length $file);
	return spew($path, $file . $body . $table);
}

# { address => the name that jeprofd shows for it } of an object without a build-id, for those
# addresses that have one: of the table that jeprof-symbolize makes for jeprofd
# (bin/agent/names/table.h).
sub table_names {
	my ($file, @addresses) = @_;
	spew("$dir/addresses", pack 'Q*', @addresses);
	my $table = `"$jeprof-symbolize" --table x "$file" --object 3 --symbols 3<"$file" <"$dir/addresses"`;
	return {} unless $table =~ /^jepnames/;
	my ($rows, $frames) = unpack 'x24 LL', $table;
	my $start = 40 + 248 + 8;
	my %name;
	for my $at (0 .. $rows - 1) {
		my ($address, $frame, $has) = unpack 'QLL', substr $table, $start + 16 * $at, 16;
		next unless $has;
		my $name = unpack 'L', substr $table, $start + 16 * ($rows + $frame), 4;
		$name{$address} = unpack 'Z*', substr $table, $start + 16 * ($rows + $frames) + $name, 4097;
	}
	return \%name;
}

# A dump of ours: metadata after line 1, module lines and the end line at the end.
sub our_dump {
	my ($path, %want) = @_;
	my $rate = $want{rate} // 1;
	my $text = "heap_v2/$rate\n";
	my %meta = $want{meta} ? %{ $want{meta} } : (version => '5.3.1');
	$text .= join '', map { "# jemalloc.$_=$meta{$_}\n" } sort keys %meta;
	$text .= "  t*: 1: 1 [0: 0]\n  t0: 1: 1 [0: 0]\n";
	for my $stack (@{ $want{stacks} }) {
		my ($frames, $objects, $bytes) = @$stack;
		$text .= '@' . join('', map { sprintf ' 0x%x', $_ } @$frames)
		    . "\n  t*: $objects: $bytes [0: 0]\n  t0: $objects: $bytes [0: 0]\n";
	}
	$text .= "\nMAPPED_LIBRARIES:\n" . ($want{maps} // '');
	for my $module (@{ $want{modules} // [] }) {
		my ($start, $end, $bias, $id, $file) = @$module;
		$text .= sprintf "# module %x-%x %x %s %s\n", $start, $end, $bias, $id, $file;
	}
	$text .= sprintf "# end %d\n", length $text unless $want{no_end};
	return spew($path, $text);
}

1;
