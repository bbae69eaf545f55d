# Dump: one profile file as data. Stacks stay text until Places turns them into numbers. Unknown
# lines do not stop the parser: those before the list of mapped objects are skipped, and one remark
# a file says how many. Blanks, tabs and empty lines may stand where no writer puts them. A record
# that is not complete, or a cut (check_end), is a doubt (exit 3). Callers: Main, and all verbs that
# read or look at a profile; Foreign, Contention and CpuProfile make the text of other forms.
#
# A Dump is { file: its name in messages; meta: KEY => VALUE of "# jemalloc.KEY=VALUE"; rate: mean
# bytes between samples, 0 if counts are exact; text: all of it; threads: [number, name]; stacks:
# see read_stacks(); maps: see map_line(); modules: { start, end, bias, id, path } of module lines;
# symbols: address => [names] if it brings names along; program: its path by these; skipped: how
# many unknown lines; behind: how many stacks behind the list of mapped objects, if any; broken: of
# each stack without counts, which is left out, how many of { stacks } are before it, and if told: {
# course: lines "# second" as lists; age, life, labeled: texts by index in stacks; has_ages,
# ages_why: see Ages; label: number => text; frag_lines: see Frag }.
package Dump;

use constant MOST => 1_000_000_000_000_000_000; # of objects and bytes of a stack

