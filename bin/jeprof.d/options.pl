# Options: what the command line says, as a hash; the text of --help. Callers: Main, Contention
# (choose), Export (say_unused, @whole), and those that suggest commands (kept, pattern) or complete
# words (names_for); those that tell a sum in a sentence (filters).
package Options;

use Getopt::Long ();

# The one list of options: parser, defaults and --help come from it. A row is [heading], or [spec of
# Getopt::Long, default, line of --help]; the line is undef if the option is not told, or told with
# the row before.
my @options = (
	['General'],
	['cum!', 0, '--cum                 sort by cumulative value'],
	['base|diff_base=s', '', '--base=FILE, --diff_base=FILE  subtract the profile FILE'],
	['interactive!', 0,
		'--interactive         read commands (the default when stdout is a terminal)'],
	['sum!', 0, '--sum                 several profiles: top adds them up too; tables and graphs do without a warning'],
	['seconds=i', 0,
		'--seconds=N           duration of a profile from http://..., if the server supports it'],
	['Where objects are'],
	['add_lib=s@', [], '--add_lib=FILE        use FILE for the object with the same base name'],
	['lib_prefix=s', '',
		'--lib_prefix=DIR,DIR  directories that are tried as a prefix of each recorded path'],
	['sysroot=s', '', '--sysroot=DIR         root directory of the machine that wrote the profile'],
	['debug-dir=s', '',
		'--debug-dir=DIR       separate debug files (DIR/.build-id/...), in addition to /usr/lib/debug'],
	['exe=s', '', '--exe=FILE            the program, as the argument PROGRAM'],
	['Granularity (one of)'],
	['addresses!', 0, '--addresses           one line per call site'],
	['lines!', 0, '--lines               per source line'],
	['functions!', 0, '--functions           per function (default)'],
	['files!', 0, '--files               per source file'],
	['inlines!', 0,
		'--inlines             show inlined functions too (by jeprof-symbolize, llvm-symbolizer or addr2line)'],
	['Output (one of)'],
	['text!', 0, '--text                table (the default when stdout is not a terminal)'],
	['collapsed!', 0, '--collapsed           root;...;leaf VALUE, for flame graphs'],
	['callgrind!', 0, '--callgrind           for callgrind_annotate, kcachegrind'],
	['dot!', 0, '--dot                 graph in the language of dot'],
	['svg!', 0, '--svg                 a flame graph, drawn without other programs'],
	['svg_graph!', 0, '--svg=graph --ps --pdf --gif  the graph as a picture (needs dot)'],
	['ps!', 0, undef], ['pdf!', 0, undef], ['gif!', 0, undef],
	['list=s', '', '--list=RE             source lines of matching routines'],
	['disasm=s', '', '--disasm=RE           instructions of matching routines (needs objdump)'],
	['raw!', 0, '--raw                 the profile with its names, readable anywhere'],
	['symbols!', 0, '--symbols             PROGRAM < maps and addresses: one name per address'],
	['web!', 0, '--web                 the flame graph in a browser'],
	['gv!', 0, '--gv --evince         the graph in that viewer (needs dot)'], ['evince!', 0, undef],
	['What to count (one of)'],
	['inuse_space!', 0, '--inuse_space         live bytes (default)'],
	['inuse_objects!', 0, '--inuse_objects       live objects'],
	['alloc_space!', 0, '--alloc_space         bytes ever allocated (needs prof_accum:true)'],
	['alloc_objects!', 0, '--alloc_objects       objects ever allocated'],
	['show_bytes!', 0, '--show_bytes          bytes instead of MB'],
	['drop_negative!', 0, '--drop_negative       with --base: omit what shrank'],
	['total_delay!', 0, '--total_delay         profiles of contention: the time waited (default)'],
	['contentions!', 0, '--contentions --mean_delay  how often; the mean time of each'],
	['mean_delay!', 0, undef],
	['Filters and graph'],
	['focus=s', '', '--focus=RE            only stacks with a matching routine'],
	['ignore=s', '', '--ignore=RE           no stacks with a matching routine'],
	['retain=s', '', '--retain=RE           only frames that match'],
	['exclude=s', '', '--exclude=RE          no frames that match'],
	['thread=s', '',
		'--thread=N            only thread N; top and the output modes: * for each in turn'],
	['nodecount=i', 80, '--nodecount=N         nodes of a graph (80)'],
	['nodefraction=f', .005, '--nodefraction=F      omit nodes below F of the total (.005)'],
	['edgefraction=f', .001, '--edgefraction=F      omit edges below F of the total (.001)'],
	['maxdegree=i', 8, '--maxdegree=N         edges in and out of a node (8)'],
	['scale=i', 0, '--scale=N             scale of the viewer gv'],
	['heapcheck!', 0,
		'--heapcheck           mark functions that hold memory themselves, and what shrank'],
	['Verbs'],
	['older=s', '',
		'--older=AGE, --younger=AGE  top, flame and tables: only what is so old (30s, 10m, 2h)'],
	['younger=s', '', undef],
	['by=s', '', '--by=label            top: a line for each label (thread.prof.label) instead of each function'],
	['label=s', '', '--label=RE            top, flame and tables: only what has a matching label'],
	['n=i', 20, '-n N                  lines of top, diff, leaks, frag, live and report --json, seconds of ls (20)'],
	['stacks!', 0,
		'--stacks              top: whole stacks, the largest first; diff, leaks: all frames'],
	['callers=i', 2, '--callers=N           top: N callers beside each function (2)'],
	['from=s', '',
		'--from=T, --to=T      diff: the first and the last dump between these times (12:30, UTC)'],
	['to=s', '',
		'--to=FORMAT           export: pprof, otlp, speedscope, dhat, collapsed, massif, callgrind, heap'],
	['last=s', '', '--last=TIME           diff: the same for the last 90s, 10m, 2h of the series'],
	['advice!', 0, '--advice              frag: what would give memory back, and how much'],
	['gate=s', '',
		'--gate=RATE           leaks: exit with 3 if the suspects together grow by this or more, as 1M/min; else 0'],
	['rate=s', '', '--rate=SIZE           run, live: mean bytes between samples (run 16K, live 64K)'],
	['interval=s', '', '--interval=TIME       live: time between two readings (2s)'],
	['once!', 0,
		'--once                live: read twice, print the table and end; also with --json'],
	['p=s', '', '-p PID                live, doctor: the process'],
	['lib=s', '', '--lib=FILE            run: the library to preload (that of this jeprof)'],
	['dumps=s', '', '--dumps=DIR           run: where the profiles go (a new directory in TMPDIR)'],
	['wrapper=s@', [],
		'--wrapper=RE          one more pattern of functions folded into their callers'],
	['o=s', '', '-o FILE               flame, report, run, export, symbolize, pack, salvage: the file to write; - is stdout, but for run'],
	['json!', 0,
		'--json                print the answer as JSON; export, symbolize, pack, salvage: the path of the file'],
	['Other'],
	['tools=s', '', '--tools=PREFIX,NAME:PATH  where other programs are (also JEPROF_TOOLS)'],
	['test!', 0, undef], ['test_stride=i', 0, undef],
	['debug!', 0, '--debug               print which files the names come from'],
	['debug-syms-by-id!', 0, undef],
	['help|h!', 0, '--help                this text'],
	['version|v!', 0, '--version             the version'],
);
my %default = map { ($_->[0] =~ /^([\w-]+)/)[0] => $_->[1] } grep { @$_ == 3 } @options;

