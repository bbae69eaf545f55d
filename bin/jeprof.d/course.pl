# Course: the memory of a process second by second in its last hour, and how it ended, as a profile
# says that was made of its tables (a black box, dump --outside, a core). A line is what one such
# second had, a list in the order of @columns: { course } of a Dump. A second may have no line; the
# library keeps 3600 lines. Callers: ls (Series), report (Page, Series::point_json), leaks, and Main
# for every profile that has an end.
package Course;

# The figures of a line, in the order of the profile: the time in milliseconds since 1970, five
# sizes in bytes (0: not known), two counts since the start: of samples, and of page faults that
# needed the disk.
our @columns = qw(time allocated active resident rss limit samples faults);

use constant { TIME => 0, ALLOCATED => 1, ACTIVE => 2, RESIDENT => 3, RSS => 4, LIMIT => 5 };

# The lines of a Dump, the oldest first.
sub lines { return @{ $_[0]{course} // [] } }

# The resident bytes in the line $_[0]: of the whole process if RSS is known, else of the allocator.
sub resident { return $_[0][RSS] || $_[0][RESIDENT] }

# Bytes as text, from 1G on with two decimals, which tell 1.98G from 2.00G.
sub size {
	my ($bytes) = @_;
	return Print::human($bytes, {}) if $bytes < 1 << 30;
	return sprintf '%.2fG', $bytes / (1 << 30);
}

# How the resident memory grew up to the end, as "40.0M/min for 25 min"; '' if the Dump tells none.
sub growth {
	my ($dump) = @_;
	my $rate = per_minute($dump) // return '';
	my $ms = $dump->{meta}{grown_ms};
	return size($rate) . '/min for ' . ($ms < 120_000 ? sprintf '%.0f s', $ms / 1000
		: sprintf '%.0f min', $ms / 60_000);
}

# The growth of the resident memory up to the end in bytes a minute; undef if the Dump tells none.
sub per_minute {
	my ($dump) = @_;
	my ($bytes, $ms) = map { $dump->{meta}{$_} // '' } qw(grown grown_ms);
	return $bytes =~ /^\d{1,15}$/ && $ms =~ /^[1-9]\d{0,14}$/ ? $bytes * 60_000 / $ms : undef;
}

# "growing 40.0M/min for 25 min, killed at 1.98G of 2.00G"; "then at 1.98G" if the end is not told;
# '' if neither growth nor end is told.
sub sentence {
	my ($dump) = @_;
	my $last = (lines($dump))[-1];
	my $end = $dump->{meta}{end} // '';
	my $grown = growth($dump);
	my @parts = length $grown ? "growing $grown" : ();
	my $at = $last && resident($last) ? size(resident($last)) : '';
	$at .= ' of ' . size($last->[LIMIT]) if length $at && $last->[LIMIT];
	push @parts, Talk::clean(length $end ? $end : 'then') . (length $at ? " at $at" : '')
	    if length $end || length $at && @parts;
	return join ', ', @parts;
}

# ---- ls ----
# The lines as a table of at most $most rows, at equal distances, with the last one; '' if there are
# none.
sub table {
	my ($dump, $most) = @_;
	my @lines = lines($dump);
	my $step = $most > 1 ? $#lines / ($most - 1) : 0;
	my @shown = @lines <= $most ? @lines
	    : @lines[map { $#lines - int($_ * $step + 0.5) } reverse 0 .. $most - 1];
	return '' unless @shown;
	my $text = sprintf "%-20s %9s %9s %9s %9s %9s %10s %8s\n", @columns;
	for my $line (@shown) {
		my ($time, @bytes) = @$line;
		my ($samples, $faults) = splice @bytes, 5;
		$text .= sprintf "%-20s %9s %9s %9s %9s %9s %10d %8d\n", Series::clock($time / 1000),
		    map({ $_ ? size($_) : '-' } @bytes), $samples, $faults;
	}
	$text .= sprintf "%d seconds, %d are shown (-n %d)\n", scalar @lines, scalar @shown,
	    scalar @lines if @shown < @lines;
	return $text;
}

# What ls prints of one Dump: the sentence and the table of at most $most rows; '' if there is
# neither.
sub told {
	my ($dump, $most) = @_;
	my $sentence = sentence($dump);
	return '' unless length $sentence || lines($dump);
	return Talk::clean($dump->{file}) . (length $sentence ? ": $sentence" : ': its last seconds')
	    . "\n" . table($dump, $most);
}

# End, growth and lines of one Dump as members of a JSON object, each with a comma before it; '' if
# there are none.
sub json {
	my ($dump) = @_;
	my @lines = lines($dump);
	my $end = $dump->{meta}{end};
	return '' unless @lines || defined $end;
	return sprintf ',"end":%s,"growth_per_minute":%.0f,"columns":[%s],"course":[%s]',
	    defined $end ? Top::json_string(Talk::clean($end)) : 'null', per_minute($dump) // 0,
	    join(',', map { "\"$_\"" } @columns), join ',', map { '[' . join(',', map { $_ + 0 } @$_) . ']' } @lines;
}

# ---- the report ----
use constant { WIDTH => 1000, HEIGHT => 120 }; # units of the picture; a unit of the height is a pixel

# Resident and allocated bytes over time, or by the number of the line where the clock was set back
# or stood still; and the limit of the last line if it is below four times the largest of them.
# HTML; '' if there are not two lines, or if all these bytes are 0.
sub picture {
	my ($dump) = @_;
	my @lines = lines($dump);
	my @x = map { $_->[TIME] - $lines[0][TIME] } @lines;
	@x = 0 .. $#lines if grep { $x[$_] <= $x[$_ - 1] } 1 .. $#x;
	return '' unless @x > 1;
	my $limit = $lines[-1][LIMIT];
	my ($most) = sort { $b <=> $a } map { (resident($_), $_->[ALLOCATED]) } @lines;
	my $has_limit = $limit && $limit < 4 * $most;
	$most = $limit if $has_limit && $limit > $most;
	return '' unless $most > 0;
	my $y = sub { sprintf '%.1f', HEIGHT - 4 - (HEIGHT - 8) * $_[0] / $most };
	my $path = sub {
		my ($value) = @_;
		return join ' ',
		    map { sprintf '%.1f,%s', WIDTH * $x[$_] / $x[-1], $y->($value->($lines[$_])) }
		    0 .. $#lines;
	};
	my $line = 'fill="none" stroke-width="2" vector-effect="non-scaling-stroke"';
	my $dashes = $has_limit ? sprintf '<line x1="0" x2="%d" y1="%s" y2="%s" stroke="var(--up)" '
	    . 'stroke-dasharray="6 4" vector-effect="non-scaling-stroke"/>', WIDTH, ($y->($limit)) x 2
	    : '';
	return sprintf '<figure><svg viewBox="0 0 %d %d" width="100%%" height="%d" '
	    . 'preserveAspectRatio="none" role="img" aria-label="resident and allocated memory in the '
	    . 'last seconds">%s<polyline points="%s" stroke="var(--k1)" %s/>'
	    . "<polyline points=\"%s\" stroke=\"var(--k0)\" %s/></svg>\n<figcaption>%s to %s, up to %s: "
	    . '<span class="one"><i class="k1"></i>resident</span>, '
	    . "<span class=\"one\"><i class=\"k0\"></i>allocated</span>%s</figcaption></figure>\n",
	    WIDTH, HEIGHT, HEIGHT, $dashes, $path->(\&resident), $line,
	    $path->(sub { $_[0][ALLOCATED] }), $line,
	    map({ Series::clock($_->[TIME] / 1000) } @lines[0, -1]), size($most),
	    $has_limit ? ', dashed: the limit' : '';
}
