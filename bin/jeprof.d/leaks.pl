# Leaks: which stacks of a series keep growing. A stack is judged by its live bytes in each dump
# (with --alloc_space by those ever allocated); stacks are told apart by the names of their frames,
# from the owner on (fold.pl). A suspect has grown in most of the steps, nearly in a straight line,
# has lost little on the way, goes on growing in the last third and in the last step, and has grown
# by more than chance in the samples explains. These are no suspects: tables that are loaded once,
# caches that fill and then stay, queues that grow and shrink. It is a judgement of shape: that
# something is never freed, only the person who reads can say. Fewer profiles of a process than
# LEAST are judged by the ages in the last one, by Since. The verb and the section of a report ask
# the same functions. The thresholds but SHORTEST are those of bin/page/leaks.txt, which the live
# page of jeprofd has too; scripts/join-page writes them as constants in front of this text. LEAST:
# how many snapshots are needed; FINE: how many values of a course are judged at most; SURE:
# standard errors; PER_STEP: samples; the others are shares, 0 to 1. A snapshot is one of Report,
# $work that of Report::gather. A course is the bytes of a stack by snapshot, a step is from one
# value to the next. Callers: Main (command), Report, Page.
package Leaks;

use constant SHORTEST => 10; # seconds: growth in a shorter series may be that of a start

# The verb "leaks". Fails with status 2 if no process has LEAST profiles, and the last profile of
# none has ages or lines of its last seconds (Course). With --gate the exit code tells the gate: a
# doubt is what past_gate() says, and that names are missing is none; 1 if suspects have no times.
sub command {
	my ($option, @files) = @_;
	my $gate = length $option->{gate} ? per_minute($option->{gate}) : undef;
	local $Talk::names_matter = !defined $gate;
	Main::take_program(\@files) if @files;
	my $work = Report::gather($option, Series::files(@files));
	my @series = series($work);
	if (!grep { @{ $_->{snaps} } >= LEAST() || is_aged($_) || Course::lines($_->{snaps}[-1]{dump}) } @series) {
		Talk::note(Ages::missing($work->{snaps}[-1]{dump})) if @{ $work->{snaps} } == 1;
		Talk::fail(2, sprintf 'leaks needs at least %d profiles of one process, better 9, or one with ages', LEAST());
	}
	Print::check_names(@{ $work->{name_rows} });
	$_->{suspects} = suspects($work, $_->{snaps}) for @series;
	judge_ages($work, $_) for grep { @{ $_->{snaps} } < LEAST() && is_aged($_) } @series;
	my @past = defined $gate ? past_gate($option, $gate, @series) : ();
	my @untimed = defined $gate ? grep { @{ $_->{suspects} } && !is_timed($_) } @series : ();
	my $is_past = @past ? 'true' : @untimed ? 'null' : 'false';
	if ($option->{json}) { print_json($option, $gate, $is_past, @series) } else { print_series($work, $_)
		    for @series }
	say_least($option, $work->{snaps}[-1]{dump});
	$work->{fold}->say_missing($option);
	Print::check_names(map { [$_->{grown}, $_->{is_bare}] } map { @{ $_->{suspects} } } @series);
	Talk::fail(1, 'the profiles have no times, so that there is no rate for --gate') if @untimed;
	Talk::doubt($_) for @past;
	my ($worst) = grep { @{ $_->{suspects} } } @series;
	say_next($option, $worst->{suspects}[0]{names}[0], $worst->{snaps}[-1]{dump}{file}, @files)
	    if $worst && !@Talk::doubted;
}

# Whether the last snapshot of a series has ages. Report::keep_ages leaves them to the newest one of
# each process.
sub is_aged { return $_[0]{snaps}[-1]{ages} ? 1 : 0 }

