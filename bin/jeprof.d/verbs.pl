# Main: the verbs: from the command line to the exit status, and what several verbs do in the same
# way. The last line of the joined script calls main(). $option is what Options::parse returns;
# $work is what load() returns, $view what view() returns.
package Main;

use Cwd ();

# Verbs that are passed on to jeprofctl.
our @handed = qw(start stop dump mark status set watch list rearm);

# The release of this script. scripts/join-jeprof writes it here.
our $release = 'unknown';

# The version for --version and for exports: that of jemalloc-config beside this jeprof, else 5.3.1.
sub version {
	my $config = Tool::own_dir() . '/jemalloc-config';
	my $text = -x $config ? Tool::filter([$config, '--version'], '') : undef;
	return defined $text && $text =~ /^(\S+)/ ? $1 : '5.3.1';
}

# Hands options to the packages that keep them in variables of their own: Tool, Fetch, Object and
# Names. Fails if a file of --add_lib or --exe is not there.
sub set_places {
	my ($option) = @_;
	$Tool::spec = $option->{tools};
	$Fetch::seconds = $option->{seconds};
	$Object::sysroot = $option->{sysroot} =~ s{/+$}{}r;
	@Object::prefixes = map { s{/+$}{}r } grep { length } split /,/, $option->{lib_prefix};
	@Object::extra = @{ $option->{add_lib} };
	$Object::debug_dir = $option->{debug_dir};
	$Names::tells_files = $option->{debug};
	Input::need_file($_) for @Object::extra, grep { length } $option->{exe};
	$Object::program = $option->{exe} if length $option->{exe};
}

# Removes the first of @$files if more follow and it is taken for the program: neither its beginning
# nor its name is a profile's, and it is no '-', pipe or empty file. Sets $Object::program to it if
# it is an ELF file; else that is a doubt. Fails for an ELF file alone.
sub take_program {
	my ($files) = @_;
	return if !@$files;
	my $first = $files->[0];
	my $head = head_of($first);
	if (@$files == 1) {
		Talk::fail(2, "$first: a core file; the profile in it: "
			    . Talk::command('salvage', '-o', 'FILE.heap', [$first]))
		    if $head =~ /^\x7fELF.{12}(?:\x04\0|\0\x04)/s; # the type ET_CORE in either order of bytes
		Talk::fail(2, "no profile given after the program $first; this makes one: "
			    . Talk::command('run', [$first =~ m{/} ? $first : "./$first"])) if $head =~ /^\x7fELF/;
		return;
	}
	return if $head eq '' || Input::may_be_profile($head)
	    || Input::has_suffix($first, 'heap|pb|collapsed|folded|txt');
	shift @$files;
	Talk::doubt("$first: not an ELF file; names come from the objects that the profile lists")
	    if $head !~ /^\x7fELF/;
	$Object::program = $first if $head =~ /^\x7fELF/;
}

# The first 4096 bytes of a file; for standard input '---', which passes for a profile; '' for an
# empty file and for a pipe, which can be read once only; fails if it cannot be read.
sub head_of {
	my ($path) = @_;
	return '---' if $path eq '-';
	my $head = Input::beginning($path, 4096);
	return $head if length $head;
	Input::need_file($path);
	Input::opened($path) unless -p $path; # whose writer would end if it was closed again
	return '';
}

