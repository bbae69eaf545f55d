#!/usr/bin/env perl
# The manual pages: doc/jemalloc.3 is what doc/manual makes of the tables; it has each option and
# node that the library has and no other, and those that jemalloc does not have are marked stable or
# experimental; the pages of the tools have each verb and option of their
# --help and no other; all render without a warning.
use strict;
use warnings;
use File::Temp qw(tempdir);

my ($src, $build, $lib) = map { $ENV{$_} // die "$_ is not set\n" } qw(JEMALLOC_SRC JEMALLOC_BUILD
    JEMALLOC_LIB);
delete @ENV{qw(MALLOC_CONF LD_PRELOAD)};
$ENV{LC_ALL} = 'C';
require "$src/test/demo/slurp.pl";
my $config = slurp("$build/src/config.h");
my ($tests, $failures) = (0, 0);
if ($config =~ /^#define JEMALLOC_PREFIX_STR "[^"]/m || `LD_PRELOAD='$lib' /bin/true 2>&1` ne '') {
	print "1..0 # SKIP the library has other names, or is for another C library\n";
	exit 0;
}
my $dir = tempdir('jetest.XXXXXX', TMPDIR => 1, CLEANUP => 1);

my $page = slurp("$src/doc/jemalloc.3");
check_page_is_made() if !skip_reason();
skip('the page is the one that the tables give', skip_reason()) if skip_reason();
my $plain = plain($page);
check_words('functions', [symbols()],
	[$plain =~ /\b([a-z_]+)\(/g, split /[,\s]+/, $plain =~ /\.SH NAME\n(.*?) - /s ? $1 : '']);
check_options();
check_nodes();
check_marks();
check_examples();
check_messages();
check_tool('jeprofctl', "$build/bin/jeprofctl", "$src/doc/jeprofctl.1");
check_tool('jeprofd', "$build/bin/jeprofd", "$src/doc/jeprofd.1") if -x "$build/bin/jeprofd";
check('jeprof.1 is made',
	system("'$src/scripts/make-jeprof-page' '$build/bin/jeprof' >'$dir/jeprof.1'") == 0);
check_tool('jeprof', "$build/bin/jeprof", "$dir/jeprof.1");
check_verbs();
check_paths() if -x "$build/bin/jeprofd";
check_letters();
check_renders($_) for "$src/doc/jemalloc.3", "$src/doc/jeprofctl.1", "$src/doc/jeprofd.1",
    "$dir/jeprof.1";
print "1..$tests\n";
exit($failures != 0);

sub check {
	my ($name, $is_ok, @remarks) = @_;
	$tests++;
	print $is_ok ? 'ok' : 'not ok', " $tests - $name\n";
	return if $is_ok;
	$failures++;
	splice @remarks, 30 if @remarks > 30;
	# prove shows standard error only.
	print STDERR "not ok $tests - $name\n", map { "#   $_\n" } @remarks;
}

sub skip {
	$tests++;
	print "ok $tests # SKIP $_[0]: $_[1]\n";
}

# Defaults in the page are those of a build without switches.
sub skip_reason {
	return 'the page has the defaults of a release build'
	    if $config =~ /^#define CONFIG_(?:DEBUG 1|CACHE_OBLIVIOUS 0|MALLOC_CONF "[^"])/m;
	return 'doc/manual/manual was not built' if !-x "$build/doc/manual/manual";
	return 'built for another machine'
	    if system("'$build/doc/manual/manual' </dev/null >/dev/null 2>&1") != 0;
	return undef;
}

sub check_page_is_made {
	my $made = `'$build/doc/manual/manual' <'$src/doc/jemalloc.3.in'`;
	my @old = split /\n/, $page;
	my @new = split /\n/, $made;
	my ($i) = grep { ($old[$_] // '') ne ($new[$_] // '') } 0 .. ($#old > $#new ? $#old : $#new);
	check('doc/jemalloc.3 is the one that the tables give (make manual)', $? == 0 && $made eq $page,
		defined $i ? ('line ' . ($i + 1), $old[$i] // '(end)', $new[$i] // '(end)') : ());
}

# Troff taken off.
sub plain {
	my ($text) = @_;
	$text =~ s/\\f[BIR]|\\[&:]//g;
	$text =~ s/\\-/-/g;
	$text =~ s/\\e/\\/g;
	return $text;
}

# What is said of MALLOC_CONF at the start: each first line stands in the page, with k for the key.
sub check_messages {
	my @lack;
	for my $pair (qw(nonsuch:1 narenas:x narenas:0 bin_shards:x nonsuch=1 nonsuch narenas=1)) {
		my ($said) = `MALLOC_CONF='$pair' LD_PRELOAD='$lib' /bin/true 2>&1` =~ /^<jemalloc>: (.*)/;
		my ($key) = $pair =~ /^(\w+)/;
		my $words = ($said // '(nothing)') =~ s/\b$key\b/k/gr =~ s/k:[^ ]*$/k/r =~ s/ -- .*| \(.*//r;
		push @lack, "$pair: $words" if index($plain =~ s/\\\(dq/"/gr, $words) < 0;
	}
	check('messages: the page has what wrong pairs of MALLOC_CONF bring', !@lack, @lack);
}

# Both lists, one in the page: what lacks, and for a whole list what is too many.
sub check_words {
	my ($what, $wanted, $found, $is_whole) = @_;
	my %found = map { $_ => 1 } @$found;
	my %wanted = map { $_ => 1 } @$wanted;
	my @lack = grep { !$found{$_} } sort keys %wanted;
	check("$what: the page has all " . keys(%wanted), %wanted && !@lack, @lack);
	return if !$is_whole;
	my @more = grep { !$wanted{$_} } sort keys %found;
	check("$what: the page has no other", !@more, @more);
}

sub rows {
	return map { (split /\t/)[0] } grep { !/^#/ && /\S/ } split /\n/,
	    slurp("$src/test/surface/$_[0].txt");
}

sub symbols {
	return grep { !/^_Z/ } rows('symbols');
}

# ---- options and nodes: the library is asked

sub entries {
	return map { /^([^ (]+)/ ? $1 : () } $plain =~ /^\.TP\n(.*)/mg;
}

# An option that the library lacks names the switch of configure that brings it: its entry, or the
# section that the entry is in, names the same one.
sub check_options {
	my @found = map { /^([a-z_0-9]+):/ ? $1 : () } entries();
	my @keys = (rows('options'), @found);
	my (@wanted, @without);
	for my $key (@keys) {
		# A key that is there complains about the value; one that is not, about the pair.
		my $said = `MALLOC_CONF=abort_conf:false,$key:\x01 LD_PRELOAD='$lib' /bin/true 2>&1`;
		my ($switch) = $said =~ /Invalid conf pair: $key:.*\bis not built in \(.*?(--[a-z-]+)/s;
		push @wanted, $key if defined $switch || $said !~ /Invalid conf pair: $key:/;
		push @without, "$key: $switch" if defined $switch && !is_said_of($key, $switch);
	}
	my $is_whole = $config !~ /^#define CONFIG_(?:PROF|FILL|CXX) 0/m;
	check_words('options', \@wanted, \@found, $is_whole);
	check('options that a switch of configure decides: their entries name it', !@without, @without);
}

sub is_said_of {
	my ($key, $switch) = @_;
	my ($section) = $plain =~ /((?:^(?!\.S[HS] ).*\n)*)^\.TP\n\Q$key\E:/m;
	my ($front) = ($section // '') =~ /^((?:(?!\.TP\n).*\n)*)/;
	my ($entry) = $plain =~ /^\.TP\n(\Q$key\E:.*\n(?:(?!\.TP$|\.S[HS] ).*\n)*)/m;
	return "$front$entry" =~ /(?<!-)\Q$switch\E(?![\w-])/;
}

# name.{a,b}: each of them.
sub spread {
	my ($name) = @_;
	return $name !~ /^(.*)\{(.*)\}$/ ? $name : map { "$1$_" } split /,/, $2;
}

sub check_nodes {
	my @found = grep { !/^[a-z_0-9]+:/ } grep { /^[a-z_]+\.[a-z<]/
		    || /^(?:version|epoch|(?:max_)?background_threads?)$/ }
	    map { spread($_) } entries();
	my %found = map { $_ => 1 } @found;
	my $is_whole = $config !~ /^#define CONFIG_(?:PROF|FILL|CXX|STATS) 0/m;
	delete $found{'opt.option'};
	my $has = probe(grep { !/^opt\.[a-z_0-9]+$/ } rows('nodes'), sort keys %found);
	check_words('nodes', [grep { $has->{$_} } keys %$has], [keys %found], $is_whole);
	my @opt = grep { /^opt\.[a-z_0-9]+$/ } rows('nodes');
	my $has_opt = probe(@opt);
	my @lack = grep { $has_opt->{$_} && $plain !~ /^\.TP\n\Q@{[substr $_, 4]}\E:/m } @opt;
	check('each opt.* that the library has is an option of the page', !@lack, @lack);
}

sub probe {
	my @names = @_;
	my $c = "$dir/probe.c";
	open my $out, '>', $c or die "$c: $!\n";
	print $out <<'EOC';
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
int
main(void) {
	int (*to_mib)(const char *, size_t *, size_t *);
	char name[512];
	*(void **)&to_mib = dlsym(RTLD_DEFAULT, "mallctlnametomib");
	while (fgets(name, sizeof(name), stdin) != NULL) {
		size_t mib[16], length = 16;
		name[strcspn(name, "\n")] = '\0';
		printf("%d\n", to_mib != NULL && to_mib(name, mib, &length) == 0);
	}
	return 0;
}
EOC
	close $out;
	system('gcc', '-o', "$dir/probe", $c, '-ldl') == 0 or die "no probe\n";
	open $out, '>', "$dir/names" or die;
	print $out map { s/<[ij]>/0/gr . "\n" } @names;
	close $out;
	my @is = split /\n/,
	    `MALLOC_CONF=prof:true,prof_stats:true,prof_prefix: LD_PRELOAD='$lib' '$dir/probe' <'$dir/names' 2>/dev/null`;
	return { map { $names[$_] => $is[$_] } 0 .. $#names };
}

# What jemalloc does not have says what it promises, and nothing else does: the flag CONF_STABLE or
# CONF_EXPERIMENTAL of an option, NODE_STABLE or NODE_EXPERIMENTAL before the text of a node.
sub check_marks {
	my %is_jemallocs = map { $_ => 1 } rows('options'), rows('nodes');
	my (@wrong, %count);
	for my $entry ($plain =~ /^\.TP\n((?:(?!\.TP$|\.S[HS] |\.R[SE]$).*\n)+)/mg) {
		my ($names) = $entry =~ /^([a-z_0-9]+(?=:[a-z]+$)|[a-z_]+\.[a-z_0-9.<>{},]+(?= \())/m;
		my ($mark) = $entry =~ /^Not in jemalloc; (stable|experimental)\.$/m;
		$count{$mark}++ if defined $mark;
		next if !defined $names || $names eq 'opt.option';
		push @wrong, map { "$_: " . ($mark // 'no mark') }
		    grep { ($is_jemallocs{$_} // 0) == defined $mark } spread($names);
	}
	check('additions, and only they, are marked: ' .
		    join(', ', map { "$count{$_} $_" } sort keys %count),
		!@wrong && ($count{stable} // 0) > 40 && ($count{experimental} // 0) > 10, @wrong);
}

# The pieces of C in the page compile as they stand, one after the other in a main(), and do what
# they say.
sub check_examples {
	my @pieces = grep { /mallctl\(/ } $plain =~ /^\.nf\n(.*?)^\.fi/msg;
	@pieces = grep { !/^\.B/m } @pieces;
	open my $out, '>', "$dir/examples.c" or die "examples.c: $!\n";
	print $out "#include <jemalloc/jemalloc.h>\n#include <stdint.h>\nstatic void\nwork(void) {\n}\nint\nmain(void) {\n",
	    (map { "{\n$_}\n" } @pieces), "return 0;\n}\n";
	close $out;
	my $place = $lib =~ s{/[^/]*$}{}r;
	my $flags = "-std=c99 -Wall -Wextra -Werror -I'$build/include' -Wl,-rpath,'$place'";
	my $said = `cd '$dir' && gcc $flags -o examples examples.c '$lib' 2>&1 && ./examples 2>&1`;
	check('the ' . @pieces . ' pieces of C in the page compile and run', @pieces >= 2 && $? == 0,
		split /\n/, $said);
	my @files = glob "$dir/work.*.s0.heap";
	check('and leave a profile of the session', @files == 1)
	    if $config !~ /^#define CONFIG_PROF 0/m;
}

# ---- tools

sub check_tool {
	my ($name, $program, $file) = @_;
	if (!-e $program) {
		skip("$name(1)", 'not in this build');
		return;
	}
	my $help = `'$program' --help 2>&1`;
	my $text = plain(slurp($file));
	my @options = $name eq 'jeprofctl' ? '--help' : ();
	push @options, $help =~ /(?<![\w-])(--?[a-zA-Z][\w-]*)/g;
	# Entries of the page: every option in a line behind .TP.
	my @found = map { /(?<![\w-])(--?[a-zA-Z][\w-]*)/g } $text =~ /^\.TP\n(.*)/mg;
	check_words("$name: options", \@options, \@found, 1);
	my ($exits) = $help =~ /^Exit:(.*)/ms;
	check_words("$name: exit codes", [$exits =~ /[\s,](\d) [a-z]/g], [$text =~ /^\.TP\n(\d)$/mg],
		1);
	my ($section) = $text =~ /^\.SH VERBS\n(.*?)^\.SH /ms;
	return if !defined $section;
	my @verbs = map { /^(?:\.B )?([a-z]+)/ ? $1 : () } $section =~ /^\.TP\n(.*)/mg;
	check_words("$name: verbs", [$help =~ /^  ([a-z]+) (?:PID|   )/mg], \@verbs, 1);
}

# The verbs of jeprof: each with its text, those of jeprofctl among them, each in a document.
sub check_verbs {
	my $help = `'$build/bin/jeprof' --help 2>&1`;
	my ($usage) = $help =~ /^Usage:\n((?:  .*\n)*)/;
	my @bare = grep { !/^  jeprof \S.*  [^ ]/ } split /\n/, $usage // '';
	check('jeprof --help: each line of the usage has a text', defined $usage && !@bare, @bare);
	my ($handed) = $usage =~ /^  jeprof ([a-z|]+\|[a-z|]+) \.\.\./m;
	my @ctl = `'$build/bin/jeprofctl' --help` =~ /^  ([a-z]+) /mg;
	check("jeprof hands over jeprofctl's verbs", join(' ', sort @ctl) eq
		    join(' ', sort split /\|/, $handed // '')) if @ctl;
	my $documents = join '', map { slurp($_) } glob "$src/README.md $src/doc/*.md";
	my @verbs = $usage =~ /^  jeprof ([a-z]+)(?= |$)(?!\|)/mg;
	my @lack = grep { $documents !~ /jeprof $_\b/ } @verbs;
	check('a document shows each of its ' . @verbs . ' verbs', @verbs > 10 && !@lack, @lack);
}

# The paths of jeprofd and their arguments: --help has the table that requests are looked up in.
sub check_paths {
	my $help = `'$build/bin/jeprofd' --help 2>&1`;
	my ($paths, $arguments) = $help =~ /^Paths:\n(.*?)^Arguments:\n(.*?)^\S/ms;
	my @bare = grep { !m{^  /\S* +\S} } split /\n/, $paths // '-';
	check('jeprofd --help: each path has a text', !@bare, @bare);
	my ($section) = plain(slurp("$src/doc/jeprofd.1")) =~ /^\.SH PATHS\n(.*?)^\.SH /ms;
	my @entries = map { s/^\.B[IR]? //r =~ s/ //gr } $section =~ /^\.TP\n(.*)/mg;
	check_words('jeprofd: paths', [$paths =~ /^  (\S+)/mg], [grep { m{^/} } @entries], 1);
	check_words('jeprofd: arguments', [$arguments =~ /(\?\w+)=/g], [$section =~ /(\?\w+)=/g], 1);
}

# The options of jeprofctl: --help names each row of its table, by the name or the letter.
sub check_letters {
	return if !-x "$build/bin/jeprofctl";
	my $help = `'$build/bin/jeprofctl' --help`;
	my %rows = slurp("$src/bin/ctl/words.c") =~ /^ +\{"([a-z-]+)", ('.'|0), kind_/mg;
	my @lack = grep {
		my $letter = $rows{$_} =~ /'(.)'/ ? $1 : '';
		$help !~ /(?<![\w-])--\Q$_\E(?![\w-])/ && (!length $letter || $help !~ /(?<![\w-])-$letter\b/)
	} sort keys %rows;
	check('jeprofctl --help: all ' . keys(%rows) . ' options', keys %rows > 20 && !@lack, @lack);
}

sub check_renders {
	my ($file) = @_;
	my $name = $file =~ s{.*/}{}r;
	if (system('command -v groff >/dev/null') != 0) {
		skip("$name renders", 'no groff');
		return;
	}
	my $said = `groff -man -ww -Tascii -z '$file' 2>&1`;
	check("$name renders without a warning", $? == 0 && $said eq '', split /\n/, $said);
}
