# Series: the dumps of a process in their order, for the verbs ls and diff. A point is { dump,
# bytes, objects } and what Order says of its time. The sums are those of top: estimated stack by
# stack. Others take from here which files a series has, and the texts of clock times, changes and
# rates. Callers: Main, and the rooms (files of bin/jeprof.d) of most verbs.
package Series;

# Bars of eight heights, in UTF-8.
my @bars = map { "\xe2\x96" . chr } 0x81 .. 0x88;

# The files of all_files() that show a course: not those whose names say that they are deltas, which
# hold what was added since a mark (kind d, prof.dump_delta). If there are only deltas, they stay.
sub files {
	my @files = all_files(@_);
	my @points = grep { !is_delta_name($_) } @files;
	return @files if !@points || @points == @files;
	Talk::note(sprintf '%d of %d profiles %s left out: what was added since a mark (kind d)',
		@files - @points, scalar @files, @files - @points == 1 ? 'is' : 'are');
	return @points;
}

# Whether a name is that of a delta.
sub is_delta_name {
	my $parts = Input::name_parts($_[0]);
	return $parts && $parts->{letter} eq 'd';
}

# The files that were given; if none was, those of the newest series of this directory, sorted by
# name: files whose names differ only in time, number and kind. Fails if there is none.
sub all_files {
	my @files = @_;
	return @files if @files;
	my %age = map { $_ => (stat)[9] // 0 } glob '*.heap *.box';
	my ($newest) = sort { $age{$b} <=> $age{$a} || $b cmp $a } keys %age;
	Talk::fail(2, "no profile given, and none (*.heap, *.box) in this directory") unless defined $newest;
	my $name = stem($newest);
	my %others = map { stem($_) => 1 } grep { stem($_) ne $name } keys %age;
	my $count = keys %others;
	Talk::note("no profile given: the series $name.*" . ($count ? ", the newest; $count other"
			    . ($count > 1 ? 's are' : ' is') . ' here (' . (sort keys %others)[0] . '.*'
			    . ($count > 1 ? ', ...)' : ')') : ''));
	return grep { stem($_) eq $name } sort keys %age;
}

# The path of a dump up to its pid, with the pid; the whole path of a file that is not named as a
# dump.
sub stem {
	my ($file) = @_;
	my $parts = Input::name_parts($file);
	return $parts ? $parts->{stem} : $file;
}

# The points of files, in the order of time (Order::sorted).
sub read_all {
	my ($option, @files) = @_;
	my @points = map { point(Dump::read_file($_), $option) } @files;
	return Order::sorted(@points);
}

# The point of a Dump: live bytes and objects, or those ever allocated if $option->{index} says so;
# fails for a profile of contention.
sub point {
	my ($dump, $option) = @_;
	Contention::refuse($dump);
	my ($objects, $bytes) = (0, 0);
	my $at = $option->{index} =~ /alloc/ ? 3 : 1;
	for my $stack (@{ $dump->{stacks} }) {
		my @pair = $dump->estimate(@$stack[$at, $at + 1]);
		$objects += $pair[0];
		$bytes += $pair[1];
	}
	return { dump => $dump, objects => $objects, bytes => $bytes, Order::stamp($dump) };
}

# Seconds since 1970 as 2026-01-31 12:30:05Z; - for undef.
sub clock {
	my ($seconds) = @_;
	return '-' unless defined $seconds;
	my ($s, $m, $h, $day, $month, $year) = gmtime int $seconds;
	return sprintf '%04d-%02d-%02d %02d:%02d:%02dZ', $year + 1900, $month + 1, $day, $h, $m, $s;
}

# ---- ls ----
# The verb "ls". A delta has a line without a change, and no bar in the line of bars unless all are
# deltas.
sub ls {
	my ($option, @files) = @_;
	my @points = read_all($option, all_files(@files));
	Order::say_anew(map { $_->{dump} } @points);
	return ls_json($option, @points) if $option->{json};
	my ($most) = sort { $b <=> $a } map { $_->{bytes} } @points;
	printf "%4s  %-20s %-9s %9s %9s %10s  %-8s %s\n", 'seq', 'time', 'reason',
	    $option->{index} =~ /alloc/ ? 'allocated' : 'live', 'change', 'objects', '', 'file';
	my $before;
	for my $point (@points) {
		my ($seq, $kind) = Order::marks($point->{dump});
		my $is_delta = $point->{dump}->is_delta;
		my $change = defined $before && !$is_delta
		    ? signed($point->{bytes} - $before, $option) : '';
		printf "%4s  %-20s %-9s %9s %9s %10d  %-8s %s\n", $seq, clock($point->{time}), $kind,
		    Print::human($point->{bytes}, $option), $change,
		    $point->{objects}, '#' x int(8 * $point->{bytes} / ($most || 1) + 0.5),
		    Talk::clean($point->{dump}{file});
		$before = $point->{bytes} unless $is_delta;
	}
	@points = grep { !$_->{dump}->is_delta } @points if grep { !$_->{dump}->is_delta } @points;
	my $text = ($ENV{LC_ALL} || $ENV{LC_CTYPE} || $ENV{LANG} || '') =~ /utf-?8/i
	    ? line($most, @points) : '';
	print "$text\n" if @points > 1 && length $text;
	print map { Course::told($_->{dump}, $option->{top}) } @points;
	my @ends = map { $_->{dump}{file} } @points > 1 ? @points[0, -1] : @points;
	Talk::next_is(@ends > 1 ? 'diff' : 'top', Options::kept($option, qw(base sum thread)), \@ends);
}

# The bytes of points as one line of bars; $most: the bytes for which the highest bar stands.
sub line {
	my ($most, @points) = @_;
	return join '', map { $bars[int(7 * $_->{bytes} / ($most || 1))] } @points;
}

# A change in bytes as text, with its sign.
sub signed {
	my ($bytes, $option) = @_;
	return ($bytes > 0 ? '+' : '') . Print::human($bytes, $option);
}

# The points of ls as JSON.
sub ls_json {
	my ($option, @points) = @_;
	print "{\"index\":\"$option->{index}\",\"dumps\":[\n",
	    join(",\n", map { point_json($_) } @points), "\n]}\n";
}

# A point as an object of JSON; Report prints it too.
sub point_json {
	my ($point) = @_;
	my ($seq, $kind) = Order::marks($point->{dump});
	return sprintf '{"seq":%s,"time":%s,"reason":%s,"bytes":%d,"objects":%d,"file":%s%s}',
	    $seq eq '-' ? 'null' : $seq,
	    defined $point->{time} ? Top::json_string(clock($point->{time})) : 'null',
	    Top::json_string($kind), $point->{bytes}, $point->{objects},
	    Top::json_string($point->{dump}{file}), Course::json($point->{dump});
}

# ---- diff ----
# The verb "diff": what grew from one profile to another. Two that are given are compared in this
# order. With another number of files, or with --from, --to or --last, the first is compared with
# the last of those that files() and between() leave.
sub diff {
	my ($option, @files) = @_;
	my $is_range = grep { length $option->{$_} } qw(from to last);
	my @points = @files == 2 && !$is_range ? map { point(Dump::read_file($_), $option) } @files
	    : read_all($option, files(@files));
	@points = between($option, @points) if $is_range;
	Talk::fail(2, 'diff compares two profiles; ' . (@points ? 'one is' : 'none are') . ' left')
	    if @points < 2;
	my ($from, $to) = @points[0, -1];
	Talk::note("$from->{dump}{file} is later than $to->{dump}{file}")
	    if (Order::sorted($from, $to))[0] != $from;
	Order::say_processes($from->{dump}, $to->{dump});
	Order::say_anew($from->{dump}, $to->{dump});
	my @rates = map { $_->{dump}->interval } $from, $to;
	Talk::note("sampled at different rates ($rates[0] and $rates[1] bytes): estimates are compared")
	    if $rates[0] != $rates[1];
	my $rows = growth($option, $from, $to);
	my $span = Order::minutes($from, $to);
	Print::check_names(@{ $rows->{later} });
	my $print = $option->{json} ? \&diff_json : \&diff_table;
	$print->($option, $from, $to, $span, $rows);
	$rows->{fold}->say_missing($option);
}

# The points that --from, --to and --last leave. --from and --to are times of the wall clock, which
# ls shows; --last counts back from the last of the points that these leave, by `at` (see Order), as
# somebody may have set the wall clock.
sub between {
	my ($option, @points) = @_;
	my $clock = length $option->{last} ? 'at' : 'time';
	Talk::fail(1, 'a profile without a time cannot be placed: name two profiles instead')
	    if grep { !defined $_->{$clock} } @points;
	my ($from, $to) = map { length $option->{$_} ? moment($option->{$_}, $points[-1]{time}) : undef }
	    qw(from to);
	@points = grep { (!defined $from || $_->{time} >= $from)
		    && (!defined $to || $_->{time} <= $to) } @points;
	return @points unless length $option->{last} && @points;
	$option->{last} =~ /^(\d+(?:\.\d+)?)([smhd]?)$/
	    or Talk::fail(2, "--last takes a time as 90s, 10m, 2h, 1d; '$option->{last}' is none");
	my $first = $points[-1]{at} - $1 * { '' => 1, s => 1, m => 60, h => 3600, d => 86400 }->{$2};
	return grep { $_->{at} >= $first } @points;
}

# A time of the wall clock in seconds since 1970: whole, or as HH:MM or HH:MM:SS of the day of $end,
# the time of the last dump. 12:30 means 12:30:00. Fails for another text.
sub moment {
	my ($text, $end) = @_;
	$text = substr(clock($end), 0, 10) . "T$text" if $text =~ /^\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?$/;
	return Order::seconds($text) // Talk::fail(2,
		"not a time: $text (12:30, 12:30:05 or 2026-01-31T12:30:05Z, all UTC)");
}