# Judges a series by its last snapshot alone: sets { stacks } to the rows of Since, and { suspects }
# to those that grow.
sub judge_ages {
	my ($work, $series) = @_;
	my $snap = $series->{snaps}[-1];
	$series->{stacks} = [Since::rows($work, $snap)];
	$series->{suspects} = [map { by_age($_) } grep { $_->{kind} eq 'grows' } @{ $series->{stacks} }];
}

# A row of Since as a suspect: it has grown by its rate times its seconds.
sub by_age {
	my ($row) = @_;
	my $grown = $row->{rate} * $row->{seconds} / 60;
	return { %$row, grown => $grown, error => $row->{rate_error} * $row->{seconds} / 60, up => 0, steps => 0, values => [$row->{live}] };
}

# Suggests two commands: the report of the same profiles, unless they are too many for a line, and
# the stacks of the suspect $name in $last, the last profile of its process.
sub say_next {
	my ($option, $name, $last, @files) = @_;
	my @kept = Options::kept($option, qw(focus base sum thread));
	Talk::next_is('report', @kept, length $option->{focus} ? "--focus=$option->{focus}" : (), '-o',
		'leaks.html', \@files) if @files <= 20;
	Talk::note((@files <= 20 ? '      ' : 'next: ')
		. Talk::command('top', '--stacks', @kept, '--focus=' . Options::pattern($name), [$last]));
}

# Whether nothing is suspected although much has grown (more than a tenth of the last bytes), in
# snapshots that span less than SHORTEST; 0 if the span is not known.
sub is_too_short {
	my ($snaps, @suspects) = @_;
	my ($first, $last) = @$snaps[0, -1];
	my $span = Order::minutes($first, $last);
	return !@suspects && defined $span && 60 * $span < SHORTEST
	    && $last->{bytes} - $first->{bytes} > 0.1 * $last->{bytes} ? 1 : 0;
}

# By how many bytes small objects must grow so that chance does not explain it; 0 if counts are
# exact. Growth of n samples from none has a standard error of sqrt(n) samples: with n below SURE()
# squared it may be chance.
sub least_seen {
	my ($dump) = @_;
	my $rate = $dump->interval;
	return $rate =~ /^\d{1,15}$/ && $rate > 1 ? SURE() * SURE() * $rate : 0;
}

# Notes the bytes of least_seen().
sub say_least {
	my ($option, $dump) = @_;
	my $least = least_seen($dump) or return;
	Talk::note('a leak of small objects that grew by less than about '
		    . Print::human($least, $option) . ' cannot be told from chance: one sample for each '
		    . Print::human($least / SURE() / SURE(), $option));
}

# A rate as 1M/min, 500K/s, 2G/day or a plain size, which is meant per minute, in bytes a minute;
# fails for another text.
sub per_minute {
	my ($text) = @_;
	$text =~ m{^(\d+(?:\.\d+)?)([kmgt]?)i?b?(?:/(s|sec|min|m|h|hour|d|day))?$}i
	    or Talk::fail(2, "--gate takes a rate as 1M/min, 500K/s, 2G/day; '$text' is none");
	my $each = lc substr $3 // 'm', 0, 1;
	return $1 * 1024**index(' kmgt', lc($2) || ' ') / { s => 1 / 60, m => 1, h => 60,
		d => 1440 }->{$each};
}

# The snapshots of each process: { pid, snaps, span in minutes, above 0, or undef }, in the order in
# which they first appear.
sub series {
	my ($work) = @_;
	my (%of_run, @order);
	for my $snap (@{ $work->{snaps} }) {
		my $own = $of_run{ $snap->{run} };
		push @order, $own = $of_run{ $snap->{run} } = { pid => $snap->{dump}->pid, snaps => [] }
		    unless $own;
		push @{ $own->{snaps} }, $snap;
	}
	for my $series (@order) {
		$series->{span} = Order::minutes(@{ $series->{snaps} }[0, -1]);
	}
	return @order;
}

