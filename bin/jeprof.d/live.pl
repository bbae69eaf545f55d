# Live: the verb "live": what a running process holds, redrawn with each profile, every two seconds
# or by --interval. While watch() shows the screen, keys are served also while jeprofctl waits for
# an answer of the process. begin(), look_once() and end() wait for jeprofctl and serve no key.
# Signals make them give up: a profile at the first signal, the start of a session at the second, the
# stop of the session at the first one after end() began. Where no session runs one is started, with
# a lease: a time after which the process ends the session by itself, in case jeprof is killed or
# the process does not answer the stop. The lease is renewed long before it is over, also between
# two profiles, and end() stops the session however the verb ends. $self has up to four results of
# figures(), each made of one profile: { start } the first, { mark } the one that was shown when m
# was typed, { before } the last but one, { now } the last. Caller: Main.
package Live;

use POSIX ();

# RATE: the default of --rate, mean bytes between samples of a session that is started. EVERY:
# seconds from one profile to the next, by default. LEASE: seconds, the least lease, see lease().
# COURSE: how many profiles the line of bars shows. TURN: seconds that a wait for jeprofctl or a key
# takes at most before it looks for signals again, because one may come just before a call that
# waits.
use constant { RATE => '64K', EVERY => 2, LEASE => 60, COURSE => 60, TURN => 0.5 };

# By what the table can be sorted, in the order in which the key s goes through them.
my @sorts = qw(growth now live objects name);

# Bars of eight heights, in UTF-8.
my @marks = map { "\xe2\x96" . chr } 0x81 .. 0x88;

# The verb. Sets $main::status if a signal or the end of the terminal ended it. Members of $self:
# { who } the process as it was typed; { every } seconds between profiles; { quit } the number of the
# signal, 1 (SIGHUP) at the end of the terminal, -1 after q, else 0; { signals } how many signals
# came; { course } the allocated bytes of the last profiles; { notes } what Talk said; { rest } says
# how many rows did not fit; { typing } the filter while it is typed, else undef; { job } what ask()
# returned, while it runs; { is_answered } whether all its output was read; { file } where to write
# the next profile; { is_old } whether to draw again; { has_ended } whether the process is gone;
# { slowest } the seconds of the slowest profile, rounded up. Times of ticks(): { next } when to ask
# for the next profile; { asked } when the last one was asked for; { renewed } the last renewal.
sub command {
	my ($option, @arguments) = @_;
	unshift @arguments, $option->{p} if length $option->{p};
	Talk::fail(2,
		'live takes one process: jeprof live PID, or the name of a program that runs once')
	    if @arguments != 1;
	Talk::fail(2, 'live draws on a terminal, and this is none; --once prints one look, --json too')
	    unless $option->{once} || Screen::is_there();
	Talk::fail(2, '--json goes with --once') if $option->{json} && !$option->{once};
	my $every = length $option->{interval} ? seconds_of($option->{interval}) : EVERY;
	Talk::fail(2, "--interval takes an hour at most, not $option->{interval}") if $every > 3600;
	my $self = bless { option => $option, every => $every, sort => 'growth', filter => '',
		course => [],
		notes => [], who => $arguments[0], is_frozen => 0, quit => 0, signals => 0, slowest => 0 },
	    'Live';
	local @SIG{qw(INT TERM HUP)} = map { my $number = $_;
		sub { $self->{quit} = $number; $self->{signals}++ } } 2, 15, 1;
	local $SIG{PIPE} = 'IGNORE';
	my $ok = eval { $self->begin; $option->{once} ? $self->look_once : $self->watch; 1 };
	my $error = $@;
	Screen::leave();
	local $Talk::listener;
	$self->end;
	die $error unless $ok || $self->{quit} > 0;
	$main::status = 128 + $self->{quit} if $self->{quit} > 0;
}