# What each stack holds more in the point $to than in $from: { list: rows { path: names from the
# owner on; bytes, objects: by how many it rose, not 0; later: bytes of $to; variance, samples,
# margin: of bytes; is_bare: the owner has no name }, the most grown first; fold: the Fold; later:
# [bytes of $to, is_bare] of all; sums: [bytes of $from, bytes of $to] of the stacks that the filters
# leave }. Stacks are told apart by the names of their frames, from the owner on, so that two runs of
# two builds agree where their functions do.
sub growth {
	my ($option, $from, $to) = @_;
	Places::number_stacks($_->{dump}) for $from, $to;
	my $has_lines = $option->{grain} ne 'functions' || $option->{inlines};
	Names::resolve($has_lines);
	# Only one of the two brought names along, with inlined frames: the other has no such frames.
	Names::drop_inlined() if !$has_lines && !$from->{dump}{symbols} != !$to->{dump}{symbols};
	my $self = Reduce::entries($option->{grain}, $option);
	my $fold = Fold->new($self, $option);
	my (%row, @sums);
	for my $side ([$from, -1], [$to, 1]) {
		my ($point, $sign) = @$side;
		for my $stack (@{ Reduce::stacks($point->{dump}, $option->{index}, undef, $sign) }) {
			my @path = $self->of_stack($stack);
			next unless $self->is_kept(\@path);
			# Fold sums up the bytes without a name: 0 for $from, so that it tells those of $to.
			@path = $fold->path($sign > 0 ? $stack->[2] : 0, @path);
			my $row = $row{ join ' ', @path } //=
			    { path => [map { $self->{label}[$_] } @path], bytes => 0, later => 0, objects => 0,
				variance => 0, samples => 0,
				is_bare => $self->{frame}[$path[0]]{is_bare} };
			$row->{objects} += $stack->[1];
			$row->{bytes} += $stack->[2];
			$sums[$sign > 0] += $sign * $stack->[2];
			$row->{later} += $stack->[2] if $sign > 0;
			$row->{variance} += Noise::variance(@$stack[1, 2, 4]);
			$row->{samples} += $stack->[4];
		}
	}
	$_->{margin} = Noise::margin(@$_{qw(variance samples)}) for values %row;
	my @list = grep { abs $_->{bytes} >= 0.5 || abs $_->{objects} >= 0.5 } values %row;
	@list = sort { $b->{bytes} <=> $a->{bytes} || "@{ $a->{path} }" cmp "@{ $b->{path} }" } @list;
	return { list => \@list, fold => $fold, sums => [map { $_ // 0 } @sums[0, 1]],
		later => [map { [$_->{later}, $_->{is_bare}] } values %row] };
}

# A change of $bytes in $span minutes as text, in bytes a minute; - if one is undef.
sub rate_text {
	my ($bytes, $span, $option) = @_;
	return defined $bytes && defined $span ? signed($bytes / $span, $option) . '/min' : '-';
}

# Prints the answer of diff for people; $span: minutes or undef, $grown: what growth() returns.
sub diff_table {
	my ($option, $from, $to, $span, $grown) = @_;
	my ($a, $b) = map { $_->{dump} } $from, $to;
	my ($rows, @sums) = ($grown->{list}, @{ $grown->{sums} });
	my $change = $sums[1] - $sums[0];
	my $margin = margin_of_sum(@$rows);
	printf "%s -> %s%s%s: %s -> %s, %s%s%s%s\n",
	    map({ my $time = $_->{time};
			defined $time ? clock($time) : Talk::clean($_->{dump}{file}) } $from, $to),
	    length $a->pid && length $b->pid && $a->pid ne $b->pid
	    ? ' (pid ' . $a->pid . ' -> pid ' . $b->pid . ')' : '', Options::filters($option),
	    map({ Print::human($_, $option) } @sums), signed($change, $option),
	    $margin ? ' ' . Noise::text($margin, $option) : '',
	    defined $span ? ', ' . rate_text($change, $span, $option) : '',
	    @$rows && Noise::hides($change, $margin) ? ', within noise' : '';
	return if !@$rows;
	my @shown = @$rows > $option->{top} ? ends($option->{top}, @$rows) : @$rows;
	printf "%9s %9s %13s %10s  %s\n", 'change', 'margin', 'rate', 'objects',
	    'stack, from the owner to its callers';
	for my $row (@shown) {
		my @path = @{ $row->{path} };
		splice @path, 5, @path, '...' if @path > 6 && !$option->{stacks};
		printf "%9s %s %13s %+10d  %s%s\n", signed($row->{bytes}, $option),
		    Noise::column(9, Noise::text($row->{margin}, $option)),
		    rate_text($row->{bytes}, $span, $option), $row->{objects}, join(' < ', @path),
		    Noise::hides(@$row{qw(bytes margin)}) ? '  (within noise)' : '';
	}
	printf "%d more stacks (-n %d)\n", @$rows - @shown, scalar @$rows if @$rows > @shown;
	Talk::next_is('top', '--stacks', Options::kept($option, qw(focus base sum thread)),
		'--focus=' . Options::pattern($shown[0]{path}[0]), [$b->{file}])
	    unless @Talk::doubted;
}

# The margin of the sum of rows.
sub margin_of_sum {
	my @rows = @_;
	my ($variance, $samples) = (0, 0);
	for my $row (@rows) {
		$variance += $row->{variance};
		$samples += $row->{samples};
	}
	return Noise::margin($variance, $samples);
}

# The $count rows that changed most, growth or loss, in the order of the list.
sub ends {
	my ($count, @rows) = @_;
	my @order = sort { abs $rows[$b]{bytes} <=> abs $rows[$a]{bytes} || $a <=> $b } 0 .. $#rows;
	return @rows[sort { $a <=> $b } @order[0 .. $count - 1]];
}

# The answer of diff as JSON: all rows, whatever -n says; they add up to what is between the sums.
sub diff_json {
	my ($option, $from, $to, $span, $grown) = @_;
	my ($before, @whole) = Export::whole_numbers($grown->{sums}[0], map { $_->{bytes} } @{ $grown->{list} });
	my @text = map {
		my $row = $_;
		sprintf '{"bytes":%d,"error":%d,"within_noise":%s,"objects":%d,"per_minute":%s,"stack":[%s]}',
		    shift @whole, sqrt $row->{variance},
		    Noise::hides(@$row{qw(bytes margin)}) ? 'true' : 'false', $row->{objects},
		    defined $span ? sprintf('%d', $row->{bytes} / $span) : 'null', join ',',
		    map { Top::json_string($_) } @{ $row->{path} }
	} @{ $grown->{list} };
	printf "{\"from\":%s,\"to\":%s,\"index\":\"%s\",\"minutes\":%s,\"before\":%d,\"after\":%d,\n\"rows\":[\n%s\n]}\n", map({ Top::json_string($_->{dump}{file}) } $from, $to),
	    $option->{index}, defined $span ? sprintf('%.4f', $span) : 'null',
	    $before, $grown->{sums}[1], join ",\n", @text;
}
