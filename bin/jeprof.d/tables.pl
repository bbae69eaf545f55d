# Print: amounts and the plain table. A view is what Main::view returns, a row of its stacks what
# Reduce::stacks makes; $option->{index} says what is counted. human() is for the tables of verbs;
# unit(), amount() and table() are for the output modes that the old jeprof had, such as --text.
# Callers: all that print.
package Print;

# The unit of amount().
sub unit {
	my ($option) = @_;
	return 'objects' if $option->{index} =~ /objects/;
	return 'seconds' if $option->{index} =~ /delay/;
	return 'samples' if $option->{index} eq 'contentions';
	return $option->{show_bytes} ? 'B' : 'MB';
}

# $value as text in that unit. It is bytes, objects or contentions, or nanoseconds of delay.
sub amount {
	my ($value, $option) = @_;
	return sprintf '%.3f', $value / 1e9 if $option->{index} =~ /delay/;
	return unit($option) eq 'MB' ? sprintf '%.1f', $value / 1048576 : sprintf '%d', $value;
}

# Bytes as short text, 1.5M; with --show_bytes the number itself. Where delays are counted, $bytes
# is nanoseconds and the text seconds; where contentions are, both are their number. $option may be
# {}.
sub human {
	my ($bytes, $option) = @_;
	return sprintf '%.3fs', $bytes / 1e9 if ($option->{index} // '') =~ /delay/;
	return sprintf '%d', $bytes if $option->{show_bytes}
	    || ($option->{index} // '') eq 'contentions';
	my @units = ('B', 'K', 'M', 'G', 'T');
	my $unit = 0;
	while (abs $bytes >= 1023.95 && $unit < $#units) {
		$bytes /= 1024;
		$unit++;
	}
	return sprintf $unit ? '%.1f%s' : '%d%s', $bytes, $units[$unit];
}

# A doubt if more than half of the bytes are in rows without a name: [bytes, is it nameless] of each
# row, also of those that -n leaves out.
sub check_names {
	my @rows = @_;
	my ($bare, $all) = (0, 0);
	for my $row (@rows) {
		$all += abs $row->[0];
		$bare += abs $row->[0] if $row->[1];
	}
	Talk::doubt_names(sprintf '%.0f%% of the bytes lie at places without a name (stripped objects?)',
		100 * $bare / $all) if $all && $bare * 2 > $all;
}

# The share of $part in $whole, as text in percent; "-" if $whole is 0, as that of a difference may
# be.
sub percent {
	my ($part, $whole) = @_;
	return $whole != 0 ? sprintf '%.1f%%', $part * 100 / $whole : '-';
}

# The line "Total: 1.5 MB" of sums; $tag names a thread, or is ''.
sub total_line {
	my ($sum, $option, $tag) = @_;
	return 'Total' . (length $tag ? " ($tag)" : '') . ': ' . amount($sum->{total}, $option) . ' '
	    . unit($option) . "\n";
}

# Prints a view as the output mode --text.
sub text {
	my ($view) = @_;
	# Scripts that read this form expect no total line of an empty profile. The interactive top has
	# one, see Shell::told.
	print total_line(@$view{qw(sum option tag)}) if $view->{sum}{total} != 0 || @{ $view->{stacks} };
	table($view);
}

# Prints the entries of a view, at most $limit (undef: all): flat, its share and the running sum of
# these shares, cumulative, its share, label.
sub table {
	my ($view, $limit) = @_;
	my ($sum, $option) = @$view{qw(sum option)};
	my ($running, $whole) = (0, $sum->{kept});
	for my $entry ($sum->order($option->{cum})) {
		last if defined $limit && $limit-- <= 0;
		my ($flat, $cum) = ($sum->{flat}[$entry] // 0, $sum->{cum}[$entry]);
		my ($part, $parts) = ($flat, $cum);
		# Means do not add up, so with them (Contention::to_means) the shares are of the delays.
		($part, $parts) = ($sum->{delay_flat}[$entry] // 0, $sum->{delay_cum}[$entry]) if $sum->{delay_flat};
		$running += $part;
		printf "%8s %6s %6s %8s %6s %s\n", amount($flat, $option), percent($part, $whole),
		    percent($running, $whole), amount($cum, $option), percent($parts, $whole),
		    $sum->{label}[$entry];
	}
}

# ---------------------------------------------------------------------------------------------------
# Top: the verb "top": one flat table for people, wrappers of malloc folded into their callers.
# $table is what build() or Labels::table returns. Callers: Main (command); Frag and Live, which
# print rows of build() too; Labels (callers), Since (age_json); all that write JSON (json_string).
package Top;

use constant WIDEST => 40; # columns of a function's name

# Prints a view as the options say; with --json returns the text instead.
sub command {
	my ($view, $option) = @_;
	my $table = $option->{by} eq 'label' ? Labels::table($view, $option) : build($view, $option);
	Print::check_names(map { [$_->{self}, $_->{is_bare}] } @{ $table->{rows} });
	my $json = '';
	if ($option->{json}) {
		$json = $option->{stacks} ? stacks_json($view, $table, $option) : json($view, $table, $option);
	} elsif ($option->{stacks}) {
		print_stacks($view, $table, $option);
	} else {
		print_table($view, $table, $option);
	}
	suggest($view, $table, $option);
	return $json;
}

# Notes what has no name, and the next command; none after a doubt, as the table may be wrong.
sub suggest {
	my ($view, $table, $option) = @_;
	$table->{fold}->say_missing($option, $table->{bytes});
	Talk::note($_)
	    for Missing::sentences(grep { $_->{share} >= 1 }
		    Missing::of_rows(map { [@$_{qw(self place is_bare)}] } @{ $table->{rows} }));
	my $is_by_label = $option->{by} eq 'label';
	my ($first) = grep { !$is_by_label || $_->{name} ne Labels::NONE() } @{ $table->{rows} };
	return if !$first || @Talk::doubted;
	my $pattern = Options::pattern($first->{name});
	my @words = $is_by_label ? ('top', Options::kept($option), "--label=^$pattern\$")
	    : ('--text', '--cum', Options::kept($option, 'focus'), "--focus=$pattern");
	Talk::next_is(@words, [map { $_->{file} } @{ $view->{dumps} }]);
}

# { rows; bytes, objects, variance, margin: of all rows; fold: the Fold; has_ages } of a view. There
# is a row for each owner (see Fold): { name; self: its bytes; objects; cum: bytes of stacks that
# have it; variance, margin: of self; age: the median in seconds; ages: bytes by columns (see Ages);
# callers: see callers(); is_bare: it has no name; place: the first one with this name }. Rows are
# sorted by self (by cum with --cum), the largest first.
sub build {
	my ($view, $option) = @_;
	my $self = Reduce::entries($option->{grain}, $option);
	my $fold = Fold->new($self, $option);
	# By entry. @met: the $round, that is, the number of the stack, in which it was met last.
	my (@flat, @objects, @cum, @callers, @met, @noise, @ages);
	my ($bytes, $count, $round) = (0, 0, 0);
	for my $stack (@{ $view->{stacks} }) {
		my @path = $self->of_stack($stack);
		next unless $self->is_kept(\@path);
		my $value = $stack->[2];
		my $at = $fold->owner($value, \@path);
		splice @path, 0, $at if $at;
		my $owner = $path[0];
		$round++;
		$bytes += $value;
		$count += $stack->[1];
		$flat[$owner] += $value;
		$objects[$owner] += $stack->[1];
		$noise[$owner][0] += $stack->[7] // Noise::variance(@$stack[1, 2, 4]);
		$noise[$owner][1] += $stack->[4];
		$ages[$owner] = Ages::add_packed($ages[$owner], $stack->[6]) if defined $stack->[6];
		($met[$_] // 0) == $round or $met[$_] = $round, $cum[$_] += $value for @path;
		my $caller = $fold->caller_of(\@path);
		$callers[$owner]{$caller} += $value if defined $caller;
	}
	my $span = @ages ? Ages::longest(@{ $view->{dumps} }) : undef;
	my @rows = map { { name => $self->{label}[$_], self => $flat[$_], objects => $objects[$_],
			cum => $cum[$_], variance => $noise[$_][0], margin => Noise::margin(@{ $noise[$_] }),
			age => Ages::median($ages[$_], $span), ages => $ages[$_],
			is_bare => $self->{frame}[$_]{is_bare}, place => $self->{place}[$_],
			callers => callers($self, $callers[$_]) } } grep { defined $flat[$_] } 0 .. $#flat;
	my $key = $option->{cum} ? 'cum' : 'self';
	@rows = sort { $b->{$key} <=> $a->{$key} || $a->{name} cmp $b->{name} } @rows;
	my @sums = map { my $at = $_; my $sum = 0; $sum += $_->[$at] for grep { $_ } @noise; $sum } 0, 1;
	return { rows => \@rows, bytes => $bytes, objects => $count, fold => $fold,
		variance => $sums[0], margin => Noise::margin(@sums), has_ages => scalar @ages };
}

# The callers of a row, [{ name, bytes }, ...], the most first; $sums: { entry => bytes } or undef.
sub callers {
	my ($self, $sums) = @_;
	return [map { { name => $self->{label}[$_], bytes => $sums->{$_} } }
		    sort { $sums->{$b} <=> $sums->{$a}
			    || $self->{label}[$a] cmp $self->{label}[$b] } keys %{ $sums || {} }];
}

# The program and the process of a view, for a title: with pid and time, or of several profiles,
# which are added up, how many these are.
sub process {
	my ($view) = @_;
	my ($dump, @more) = @{ $view->{dumps} };
	my $text = Object::base_name($view->{program});
	return "$text, " . (1 + @more) . ' profiles added up' if @more;
	$text .= ' pid ' . $dump->pid if length $dump->pid;
	return length $dump->time_text ? "$text at " . $dump->time_text : $text;
}

# The first line of the table: the process, the filters and the sum of what they leave.
sub headline {
	my ($view, $table, $option) = @_;
	my ($dump) = @{ $view->{dumps} };
	my $text = process($view);
	$text .= ", thread $view->{tag}" . thread_name($dump, $view->{tag}) if length $view->{tag};
	$text .= Options::filters($option);
	return "$text: "
	    . Contention::sentence($dump, Print::human($table->{bytes}, $option), $table->{objects}) . "\n"
	    if Contention::is_one($dump);
	$text .= $dump->is_delta ? ': grown by ' : $option->{index} =~ /alloc/ ? ': allocated ' : ': live ';
	$text .= Print::human($table->{bytes}, $option) . ($table->{margin}
		? ' ' . Noise::text($table->{margin}, $option) : '') . Ages::words($option)
	    . sprintf ' in %d objects', $table->{objects};
	$text .= since_mark($dump, $option) if $dump->is_delta;
	return $dump->interval > 1 ? "$text, estimated from samples\n"
	    : "$text\n";
}

# Of a delta: since when; and how many stacks shrank by how much, whose rows the delta does not
# have.
sub since_mark {
	my ($dump, $option) = @_;
	my ($count, $bytes) = $dump->shrunk;
	return ' since ' . Talk::clean($dump->{meta}{mark_time} // 'the mark')
	    . ($count ? sprintf ', %d %s shrunk by %s', $count, $count == 1 ? 'stack' : 'stacks',
			Print::human($bytes, $option) : '');
}

# The name of the thread "t<number>", with a blank before it; '' if it has none.
sub thread_name {
	my ($dump, $tag) = @_;
	my ($name) = map { $_->[1] } grep { "t$_->[0]" eq $tag
		    && length $_->[1] } @{ $dump->{threads} };
	return defined $name ? " $name" : '';
}

# Prints the rows, at most -n.
sub print_table {
	my ($view, $table, $option) = @_;
	print headline($view, $table, $option);
	return if !@{ $table->{rows} };
	my @rows = @{ $table->{rows} };
	my $rest = @rows > $option->{top} ? @rows - $option->{top} : 0;
	splice @rows, $option->{top} if $rest;
	my $width = 8;
	for my $row (@rows) {
		my $length = Talk::width($row->{name});
		$width = $length > WIDEST ? WIDEST : $length if $length > $width;
	}
	my @has = ($table->{margin} && $option->{index} !~ /delay/, $table->{has_ages});
	printf "%9s%s %6s %9s %6s %10s%s  %-*s  %s\n", 'self', $has[0] ? '   margin' : '', '%', 'cum',
	    'cum%', $option->{index} =~ /delay/ ? 'times' : 'objects', $has[1] ? '    age' : '',
	    $width, $option->{by} eq 'label' ? ('label', 'functions') : ('function', 'callers');
	my $running = 0;
	for my $row (@rows) {
		$running += $row->{self};
		my $line = sprintf "%9s%s %6s %9s %6s %10d%s  %s  %s", Print::human($row->{self}, $option),
		    $has[0] ? Noise::column(9, Noise::text($row->{margin}, $option)) : '',
		    Print::percent($row->{self}, $table->{bytes}),
		    Print::human($row->{cum}, $option), Print::percent($row->{cum}, $table->{bytes}),
		    $row->{objects}, $has[1] ? sprintf(' %6s', Ages::text($row->{age})) : '',
		    fitted($row->{name}, $width),
		    callers_text($row, $option->{callers});
		$line =~ s/\s+$//;
		print "$line\n";
	}
	printf "%9s%s %6s  in %d more %s (-n %d)\n",
	    Print::human($table->{bytes} - $running, $option), $has[0] ? ' ' x 9 : '',
	    Print::percent($table->{bytes} - $running, $table->{bytes}), $rest,
	    $option->{by} eq 'label' ? 'labels' : 'functions',
	    scalar @{ $table->{rows} } if $rest;
}

# A list: how many stacks a view has, then rows of the heaviest of them, at most -n: { names,
# bytes, objects, variance, samples, age }. names go from the function that called the allocator,
# even if that is a wrapper of malloc, to the root. Stacks of the same entries are one row. With
# --json bytes and objects are whole numbers.
sub stack_rows {
	my ($view, $table, $option) = @_;
	my %row;
	my $self = Reduce::entries($option->{grain}, $option);
	for my $stack (@{ $view->{stacks} }) {
		my @path = $self->of_stack($stack);
		next unless $self->is_kept(\@path);
		my $row = $row{ join ' ', @path } //= { path => \@path, bytes => 0, objects => 0 };
		$row->{bytes} += $stack->[2];
		$row->{objects} += $stack->[1];
		$row->{variance} += $stack->[7] // Noise::variance(@$stack[1, 2, 4]);
		$row->{samples} += $stack->[4];
		$row->{ages} = Ages::add_packed($row->{ages}, $stack->[6]) if defined $stack->[6];
	}
	my $span = $table->{has_ages} ? Ages::longest(@{ $view->{dumps} }) : undef;
	$_->{age} = Ages::median($_->{ages}, $span) for values %row;
	$_->{names} = [map { $self->{label}[$_] } @{ $_->{path} }] for values %row;
	my @rows = sort { $b->{bytes} <=> $a->{bytes}
		    || "@{ $a->{names} }" cmp "@{ $b->{names} }" } values %row;
	my $count = @rows;
	round_rows(\@rows, qw(bytes objects)) if $option->{json};
	splice @rows, $option->{top} if $count > $option->{top};
	return ($count, @rows);
}

# Prints whole stacks.
sub print_stacks {
	my ($view, $table, $option) = @_;
	my ($count, @rows) = stack_rows($view, $table, $option);
	print headline($view, $table, $option);
	for my $row (@rows) {
		my $margin = $option->{index} =~ /delay/ ? 0 : Noise::margin(@$row{qw(variance samples)});
		printf "%9s%s %6s %10d %s%s\n", Print::human($row->{bytes}, $option),
		    $margin ? ' ' . Noise::text($margin, $option) : '',
		    Print::percent($row->{bytes}, $table->{bytes}), $row->{objects},
		    $option->{index} =~ /delay/ ? 'times' : 'objects',
		    defined $row->{age} ? ', ' . Ages::text($row->{age}) . ' old' : '';
		print map { "                   $_\n" } @{ $row->{names} };
	}
	printf "%d more stacks (-n %d)\n", $count - @rows, $count if $count > @rows;
}

# Whole stacks as JSON.
sub stacks_json {
	my ($view, $table, $option) = @_;
	my ($count, @rows) = stack_rows($view, $table, $option);
	my @text = map { my $row = $_; sprintf '{"bytes":%d,"objects":%d,"stack":[%s],"error":%d,"age":%s}',
		    $row->{bytes}, $row->{objects}, join(',', map { json_string($_) } @{ $row->{names} }),
		    sqrt $row->{variance}, age_json($row) } @rows;
	return sprintf "{\"dump\":%s,%s,\"total\":{\"bytes\":%d,\"objects\":%d},\n\"stacks\":[\n%s\n]}\n",
	    json_string($view->{dumps}[0]{file}), thread_json($view),
	    $table->{bytes}, $table->{objects}, join ",\n", @text;
}

# "thread":NUMBER,"thread_name":TEXT, of the thread that alone is shown; null if all are.
sub thread_json {
	my ($view) = @_;
	my ($number) = $view->{tag} =~ /^t(\d+)/;
	my $name = defined $number ? Threads::names($view->{dumps}[0])->{$number} // '' : undef;
	return sprintf '"thread":%s,"thread_name":%s', $number // 'null', defined $name ? json_string($name) : 'null';
}

# A name and blanks, $width characters wide; if it is longer, its beginning and its end with "..."
# between.
sub fitted {
	my ($name, $width) = @_;
	my $blank = $width - Talk::width($name);
	return $name . ' ' x $blank if $blank >= 0;
	my $head = int(($width - 3) / 2);
	return Talk::piece($name, 0, $head) . '...' . Talk::piece($name, $head + 3 - $width, $width);
}

# The $count callers of a row that bring most, with their shares if several are named. Those of a
# difference have no shares if some grew and others shrank: these would be above 100 % and below 0.
sub callers_text {
	my ($row, $count) = @_;
	my @list = @{ $row->{callers} };
	my $has_shares = $row->{self} && !grep { $_->{bytes} / $row->{self} < 0 } @list;
	my $more = @list > $count ? @list - $count : 0;
	splice @list, $count if $more;
	my @text = map { @list > 1 && $has_shares ? sprintf '%s %.0f%%', $_->{name},
		    100 * $_->{bytes} / $row->{self} : $_->{name} } @list;
	push @text, "$more more" if $more;
	return join ', ', @text;
}

# A text, in quotes, as JSON; a text that is no UTF-8 is taken as Latin-1.
sub json_string {
	my ($text) = @_;
	$text =~ s/([\\"])/\\$1/g;
	$text =~ s/([\x00-\x1f\x7f])/sprintf '\\u%04x', ord $1/ge;
	$text =~ s/([\x80-\xff])/sprintf '\\u%04x', ord $1/ge if !Talk::is_utf8($text);
	return qq{"$text"};
}

# The median age of a row in seconds, as JSON; null if it is not known.
sub age_json {
	my ($row) = @_;
	return defined $row->{age} ? sprintf '%.1f', $row->{age} : 'null';
}

# Rounds the named figures of these rows in place. For each figure, the whole numbers of all rows
# add up to the whole part of its sum.
sub round_rows {
	my ($rows, @names) = @_;
	for my $name (@names) {
		my @whole = Export::whole_numbers(map { $_->{$name} } @$rows);
		$rows->[$_]{$name} = $whole[$_] for 0 .. $#whole;
	}
}

# The rows as JSON, at most -n.
sub json {
	my ($view, $table, $option) = @_;
	my ($dump) = @{ $view->{dumps} };
	my @rows = @{ $table->{rows} };
	round_rows(\@rows, qw(self objects));
	for my $row (@rows) { # self, rounded up, may exceed a cum that it was equal to
		my $excess = $row->{self} - $row->{cum};
		$row->{cum} = $row->{self} if $excess > 0 && $excess < 1;
	}
	splice @rows, $option->{top} if @rows > $option->{top};
	my @text;
	for my $row (@rows) {
		my $callers = join ',', map { sprintf '{"function":%s,"bytes":%d}', json_string($_->{name}),
			    $_->{bytes} } @{ $row->{callers} };
		push @text, sprintf '{"%s":%s,"self":%d,"error":%d,"age":%s,"ages":%s,"percent":%.2f,"cumulative":%d,"objects":%d,"callers":[%s]}',
		    $option->{by} || 'function', json_string($row->{name}), $row->{self}, sqrt $row->{variance}, age_json($row),
		    Ages::json($row->{ages}),
		    $table->{bytes} ? 100 * $row->{self} / $table->{bytes} : 0, $row->{cum},
		    $row->{objects}, $callers;
	}
	my $missing = Missing::json(
		Missing::of_rows(map { [@$_{qw(self place is_bare)}] } @{ $table->{rows} }));
	my $nameless = join ',', map { sprintf '{"object":%s,"build_id":%s,"bytes":%d}',
		    json_string($_->{object}{path}),
		    json_string($_->{object}{id}), $_->{bytes} } $table->{fold}->objects;
	return sprintf "{\"dump\":%s,%s,\"program\":%s,\"pid\":%s,\"time\":%s,\"index\":%s,\"age_bounds\":%s,\"total\":{\"bytes\":%d,\"error\":%d,\"objects\":%d},\"doubts\":%d,\"nameless\":[%s],%s,\n\"rows\":[\n%s\n]}\n",
	    json_string($dump->{file}), thread_json($view), json_string($view->{program}),
	    $dump->pid =~ /^(\d+)$/ ? $1 : 'null',
	    json_string($dump->time_text), json_string($option->{index}),
	    $table->{has_ages} ? Ages::bounds_json() : 'null', $table->{bytes},
	    sqrt $table->{variance}, $table->{objects}, scalar @Talk::doubted, $nameless, $missing, join ",\n", @text;
}
