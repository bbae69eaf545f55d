# Page: the HTML of a report: what is said in words, and around it the data, the styles, the scripts
# and the empty elements that these fill (from Web). The page refers to nothing outside of itself,
# and its policy forbids the browser to fetch anything. Names come into it as text only: here
# escaped, in the script by textContent. $work and its snapshots are those of Report. Caller:
# Report.
package Page;

# The page of parts as Report::part makes them: one, or one tab for each process.
sub html {
	my @parts = @_;
	my $title = escape("$parts[0]{program} heap report");
	return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	    . qq{<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">\n}
	    . qq{<meta name="viewport" content="width=device-width,initial-scale=1"><title>$title</title>\n<style>} . Web::style() =~ s{\n}{}gr . "</style></head>\n<body>\n"
	    . "<header><h1>$title</h1>\n" . (@parts > 1 ? tabs(@parts) : $parts[0]{words})
	    . join('', map { '<p>' . escape($_) . "</p>\n" } @{ $parts[0]{said} // [] }) . "</header>\n"
	    . Web::body()
	    . join('', map { "<script type=\"application/json\" id=\"data" . ($_ || '')
			    . "\" data-form=\"$parts[$_]{form}\">$parts[$_]{data}</script>\n" } 0 .. $#parts)
	    . '<script>' . Web::model() . "</script>\n<script>" . Web::view()
	    . "</script>\n</body></html>\n";
}

# A button for each process, and its words: only those of the chosen one are shown.
sub tabs {
	my @parts = @_;
	my @buttons = map { my $part = $parts[$_];
		sprintf '<button type="button" role="tab" aria-selected="%s">%s %s <b>%s</b></button>',
		    $_ ? 'false' : 'true', map { escape($_) } @$part{qw(program pid size)} } 0 .. $#parts;
	return sprintf("<p>%d processes</p>\n<div id=\"tabs\" role=\"tablist\">%s</div>\n",
		scalar @parts, join "\n", @buttons)
	    . join '', map { '<div class="process"' . ($_ ? ' hidden' : '')
		    . ">\n$parts[$_]{words}</div>\n" } 0 .. $#parts;
}

# What stands above the pictures that the script draws, of one process, as HTML: sentences, the bar
# of the resident memory and what it opens, and the picture of the last hour, if the last dump has
# one.
sub summary {
	my ($work) = @_;
	return join('', map { "<p>$_</p>\n" } words($work)) . rss_bar($work) . rss_opened($work)
	    . join '', map { Course::picture($_->{dump}) } $work->{snaps}[-1];
}

# A text as one of HTML.
sub escape { return Flame::escape($_[0]) }

# A text in bold type, escaped.
sub bold { return '<b>' . escape($_[0]) . '</b>' }

# Sentences, as HTML: what is held, how the process ended, its course, its owners, whether it began to
# count anew, suspects, names that are missing, and all doubts told so far (Talk), also those about
# other processes.
sub words {
	my ($work) = @_;
	my $option = $work->{option};
	my @snaps = @{ $work->{snaps} };
	my ($first, $last) = @snaps[0, -1];
	my $held = $option->{index} =~ /alloc/ ? 'allocated' : 'live';
	my $size = sub { Print::human($_[0], $option) };
	my $pid = $last->{dump}->pid;
	my $text = (length $pid ? 'Process ' . escape($pid) . ', ' : '')
	    . (defined $last->{time} ? escape(Series::clock($last->{time})) . ': ' : '')
	    . bold($size->($last->{bytes}) . " $held") . sprintf ' in %d objects%s', $last->{objects}, escape(Options::filters($option));
	my $rate = $last->{dump}->interval;
	$text .= ', estimated from samples, one for each ' . escape($size->($rate)) . ' allocated'
	    if $rate =~ /^\d+$/ && $rate > 1;
	$text .= ', thread ' . escape($option->{thread}) if length $option->{thread};
	my $end = Course::sentence($last->{dump});
	my @out = ("$text.", length $end ? bold(ucfirst $end) . '.' : (), course($option, @snaps));
	my @owners = @{ $work->{owners} };
	splice @owners, 3 if @owners > 3;
	my $share = 0;
	$share += $_->[1] for @owners;
	push @out, (@{ $work->{owners} } == 1 ? 'All' : 2 * $share > $last->{bytes} ? 'Most' : 'Part')
	    . ' is held by ' . join(', ', map { bold($_->[0]) . ' ' . $size->($_->[1]) . ' ('
			    . Print::percent($_->[1], $last->{bytes}) . ')' } @owners) . '.' if @owners;
	my $anew = Order::anew(map { $_->{dump} } @snaps);
	push @out, escape("$anew.") if length $anew;
	my %runs = map { $_->{run} => 1 } @snaps;
	push @out, keys %runs > 1 ? 'The snapshots are of several processes: growth is not judged.'
	    : suspects($option, \@snaps, @{ $work->{suspects} }) if @snaps >= Leaks::LEAST();
	push @out, aged($option, $work->{aged}) if $work->{aged};
	push @out, 'Source lines: by ' . escape($Names::engine) . '.' if length $Names::engine;
	push @out, map { escape("$_.") } Missing::sentences(@{ $work->{missing} });
	push @out, 'Doubts: ' . join('; ', map { escape($_) } @Talk::doubted) . '.' if @Talk::doubted;
	return @out;
}

# A sentence: which stacks grow, judged by the ages in the last snapshot alone, where there are too
# few to compare; $series as Leaks::judge_ages leaves it.
sub aged {
	my ($option, $series) = @_;
	my @suspects = @{ $series->{suspects} };
	my @recent = grep { $_->{kind} eq 'recent' } @{ $series->{stacks} };
	my $list = sub {
		my @rows = @_;
		my $more = @rows > 3 ? ', and ' . (@rows - 3) . ' more' : '';
		splice @rows, 3 if @rows > 3;
		return join(', ', map { bold($_->{names}[0]) . ' by '
				    . escape(Series::rate_text($_->{rate}, 1, $option)) } @rows) . $more;
	};
	my $text = 'By the ages of what lives ' . (!@suspects ? 'no stack grows' : (@suspects == 1
			? '1 stack grows: ' : @suspects . ' stacks grow: ') . $list->(@suspects));
	$text .= '; grows lately, or is a bounded cache: ' . $list->(@recent) if @recent;
	return "$text.";
}

# A sentence: whether stacks keep growing, and the three that have grown most.
sub suspects {
	my ($option, $snaps, @suspects) = @_;
	my $count = @suspects;
	return 'The series is too short to tell whether a stack keeps growing ('
	    . Order::span_text(60 * Order::minutes(@$snaps[0, -1])) . ').'
	    if Leaks::is_too_short($snaps, @suspects);
	return 'No stack keeps growing.' if !$count;
	splice @suspects, 3 if $count > 3;
	return ($count == 1 ? '1 stack keeps growing: ' : "$count stacks keep growing: ")
	    . join(', ', map {
			bold($_->{names}[0]) . ' by '
			    . escape(defined $_->{rate} ? Series::rate_text($_->{rate}, 1, $option)
				: Print::human($_->{grown}, $option))
	    } @suspects) . ($count > 3 ? ', and ' . ($count - 3) . ' more.' : '.');
}

# A sentence: how the sum changed; () if there is only one snapshot.
sub course {
	my ($option, @snaps) = @_;
	return () if @snaps < 2;
	my ($first, $last) = @snaps[0, -1];
	my ($peak) = sort { $b->{bytes} <=> $a->{bytes} } @snaps;
	my $change = $last->{bytes} - $first->{bytes};
	my $text = sprintf 'The largest of %d snapshots has %s%s; from the first to the last %s',
	    scalar @snaps, bold(Print::human($peak->{bytes}, $option)),
	    defined $peak->{time} ? ' (' . Series::clock($peak->{time}) . ')' : '',
	    bold(Series::signed($change, $option));
	my $span = 60 * (Order::minutes($first, $last) // 0);
	$text .= sprintf ' in %s, %s', Order::span_text($span),
	    bold(Series::rate_text($change, $span / 60, $option)) if $span >= 1;
	return "$text." . (Report::shown_first(@snaps) != $last ? ' The largest is shown first.' : '');
}

# What the resident memory consists of: (RSS in bytes, [what, bytes], ...), from the metadata of the
# last dump; () if it does not have all figures, or if they contradict each other (allocated above
# active, active above resident). The parts add up to more than RSS if that is below resident.
sub rss_parts {
	my ($work) = @_;
	my $meta = $work->{snaps}[-1]{dump}{meta};
	my ($allocated, $active, $resident, $rss) =
	    map { ($meta->{$_} // '') =~ /^(\d{1,15})$/ ? $1 : return } qw(allocated active resident
	    rss);
	return if $allocated > $active || $active > $resident;
	my @parts = (['allocated', $allocated], ['free between objects', $active - $allocated],
		['kept for reuse, and records of the allocator', $resident - $active]);
	push @parts, ['not of the allocator (code, stacks, files)', $rss - $resident]
	    if $rss > $resident;
	return ($rss, @parts);
}

# The parts of the resident memory as a line and a bar; '' if they are not known.
sub rss_bar {
	my ($work) = @_;
	my ($rss, @parts) = rss_parts($work);
	return '' unless defined $rss && $rss > 0;
	my $sum = 0;
	$sum += $_->[1] for @parts;
	my $option = $work->{option};
	my $text = '<p>Resident: ' . bold(Print::human($rss, $option)) . ' = '
	    . join(' + ', map { "<span class=\"one\"><i class=\"k$_\"></i>"
			    . Print::human($parts[$_][1], $option) . "</span> $parts[$_][0]" } 0 .. $#parts);
	$text .= '; part of the last two is not in memory now' if $rss < $sum;
	return "$text.</p>\n<div class=\"bar\" aria-hidden=\"true\">"
	    . join('', map { sprintf '<i class="k%d" style="width:%.2f%%"></i>', $_,
			    100 * $parts[$_][1] / $sum } 0 .. $#parts) . "</div>\n";
}

# Who pins free memory in the last dump. A function pins the free places of a slab, which is a run
# of pages for objects of one size, if it holds an object in that slab (see Frag). Rows { name,
# pinned, variance, samples, live }, the most pinned first.
sub pins {
	my ($work) = @_;
	my $pins = $work->{snaps}[-1]{pins};
	my %row;
	for my $number (@{ $work->{order} }) {
		my $record = $work->{store}{records}[$number];
		my $name = $work->{self}{label}[$record->{path}[$record->{folded}]];
		my $row = $row{$name} //= { name => $name, pinned => 0, variance => 0, samples => 0, live => 0 };
		$row->{live} += $work->{held}{$number} // 0;
		my ($bytes, $error, $samples) = @{ $pins->{$number} // next };
		$row->{pinned} += $bytes;
		$row->{variance} += $error**2;
		$row->{samples} += $samples;
	}
	return sort { $b->{pinned} <=> $a->{pinned} || $a->{name} cmp $b->{name} }
	    grep { $_->{pinned} } values %row;
}

# What opens below the bar: the lines of the verb frag, and the ten functions that pin most free
# memory; '' if the dump has no lines "# frag_heap".
sub rss_opened {
	my ($work) = @_;
	my ($dump, $option) = ($work->{snaps}[-1]{dump}, $work->{option});
	return '' unless $dump->{heap};
	my $frag = { dump => $dump, option => $option, beside => Elsewhere::beside($dump), rows => [pins($work)] };
	my ($lines, $more) = Frag::lines($frag);
	my $row = sub { '<tr><td>' . escape(Print::human($_[0], $option)) . '</td><td>' . escape($_[1]) . "</td></tr>\n" };
	my @rows = (map({ $row->(@$_) } grep { $_->[0] } @$lines),
		$row->($dump->{heap}{resident}, '= resident, by the allocator\'s count'),
		map({ $row->(@$_) } grep { $_->[0] } @$more),
		$frag->{beside} ? $row->($frag->{beside}{rss}, '= resident, by the kernel\'s count (RSS)') : ());
	my @pins = @{ $frag->{rows} };
	splice @pins, 10 if @pins > 10;
	push @rows, map { my $margin = Noise::margin(@$_{qw(variance samples)});
		$row->($_->{pinned}, ($margin ? Noise::text($margin, $option) . ' ' : '') . "of the free places are pinned by $_->{name}, which holds "
			    . Print::human($_->{live}, $option)) } @pins;
	return '<details id="resident"><summary>' . escape(ucfirst Frag::sentence($frag)) . "</summary>\n<table>\n"
	    . join('', @rows) . "</table></details>\n";
}