# The lines of --help before the options, as text: forms of the command line and verbs, of Main's
# list.
sub usage {
	my @lines = (['[options] [PROGRAM] PROFILE...', 'table, graph or commands'],
		(map { ["$_->[0] $_->[2]", $_->[3]] } @Main::verbs),
		['--symbols PROGRAM < maps+addresses', 'one name for each address'],
		[join('|', @Main::handed) . ' ...', 'passed on to jeprofctl']);
	return "Usage:\n" . join('', map { sprintf "  jeprof %-34s  %s\n", @$_ } @lines)
	    . "The profile says where its objects were; PROGRAM is needed only if the program has moved.\n";
}

# Options that exclude each other: the granularity, the output mode, what is counted of a heap.
my @grains = qw(addresses lines functions files);
my @modes = qw(text collapsed callgrind dot svg svg_graph ps pdf gif list disasm raw symbols gv
    evince web interactive);
my @indices = qw(inuse_space inuse_objects alloc_space alloc_objects);

# Options whose numbers count something, or are shares of it: they may not be negative.
my @counts = qw(n callers nodecount nodefraction edgefraction maxdegree scale seconds);

# An option as it is written on a command line.
sub with_hyphens { return (length $_[0] > 1 ? '--' : '-') . $_[0] =~ s/^svg_/svg=/r }