# Reads a file, a member of a pack, a URL or '-', and returns the Dump; fails if it is no profile.
# $text: what the path holds, unpacked, of a caller that has it already.
sub read_file {
	my ($path, $text) = @_;
	my $self = of_text($path, $text // Input::unpacked($path, Input::slurp($path)));
	Fetch::add_names($self) if Fetch::is_url($path);
	return $self;
}

# The Dump of a text that is in memory; $path is its name in messages. Fails if it is no profile.
sub of_text {
	my ($path, $text) = @_;
	my $self = bless { file => $path, meta => {}, threads => [], maps => [], modules => [],
		stacks => [], skipped => 0, broken => [], symbols => undef, program => undef }, 'Dump';
	Talk::fail(1, "$path: the file is empty") unless length $text;
	$text = ($text =~ /\A\0/ ? CpuProfile::heap_text($path, $text)
		: $text =~ /\A[\x0a-\x7a]/ && $text !~ /\A[-h]/ ? Foreign::pprof($path, $text) : undef)
	    // $text;
	$text =~ tr/\r/\n/ if $text =~ /\A[^\r\n]*\r++(?!\n)/;
	$text =~ tr/\r//d if $text =~ /\r(?:\n|\z)/;
	$text = $self->read_wrapper($self->from_header($text));
	Talk::fail(1, "$path: a pack of profiles: name one of them, $path/NAME (jeprof ls $path)")
	    if index($text, Pack::MAGIC()) == 0;
	Talk::fail(1, "$path: its form, $1, is newer than this jeprof")
	    if $text =~ m{\A(heap_v(?:[3-9]|\d\d+)|jeprof_pack/(?:[2-9]|\d\d+))(?=[/\s])};
	$text = $self->read_wrapper(Foreign::heap_text($path, $text)
		    // Talk::fail(1, "$path: not a heap profile (its first line is not heap_v2/...)"))
	    if $text !~ m{^heap_v2/\d};
	Talk::fail(1, "$path: not a heap profile (its first line is not heap_v2/...)")
	    unless $text =~ m{^heap_v2/(\d{1,20})(?=\s|\z)};
	$self->{rate} = $1;
	$self->{text} = $text;
	$self->parse;
	$self->doubt_image;
	return $self;
}

# A doubt about a profile that jeprofctl made of the profiler's tables: one sentence, that the black
# box or core is cut, or that objects are damaged. If it is cut, damage is not told: it follows
# from the cut.
sub doubt_image {
	my ($self) = @_;
	my ($cut, $torn) = map { ($_ // '') =~ /^([1-9]\d*)$/ ? $1 : 0 } @{ $self->{meta} }{qw(cut torn)};
	doubt_cut($self->{file}, $cut) if $cut;
	my $end = $self->{meta}{torn_list} ? ', and the stacks behind one of them on the list' : '';
	Talk::doubt("$self->{file}: $torn damaged objects of its tables are left out$end")
	    if $torn && !$cut;
	return;
}

# A doubt that the image from which a profile was made lacks its last bytes.
sub doubt_cut {
	my ($file, $bytes) = @_;
	Talk::doubt("$file: it was made of a file that lacks its last $bytes bytes, and what they held");
	return;
}

# A Dump with file and meta alone, which are in the first 8192 bytes: for those who need no stacks.
sub head {
	my ($path) = @_;
	my $self = bless { file => $path, meta => {} }, 'Dump';
	my $text = Input::beginning_unpacked($path, 8192);
	$self->{meta}{$1} = $2 while $text =~ /^# jemalloc\.([^=\n]+)=([^\r\n]*)/mg;
	return $self;
}

# The text from its header on; as it is if it has none near its beginning. The lines before the
# header may be the marks "--- heap" and "--- growth", messages "%warn TEXT", or unknown.
sub from_header {
	my ($self, $text) = @_;
	return $text if $text =~ /\A$Input::header/;
	return $text if substr($text, 0, Input::FRONT()) !~ /^[ \t\xef\xbb\xbf]*(?=$Input::header)/m;
	my $start = $+[0];
	for my $line (split /\n/, substr $text, 0, $start) {
		if ($line =~ /^%warn\s+(.*)/) {
			Talk::note("$self->{file}: WARNING: $1");
		} elsif ($line !~ /^--- *(?:heap|growth)\b/) {
			$self->skip($line =~ s/^\xef\xbb\xbf//r);
		}
	}
	return substr $text, $start;
}

# Counts an unknown line, and keeps the first and the last one.
sub skip {
	my ($self, $line) = @_;
	return if $line !~ /\S/;
	$self->{first_skipped} //= $line;
	$self->{last_skipped} = $line;
	$self->{skipped}++;
}

# Between the names "INNER--OUTER" of one address, but not within "operator--" or behind the
# "operator" of another operator that begins with a hyphen.
my $between = qr/(?<!\boperator)(?<!\boperator- )(?:(?<!\boperator-)--|(?<=\boperator-)--(?!-))/;

# Keeps the names "INNER--OUTER" of an address in { symbols }; a text without a name, such as an
# empty one, changes nothing. What was written as "operator- -", to hold no "--", is operator--.
sub take_names {
	my ($self, $address, $text) = @_;
	my @names = grep { length } split $between, Talk::clean($text);
	s/\boperator- -/operator--/ for @names;
	$self->{symbols}{$address} = \@names if @names;
	return;
}

# Names of one address, innermost first, as the text that take_names() takes apart.
sub joined_names { return join '--', map { s/-(?=-)/- /gr } @_ }

# The text behind the names of a symbolized profile, which stand in front: "--- symbol", lines,
# "---", "--- heap"; the names go to { symbols }. The lines are the path of the program and names
# behind their addresses; empty ones and comments are passed over. A text without them is returned
# as it is.
sub read_wrapper {
	my ($self, $text) = @_;
	return $text unless $text =~ /\A--- *symbol[^\n]*\n/gc;
	$self->{symbols} //= {};
	until ($text =~ /\G---[ \t]*\n/gc) {
		if ($text =~ /\G(?:0x)?([0-9a-fA-F]{1,16})[ \t]([^\n]*)\n/gc) {
			$self->take_names(hex $1, $2);
		} elsif ($text =~ /\Gbinary=([^\n]*)\n/gc) {
			$self->{program} = $1 if length $1;
		} elsif ($text !~ /\G[ \t]*(?:#[^\n]*)?\n/gc) {
			Talk::fail(1, "$self->{file}: its symbol part is damaged at byte " . pos $text);
		}
	}
	return $self->from_header(substr $text, pos $text);
}

# ---- records ----
my $hex = qr/[0-9a-fA-F]{1,16}/;
my $number = qr/\d{1,20}/;
my $counts = qr/($number): ($number) \[($number): ($number)\]/;
my $any_counts = qr/($number)\s*:\s*($number)\s*\[\s*($number)\s*:\s*($number)\s*\]/;
my $thread_line = qr/  t\d+: \d+: \d+ \[\d+: \d+\]\n/;
my $maps_heading = qr/(?:MAPPED_LIBRARIES:|--- *Memory map:)[^\n]*(?:\n|\z)/;

# Reads { text }. Lines in the form that jemalloc writes are read many at a time, all others one by
# one.
sub parse {
	my ($self) = @_;
	my $text = $self->{text};
	$text =~ /\A[^\n]*\n?/gc;
	while ($text =~ /\G# jemalloc\.([^=\n]+)=([^\n]*)\n/gc) {
		$self->{meta}{$1} = $2;
	}
	while ($text =~ /\G  t(\*|\d+): $counts(?: ([^\n]*))?\n/gc) {
		push @{ $self->{threads} }, [$1, Talk::clean($6 // '')] if $1 ne '*';
	}
	my $is_in_maps = 0;
	until ($is_in_maps || pos($text) >= length $text) {
		$self->read_stacks(\$text);
		$is_in_maps = $text =~ /\G\n*(?:$maps_heading|(?=# module |# end \d))/gc;
		$self->read_line($1) if !$is_in_maps && $text =~ /\G([^\n]*)(?:\n|\z)/gc;
	}
	$self->leave_out if $is_in_maps && defined $self->{open};
	$self->read_maps(pos $text) if $is_in_maps;
	$self->check_end($is_in_maps);
	Talk::note(sprintf '%s: skipped %d unknown line%s, the first is "%s"', $self->{file},
		$self->{skipped}, $self->{skipped} == 1 ? '' : 's', Talk::piece($self->{first_skipped}, 0, 60))
	    if $self->{skipped};
}

# Reads stacks from pos($$text) on, as long as they have the usual form, into { stacks }: each as
# [frames as text, live objects, live bytes, objects and bytes ever allocated, lines of its
# threads], the counts as printed, that is of samples. The lines are left out if the profile lists
# no thread, or one, which has all that the stack has.
sub read_stacks {
	my ($self, $text) = @_;
	my $stacks = $self->{stacks};
	my $before = @$stacks;
	my $lines = qr/(?:$thread_line)*+/;
	if (@{ $self->{threads} } > 1) {
		push @$stacks, [$1, $2 + 0, $3 + 0, $4 + 0, $5 + 0, $6]
		    while $$text =~ /\G@((?: [^\n]*)?)\n  t\*: $counts\n($lines)/gc;
	} else {
		push @$stacks, [$1, $2 + 0, $3 + 0, $4 + 0, $5 + 0]
		    while $$text =~ /\G@((?: [^\n]*)?)\n  t\*: $counts\n$lines/gc;
	}
	return if @$stacks == $before;
	$self->leave_out($before) if defined $self->{open};
	$self->{frames} = $stacks->[-1][0];
}

# Leaves out the open stack, which has no counts; $before: how many of { stacks } are before it.
sub leave_out {
	my ($self, $before) = @_;
	push @{ $self->{broken} }, $before // scalar @{ $self->{stacks} };
	delete $self->{open};
}

# A line in another form: the frames of a stack, its counts, those of a thread, metadata in front of
# the first stack, or one to skip. $self->{frames} are those of the current stack, $self->{open} the
# same until it has its counts.
sub read_line {
	my ($self, $line) = @_;
	if ($line =~ /^\s*@(\s.*|0[xX].*|)$/s) {
		$self->leave_out if defined $self->{open};
		$self->{open} = $self->{frames} = $1;
	} elsif ($line =~ /^\s*t\*\s*:\s*$any_counts/) {
		return if !defined $self->{frames}; # the sum of all threads, before the first stack
		push @{ $self->{stacks} }, [$self->{frames}, $1 + 0, $2 + 0, $3 + 0, $4 + 0,
			@{ $self->{threads} } > 1 ? '' : ()];
		delete $self->{open};
	} elsif ($line =~ /^\s*t(\d+)\s*:\s*$any_counts\s*(.*)$/) {
		$self->read_thread($line, $1, [$2, $3, $4, $5], $6);
	} elsif ($line =~ /^\s*# jemalloc\.([^=]+?)\s*=\s*(.*?)\s*$/ && !defined $self->{frames}) {
		$self->{meta}{$1} = $2;
	} elsif ($line =~ /^\s*t\*/ && defined $self->{open}) {
		$self->leave_out;
	} else {
		$self->skip($line);
	}
}

# The counts of one thread in another form: $rest is what follows them. Before the first stack they
# are those of the thread itself, perhaps with its name, else they belong to the last stack.
sub read_thread {
	my ($self, $line, $uid, $counts, $rest) = @_;
	my $stack = $self->{stacks}[-1];
	if (!defined $self->{frames}) {
		push @{ $self->{threads} }, [$uid, Talk::clean($rest =~ s/\s+$//r)];
	} elsif (length $rest || !$stack || defined $self->{open}) {
		$self->skip($line);
	} elsif (defined $stack->[5]) {
		$stack->[5] .= sprintf "  t%s: %s: %s [%s: %s]\n", $uid, @$counts;
	}
}

# ---- mapped objects ----
# Reads all from the list of mapped objects on; $from is its place in { text }. Lines "NAME=VALUE"
# define what $NAME in the paths after them stands for. Stacks are counted in { behind }. The rest,
# as "# shrunk", is passed over.
sub read_maps {
	my ($self, $from) = @_;
	my %value;
	my $text = substr $self->{text}, $from;
	$text =~ s/^#[^\n]+\z//m; # cut off within such a line: its last number would be wrong
	for my $line (split /\n/, $text) {
		if ($line =~ /^# (age|life|label)/) {
			$self->read_trailer($line);
		} elsif ($line =~ /^# frag/) {
			push @{ $self->{frag_lines} }, $line;
		} elsif (my ($start, $end, $bias, $id, $path) =
			$line =~ /^# module (?:0x)?($hex)-(?:0x)?($hex) (?:0x)?($hex) (\S+) (.*)$/) {
			my $is_gone = $path =~ s{ \(deleted\)$}{};
			push @{ $self->{modules} }, { start => hex $start, end => hex $end, bias => hex $bias,
				id => $id =~ /^[0-9a-f]{4,}$/ ? $id : '', path => $path, gone => $is_gone };
		} elsif ($line =~ /^# second (\d{1,15}(?: \d{1,20}){7})$/) {
			push @{ $self->{course} }, [split ' ', $1];
		} elsif ($line =~ /^\s*([A-Za-z_]\w*)=(.*?)\s*$/) {
			$value{$1} = $2;
		} elsif ($line =~ /^\s*(?:@|\d+:\s*\d+\s*\[.*\@)/) {
			$self->{behind}++;
		} else {
			$line =~ s/\$(\w+)/$value{$1} \/\/ "\$$1"/ge if %value;
			my $map = map_line($line);
			push @{ $self->{maps} }, $map if $map;
		}
	}
}

# The place in { stacks } of the stack with this number in the order of the file, from 1; undef if
# there is none, or it was left out.
sub place {
	my ($self, $number) = @_;
	my $count = @{ $self->{stacks} };
	return $number >= 1 && $number <= $count ? $number - 1 : undef unless @{ $self->{broken} };
	if (!$self->{places}) {
		my $next = 0;
		for my $before (@{ $self->{broken} }, $count) {
			push @{ $self->{places} }, $next .. $before - 1, undef;
			$next = $before;
		}
	}
	return $number >= 1 ? $self->{places}[$number - 1] : undef;
}

# A line of ages, lifetimes or labels, those of a stack with its number.
sub read_trailer {
	my ($self, $line) = @_;
	if ($line =~ /^# (age|life|labeled) (\d{1,9}) (\d.*)$/) {
		my $place = $self->place($2);
		$self->{$1}[$place] = $3 if defined $place;
	} elsif ($line =~ /^# age_bounds_s((?: \d{1,9})+)$/) {
		$self->{has_ages} = $1 eq Ages::bounds_text();
		$self->{ages_why} = 'it has other columns than this version knows, or is damaged';
	} elsif ($line =~ /^# label (\d{1,10}) (.*)$/) {
		Labels::take($self, $1, $2);
	} elsif ($line =~ /^# age none: (.*)$/) {
		$self->{ages_why} = Talk::clean($1);
	}
}

# { start, end, perms, offset, path, gone: whether the file was deleted } of one line of
# /proc/PID/maps or "start-end: path"; undef for anything else or without a path.
sub map_line {
	my ($line) = @_;
	my %map;
	if ($line =~ /^\s*($hex)-($hex)\s+(\S+)\s+($hex)\s+\S+\s+\d+\s+(\S.*)$/) {
		@map{qw(start end perms offset path)} = (hex $1, hex $2, $3, hex $4, $5);
	} elsif ($line =~ /^\s*(?:0x)?($hex)-(?:0x)?($hex):\s*(\S.*)$/) {
		@map{qw(start end perms offset path)} = (hex $1, hex $2, 'r-xp', 0, $3);
	} else {
		return undef;
	}
	$map{gone} = $map{path} =~ s/ \(deleted\)$//;
	$map{path} =~ s/\\012/\n/g;
	return \%map;
}

# ---- the end ----
# A doubt if the profile is cut off or damaged. Our dumps end with a line that counts the bytes
# before it. In others a cut shows only if the list of mapped objects is missing or the text ends
# within a record. A missing last newline alone is no sign of a cut.
sub check_end {
	my ($self, $is_in_maps) = @_;
	my $name = $self->{file};
	my ($told, $before) = $self->end_line;
	my $is_cut = substr($self->{text}, -1) ne "\n";
	if (%{ $self->{meta} } || defined $told) {
		return Talk::doubt("$name: truncated: its end line is missing; what is there is shown")
		    if !defined $told || $is_cut && $told != $before;
		return Talk::doubt("$name: damaged: its end line says $told bytes, there are $before")
		    if $told != $before;
	}
	if (defined $self->{open} || $is_cut && $self->ends_in_a_record($is_in_maps)) {
		Talk::doubt("$name: truncated after " . scalar(@{ $self->{stacks} })
			    . ' stacks; what is there is shown');
	} elsif ($self->{behind}) {
		Talk::doubt("$name: damaged, or several profiles in one file: stacks behind its list of mapped objects: $self->{behind}; they are left out");
	} elsif (my $count = @{ $self->{broken} }) {
		Talk::doubt("$name: damaged: stacks without counts: $count; the others are shown");
	} elsif (!@{ $self->{maps} } && !@{ $self->{modules} } && !$self->{symbols}) {
		Talk::doubt("$name: has no list of mapped objects: truncated, or written where there is none");
	}
}

# The number in the end line, and the number of bytes before that line; () without one.
sub end_line {
	my ($self) = @_;
	my $text = $self->{text};
	my $at = rindex $text, '# end ';
	return () if $at < 0 || $at > 0 && substr($text, $at - 1, 1) ne "\n";
	return substr($text, $at) =~ /\A# end (\d+)\s*\z/ ? ($1, $at) : ();
}

# Whether the last line, which has no newline, is incomplete.
sub ends_in_a_record {
	my ($self, $is_in_maps) = @_;
	my $last = substr $self->{text}, 1 + rindex $self->{text}, "\n";
	return $is_in_maps ? !map_line($last) && $last !~ /^# end/
	    : @{ $self->{broken} } || ($self->{last_skipped} // '') eq $last;
}

# The estimate (objects, bytes) for one pair of sampled counts: of objects of B bytes on average the
# share 1 - exp(-B / rate) was sampled. The results of this are multiples of 1/1024: sums of such
# numbers are exact, so they do not depend on the order or on the program that adds (a browser, for
# a report). If the rate or a count is 0, the counts are returned as they are; else neither result
# exceeds MOST, which only damaged profiles reach: a count above it is a doubt.
sub estimate {
	my ($self, $objects, $bytes) = @_;
	my $rate = $self->{rate};
	Talk::doubt("$self->{file}: damaged: it has counts that no process reaches")
	    if $objects > MOST || $bytes > MOST;
	return ($objects, $bytes) if $objects == 0 || $bytes == 0 || $rate == 0;
	my $ratio = ($bytes / $objects) / $rate;
	my $covered = $ratio > 1e-9 ? 1 - exp(-$ratio) : $ratio; # 1 - exp would lose its digits
	my @all = ($objects / $covered, $bytes / $covered);
	return map { $_ > MOST ? MOST : $_ } @all if $all[0] > MOST || $all[1] > MOST;
	return (int($all[0] * 1024 + 0.5) / 1024, int($all[1] * 1024 + 0.5) / 1024);
}

# Mean bytes between two samples, by the metadata, else the rate.
sub interval {
	my ($self) = @_;
	my $told = $self->{meta}{sample_interval} // '';
	return $told =~ /^\d{1,15}$/ ? $told : $self->{rate};
}

# Whether it holds what was added since a mark (prof.dump_delta), not all that lives.
sub is_delta { return ($_[0]{meta}{kind} // '') eq 'delta' }

# (number of stacks of a delta that hold less than at the mark, by how many bytes together).
sub shrunk {
	my ($self) = @_;
	my ($count, $bytes) = (0, 0);
	while ($self->{text} =~ /^# shrunk \d+ (\d+) @/mg) {
		$count++;
		$bytes += $1;
	}
	return ($count, $bytes);
}

# The time of the profile as its metadata have it; '' if they do not say it.
sub time_text {
	my ($self) = @_;
	my $meta = $self->{meta};
	for my $key (qw(dump_time time)) {
		return Talk::clean($meta->{$key}) if defined $meta->{$key};
	}
	return '';
}

# pid of the process, from the metadata or from the usual file name; '' if neither says.
sub pid {
	my ($self) = @_;
	return $self->{meta}{pid} if ($self->{meta}{pid} // '') =~ /^\d+$/;
	my $parts = Input::name_parts($self->{file});
	return $parts ? $parts->{pid} : '';
}