# The time of --interval as 500ms, 2s, 1m or a number, in seconds; fails for another text.
sub seconds_of {
	my ($text) = @_;
	$text =~ /^(\d+(?:\.\d+)?)(ms|s|m)?$/ && $1 > 0
	    or Talk::fail(2, "--interval takes a time as 500ms, 2s, 1m; '$text' is none");
	return $1 * { ms => 0.001, s => 1, m => 60 }->{ $2 // 's' };
}

# ticks() is a clock in seconds, to a hundredth, that nobody sets: it counts from some point in the
# past.
my $a_second = POSIX::sysconf(POSIX::_SC_CLK_TCK());
sub ticks { return (POSIX::times())[0] / $a_second }

# ---- asking jeprofctl ----
# Starts jeprofctl with these arguments and returns the job { pid, out: its stdout, talk: a file
# with its stderr, text: what was read of out }. It is out of the reach of the terminal's Ctrl-C.
sub ask {
	my @arguments = @_;
	my $program = Tool::own_dir() . '/jeprofctl';
	Talk::fail(1, "live needs jeprofctl, which is not there ($program)") unless -x $program;
	pipe my $out, my $in or Talk::fail(1, "pipe: $!");
	pipe my $talk, my $to_talk or Talk::fail(1, "pipe: $!");
	my $pid = fork // Talk::fail(1, "fork: $!");
	if (!$pid) {
		POSIX::setpgid(0, 0);
		@SIG{qw(INT TERM HUP PIPE)} = ('DEFAULT') x 4;
		open STDIN, '<', '/dev/null';
		open STDOUT, '>&', $in;
		open STDERR, '>&', $to_talk;
		no warnings 'exec';
		exec {$program} $program, @arguments or POSIX::_exit(127);
	}
	close $in;
	return { pid => $pid, out => $out, talk => $talk, text => '' };
}

# Appends what can be read of a job's output to { text }; if there is none, waits for some, TURN at
# most. True at its end or after an error; false if more may come, or if a signal came.
sub has_ended {
	my ($job) = @_;
	vec(my $want = '', fileno $job->{out}, 1) = 1;
	return 0 if select($want, undef, undef, TURN) <= 0;
	my $count = sysread $job->{out}, $job->{text}, 1 << 20, length $job->{text};
	return defined $count ? $count == 0 : !$!{EINTR};
}

# Waits for the end of a job: (exit code, output); the first line of what it said on standard error
# is $job->{said}. At signal number $patience, by { signals }, jeprofctl is told to give up, which
# sets $job->{is_told}; at the next signal it is killed.
sub end_of {
	my ($self, $job, $patience) = @_;
	for (my $told = $patience - 1; !has_ended($job);) {
		next if $self->{signals} <= $told;
		kill $job->{is_told}++ ? 'KILL' : 'TERM', $job->{pid};
		$told = $self->{signals};
	}
	while (waitpid($job->{pid}, 0) < 0 && $!{EINTR}) { }
	my $status = $?;
	local $/;
	my $said = readline($job->{talk}) // '';
	($job->{said}) = $said =~ /^(?:jeprofctl: )?([^\n]*)/;
	return ($status & 127 ? 1 : $status >> 8, $job->{text});
}

# Runs jeprofctl with these arguments: (exit code, output, what it said, whether it was told to give
# up); $patience as in end_of().
sub ctl {
	my ($self, $patience, @arguments) = @_;
	my $job = ask(@arguments);
	return ($self->end_of($job, $patience), @$job{qw(said is_told)});
}

# The value of a key in an object of JSON as jeprofctl writes it; undef if it is not there.
sub json_value {
	my ($text, $key) = @_;
	$text =~ /"$key":(?:(-?\d+)|"((?:[^"\\]|\\.)*)"|(true|false))/ or return undef;
	return $1 // $3 unless defined $2;
	return $2 =~ s{\\(?:u00([0-9a-f]{2})|(.))}{defined $1 ? chr hex $1 : $2}ger;
}