# Prints --help.
sub help {
	print usage();
	for my $row (@options) {
		print "\n$row->[0]:\n" if @$row == 1;
		print "  $row->[2]\n" if @$row == 3 && defined $row->[2];
	}
	print "\nExit: 0 done, 1 failed, 2 usage, 3 done with doubts (truncated, other build, names missing)\n";
}

# Takes the options out of @$arguments, where the words that are none stay; fails with status 2 if
# one is wrong. Names may be abbreviated; what follows "--" is no option. Returns a hash: the value
# of each option by its first name, and top (the number of -n), debug_dir, grain (of @grains, by
# default functions), mode (of @modes, or ''), index (of @indices, by default inuse_space). With
# $is_ordered what follows the first word that is no option stays as it is: another program's
# arguments.
sub parse {
	my ($arguments, $is_ordered) = @_;
	my (%option, @specs);
	for my $row (grep { @$_ == 3 } @options) {
		my ($name) = $row->[0] =~ /^([\w-]+)/;
		$option{$name} = ref $row->[1] ? [] : $row->[1];
		push @specs, $row->[0] => ref $option{$name} ? $option{$name} : \$option{$name};
	}
	for my $word (@$arguments) { # --svg is a flag for Getopt::Long, and may have a word here
		last if $word eq '--' || $is_ordered;
		$word =~ s/^-([np])(?=\d+\z)/-$1=/; # -n5, as other programs take it
		$word = '--svg_graph' if $word eq '--svg=graph';
		Talk::fail(2, "$word: --svg is a flame graph, --svg=graph the graph (--svg PROFILE >FILE)")
		    if $word =~ /^--svg=/;
	}
	my @problems;
	local $SIG{__WARN__} = sub { push @problems, $_[0] };
	my $parser = Getopt::Long::Parser->new(config =>
		    [$is_ordered ? 'require_order' : 'permute', 'auto_abbrev', 'ignore_case']);
	if (!$parser->getoptionsfromarray($arguments, @specs)) {
		chomp @problems;
		Talk::fail(2, join('; ', map { lcfirst } @problems) . ' (jeprof --help)');
	}
	for my $name (grep { $option{$_} < 0 } @counts) {
		Talk::fail(2, with_hyphens($name) . " takes a number, 0 or more, not $option{$name}");
	}
	for my $name (grep { length $option{$_} && !-d $option{$_} } qw(sysroot debug-dir)) {
		Talk::fail(2, "--$name takes a directory, and $option{$name} is none");
	}
	$option{top} = $option{n};
	$option{debug_dir} = $option{'debug-dir'};
	$option{grain} = choose(\%option, 'functions', @grains);
	$option{mode} = choose(\%option, '', @modes);
	$option{index} = choose(\%option, 'inuse_space', @indices);
	return \%option;
}

my $modes = join '|', @modes;
my $graphs = qr/^(?:dot|svg_graph|ps|pdf|gif|gv|evince)$/;
# Where a profile is written whole: what the options are for that do not act there, and their names.
our @whole = ('for sums, and here the profile is written whole',
	qw(base thread focus ignore retain exclude));