# ---- what is suspected ----
# The suspects of snapshots of one process, that which grew most first: a list of { names, path:
# from the owner on; grown: bytes, error: its standard error in bytes; from, to: indices of the
# snapshots between which it grew; live: bytes in the last snapshot; objects: how many more the last
# has than the first; up: how many of the steps went up, steps: how many there are, after values
# were taken together; values: bytes in each snapshot; record; rate, rate_error: in bytes a minute,
# undef without times or if all are the same; is_bare: the owner has no name }. Empty if there are
# fewer snapshots than LEAST.
sub suspects {
	my ($work, $snaps) = @_;
	return [] if @$snaps < LEAST();
	my @rows = rows($work, @$snaps);
	my $self = $work->{self};
	my @found;
	for my $row (@rows) {
		my $found = judge($row->{values}, $row->{variances}) or next;
		my @path = @{ $row->{path} };
		my $span = Order::minutes(@$snaps[@$found{qw(from to)}]) // Order::minutes(@$snaps[0, -1]);
		push @found, { %$found, path => \@path, names => [map { $self->{label}[$_] } @path],
			values => $row->{values}, record => $row->{record},
			live => $row->{values}[-1], objects => $row->{objects},
			is_bare => $self->{frame}[$path[0]]{is_bare},
			rate => defined $span ? $found->{grown} / $span : undef,
			rate_error => defined $span ? $found->{error} / $span : undef };
	}
	return [sort { $b->{grown} <=> $a->{grown}
			    || "@{ $a->{names} }" cmp "@{ $b->{names} }" } @found];
}

# A row { path, values, variances, objects, record } for each stack, from its owner on, that has
# more bytes in the last snapshot than in the first: bytes and their variance in each snapshot, by
# how many objects the last has more; record: the number of the first record of this stack.
sub rows {
	my ($work, @snaps) = @_;
	my $records = $work->{store}{records};
	my (%row, @row); # of the values first those of the first and the last snapshot alone
	for my $number (@{ $work->{order} }) {
		my $record = $records->[$number];
		my @path = @{ $record->{path} };
		splice @path, 0, $record->{folded};
		$row[$number] = $row{ join ' ', @path } //=
		    { path => \@path, record => $number, values => [0, 0], variances => [0, 0], objects => 0 };
	}
	add_snap($snaps[0], 0, \@row, -1);
	add_snap($snaps[-1], 1, \@row, 1);
	$_ = $_ && $_->{values}[1] > $_->{values}[0] ? $_ : undef for @row;
	my @grown = sort { $a->{record} <=> $b->{record} } grep { $_->{values}[1] > $_->{values}[0] } values %row;
	splice @$_, 1, 0, (0) x (@snaps - 2) for map { @$_{qw(values variances)} } @grown;
	add_snap($snaps[$_], $_, \@row, 0) for 1 .. $#snaps - 1;
	return @grown;
}

# Adds the records of a snapshot to their rows, @$row by record, at index $at; their objects count
# with this sign (-1, 0, 1).
sub add_snap {
	my ($snap, $at, $row, $sign) = @_;
	my @values = unpack '(LFF)*', $snap->{counts};
	for (my $i = 0; $i < @values; $i += 3) {
		my $own = $row->[$values[$i]] or next;
		my ($objects, $bytes) = $snap->{dump}->estimate(@values[$i + 1, $i + 2]);
		$own->{values}[$at] += $bytes;
		$own->{variances}[$at] += Noise::variance($objects, $bytes, $values[$i + 1]);
		$own->{objects} += $sign * $objects;
	}
}