# Finds the process, and starts a session if none runs (active, paused) and MALLOC_CONF has not
# switched sampling on (sampling). Sets { pid, name, session: the number of the session that was
# started, 0 if it is pending (begins when the process allocates), undef if none was started } of
# $self. Fails if the process cannot be asked.
sub begin {
	my ($self) = @_;
	my ($code, $text, $said) = $self->ctl(1, 'status', $self->{who}, '--json');
	$self->{pid} = json_value($text, 'pid') // '';
	$self->{name} = Talk::clean(json_value($text, 'name') // $self->{who});
	my $state = json_value($text, 'state') // '';
	Talk::fail($code || 1, $said) if $code || $self->{pid} !~ /^\d+$/;
	Object::note_above("/proc/$self->{pid}/root/."); # where its files are, if it has its own root
	return if $state =~ /^(?:active|sampling|paused)$/;
	my $rate = $self->{option}{rate} || RATE;
	$self->{renewed} = ticks();
	($code, $text, $said) = $self->ctl(2, 'start', $self->{pid}, '--rate', $rate, '--max',
		$self->lease . 's', '--json', '-q');
	return if $code == 4; # somebody was faster
	Talk::fail($code, $said) if $code;
	$self->{session} = json_value($text, 'session') // 0; # 0: pending
}

# The lease in seconds that the start of the session and each renewal set. It covers the time to the
# next renewal: a third of LEASE and at most one answer, which may take twice as long as the slowest
# one so far. It covers the interval too, because --once does not renew it.
sub lease { return LEASE + int $_[0]{every} + 2 * $_[0]{slowest} }

# When the lease is to be renewed, a time of ticks(); undef if no session was started.
sub renewal {
	my ($self) = @_;
	return defined $self->{session} ? $self->{renewed} + LEASE / 3 : undef;
}

# Ends the session that was started here, if any. The process writes a profile then, whose path, as
# we can open it, is printed; with --once the profile is removed. The exit code of jeprofctl is 7
# without an answer in time, 1 if the stop failed; after others our session is over.
sub end {
	my ($self) = @_;
	my $patience = $self->{signals} + 1;
	if (my $job = delete $self->{job}) {
		kill 'TERM', $job->{pid};
		$self->end_of($job, $patience);
	}
	return unless defined $self->{session};
	my @number = $self->{session} ? ('--session', $self->{session}) : ();
	my ($code, $text, $said, $is_told) = $self->ctl($patience, 'stop', $self->{pid}, @number,
		'--json', '-q');
	if ($code == 7 || $is_told) {
		$main::status ||= $code || 1;
		Talk::note((length $said ? "$said; " : '') . 'the session ends by itself, at most '
			    . $self->lease . ' seconds after the process goes on');
	} elsif ($code == 1) {
		$main::status ||= 1;
		Talk::note($said);
	}
	my $path = json_value($text, 'path') // '';
	if ($self->{option}{once} || !length $path) {
		unlink $path if length $path;
		return;
	}
	print Talk::clean($path), "\n";
	Talk::next_is('top', [$path]);
}

# ---- figures ----
# Of the text of a profile: { time: seconds since 1970, at: seconds on a clock that nobody sets, or
# time if the profile does not tell it (read by Order::minutes), bytes and objects: live, estimated,
# session: its number, 0 if none is told, begun: see Order, rate: mean bytes between samples, allocated, resident and
# rss: bytes, undef if not told, elsewhere: a sentence or '', row: { name => { self: bytes, objects,
# age: seconds, callers: text } } }, the rows as top says them.
sub figures {
	my ($self, $text) = @_;
	my $option = $self->{option};
	my $dump = Dump::of_text("process $self->{pid}", $text);
	Places::number_stacks($dump);
	Names::resolve(0);
	my $table = Top::build({ stacks => Reduce::stacks($dump, $option->{index}, undef, 1),
			dumps => [$dump] }, $option);
	my %stamp = Order::stamp($dump);
	my $wall = $stamp{time} // time;
	my $now = { time => $wall, at => $stamp{mono} // $wall, bytes => $table->{bytes},
		objects => $table->{objects}, session => $dump->{meta}{session} // 0, row => {},
		begun => Order::begun($dump),
		rate => $dump->interval };
	$now->{elsewhere} = Elsewhere::sentence($dump, {});
	for my $key (qw(allocated resident rss)) {
		$now->{$key} = ($dump->{meta}{$key} // '') =~ /^(\d{1,15})$/ ? $1 + 0 : undef;
	}
	$now->{rss} ||= undef; # 0: the process cannot read its own, as without /proc
	$now->{row}{ $_->{name} } = { self => $_->{self}, objects => $_->{objects},
		age => $_->{age}, callers => Top::callers_text($_, $option->{callers}) } for @{ $table->{rows} };
	return $now;
}

# Whether one of two results of figures() is of another session than the other, or the process began
# to count anew between them: what the later one lacks may still be held.
sub is_apart {
	my ($one, $other) = @_;
	return $one->{session} ne $other->{session} || Order::is_anew(map { $_->{begun} } $one, $other);
}

# Takes the text of a profile that has come. If it is apart from the last one, it becomes the
# { start }, and mark, before and course begin anew.
sub take {
	my ($self, $text) = @_;
	my $now = $self->figures($text);
	my $first = $self->{start};
	if (!$first || is_apart($first, $now)) {
		@$self{qw(start mark)} = ($now, undef);
		$self->{course} = [] if $first;
	}
	@$self{qw(before now)} = ($self->{now}, $now);
	$self->{before} = undef if $self->{before} && is_apart($self->{before}, $now);
	push @{ $self->{course} }, $now->{allocated} // $now->{bytes};
	shift @{ $self->{course} } if @{ $self->{course} } > COURSE;
}

# Rows { name, self: bytes, objects, age: seconds, callers, growth: bytes since the mark, or since
# the start if there is none, per_minute: the rate of this growth, now: the rate between the last
# two profiles } of each function that holds something now or did at the mark or start; sorted. Rates
# are in bytes a minute.
sub rows {
	my ($self) = @_;
	my ($now, $before) = @$self{qw(now before)};
	my $from = $self->{mark} // $self->{start};
	my $span = Order::minutes($from, $now);
	my $step = Order::minutes($before // $now, $now);
	my %names = map { $_ => 1 } keys %{ $now->{row} }, keys %{ $from->{row} };
	my @rows;
	for my $name (sort keys %names) {
		my ($row, $old, $last) = map { $_->{row}{$name} // {} } $now, $from, $before // $now;
		my ($self_now, $was, $lately) = map { $_->{self} // 0 } $row, $old, $last;
		push @rows, { name => $name, self => $self_now, objects => $row->{objects} // 0, age => $row->{age},
			growth => $self_now - $was, callers => $row->{callers} // $old->{callers} // '',
			per_minute => $span ? ($self_now - $was) / $span : 0,
			now => $step ? ($self_now - $lately) / $step : 0 };
	}
	return $self->in_order(@rows);
}

# The rows whose names match the filter, sorted.
sub in_order {
	my ($self, @rows) = @_;
	my $key = { live => 'self', growth => 'growth', now => 'now',
		objects => 'objects' }->{ $self->{sort} };
	my $pattern = length $self->{filter} ? Reduce::compiled("(?i)$self->{filter}") : undef;
	@rows = grep { $_->{name} =~ $pattern } @rows if $pattern;
	return sort { $a->{name} cmp $b->{name} } @rows unless defined $key;
	return sort { $b->{$key} <=> $a->{$key} || $b->{self} <=> $a->{self}
		    || $a->{name} cmp $b->{name} } @rows;
}

# ---- once ----
# --once: two profiles, one interval apart, and what they say as text or JSON.
sub look_once {
	my ($self) = @_;
	for my $turn (0, 1) {
		my $end = ticks() + $self->{every};
		while ($turn && !$self->{quit} && (my $left = $end - ticks()) > 0) {
			select undef, undef, undef, $left;
		}
		return if $self->{quit};
		my ($code, $text, $said) = $self->ctl(1, 'dump', $self->{pid}, '-o', '-', '-q');
		return if $self->{quit};
		Talk::fail($code, $said) if $code;
		$self->take($text);
	}
	return $self->print_json if $self->{option}{json};
	my @rows = $self->rows;
	my $count = @rows;
	splice @rows, $self->{option}{top} if $count > $self->{option}{top};
	my @lines = ($self->head, $self->table_head, map { $self->table_row($_) } @rows);
	print map { "$_\n" } map { $_->[0] =~ s/\s+$//r } @lines;
	printf "%d more functions (-n %d)\n", $count - @rows, $count if $count > @rows;
}

# Prints what two profiles say as JSON.
sub print_json {
	my ($self) = @_;
	my ($from, $now) = @$self{qw(start now)};
	my @rows = $self->rows;
	splice @rows, $self->{option}{top} if @rows > $self->{option}{top};
	my @text = map { sprintf '{"function":%s,"self":%d,"objects":%d,"growth":%d,"per_minute":%d,'
		    . '"age":%s,"callers":%s}', Top::json_string($_->{name}), @$_{qw(self objects growth per_minute)},
		    Top::age_json($_),
		    Top::json_string($_->{callers}) } @rows;
	my $figures = join ',',
	    map { sprintf '"%s":%s', $_, $now->{$_} // 'null' } qw(allocated resident rss);
	my $grown = defined $now->{allocated} && defined $from->{allocated}
	    ? $now->{allocated} - $from->{allocated} : 'null';
	printf "{\"pid\":%d,\"name\":%s,\"time\":%s,\"seconds\":%.3f,\"session\":%d,\"own_session\":%s,"
	    . "\"sample_interval\":%d,%s,\"allocated_growth\":%s,\"index\":\"%s\",\"live\":{\"bytes\":%d,"
	    . "\"objects\":%d},\"rows\":[\n%s\n]}\n", $self->{pid}, Top::json_string($self->{name}),
	    Top::json_string(Series::clock($now->{time})), 60 * (Order::minutes($from, $now) // 0),
	    $now->{session},
	    defined $self->{session} ? 'true' : 'false', $now->{rate}, $figures, $grown,
	    $self->{option}{index}, @$now{qw(bytes objects)}, join ",\n", @text;
}

# ---- the lines, each [text, attribute of ANSI or ''] ----
# The lines above the table.
sub head {
	my ($self) = @_;
	my $option = $self->{option};
	my ($now, $start) = @$self{qw(now start)};
	my $title = "$self->{name} $self->{pid}";
	return ["$title: waiting for its first answer", '1'] unless $now;
	my $from = $self->{mark} // $start;
	my $span = Order::minutes($from, $now);
	my $what = defined $self->{session} ? 'own session' : $now->{session}
	    ? "session $now->{session}"
	    : 'profiled from its start';
	my @lines = [sprintf('%s%s: %s, a sample for each %s, %s since %s%s',
			$self->{is_frozen} ? 'FROZEN ' : '', $title, $what, Print::human($now->{rate}, {}),
			Order::span_text(60 * ($span // 0)), $self->{mark} ? 'the mark at ' : '',
			substr(Series::clock($from->{time}), 11)), '1'];
	if (defined $now->{allocated}) {
		my $grown = $now->{allocated} - ($from->{allocated} // $now->{allocated});
		push @lines, [sprintf('allocated %s, %s, %s; resident %s, RSS %s',
				Print::human($now->{allocated}, {}),
				Series::signed($grown, {}), Series::rate_text($grown, $span, {}),
				map { defined $_ ? Print::human($_, {}) : '-' } @$now{qw(resident rss)}), ''];
	}
	push @lines, [Talk::clean($now->{elsewhere}), ''] if length $now->{elsewhere};
	push @lines, ['course    ' . $self->course_line, '']
	    if @{ $self->{course} } > 1 && !$option->{once};
	push @lines, [sprintf('sampled   %s live in %d objects%s%s', Print::human($now->{bytes}, $option),
			$now->{objects}, Options::filters($option), defined $self->{session} ? ', allocated since the session began' : ''),
		''];
	return @lines;
}

# The course as text: one bar for each profile, in the order of time. The smallest value has the
# lowest bar, the largest the highest; both are told behind the bars.
sub course_line {
	my ($self) = @_;
	my @values = @{ $self->{course} };
	my ($least, $most) = (sort { $a <=> $b } @values)[0, -1];
	my $is_wide = ($ENV{LC_ALL} || $ENV{LC_CTYPE} || $ENV{LANG} || '') =~ /utf-?8/i;
	my @bars = $is_wide ? @marks : split //, '_.-=+*#@';
	my $text = join '', map { $bars[$most > $least ? int(7 * ($_ - $least) / ($most - $least))
		    : 0] } @values;
	return sprintf '%s  %s to %s', $text, map { Print::human($_, {}) } $least, $most;
}

# The heading of the table.
sub table_head {
	my ($self) = @_;
	my %star = ($self->{sort} => '*');
	return [sprintf('%9s %10s %12s %12s %9s %6s  %s',
			map({ $_->[0] . ($star{ $_->[1] } // '') } ['live', 'live'],
				['growth', 'growth'], ['rate', ''], ['now', 'now'], ['objects', 'objects'], ['age', ''],
				['function', 'name'])), '7'];
}

# The line of a row.
sub table_row {
	my ($self, $row) = @_;
	my $option = $self->{option};
	my $text = sprintf '%9s %10s %12s %12s %9d %6s  %s', Print::human($row->{self}, $option),
	    map({ $_->[0] ? Series::signed($_->[0], $option) . $_->[1] : '-' } [$row->{growth}, ''],
		[$row->{per_minute}, '/min'], [$row->{now}, '/min']), $row->{objects}, Ages::text($row->{age}), $row->{name};
	$text .= " < $row->{callers}" if length $row->{callers};
	my $look = $ENV{NO_COLOR} || abs $row->{growth} < 1 ? '' : $row->{growth} > 0 ? '31' : '34';
	return [$text, $look];
}

# ---- the screen ----
# Draws the screen: head, table as far as it fits, a line with a message, note or filter, the keys.
sub draw {
	my ($self) = @_;
	my ($height) = Screen::size();
	my @lines = $self->head;
	if ($self->{now}) {
		push @lines, $self->table_head;
		my @rows = $self->rows;
		my $room = $height - @lines - 2;
		my $rest = @rows > $room ? @rows - $room : 0;
		splice @rows, $room < 0 ? 0 : $room if $rest;
		push @lines, map { $self->table_row($_) } @rows;
		$self->{rest} = $rest ? "$rest more functions" : '';
	}
	push @lines, ['', ''] while @lines < $height - 2;
	$self->{message} = undef if defined $self->{message} && ticks() > $self->{message_until};
	my $note = $self->{message} // $self->{notes}[-1] // $self->{rest} // '';
	my $filter = defined $self->{typing} ? "filter: $self->{typing}_  (Enter, Esc)"
	    : length $self->{filter} ? "filter: $self->{filter}   $note" : $note;
	push @lines, [$filter, ''],
	    ['q quit  s sort  / filter  space freeze  m mark  u unmark  d dump', '2'];
	Screen::draw(@lines);
}

# Shows the screen until q, a signal or the end of the terminal.
sub watch {
	my ($self) = @_;
	local $Talk::listener = sub { push @{ $self->{notes} }, $_[0] };
	local $SIG{WINCH} = sub { $self->{is_old} = 1 };
	local $SIG{TSTP} = sub { Screen::leave(); kill 'STOP', $$; Screen::enter();
		$self->{is_old} = 1 };
	Screen::enter();
	$self->{next} = 0;
	$self->{is_old} = 1;
	while (!$self->{quit}) {
		$self->{job} //= $self->next_question unless $self->{has_ended};
		$self->draw if delete $self->{is_old};
		$self->wait_for_something;
		$self->{next} = $self->answer if $self->{is_answered};
	}
}

# The next job: a renewal of the lease if that is due, else a profile if { next } has come, into
# { file } if that is set; undef if neither is due.
sub next_question {
	my ($self) = @_;
	my ($now, $renewal) = (ticks(), $self->renewal);
	if (defined $renewal && $now >= $renewal) {
		$self->{renewed} = $now;
		return { %{ ask('set', $self->{pid}, 'max_seconds:' . $self->lease, '-q') }, is_set => 1 };
	}
	return undef if $now < $self->{next};
	$self->{asked} = $now;
	return { %{ ask('dump', $self->{pid}, '-o', $self->{file} // '-', '-q') },
		file => delete $self->{file} };
}

# Waits for a key or for output of the job, TURN at most; without a job, while the process runs, not
# longer than until the next question. Serves keys.
sub wait_for_something {
	my ($self) = @_;
	my $want = '';
	vec($want, 0, 1) = 1;
	vec($want, fileno $self->{job}{out}, 1) = 1 if $self->{job};
	my @times = $self->{job} || $self->{has_ended} ? ()
	    : map { $_ - ticks() } grep { defined } $self->{next}, $self->renewal;
	my ($left) = sort { $a <=> $b } TURN, @times;
	return if select($want, undef, undef, $left > 0 ? $left : 0) <= 0;
	$self->{is_answered} = $self->{job} && vec($want, fileno $self->{job}{out}, 1)
	    && has_ended($self->{job});
	if (vec $want, 0, 1) {
		my @keys = Screen::keys_typed();
		return $self->{quit} = 1 if @keys && !defined $keys[0];
		$self->key($_) for @keys;
	}
}

# Takes what jeprofctl answered; returns the time of the next profile. The cost of a profile is the
# seconds from the question until the answer was worked out here. The next question comes one
# interval, or four times the cost if that is longer, after the last one; so profiles take a quarter
# of the time at most.
sub answer {
	my ($self) = @_;
	my $job = delete $self->{job};
	delete $self->{is_answered};
	my ($code, $text) = $self->end_of($job, $self->{signals} + 1);
	$self->{is_old} = 1 unless $self->{is_frozen} && !$job->{file};
	if ($job->{is_set}) {
		$self->tell($job->{said}, 10) if $code;
		return $self->{next};
	}
	if ($job->{file}) {
		$self->tell($code ? $job->{said} : "written: $job->{file}", 10);
		return ticks();
	}
	if ($code) {
		$self->tell($job->{said}, 3600);
		$self->{has_ended} = $code == 5;
		return ticks() + $self->{every};
	}
	# it answers again: drops the message of a failure, which was to stay for 3600 seconds
	$self->tell(undef, 0) if ($self->{message_until} // 0) > ticks() + 600;
	$self->take($text) unless $self->{is_frozen};
	my $cost = ticks() - $self->{asked};
	$self->{slowest} = int 1 + $cost if $cost > $self->{slowest};
	return $self->{asked} + ($self->{every} > 4 * $cost ? $self->{every} : 4 * $cost);
}

# Sets a message (undef: none) for the last line but one; a drawing after so many seconds drops it.
sub tell {
	my ($self, $text, $seconds) = @_;
	@$self{qw(message message_until)} = ($text, ticks() + $seconds);
}

# Does what a key says.
sub key {
	my ($self, $key) = @_;
	$self->{is_old} = 1;
	return $self->type($key) if defined $self->{typing};
	if ($key eq 'q' || $key eq "\4") {
		$self->{quit} = -1;
	} elsif ($key eq 's') {
		my ($at) = grep { $sorts[$_] eq $self->{sort} } 0 .. $#sorts;
		$self->{sort} = $sorts[($at + 1) % @sorts];
	} elsif ($key eq '/' || $key eq 'f') {
		$self->{typing} = '';
	} elsif ($key eq ' ' || $key eq 'z') {
		$self->{is_frozen} = !$self->{is_frozen};
	} elsif ($key eq 'm') {
		$self->{mark} = $self->{now};
	} elsif ($key eq 'u') {
		$self->{mark} = undef;
	} elsif ($key eq 'd') {
		my @time = gmtime;
		$self->{file} = sprintf 'live.%d.%04d%02d%02dT%02d%02d%02dZ.heap', $self->{pid},
		    $time[5] + 1900,
		    $time[4] + 1, @time[3, 2, 1, 0];
		$self->tell('asked for a profile', 10);
	}
}

# Takes a key while the filter is typed: Enter sets it, Escape leaves it as it was.
sub type {
	my ($self, $key) = @_;
	if ($key eq "\r" || $key eq "\n") {
		my $text = delete $self->{typing};
		return $self->{filter} = $text if defined Reduce::compiled($text);
		$self->tell("not a regular expression: $text", 10);
	} elsif ($key eq "\e") {
		delete $self->{typing};
	} elsif ($key eq "\x7f" || $key eq "\b") {
		chop $self->{typing};
	} elsif ($key =~ /[\x20-\x7e]/) {
		$self->{typing} .= $key;
	}
}