# Options that do not act everywhere: [names, pattern of the verbs and output modes where they act,
# what they are for].
my @partial = (
	[[qw(nodecount nodefraction edgefraction maxdegree heapcheck)], $graphs, 'for graphs'],
	[['scale'], qr/^gv$/, 'for the viewer gv'],
	[['test_stride'], qr/^$/, 'for --test'],
	[['n'], qr/^(?:top|ls|diff|leaks|live|report|frag)$/,
		'for the verbs top, ls, diff, leaks, live and frag, and report --json'],
	[['wrapper'], qr/^(?:top|diff|leaks|report|run|live|frag)$/,
		'for the verbs top, diff, leaks, report, run, live and frag'],
	[['json'], qr/^(?:top|diff|ls|leaks|frag|live|doctor|report|flame|export|symbolize|pack|salvage)$/,
		'for verbs; standard output of run is its program\'s, open shows a page, completion is text for a shell, and the legacy output modes have no JSON'],
	[['stacks'], qr/^(?:top|diff|leaks)$/, 'for the verbs top, diff and leaks'],
	[['gate'], qr/^leaks$/, 'for the verb leaks'],
	[['advice'], qr/^frag$/, 'for the verb frag'],
	[['o'], qr/^(?:flame|report|run|export|symbolize|pack|salvage)$/,
		'for the verbs flame, report, run, export, symbolize, pack and salvage'],
	[[qw(lib dumps)], qr/^run$/, 'for the verb run'],
	[['rate'], qr/^(?:run|live)$/, 'for the verbs run and live'],
	[[qw(once interval)], qr/^live$/, 'for the verb live'],
	[['p'], qr/^(?:live|doctor)$/, 'for the verbs live and doctor'],
	[['callers'], qr/^(?:top|live|frag)$/, 'for the verbs top, live and frag'],
	[[qw(from last)], qr/^diff$/, 'for the verb diff'],
	[['to'], qr/^(?:diff|export)$/, 'for the verbs diff and export'],
	[[@modes], qr/^(?:$modes)$/, 'for a command without a verb'],
	[[@grains, @indices, qw(inlines debug drop_negative base sum thread focus ignore retain exclude older younger label)],
		qr/^(?!(?:doctor|open|completion)$)/, 'for verbs that read a profile'],
	[[@grains, 'inlines'], qr/^(?!(?:ls|live)$)/, 'for what finds source lines'],
	[\@indices, qr/^(?!(?:frag|pack|salvage|symbolize|raw)$)/, 'for sums of one kind'],
	[[qw(total_delay contentions mean_delay)],
		qr/^(?!(?:ls|diff|leaks|frag|report|pack|salvage|run|live|doctor|open|completion)$)/,
		'for tables and graphs of contention'],
	[[qw(focus ignore)], qr/^(?!(?:list|disasm)$)/, 'for tables and graphs, and here all stacks count'],
	[['thread'], qr/^(?!(?:ls|diff|pack|frag|live)$)/, 'for one profile, not for a series'],
	[[qw(base sum)], qr/^(?!(?:ls|diff|leaks|report|run|live|pack|frag)$)/,
		'for one profile, not for a series'],
	[[@whole[1 .. $#whole]], qr/^(?!(?:symbolize|raw|pack|salvage)$)/, $whole[0]],
	[[qw(focus ignore retain exclude)], qr/^(?!ls$)/, 'for what names functions'],
	[['by'], qr/^top$/, 'for the verb top'],
	[[qw(older younger label)], qr/^(?!(?:ls|diff|frag|leaks|report|run|live|pack|export|symbolize|salvage|raw)$)/,
		'for what one profile holds'],
	[['cum'], qr/^(?:text|interactive|top)$/, 'for tables'],
);

# How many output modes a pattern of @partial matches.
sub acts_in_a_form {
	my ($pattern) = @_;
	return scalar grep { $_ =~ $pattern } @modes;
}

# The names, without hyphens, of the options that act for a verb, or with '' for any of the legacy
# output modes.
sub names_for {
	my ($verb) = @_;
	my $form = length $verb ? $verb : 'text';
	my %idle = map { $_ => 1 } map { @{ $_->[0] } } grep { $form !~ $_->[1]
		    && (length $verb || !acts_in_a_form($_->[1])) } @partial;
	my ($heading, @names) = ('');
	for my $row (@options) {
		$heading = $row->[0] if @$row == 1;
		next if @$row == 1 || $row->[0] =~ /^test/ || length $verb && $heading =~ /^Output/;
		my ($names) = $row->[0] =~ /^([^=!]+)/;
		push @names, grep { !$idle{$_} } split /\|/, $names;
	}
	return @names;
}

# Notes each option that has another value than its default and does nothing in this form, which is
# a verb or an output mode; not in the interactive mode. Also notes --drop_negative without --base.
sub say_idle {
	my ($option, $form) = @_;
	Talk::note('--drop_negative has no effect without --base')
	    if $option->{drop_negative} && !length $option->{base};
	return if $form eq 'interactive';
	say_unused($option, $_->[2], @{ $_->[0] }) for grep { $form !~ $_->[1] } @partial;
}

# Notes each of these options that has another value than its default: it does nothing here, as $why
# says. Those that divide or filter what is read or sort it are set back, so that the note is true.
sub say_unused {
	my ($option, $why, @names) = @_;
	for my $name (@names) {
		my $value = $option->{$name};
		next if ref $value ? !@$value : $value eq $default{$name};
		Talk::note(with_hyphens($name) . " has no effect here: it is $why");
		$option->{$name} = $default{$name}
		    if $name =~ /^(?:by|cum|label|older|younger|base|thread|focus|ignore|retain|exclude|contentions|.*_delay)$/;
		$option->{grain} = 'functions' if grep { $_ eq $name } @grains;
		$option->{index} = 'inuse_space' if grep { $_ eq $name } @indices;
	}
}

# The name of the one option of @names that is set, else the default; fails if two are set.
sub choose {
	my ($option, $default, @names) = @_;
	my @set = grep { $option->{$_} } @names;
	Talk::fail(2, "only one of --$set[0] and --$set[1] can be given") if @set > 1;
	return $set[0] // $default;
}

# The options of a view as words --NAME=VALUE, for a suggested command that shows more of the same:
# those of other than default value that say what is looked at, without those named in @but. Those
# under the heading Verbs (--label, --older, --younger) are not among them.
sub kept {
	my ($option, @but) = @_;
	my %but = map { $_ => 1 } @but,
	    qw(cum interactive seconds nodecount nodefraction edgefraction maxdegree
	    scale heapcheck);
	my ($heading, @words) = ('');
	for my $row (@options) {
		$heading = $row->[0] if @$row == 1;
		next if @$row == 1 || $heading !~ /^(?:General|Where|Granularity|What|Filters)/;
		my ($name, $type) = $row->[0] =~ /^([\w-]+)[^=!]*(.*)$/;
		my $value = $option->{$name};
		next if $but{$name} || (ref $value ? !@$value : ($value // '') eq $row->[1]);
		push @words, $type eq '!' ? "--$name" : map { "--$name=$_" } ref $value ? @$value : $value;
	}
	push @words, "--exe=$Object::program" if defined $Object::program && !length $option->{exe};
	push @words, "--tools=$option->{tools}" if length $option->{tools};
	return @words;
}

# The filters of a view, and what @more names of it, as " (--focus=RE)" for a sentence that tells sums
# of what they leave: these are not sums of the process. '' without any.
sub filters {
	my ($option, @more) = @_;
	my @words = map { length($option->{$_} // '') ? "--$_=$option->{$_}" : () } @more, qw(focus ignore retain exclude label);
	return @words ? Talk::clean(" (@words)") : '';
}

# A regular expression, as text, that matches this name literally, also within a longer one.
sub pattern {
	my ($name) = @_;
	return $name =~ s{([\\^.|()\[\]{}*+?]|\$)}{\\$1}gr;
}