# { grown, error, up, steps, from, to } of a course, values and their variances, that looks like a
# leak, else undef; see suspects(). from and to are the indices of the snapshots between which it
# has grown.
sub judge {
	my ($values, $variances) = @_;
	my ($fine, $fine_w, $at) = grouped($values, $variances,
		@$values > FINE() ? FINE() : scalar @$values);
	my $gain = $fine->[-1] - $fine->[0];
	my ($came, $went) = (0, 0);
	for my $at (1 .. $#$fine) {
		my $step = $fine->[$at] - $fine->[$at - 1];
		if ($step > 0) { $came += $step } else { $went -= $step }
	}
	return undef if $gain <= 0 || $went > LOST() * $came;
	my $error = error_of($fine, $fine_w, $went / $came);
	return undef if $gain < SURE() * $error;
	my ($v) = grouped($fine, $fine_w, wanted_steps($fine, $fine_w));
	my $up = grep { $v->[$_] > $v->[$_ - 1] } 1 .. $#$v;
	return undef unless $up >= STEPS() * $#$v && still_grows($v) && straightness($v) >= STRAIGHT();
	return { grown => $gain, error => $error, up => $up, steps => $#$v, from => $at->[0],
		to => $at->[-1] };
}

# Whether these values grow fast enough in the last third and in the last step: by at least the
# share STILL, or LAST, of the mean growth of a step.
sub still_grows {
	my ($v) = @_;
	my $mean = ($v->[-1] - $v->[0]) / $#$v;
	my $third = int($#$v / 3 + 0.5);
	return $v->[-1] - $v->[-1 - $third] >= STILL() * $mean * $third
	    && $v->[-1] - $v->[-2] >= LAST() * $mean;
}

# The standard error of the growth from the first to the last of the values @$v with the variances
# @$w, in bytes; $lost: the bytes of all steps down, as a share of those of all steps up. If nothing
# went, the samples of the first value are also in the last, and their error cancels out: only the
# variance of what came counts. If something went, other samples may have taken the place of those
# of the first value. Then the variance of that value counts too, in both ends, by the share
# 4 * $lost, which LOST keeps below 1.
sub error_of {
	my ($v, $w, $lost) = @_;
	my $variance = $w->[-1] > $w->[0] ? $w->[-1] - $w->[0] : 0;
	return sqrt($variance + 8 * $lost * $w->[0]);
}

# How many values to group these into, so that a step brings PER_STEP samples on average: at least
# LEAST, at most as many as there are. The last variance by the last value is the bytes that a
# sample stands for; the growth by that is its samples.
sub wanted_steps {
	my ($v, $w) = @_;
	return scalar @$v unless $w->[-1] > 0;
	my $wanted = int($v->[-1] * ($v->[-1] - $v->[0]) / $w->[-1] / PER_STEP()) + 1;
	return $wanted > @$v ? scalar @$v : $wanted < LEAST() ? LEAST() : $wanted;
}

# Neighbours taken together in $count groups: (the least value of each group, so that a course that
# goes up and down shows its floor; the variances of these; their indices), three lists.
sub grouped {
	my ($values, $variances, $count) = @_;
	my (@v, @w, @from);
	for my $group (0 .. $count - 1) {
		my @at = int($group * @$values / $count) .. int(($group + 1) * @$values / $count) - 1;
		my ($least) = sort { $values->[$a] <=> $values->[$b] || $a <=> $b } @at;
		push @v, $values->[$least];
		push @w, $variances->[$least];
		push @from, $least;
	}
	return (\@v, \@w, \@from);
}

# r squared, 0 to 1, of the straight line that fits the values, which are not all equal.
sub straightness {
	my ($v) = @_;
	my $middle = $#$v / 2;
	my $mean = 0;
	$mean += $_ / @$v for @$v;
	my ($xx, $xy, $yy) = (0, 0, 0);
	for my $at (0 .. $#$v) {
		$xx += ($at - $middle)**2;
		$xy += ($at - $middle) * ($v->[$at] - $mean);
		$yy += ($v->[$at] - $mean)**2;
	}
	return $xy * $xy / $xx / $yy;
}

# ---- how it is told ----
# Prints what was found of one process.
sub print_series {
	my ($work, $series) = @_;
	my $option = $work->{option};
	my @snaps = @{ $series->{snaps} };
	my ($first, $last) = @snaps[0, -1];
	my @rows = @{ $series->{suspects} };
	return print_aged($work, $series) if $series->{stacks};
	printf "%s%s, %d profile%s%s%s: %s -> %s, %s%s; %s\n",
	    Talk::clean(Object::base_name($work->{store}{program})),
	    length $series->{pid} ? " pid $series->{pid}" : '',
	    scalar @snaps, @snaps == 1 ? '' : 's', defined $series->{span}
	    ? ', ' . Series::clock($first->{time}) . ' -> ' . Series::clock($last->{time}) : '',
	    Options::filters($option, 'thread'),
	    map({ Print::human($_->{bytes}, $option) } $first, $last),
	    Series::signed($last->{bytes} - $first->{bytes}, $option),
	    defined $series->{span} ? ', '
	    . Series::rate_text($last->{bytes} - $first->{bytes}, $series->{span}, $option) : '',
	    @snaps < LEAST() ? 'too few to judge' : is_too_short(\@snaps, @rows)
	    ? 'too short to tell whether a stack keeps growing (' . Order::span_text(60 * $series->{span})
	    . ')' : @rows == 0 ? 'no stack keeps growing' : @rows == 1
	    ? '1 stack keeps growing' : @rows . ' stacks keep growing';
	print_course($work, $series);
	return if !@rows;
	my $rest = @rows > $option->{top} ? @rows - $option->{top} : 0;
	splice @rows, $option->{top} if $rest;
	printf "%12s %12s %9s %9s %10s %7s  %s\n", 'rate', 'margin', 'grown', 'live', 'objects', 'steps',
	    'stack, from the owner to its callers';
	for my $row (@rows) {
		my @path = @{ $row->{names} };
		splice @path, 5, @path, '...' if @path > 6 && !$option->{stacks};
		printf "%12s %s %9s %9s %+10d %7s  %s\n", Series::rate_text($row->{rate}, 1, $option),
		    Noise::column(12, defined $row->{rate}
			? Noise::text(Noise::WIDTH() * $row->{rate_error}, $option) : '-'), # of many samples: see Noise::margin
		    Series::signed($row->{grown}, $option), Print::human($row->{live}, $option),
		    $row->{objects}, "$row->{up}/$row->{steps}", join ' < ', @path;
	}
	print "$rest more (-n ", scalar @{ $series->{suspects} }, ")\n" if $rest;
}

# Prints what was found of one process that was judged by the ages of one profile.
sub print_aged {
	my ($work, $series) = @_;
	my $option = $work->{option};
	my $snap = $series->{snaps}[-1];
	my $span = Ages::span($snap->{dump});
	my $count = @{ $series->{suspects} };
	printf "%s%s, one profile%s%s%s: %s live; by its ages %s\n",
	    Talk::clean(Object::base_name($work->{store}{program})),
	    length $series->{pid} ? " pid $series->{pid}" : '',
	    defined $snap->{time} ? ' at ' . Series::clock($snap->{time}) : '',
	    defined $span ? ', of ' . Order::span_text($span) : '', Options::filters($option, 'thread'),
	    Print::human($snap->{bytes}, $option), $count == 0 ? 'no stack grows' : $count == 1
	    ? '1 stack grows' : "$count stacks grow";
	my $sentence = Course::sentence($snap->{dump});
	print ucfirst $sentence, "\n" if length $sentence;
	Since::print_rows($work, $snap, @{ $series->{stacks} }) if @{ $series->{stacks} };
}

# Prints what the last profile says of the seconds before it. Of the process of the last profile of
# all, if its profiles are too few to judge, also the three owners that hold most of that profile.
sub print_course {
	my ($work, $series) = @_;
	my $last = $series->{snaps}[-1];
	my $sentence = Course::sentence($last->{dump});
	print ucfirst $sentence, "\n" if length $sentence;
	return if @{ $series->{snaps} } >= LEAST() || $last != $work->{snaps}[-1];
	my @owners = @{ $work->{owners} };
	splice @owners, 3 if @owners > 3;
	print 'one profile does not tell which stack grew; most is held by ', join(', ',
		map { "$_->[0] " . Print::human($_->[1], $work->{option}) . ' ('
			    . Print::percent($_->[1], $last->{bytes}) . ')' } @owners), "\n" if @owners;
}

# A suspect as an object of JSON; Report prints it too.
sub row_json {
	my ($row) = @_;
	my $number = sub { defined $_[0] ? sprintf '%d', $_[0] : 'null' };
	return sprintf '{"per_minute":%s,"error_per_minute":%s,"grown":%d,"error":%d,"live":%d,"objects":%d,"steps_up":%d,"steps":%d,"values":[%s],"stack":[%s]}',
	    $number->($row->{rate}), $number->($row->{rate_error}), $row->{grown}, $row->{error},
	    $row->{live}, $row->{objects}, $row->{up}, $row->{steps},
	    join(',', map { sprintf '%d', $_ } @{ $row->{values} }), join ',',
	    map { Top::json_string($_) } @{ $row->{names} };
}

# Prints all series as JSON; $gate: undef without --gate; $is_past: whether one is past it, as JSON.
sub print_json {
	my ($option, $gate, $is_past, @series) = @_;
	my @text = map {
		my $series = $_;
		my @snaps = @{ $series->{snaps} };
		my @rows = map { row_json($_) } @{ $series->{suspects} };
		sprintf "{\"pid\":%s,\"profiles\":%d,\"minutes\":%s,\"before\":%d,\"after\":%d,\"judged\":%s,\n\"suspects\":[\n%s\n]%s}", $series->{pid} =~ /^(\d+)$/ ? $1 : 'null',
		    scalar @snaps, defined $series->{span} ? sprintf('%.4f', $series->{span}) : 'null',
		    map({ $_->{bytes} } @snaps[0, -1]), !$series->{stacks} && (@snaps < LEAST() || is_too_short(\@snaps, @rows)) ? 'false' : 'true',
		    join(",\n", @rows), $series->{stacks} ? ",\n\"stacks\":[\n"
		    . join(",\n", map { Since::row_json($_) } @{ $series->{stacks} }) . "\n]" : ''
	} @series;
	my $told = defined $gate ? sprintf '{"per_minute":%.0f,"past":%s}', $gate, $is_past : 'null';
	print "{\"index\":\"$option->{index}\",\"gate\":$told,\"series\":[\n", join(",\n", @text), "\n]}\n";
}

# Whether the suspects of a series have rates: its profiles have times, or one has ages.
sub is_timed { return defined $_[0]{span} || $_[0]{stacks} ? 1 : 0 }

# For --gate: a text for each process whose suspects together grow by $gate bytes a minute or more.
# Where the profiles are too few to judge and have no ages, the growth of the whole process counts, by
# the course that the last one tells.
sub past_gate {
	my ($option, $gate, @series) = @_;
	my @past;
	for my $dump (map { $_->{snaps}[-1]{dump} } grep { @{ $_->{snaps} } < LEAST() && !$_->{stacks} } @series) {
		my $rate = Course::per_minute($dump) // 0;
		push @past, sprintf 'past the gate: the process%s grew by %s, the limit is %s',
		    length $dump->pid ? ' ' . $dump->pid : '', Series::rate_text($rate, 1, $option),
		    Series::rate_text($gate, 1, $option) if $rate > 0 && $rate >= $gate;
	}
	for my $series (grep { @{ $_->{suspects} } && is_timed($_) } @series) {
		my $rate = 0;
		$rate += $_->{rate} for @{ $series->{suspects} };
		next if $rate < $gate;
		push @past, sprintf 'past the gate: suspects%s grow by %s, the limit is %s',
		    length $series->{pid} ? " of pid $series->{pid}" : '',
		    Series::rate_text($rate, 1, $option), Series::rate_text($gate, 1, $option);
	}
	return @past;
}