# Reads all profiles and numbers their stacks: what most answers start from. Returns { dumps, base:
# the Dump of --base or undef, program: its path for people, option }.
sub load {
	my ($option, @files) = @_;
	Talk::fail(2, "no profile given\n" . Options::usage()) unless @files;
	my @dumps = map { Dump::read_file($_) } @files;
	my $base = length $option->{base} ? Dump::read_file($option->{base}) : undef;
	Contention::settle($option, @dumps, $base // ());
	Reduce::check_told($option);
	my %pids = map { $_->pid => 1 } grep { length $_->pid } @dumps;
	Talk::note(scalar(@dumps)
		    . ' profiles of one process are added up: the sum is not what it held at any time (--sum to say that it is meant)')
	    if @dumps > 1 && keys %pids == 1 && !$option->{sum};
	Places::number_stacks($_) for @dumps, $base ? $base : ();
	my $main = $dumps[0]{main};
	my $program = $dumps[0]{program} // $Object::program
	    // ($main ? $main->{path} : $dumps[0]{meta}{exe} // '?');
	Order::say_processes($base, $dumps[-1]) if $base;
	Order::say_anew($base, @dumps) if $base;
	note_age($dumps[0], $main);
	Talk::note("$_->{file}: " . Course::sentence($_)) for grep { $_->{meta}{end} } @dumps;
	return { dumps => \@dumps, base => $base, program => Talk::clean($program), option => $option };
}

# Notes that the program file, if names of it are needed, is newer than the profile: without
# build-ids nothing else tells another build. $main: the Object of the program, or undef.
sub note_age {
	my ($dump, $main) = @_;
	return unless $main && !$main->{id} && $main->{is_asked} && $main->{elf} && $dump->{file} ne '-';
	my $built = (stat $main->{elf}{path})[9] // return;
	my $dumped = (stat $dump->{file})[9] // return;
	Talk::note("$main->{elf}{path} is newer than $dump->{file}; if it was rebuilt, names are wrong")
	    if $built > $dumped;
}

# Whether source lines are asked for, which cost time: by an option, or by a form that can show them
# ($option->{takes_lines}, callgrind) if there is a tool for them.
sub wants_lines {
	my ($option) = @_;
	return $option->{grain} ne 'functions' || $option->{inlines}
	    || ($option->{takes_lines} || $option->{mode} eq 'callgrind') && Names::line_tools() ? 1
	    : 0;
}

# What a printing sub gets: the members of $work, and { option, stacks: rows of Reduce::stacks, sum:
# the sums of Reduce::sum, tag: 't' and the number of the thread that alone is shown, or '' }.
# $thread: its number, undef for all. With $is_top there are no sums: Top makes its own.
sub view {
	my ($work, $option, $thread, $is_top) = @_;
	Names::resolve(wants_lines($option));
	my $stacks = Reduce::collect($work->{dumps}, $work->{base}, $option, $thread);
	my $sum = $is_top ? undef : Reduce::sum($stacks, $option);
	Contention::to_means($sum, Reduce::sum($stacks, { %$option, index => 'contentions' }))
	    if $option->{index} eq 'mean_delay';
	return { %$work, option => $option, stacks => $stacks, sum => $sum,
		tag => defined $thread ? "t$thread" : '' };
}

# Notes why, if a view has no stack at all: what was counted, and the options that may have left out
# all of it (not --focus and others that judge names: they act later).
sub check_sense {
	my ($work, $view) = @_;
	return if @{ $view->{stacks} };
	my $option = $view->{option};
	my $samples = grep { @{ $_->{stacks} } } @{ $work->{dumps} };
	my @by = grep { length $option->{$_} && $option->{$_} ne '*' } qw(base thread label older younger);
	return Talk::note("nothing to show for --$option->{index}"
		    . (@by ? join '', map { " --$_=$option->{$_}" } @by
			: $option->{index} =~ /alloc/ ? ' (the program ran without prof_accum:true)' : ''))
	    if $samples;
	return Talk::note('nothing has grown since the mark') if $work->{dumps}[-1]->is_delta;
	my $kind = $work->{dumps}[-1]{meta}{kind} // '';
	Talk::note('nothing allocated in this ' . ($kind eq 'session' ? 'session' : 'run')
		    . ' is still alive, as far as samples tell');
}

# A doubt if most of what a view of the legacy output modes shows has no name, see
# Print::check_names.
sub check_names {
	my ($view) = @_;
	my $sum = $view->{sum};
	Print::check_names(map { [$sum->{flat}[$_],
				$sum->{frame}[$_]{is_bare}] } grep { defined $sum->{flat}[$_] } 0 .. $#{ $sum->{label} });
}

# Output mode => the sub that prints a view.
my %printer = (text => \&Print::text, collapsed => \&Export::collapsed,
	callgrind => \&Export::callgrind,
	dot => \&Picture::dot, raw => \&Export::raw,
	svg => sub { print Flame::draw($_[0], $_[0]{option}) },
	svg_graph => sub { Picture::draw($_[0], 'svg') }, web => \&Open::flame,
	gv => sub { Open::graph($_[0], 'gv', 'ps2') },
	evince => sub { Open::graph($_[0], 'evince', 'pdf') },
	gif => sub { Picture::draw($_[0], 'gif') }, ps => sub { Picture::draw($_[0], 'ps2') },
	pdf => sub { Picture::draw($_[0], 'pdf') },
	list => sub { Source::list($_[0], $_[0]{option}{list}) },
	disasm => sub { Source::disasm($_[0], $_[0]{option}{disasm}) });

# A command line without a verb: the output modes of jeprof of old. @files: an optional program, and
# profiles.
sub classic {
	my ($option, @files) = @_;
	my $mode = $option->{mode} || (-t STDOUT ? 'interactive' : 'text');
	Talk::fail(2, '--test is not available in this version') if $option->{test};
	return symbols($option, @files) if $mode eq 'symbols';
	$option->{mode} = $mode;
	$option->{grain} = 'addresses' if $mode =~ /^(?:list|disasm)$/;
	take_program(\@files);
	Options::say_idle($option, $mode);
	my $work = load($option, @files);
	print STDERR map { Talk::clean(Fetch::is_url($_) ? "Using what $_ answered." : "Using local file $_.")
		    . "\n" } grep { $_ ne '-' } $Object::program // (), map { $_->{file} } @{ $work->{dumps} };
	return Shell::run($work) if $mode eq 'interactive';
	for my $thread (threads($work, $option)) {
		my $view = view($work, $option, $thread);
		check_sense($work, $view);
		check_names($view);
		$printer{$mode}->($view);
	}
}

# The numbers of the threads to show, one after the other: with --thread=* all, each alone. (undef),
# without --thread, stands for all together. Fails if the one of --thread is not in the profiles.
sub threads {
	my ($work, $option) = @_;
	return (undef) unless length $option->{thread};
	my %known = map { $_->[0] => 1 } map { @{ $_->{threads} } } @{ $work->{dumps} };
	if ($option->{thread} eq '*') {
		return sort { $a <=> $b } keys %known;
	}
	Talk::fail(2, "--thread takes a number or *, not $option->{thread}") unless $option->{thread} =~ /^\d+$/;
	Talk::fail(1, "no thread $option->{thread} in the profile") unless $known{ $option->{thread} };
	return $option->{thread} + 0;
}

# The mode --symbols: maps and addresses come on stdin, one name for each address goes out, of the
# function itself, not of one inlined there; ?? for none. @files: the program alone.
sub symbols {
	my ($option, @files) = @_;
	Talk::fail(2, '--symbols takes one program') if @files != 1;
	Input::need_path($files[0]);
	$Object::program = $files[0];
	my $dump = bless { file => '-', meta => {}, maps => [], modules => [], threads => [],
		stacks => [] }, 'Dump';
	my @addresses;
	while (my $line = <STDIN>) {
		chomp $line;
		my $map = Dump::map_line($line);
		push @{ $dump->{maps} }, $map if $map;
		push @addresses, hex $1 if $line =~ /^\s*(?:0x)?([0-9a-f]{1,16})\s*$/i;
	}
	my @places = map { Places::number($dump, $_) } @addresses;
	Names::resolve(0);
	for my $place (@places) {
		my $frame = $Names::frames[$place][-1];
		print $frame->{is_bare} ? '??' : $frame->{short}, "\n";
	}
}

# The path of the last profile of the newest series of this directory.
sub newest {
	return Order::last_of(Series::files());
}

# The verb "top": of several profiles the last one, or with --sum all together. JSON of --thread=*
# is one object, with a list of what is printed for each thread alone.
sub verb_top {
	my ($option, @files) = @_;
	take_program(\@files);
	@files = newest() unless @files;
	if (@files > 1 && !$option->{sum}) {
		Talk::note(scalar(@files)
			    . " profiles: the last one is shown (--sum adds them): $files[-1]");
		@files = $files[-1];
	}
	my $work = load($option, @files);
	# The table shows the delay and the number of contentions, so one index serves all three options.
	$option->{index} = 'total_delay' if $option->{index} =~ /contentions|delay/;
	my @json;
	for my $thread (threads($work, $option)) {
		my $view = view($work, $option, $thread, 1);
		check_sense($work, $view);
		push @json, Top::command($view, $option);
		say_elsewhere($option, @{ $work->{dumps} }) unless length $option->{thread};
	}
	return unless $option->{json};
	print $option->{thread} eq '*' ? "{\"threads\":[\n" . join(',', @json) . "]}\n" : @json;
}

# Notes for one profile that most of the memory of its process is not malloc's, if it is so.
sub say_elsewhere {
	my ($option, $dump, @more) = @_;
	my $text = @more ? '' : Elsewhere::sentence($dump, $option);
	Talk::note("$dump->{file}: $text") if length $text;
}

# Becomes jeprofctl with this verb; does not return.
sub hand_over {
	my ($verb, @arguments) = @_;
	my $program = Tool::own_dir() . '/jeprofctl';
	Talk::fail(1, "'$verb' is done by jeprofctl, which is not there ($program)") unless -x $program;
	no warnings 'exec';
	exec {$program} $program, $verb, @arguments or Talk::fail(1, "$program: $!");
}

# The one list of verbs: [name, sub, arguments, text]; the dispatch, --help and the completion of
# shells are made of it.
our @verbs = (
	[top => \&verb_top, '[-n 20] [--json] [PROFILE]', 'what holds the memory'],
	[ls => \&Series::ls, '[PROFILE...]', 'a series of profiles: time, reason, size'],
	[diff => \&Series::diff, '[FIRST LAST | PROFILE...]',
		'what grew, stack by stack, and how fast'],
	[leaks => \&Leaks::command, '[--gate 1M/min] [PROFILE...]',
		'which stacks keep growing, not those that fill and stay'],
	[frag => \&Frag::command, '[--advice] [--json] [PROFILE]',
		'where the resident bytes are, and which functions pin free memory'],
	[flame => \&Flame::command, '[-o FILE.svg] [PROFILE]',
		'a flame graph, drawn without other programs'],
	[report => \&Report::command, '[-o FILE.html] [PROFILE...]',
		'a series as one HTML file: course, flame graph, tables, growth'],
	[export => \&Export::command, '--to FORMAT [-o FILE] PROFILE',
		'for pprof, speedscope, dhat, massif, callgrind and other viewers'],
	[symbolize => sub { Export::command({ %{ shift() }, to => 'heap' }, @_) }, '[-o FILE] PROFILE',
		'the profile with its names, readable anywhere, also by other versions'],
	[salvage => \&Box::salvage, '[-o FILE.heap] FILE.box',
		'the profile in a black box or a core file, for other readers'],
	[pack => \&Pack::command, '[-o FILE.jepack] [PROFILE...]',
		'profiles and the symbols of their objects in one file'],
	[run => \&Run::command, '[-o FILE.html] [--rate SIZE] -- PROGRAM ARGUMENTS...',
		'runs PROGRAM with profiling on, then makes its report'],
	[live => \&Live::command, 'PID|NAME',
		'a screen redrawn each 2 s: total, what grows; --once --json for scripts'],
	[open => \&Open::command, '[FILE.html]', 'shows a report in a browser'],
	[doctor => \&Doctor::command, 'PROGRAM|PID [--json]',
		'why it writes no profile, and the command that helps'],
	[completion => \&Completion::command, 'bash|zsh|fish',
		'prints a script that completes verbs and options'],
);

# Does what the command line says: a verb, or an output mode without a verb. A first word that names
# a file, which is then told, is no verb; a directory is nothing to read, so it hides none. What it
# returns has no meaning: a failure is an exception of Talk::fail.
sub run {
	my @arguments = @_;
	my $verb = @arguments && $arguments[0] =~ /^[a-z]+$/ ? $arguments[0] : '';
	if (length $verb && -e $verb && !-d _) {
		Talk::note("the file $verb in this directory is meant, not the verb; from another one it is the verb")
		    if grep { $_ eq $verb } @handed, map { $_->[0] } @verbs;
		$verb = '';
	}
	return Options::help() if $verb eq 'help';
	return hand_over(@arguments) if grep { $_ eq $verb } @handed;
	my ($answer) = map { $_->[1] } grep { $_->[0] eq $verb } @verbs;
	Talk::fail(1, "$verb: no such file, and no verb (jeprof --help)") if length $verb && !$answer;
	shift @arguments if $answer;
	my $option = Options::parse(\@arguments, $verb eq 'run');
	return Options::help() if $option->{help};
	if ($option->{version}) {
		return print 'jeprof ', version(), ", release $release\n";
	}
	my ($late) = grep { !$answer && !-e } @arguments;
	Talk::fail(2, "$late: no such file; a verb stands before all options: jeprof $late ...")
	    if defined $late && grep { $_ eq $late } @handed, map { $_->[0] } @verbs;
	set_places($option);
	Talk::note("--seconds has no effect here: it is for profiles over the network")
	    if $option->{seconds} && !grep { Fetch::is_url($_) } @arguments;
	Writing::begin($option, $answer ? $verb : '', @arguments);
	@arguments = Pack::expand(@arguments)
	    unless grep { $_ eq $verb } qw(run open live doctor completion);
	return classic($option, @arguments) unless $answer;
	Options::say_idle($option, $verb);
	return $answer->($option, @arguments);
}

# Makes words and standard streams bytes, as all texts are here: PERL_UNICODE and PERL5OPT may have
# made characters of them, which would be written as other bytes.
sub take_bytes {
	my ($words) = @_;
	no warnings qw(closed unopened);
	binmode $_ for \*STDIN, \*STDOUT, \*STDERR;
	utf8::encode($_) for grep { utf8::is_utf8($_) } @$words;
	return;
}

# Calls run(), prints the text of a failure, and returns the exit status of jeprof: that of a
# failure (1 of an internal error), 1 if the result cannot be written, $main::status if a verb has
# set it, 3 after a doubt, else 0.
sub main {
	my @words = @_;
	take_bytes(\@words);
	my $ok = eval { run(@words); 1 };
	my $error = $@;
	if (!$ok) {
		my $known = ref $error;
		print STDERR 'jeprof: ', $known ? Talk::clean_lines("$error->{text}\n")
		    : "internal error: $error";
		return $known ? $error->{code} : 1;
	}
	if (!close STDOUT) {
		print STDERR "jeprof: cannot write the result: $!\n";
		return 1;
	}
	return $main::status if defined $main::status; # set by run, live or doctor
	return @Talk::doubted ? 3 : 0;
}
